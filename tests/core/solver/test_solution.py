"""What has been decided so far: steps are undone exactly, domains are filled like water, the oldest go first."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.core.explaining.reasons import Reasons
from shared.core.model.instance_type import Offering
from shared.core.scheduling_terms import labels
from shared.core.scheduling_terms.resources import Resources
from shared.core.solver.problem.components import connected_components
from shared.core.solver.solution.domain_assignment import DomainBatch, DomainCosts, assign_domains
from shared.core.solver.solution.priority_inversion import has_inversion
from shared.core.solver.solution.substitutes import Substitutes
from shared.core.solver.solution.to_plan import to_plan
from tests.core.scheduler.world import (
    GIB,
    ON_DEMAND,
    demand,
    fx_type,
    near,
    node,
    plain,
    pool,
    reservation,
    spread,
    with_demand,
    workload,
)
from tests.core.solver.world import undecided

TYPE = fx_type("default", 4, 16, 10)


def assigned_to(batches: Sequence[DomainBatch]) -> Counter[str]:
    """How many replicas go to which domain."""
    return sum([Counter({batch.pin[1]: batch.count}) for batch in batches if batch.pin], Counter[str]())


def test_a_step_that_is_undone_leaves_nothing_behind() -> None:
    units = reservation("cr-1", "default", 2)
    state = undecided(with_demand(plain(TYPE, reservations=(units,)), demand(workload(cpu=1000), 3)))
    option = next(option for option in state.catalogue.options if option.reservation is not None)
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
    nodes = (node("n-1", TYPE, {"job": 2}, used=full), node("n-2", TYPE, {"job": 1}, used=full, zone="zone-2"))
    state = undecided(with_demand(plain(TYPE, nodes=nodes, workloads={job.key: job}), demand(job, 4)))

    assigned, _ = assign_domains(state, connected_components(state.groups), 0, DomainCosts(state))

    assert assigned_to(assigned) == {"zone-2": 1, "zone-3": 3}


def test_equally_empty_zones_are_filled_where_there_is_room_and_then_where_it_is_cheapest() -> None:
    """Five replicas, two of which share a node, make 2, 2, 1: zone 3 has a unit, zone 2 is the cheapest to buy in."""
    prices = {"zone-1": 300_000, "zone-2": 100_000, "zone-3": 300_000}
    offerings = [Offering(zone, f"id-{zone}", ON_DEMAND, price) for zone, price in prices.items()]
    small = replace(fx_type("small", 2, 2), offerings=tuple(offerings))
    unit = reservation("cr-1", "small", 1, zone="zone-3", zone_id="id-zone-3")
    job = workload(cpu=900, topology_spread=(spread(labels.ZONE),))
    state = undecided(with_demand(plain(small, reservations=(unit,)), demand(job, 5)))

    assigned, _ = assign_domains(state, connected_components(state.groups), 0, DomainCosts(state))

    assert assigned_to(assigned) == {"zone-1": 1, "zone-2": 2, "zone-3": 2}


def test_a_spread_that_allows_it_is_uneven_where_there_is_room() -> None:
    """With a skew of 3 zone 1 takes four of six for its five units; a fifth would be one too many."""
    job = workload(cpu=3500, topology_spread=(spread(labels.ZONE, 3),))
    state = undecided(with_demand(plain(TYPE, reservations=(reservation("cr-1", "default", 5),)), demand(job, 6)))

    assigned, _ = assign_domains(state, connected_components(state.groups), 0, DomainCosts(state))

    assert assigned_to(assigned) == {"zone-1": 4, "zone-2": 1, "zone-3": 1}


def test_replicas_that_want_to_be_together_get_one_zone() -> None:
    job = workload(cpu=100, affinity=(near(labels.ZONE),))
    state = undecided(with_demand(plain(TYPE), demand(job, 4)))

    assigned, _ = assign_domains(state, connected_components(state.groups), 0, DomainCosts(state))

    assert assigned_to(assigned) == {"zone-1": 4}


@pytest.mark.parametrize(("units", "zone"), [(1, "zone-1"), (2, "zone-3"), (3, "zone-3")])
def test_replicas_that_want_to_be_together_go_where_most_of_them_have_room(units: int, zone: str) -> None:
    """Three of them, one a node: zone 1 has a unit for one of them, zone 3 as many as it says."""
    near_by = reservation("cr-1", "default", 1)
    far = reservation("cr-3", "default", units, zone="zone-3", zone_id="id-zone-3")
    job = workload(cpu=3500, affinity=(near(labels.ZONE),))
    state = undecided(with_demand(plain(TYPE, reservations=(near_by, far)), demand(job, 3)))

    assigned, _ = assign_domains(state, connected_components(state.groups), 0, DomainCosts(state))

    assert assigned_to(assigned) == {zone: 3}


def test_who_was_assigned_to_a_zone_has_used_its_room() -> None:
    """Both units are in zone 3: the first pair goes there, the second is as well off anywhere."""
    units = reservation("cr-3", "default", 2, zone="zone-3", zone_id="id-zone-3")
    pairs = [workload(name, cpu=3500, affinity=(near(labels.ZONE, app=name),)) for name in ("first", "second")]
    state = undecided(with_demand(plain(TYPE, reservations=(units,)), *[demand(pair, 2) for pair in pairs]))

    assigned, _ = assign_domains(state, connected_components(state.groups), 0, DomainCosts(state))

    assert assigned_to(assigned) == {"zone-3": 2, "zone-1": 2}


def test_a_limit_counts_what_the_pools_nodes_have_already() -> None:
    limited = pool("default", limits=Resources.of({"cpu": 10_000}))
    state = undecided(
        with_demand(plain(TYPE, node_pools=(limited,), nodes=(node("n-1", TYPE),)), demand(workload(cpu=1000)))
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
        next(option for option in state.catalogue.options if (option.reservation is None) is paid)
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
    state.place(state.open_bin(state.catalogue.options[0], 1), state.groups[0].relaxed[0], 2)

    plan = to_plan(state, Substitutes(state.catalogue), Reasons(state).explain)

    assert [(it.workload_key, it.count) for it in plan.launches[0].placements] == [("ns/old", 2)]
    assert [(item.workload_key, item.count) for item in plan.unplaced] == [("ns/young", 2)]
