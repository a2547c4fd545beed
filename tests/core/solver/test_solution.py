"""What has been decided so far: steps are undone exactly, domains are filled like water, capacity runs out."""

from shared.core.scheduling_terms import labels
from shared.core.scheduling_terms.resources import Resources
from shared.core.solver.problem.components import connected_components
from shared.core.solver.solution.domain_assignment import DomainCosts, assign_domains
from shared.core.solver.solution.priority_inversion import has_inversion
from tests.core.scheduler.world import (
    GIB,
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
    """Zone 1 has two already and zone 2 one: four more make it 2, 2, 3."""
    job = workload(cpu=100, topology_spread=(spread(labels.ZONE),))
    nodes = (node("n-1", TYPE, {"job": 2}), node("n-2", TYPE, {"job": 1}, zone="zone-2"))
    state = undecided(with_demand(plain(TYPE, nodes=nodes, workloads={job.key: job}), demand(job, 4)))

    assigned, _ = assign_domains(state, connected_components(state.groups), 0, DomainCosts(state))

    assert {batch.pin: batch.count for batch in assigned} == {
        (labels.ZONE, "zone-2"): 1,
        (labels.ZONE, "zone-3"): 3,
    }


def test_replicas_that_want_to_be_together_get_one_zone() -> None:
    job = workload(cpu=100, affinity=(near(labels.ZONE),))
    state = undecided(with_demand(plain(TYPE), demand(job, 4)))

    (batch,), _ = assign_domains(state, connected_components(state.groups), 0, DomainCosts(state))

    assert (batch.pin, batch.count) == ((labels.ZONE, "zone-1"), 4)


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
