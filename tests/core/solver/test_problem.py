"""The problem: groups of equal replicas, masks of who accepts what, rules that connect, the order of reservations."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.workload import PreferredNodeTerm, WhenUnsatisfiable
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.solver.problem.components import connected, connected_components
from reservoir.core.solver.problem.option_order import reserved_key
from reservoir.core.solver.problem.vectors import Sizes
from tests.core.scheduler.world import (
    GIB,
    NOW,
    ZONES,
    demand,
    fx_type,
    near,
    node,
    plain,
    pool,
    require,
    reservation,
    spread,
    with_demand,
    workload,
)
from tests.core.solver.world import undecided


def test_replicas_that_ask_for_the_same_are_one_group() -> None:
    state = undecided(
        with_demand(
            plain(),
            demand(workload("a", 500, GIB), 3),
            demand(workload("b", 500, GIB), 2),
            demand(workload("c", 250, GIB), 1),
        )
    )

    assert [
        (group.count, [key for key, _, _ in group.members]) for group in state.groups
    ] == [
        (5, ["ns/a", "ns/b"]),
        (1, ["ns/c"]),
    ]


def test_an_option_knows_by_a_mask_who_accepts_it() -> None:
    only_arm = workload(
        "arm", 500, GIB, node_selector=require(labels.ARCH, Operator.IN, "arm64")
    )
    state = undecided(
        with_demand(
            plain(fx_type("x86"), fx_type("arm", arch="arm64")),
            demand(workload("any", 1000, GIB)),
            demand(only_arm),
        )
    )
    anyone, choosy = (group.requirement_sets[0] for group in state.groups)

    masks = {
        option.key.instance_type: option.requirement_sets
        for option in state.catalogue.options
    }

    assert masks == {"x86": anyone, "arm": anyone | choosy}


def test_a_pool_that_sells_what_another_sells_to_the_same_work_adds_nothing_to_look_at() -> (
    None
):
    first, second = pool("b"), pool("a")  # equal weights go by descending name
    cases = {
        "alike": (first, second, workload("any", 500, GIB), {"b"}),
        "of another weight": (
            first,
            replace(second, weight=5),
            workload("any", 500, GIB),
            {"a", "b"},
        ),
        "bounded": (
            first,
            replace(second, limits=Resources.of({"cpu": 4000})),
            workload("any", 500, GIB),
            {"a", "b"},
        ),
        "asked for by name": (
            first,
            second,
            workload(
                "a", 500, GIB, node_selector=require(labels.NODE_POOL, Operator.IN, "a")
            ),
            {"a"},
        ),
        "counted by name": (
            first,
            second,
            workload("spread", 500, GIB, topology_spread=(spread(labels.NODE_POOL),)),
            {"a", "b"},
        ),
    }
    for name, (*pools, work, expected) in cases.items():
        state = undecided(with_demand(plain(node_pools=tuple(pools)), demand(work)))
        assert {option.entry.pool.name for option in state.catalogue.options} == expected, (
            name
        )
        assert {entry.pool.name for entry in state.catalogue.entries} == {"a", "b"}, (
            "reasons are told of all pools"
        )


def test_workloads_that_want_different_values_of_an_open_label_get_pools_of_their_own() -> (
    None
):
    """The pool leaves the label open: a node carries one value, so it is repeated for each value that is wanted."""
    open_pool = pool("default", *require("team", Operator.EXISTS).values())
    red, blue = (
        workload(name, 500, GIB, node_selector=require("team", Operator.IN, name))
        for name in ("red", "blue")
    )
    state = undecided(
        with_demand(plain(node_pools=(open_pool,)), demand(red), demand(blue))
    )

    assert {entry.labels["team"] for entry in state.catalogue.entries} >= {"red", "blue"}


def test_nobody_meets_on_a_node_who_wants_other_values_of_a_label_that_its_type_leaves_open() -> (
    None
):
    """The types run any operating system and the pool says nothing of it, but one node runs one."""
    systems = [
        workload(name, 500, GIB, node_selector=require(labels.OS, Operator.IN, name))
        for name in ("linux", "windows")
    ]
    state = undecided(with_demand(plain(), *map(demand, systems)))
    linux, windows = (group.requirement_sets[0] for group in state.groups)

    assert {option.requirement_sets for option in state.catalogue.options} == {
        linux,
        windows,
    }


def test_a_rule_connects_who_carries_it_with_whom_it_counts() -> None:
    together = workload("web", 500, GIB, topology_spread=(spread(labels.ZONE, app="db"),))
    state = undecided(
        with_demand(
            plain(),
            demand(together),
            demand(workload("db", 400, GIB)),
            demand(workload("batch", 300, GIB)),
            demand(
                workload(
                    "alone", 200, GIB, anti_affinity=(near(labels.HOSTNAME, app="alone"),)
                )
            ),
        )
    )

    components = connected_components(state.groups)

    assert [[group.workload.name for group in each.groups] for each in components] == [
        ["web", "db"],
        ["batch"],
        ["alone"],
    ]


def test_a_mask_that_comes_again_connects_what_it_did() -> None:
    found = connected([0b001, 0b010, 0b011, 0b100, 0b001])

    assert found[0b001] == found[0b010] == found[0b011] != found[0b100]


def test_who_holds_a_load_is_a_mask_over_the_sizes() -> None:
    sizes = Sizes([(2000, 8, 0), (4000, 8, 1), (4000, 32, 0)])

    assert sizes.holding((3000, 8, 0)) == 0b110
    assert sizes.holding((3000, 8, 1)) == 0b010
    assert sizes.holding((5000, 1, 0)) == 0
    assert sizes.holding((0, 0, 0)) == 0b111


def test_preferences_are_given_up_one_by_one_those_for_company_first_and_requirements_never() -> (
    None
):
    only_linux, cheap = (
        require(labels.OS, Operator.IN, "linux"),
        require("cheap", Operator.IN, "yes"),
    )
    job = workload(
        node_selector=only_linux,
        preferred_node_terms=(PreferredNodeTerm(10, cheap),),
        affinity=(near(labels.ZONE, app="cache", weight=50),),
        topology_spread=(
            spread(labels.ZONE, when_unsatisfiable=WhenUnsatisfiable.SCHEDULE_ANYWAY),
        ),
    )
    state = undecided(with_demand(plain(), demand(job)))

    levels = state.groups[0].levels

    assert [
        (len(level.affinity), level.selection.terms, len(level.spread)) for level in levels
    ] == [
        (1, (only_linux.merged(cheap),), 1),
        (0, (only_linux.merged(cheap),), 1),
        (0, (only_linux,), 1),
        (0, (only_linux,), 0),
    ]
    assert [level.relaxed[-1:] for level in levels] == [
        (),
        (f"preferred affinity over {labels.ZONE}",),
        (f"preferred nodes: {cheap}",),
        (f"spread over {labels.ZONE}",),
    ]


def test_the_ledger_knows_how_many_more_each_zone_may_take() -> None:
    """A skew of 1 over three zones; zone 1 has two already, zone 2 one."""
    job = workload(cpu=100, topology_spread=(spread(labels.ZONE),))
    held = (
        node("n-1", fx_type("default"), {"job": 2}),
        node("n-2", fx_type("default"), {"job": 1}, zone="zone-2"),
    )
    state = undecided(
        with_demand(plain(nodes=held, workloads={job.key: job}), demand(job, 4))
    )
    group = state.groups[0]
    (rule,) = group.constraints[0].spread

    def rooms() -> list[int]:
        return [state.ledger.spread_room(rule, zone) for zone in ZONES]

    assert rooms() == [0, 0, 1]
    state.ledger.add({labels.ZONE: "zone-3"}, (), group.matching, 0, 1)
    assert rooms() == [0, 1, 1]


def test_the_ledger_keeps_newcomers_from_where_somebody_wants_to_be_without_them() -> None:
    calm = workload("calm", anti_affinity=(near(labels.ZONE, app="loud"),))
    held = (node("n-1", fx_type("default"), {"calm": 1}),)
    snapshot = with_demand(
        plain(nodes=held, workloads={calm.key: calm}),
        demand(calm),
        demand(workload("loud")),
        demand(workload("any")),
    )
    state = undecided(snapshot)
    matching = {group.workload.name: group.matching for group in state.groups}

    found = {
        (name, zone): state.ledger.inverse_blocked({labels.ZONE: zone}, mask)
        for name, mask in matching.items()
        for zone in ZONES[:2]
    }

    assert [about for about, is_blocked in found.items() if is_blocked] == [
        ("loud", "zone-1")
    ]


def _in_order(*units: CapacityReservation, tiny: Sequence[str] = ()) -> list[str]:
    """Return the ids of reservations for one piece of work that could use any of them."""
    types = fx_type("small", 2, 8, 10), fx_type("large", 16, 64, 10)
    options = undecided(
        with_demand(plain(*types, reservations=units), demand(workload(cpu=500)))
    ).catalogue.options
    keys = {
        it.reservation.id: reserved_key(
            it, 1, it.reservation.free_units, tiny=it.reservation.id in tiny
        )
        for it in options
        if it.reservation is not None
    }
    return sorted(keys, key=keys.__getitem__)


def test_reserved_units_go_by_their_end_then_by_size_then_by_how_many_are_free() -> None:
    ends_soon = reservation("ends-soon", "large", 1, end_at=NOW + timedelta(hours=1))
    ends_later = reservation("ends-later", "small", 1, end_at=NOW + timedelta(days=1))
    large, small = reservation("large", "large", 9), reservation("small", "small", 1)
    many = reservation("small-many", "small", 2)

    assert _in_order(large, small, many, ends_later, ends_soon) == [
        "ends-soon",
        "ends-later",
        "small-many",
        "small",
        "large",
    ]


def test_tiny_work_takes_a_slot_that_ends_soon_only_after_one_for_which_it_is_not_tiny() -> (
    None
):
    ends_soon = reservation("ends-soon", "large", 1, end_at=NOW + timedelta(hours=1))

    assert _in_order(ends_soon, reservation("small", "small", 1), tiny=["ends-soon"]) == [
        "small",
        "ends-soon",
    ]
