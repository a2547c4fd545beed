"""What has been decided so far, exactly undone, and what it leaves: domains, room, candidates, substitutes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from reservoir.core.explaining.reasons import Reasons
from reservoir.core.model.instance_type import Offering
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.solver.problem.components import connected_components
from reservoir.core.solver.solution.candidates import Candidates
from reservoir.core.solver.solution.domain_assignment import (
    DomainBatch,
    DomainCosts,
    assign_domains,
)
from reservoir.core.solver.solution.free_room import FreeRoom
from reservoir.core.solver.solution.partial_plan import PartialPlan
from reservoir.core.solver.solution.priority_inversion import has_inversion
from reservoir.core.solver.solution.substitutes import Substitutes
from reservoir.core.solver.solution.to_plan import to_plan
from tests.core.scheduler.world import (
    GIB,
    ON_DEMAND,
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

TYPE = fx_type("default", 4, 16, 10)


def assigned_to(batches: Sequence[DomainBatch]) -> Counter[str]:
    """How many replicas go to which domain."""
    return sum(
        [Counter({batch.pin[1]: batch.count}) for batch in batches if batch.pin],
        Counter[str](),
    )


def test_a_step_that_is_undone_leaves_nothing_behind() -> None:
    units = reservation("cr-1", "default", 2)
    state = undecided(
        with_demand(plain(TYPE, reservations=(units,)), demand(workload(cpu=1000), 3))
    )
    option = next(
        option for option in state.catalogue.options if option.reservation is not None
    )
    mark = state.mark()

    opened = state.open_bin(option, 1)
    state.place(opened, state.groups[0].relaxed[0], 3)
    assert (state.remaining, state.residual.units["cr-1"], opened.free[0]) == ([0], 1, 900)
    state.undo(mark)

    assert (state.remaining, state.residual.units["cr-1"], state.bins) == ([3], 2, [])


def test_replicas_are_poured_into_the_emptiest_zones() -> None:
    """Zone 1 has two already and zone 2 one, on full nodes: four more make it 2, 2, 3."""
    job = workload(cpu=100, topology_spread=(spread(labels.ZONE),))
    full = Resources.of({"cpu": 3900, "memory": 15 * GIB})
    nodes = (
        node("n-1", TYPE, {"job": 2}, used=full),
        node("n-2", TYPE, {"job": 1}, used=full, zone="zone-2"),
    )
    state = undecided(
        with_demand(plain(TYPE, nodes=nodes, workloads={job.key: job}), demand(job, 4))
    )

    assigned, _ = assign_domains(
        state, connected_components(state.groups), 0, DomainCosts(state)
    )

    assert assigned_to(assigned) == {"zone-2": 1, "zone-3": 3}


def test_equally_empty_zones_are_filled_where_there_is_room_and_then_where_it_is_cheapest() -> (
    None
):
    """Five replicas, two of which share a node, make 2, 2, 1: zone 3 has a unit, zone 2 is the cheapest to buy in."""
    prices = {"zone-1": 300_000, "zone-2": 100_000, "zone-3": 300_000}
    offerings = [
        Offering(zone, f"id-{zone}", ON_DEMAND, price) for zone, price in prices.items()
    ]
    small = replace(fx_type("small", 2, 2), offerings=tuple(offerings))
    unit = reservation("cr-1", "small", 1, zone="zone-3", zone_id="id-zone-3")
    job = workload(cpu=900, topology_spread=(spread(labels.ZONE),))
    state = undecided(with_demand(plain(small, reservations=(unit,)), demand(job, 5)))

    assigned, _ = assign_domains(
        state, connected_components(state.groups), 0, DomainCosts(state)
    )

    assert assigned_to(assigned) == {"zone-1": 1, "zone-2": 2, "zone-3": 2}


def test_a_spread_that_allows_it_is_uneven_where_there_is_room() -> None:
    """With a skew of 3 zone 1 takes four of six for its five units; a fifth would be one too many."""
    job = workload(cpu=3500, topology_spread=(spread(labels.ZONE, 3),))
    state = undecided(
        with_demand(
            plain(TYPE, reservations=(reservation("cr-1", "default", 5),)), demand(job, 6)
        )
    )

    assigned, _ = assign_domains(
        state, connected_components(state.groups), 0, DomainCosts(state)
    )

    assert assigned_to(assigned) == {"zone-1": 4, "zone-2": 1, "zone-3": 1}


def test_replicas_that_want_to_be_together_get_one_zone() -> None:
    job = workload(cpu=100, affinity=(near(labels.ZONE),))
    state = undecided(with_demand(plain(TYPE), demand(job, 4)))

    assigned, _ = assign_domains(
        state, connected_components(state.groups), 0, DomainCosts(state)
    )

    assert assigned_to(assigned) == {"zone-1": 4}


@pytest.mark.parametrize(("units", "zone"), [(1, "zone-1"), (2, "zone-3"), (3, "zone-3")])
def test_replicas_that_want_to_be_together_go_where_most_of_them_have_room(
    units: int, zone: str
) -> None:
    """Three of them, one a node: zone 1 has a unit for one of them, zone 3 as many as it says."""
    near_by = reservation("cr-1", "default", 1)
    far = reservation("cr-3", "default", units, zone="zone-3", zone_id="id-zone-3")
    job = workload(cpu=3500, affinity=(near(labels.ZONE),))
    state = undecided(with_demand(plain(TYPE, reservations=(near_by, far)), demand(job, 3)))

    assigned, _ = assign_domains(
        state, connected_components(state.groups), 0, DomainCosts(state)
    )

    assert assigned_to(assigned) == {zone: 3}


def test_who_was_assigned_to_a_zone_has_used_its_room() -> None:
    """Both units are in zone 3: the first pair goes there, the second is as well off anywhere."""
    units = reservation("cr-3", "default", 2, zone="zone-3", zone_id="id-zone-3")
    pairs = [
        workload(name, cpu=3500, affinity=(near(labels.ZONE, app=name),))
        for name in ("first", "second")
    ]
    state = undecided(
        with_demand(
            plain(TYPE, reservations=(units,)), *[demand(pair, 2) for pair in pairs]
        )
    )

    assigned, _ = assign_domains(
        state, connected_components(state.groups), 0, DomainCosts(state)
    )

    assert assigned_to(assigned) == {"zone-3": 2, "zone-1": 2}


def test_a_limit_counts_what_the_pools_nodes_have_already() -> None:
    limited = pool("default", limits=Resources.of({"cpu": 10_000}))
    state = undecided(
        with_demand(
            plain(TYPE, node_pools=(limited,), nodes=(node("n-1", TYPE),)),
            demand(workload(cpu=1000)),
        )
    )

    assert state.residual.nodes_left(state.catalogue.options[0]) == 1


def test_a_reserved_unit_under_less_important_work_is_an_inversion() -> None:
    units = reservation("cr-1", "default", 1)
    state = undecided(
        with_demand(
            plain(TYPE, reservations=(units,)),
            demand(workload("low", 1000, GIB)),
            demand(workload("high", 1000, GIB, priority=10)),
        )
    )
    high, low = state.groups
    reserved, bought = (
        next(
            option
            for option in state.catalogue.options
            if (option.reservation is None) is paid
        )
        for paid in (False, True)
    )
    state.place(state.open_bin(reserved, 1), low.relaxed[0], 1)
    state.place(state.open_bin(bought, 1), high.relaxed[0], 1)

    assert has_inversion(state)


def test_the_oldest_workload_of_a_group_gets_the_places() -> None:
    state = undecided(
        with_demand(
            plain(TYPE),
            demand(workload("young", 1800, GIB), 2),
            demand(workload("old", 1800, GIB), 2, waiting=timedelta(hours=1)),
        )
    )
    state.place(
        state.open_bin(state.catalogue.options[0], 1), state.groups[0].relaxed[0], 2
    )

    plan = to_plan(state, Substitutes(state.catalogue), Reasons(state).explain)

    assert [(it.workload_key, it.count) for it in plan.launches[0].placements] == [
        ("ns/old", 2)
    ]
    assert [(item.workload_key, item.count) for item in plan.unplaced] == [("ns/young", 2)]


def test_a_node_admits_as_many_as_fit_and_rules_about_hosts_allow() -> None:
    """Of 3.9 CPU there is room for three of 1.2; two of a kind may share a node, and one is there already."""
    plenty = workload("plenty", cpu=1200)
    paired = workload(
        "paired", cpu=100, topology_spread=(spread(labels.HOSTNAME, 2, app="paired"),)
    )
    arm = workload("arm", cpu=100, node_selector=require(labels.ARCH, Operator.IN, "arm64"))
    nodes = (node("n-1", TYPE, {"paired": 1}),)
    state = undecided(
        with_demand(
            plain(TYPE, nodes=nodes, workloads={paired.key: paired}),
            *(demand(it, 5) for it in (plenty, paired, arm)),
        )
    )

    rooms = {
        group.workload.name: state.admission.room(state.bins[0], group.relaxed[0])
        for group in state.groups
    }

    assert rooms == {"plenty": 3, "paired": 1, "arm": 0}


def test_free_room_is_what_nodes_and_reserved_units_of_a_zone_hold_until_it_is_used() -> (
    None
):
    """A node of zone 1 holds three; two units of zone 3 hold three each; zone 2 has nothing that is paid for."""
    units = reservation("cr-3", "default", 2, zone="zone-3", zone_id="id-zone-3")
    job = workload(cpu=1200, topology_spread=(spread(labels.ZONE),))
    state = undecided(
        with_demand(
            plain(TYPE, reservations=(units,), nodes=(node("n-1", TYPE),)), demand(job, 9)
        )
    )
    relaxed, room = state.groups[0].relaxed[0], FreeRoom.of(state, labels.ZONE)
    assert room.by_domain(relaxed, 9) == {"zone-1": 3, "zone-3": 6}

    assert room.take(relaxed, "zone-3", 4) == 4

    assert room.by_domain(relaxed, 9) == {"zone-1": 3, "zone-3": 2}


def _candidates() -> tuple[Candidates, PartialPlan]:
    """Return those of a replica of 3 CPUs: three of four types hold it, and a unit of the largest is reserved."""
    types = [
        fx_type(f"{cpus}-cpus", cpus, 64, 10, offered=((ON_DEMAND, "zone-1"),))
        for cpus in (16, 8, 4, 2)
    ]
    units = reservation("cr-1", "16-cpus", 1)
    state = undecided(
        with_demand(plain(*types, reservations=(units,)), demand(workload(cpu=3000), 2))
    )
    return Candidates(state.catalogue, state.groups), state


def test_candidates_hold_a_replica_and_go_from_reserved_to_cheap_to_dear() -> None:
    candidates, state = _candidates()

    found = [
        (it.instance_type.name, it.unit_key, fitting)
        for it, fitting in candidates.of(state.groups[0].relaxed[0])
    ]

    assert found == [
        ("16-cpus", "cr-1", 5),
        ("4-cpus", "", 1),
        ("8-cpus", "", 2),
        ("16-cpus", "", 5),
    ]


def test_candidates_are_open_as_long_as_units_last() -> None:
    candidates, state = _candidates()
    (reserved,) = candidates.reserved
    assert all(candidates.open_now(state.residual))

    state.open_bin(reserved, 1)

    is_open = candidates.open_now(state.residual)
    assert [option for option in state.catalogue.options if not is_open[option.index]] == [
        reserved
    ]


def test_a_planned_node_has_substitutes_that_hold_its_replicas_and_are_none_cheaper() -> (
    None
):
    """The node is one of 8 CPUs with 3 in use: 4 would do for less, 2 are too few, 16 are as good."""
    _, state = _candidates()
    (group,) = state.groups
    option = next(
        option
        for option in state.catalogue.options
        if option.instance_type.name == "8-cpus"
    )
    bin_ = state.open_bin(option, 1)
    state.place(bin_, group.relaxed[0], 1)

    found = Substitutes(state.catalogue).alternatives(state, bin_)

    assert [key.instance_type for key in found] == ["16-cpus"]


def test_a_choice_of_types_that_a_pool_insists_on_bounds_what_joins_a_node() -> None:
    """One replica could be on either type, two only on that of 8 CPUs: a second would leave no choice."""
    choosy = pool(
        "default",
        Requirement.new(labels.INSTANCE_TYPE, Operator.IN, ("four", "eight"), min_values=2),
    )
    types = [
        fx_type("eight", 8, 64, 10, price=100_000),
        fx_type("four", 4, 64, 10, price=200_000),
    ]
    state = undecided(
        with_demand(plain(*types, node_pools=(choosy,)), demand(workload(cpu=3000), 2))
    )
    relaxed, substitutes = state.groups[0].relaxed[0], Substitutes(state.catalogue)
    option = next(
        option for option in state.catalogue.options if option.instance_type.name == "eight"
    )
    bin_ = state.open_bin(option, 1)

    assert [substitutes.allowed(state, bin_, relaxed, room) for room in (1, 2)] == [1, 1]
