"""Insertion and what improves its result, each on a handful of replicas."""

import pytest

from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.workload import AffinityTerm, Gang
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.solver.insertion.neighbourhood_search import NeighbourhoodSearch
from reservoir.core.solver.insertion.node_elimination import empty_paid_nodes
from reservoir.core.solver.insertion.rightsizing import rightsize_paid_nodes
from reservoir.core.solver.insertion.spot_share import replace_dear_spot
from tests.core.scheduler.world import (
    GIB,
    ON_DEMAND,
    SPOT,
    ZONES,
    demand,
    fx_type,
    launched,
    near,
    plain,
    planned,
    pool,
    reservation,
    with_demand,
    workload,
)
from tests.core.solver.world import inserting, undecided

FOUR = fx_type("four", 4, 16, 10)


def test_a_gang_that_finds_room_for_some_takes_none() -> None:
    two_nodes = pool("default", limits=Resources.of({"nodes": 2}))
    state = undecided(
        with_demand(
            plain(FOUR, node_pools=(two_nodes,)), demand(workload(cpu=3000, gang=Gang()), 3)
        )
    )

    assert not inserting(state).place_gang(state.groups[0])
    assert (state.bins, state.remaining) == ([], [3])


def test_neighbourhood_search_moves_others_so_that_the_last_finds_room() -> None:
    """Two nodes with 2.9 CPU free each have a replica of 1: the one of 3.5 fits once both share a node."""
    two_nodes = pool("default", limits=Resources.of({"nodes": 2}))
    state = undecided(
        with_demand(
            plain(FOUR, node_pools=(two_nodes,)),
            demand(workload("large", 3500, GIB)),
            demand(workload("small", 1000, GIB), 2),
        )
    )
    large, small = state.groups
    for _ in range(2):
        state.place(state.open_bin(state.catalogue.options[0], 1), small.relaxed[0], 1)

    NeighbourhoodSearch(inserting(state)).serve([large])

    assert state.remaining == [0, 0]
    assert sorted(sum(bin_.contents.values()) for bin_ in state.bins) == [1, 2]


def test_a_bought_node_whose_replicas_fit_elsewhere_is_not_bought() -> None:
    state = undecided(with_demand(plain(FOUR), demand(workload(cpu=1000, memory=GIB), 3)))
    (group,) = state.groups
    for copies in (1, 2):
        state.place(state.open_bin(state.catalogue.options[0], 1), group.relaxed[0], copies)

    empty_paid_nodes(inserting(state))

    assert [dict(bin_.contents) for bin_ in state.bins] == [{group.index: 3}]


def _rightsized(
    *nodes: tuple[str, dict[str, int]], apart: bool = False
) -> list[tuple[str, dict[str, int]]]:
    """Return nodes (type, CPU replicas by name) after rightsizing; a type is two or four CPUs of which 0.1 is kept."""
    sizes = {"largest": 2600, "large": 2400, "middle": 1400, "small": 900}
    rules = {"anti_affinity": (near(labels.HOSTNAME, app="small"),)} if apart else {}
    demands = [
        demand(
            workload(
                name, cpu, GIB, labels={"app": name}, **(rules if name == "small" else {})
            ),
            count,
        )
        for name, cpu in sizes.items()
        if (count := sum(held.get(name, 0) for _, held in nodes))
    ]
    state = undecided(with_demand(plain(fx_type("two", 2, 16, 10), FOUR), *demands))
    groups = {group.workload.name: group for group in state.groups}
    for kind, held in nodes:
        option = next(
            item for item in state.catalogue.options if item.instance_type.name == kind
        )
        bin_ = state.open_bin(option, 1)
        for name, count in held.items():
            state.place(bin_, groups[name].relaxed[0], count)

    rightsize_paid_nodes(inserting(state))

    names = {group.index: name for name, group in groups.items()}
    return [
        (
            bin_.option.instance_type.name,
            {names[index]: count for index, count in bin_.contents.items()},
        )
        for bin_ in state.bins
        if bin_.option
    ]


def test_a_replica_goes_where_there_is_room_so_that_its_node_can_be_smaller() -> None:
    """2.3 CPU are too much for two by 0.4; beside 2.6 there is room for the 0.9."""
    found = _rightsized(("four", {"largest": 1}), ("four", {"middle": 1, "small": 1}))

    assert found == [("four", {"largest": 1, "small": 1}), ("two", {"middle": 1})]


def test_two_replicas_change_places_so_that_one_node_can_be_smaller() -> None:
    """Room of 0.6 holds nobody else, but 1.4 instead of 0.9: then 1.8 is left, which fits two."""
    found = _rightsized(
        ("four", {"large": 1, "small": 1}), ("four", {"middle": 1, "small": 1})
    )

    assert found == [("four", {"large": 1, "middle": 1}), ("two", {"small": 2})]


def test_no_node_is_smaller_for_an_exchange_that_a_rule_forbids() -> None:
    """As before, but two of the small ones must not share a node."""
    nodes = (("four", {"large": 1, "small": 1}), ("four", {"middle": 1, "small": 1}))

    assert _rightsized(*nodes, apart=True) == list(nodes)


@pytest.mark.parametrize(
    ("affinity", "zones"),
    [((), ["zone-1", "zone-2"]), ((near(labels.ZONE, app="pair"),), ["zone-1", "zone-1"])],
    ids=["without the rule", "with it"],
)
def test_replicas_that_seek_each_other_go_where_the_first_one_went(
    affinity: tuple[AffinityTerm, ...], zones: list[str]
) -> None:
    """A unit is free in each of two zones: the second replica goes to the other one only if it need not be near."""
    units = [
        reservation(f"cr-{zone}", "four", 1, zone=zone, zone_id=f"id-{zone}")
        for zone in ZONES[:2]
    ]
    pair = workload("pair", 3000, GIB, affinity=affinity)
    state = undecided(with_demand(plain(FOUR, reservations=units), demand(pair, 2)))

    inserting(state).place_group(state.groups[0])

    assert [bin_.labels[labels.ZONE] for bin_ in state.bins] == zones


def test_no_spot_pool_gets_more_than_its_share() -> None:
    share = SchedulingPolicy(spot_pool_share_percent=50, spot_share_from_nodes=2)
    cheap_spot = fx_type("four", 4, 16, 10, price={SPOT: 10_000, ON_DEMAND: 100_000})

    plan = planned(
        with_demand(plain(cheap_spot), demand(workload(cpu=3500, memory=GIB), 4)),
        policy=share,
    )

    assert launched(plan) == {"four:spot": 4}
    assert max(launch.count for launch in plan.launches) == 2


def test_spot_that_is_dearer_than_what_would_do_on_demand_is_not_bought() -> None:
    """Of spot only a large type is left, and the replica needs little of it."""
    small = fx_type("small", 2, 8, offered=((ON_DEMAND, "zone-1"),), price=96_000)
    large = fx_type("large", 16, 64, offered=((SPOT, "zone-1"),), price=256_000)
    state = undecided(
        with_demand(plain(small, large), demand(workload(cpu=1000, memory=GIB)))
    )
    spot = next(
        option for option in state.catalogue.options if option.place.capacity_type is SPOT
    )
    state.place(state.open_bin(spot, 1), state.groups[0].relaxed[0], 1)

    replace_dear_spot(inserting(state))

    (bought,) = state.bins
    assert bought.option is not None
    assert (bought.option.instance_type.name, bought.option.place.capacity_type) == (
        "small",
        ON_DEMAND,
    )
    assert bought.contents == {0: 1}
