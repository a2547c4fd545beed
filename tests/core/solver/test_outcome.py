"""What is told of a decision: replicas by workload, oldest first, and the reason of the offering that came nearest."""

from datetime import timedelta

from shared.core.explaining.reasons import Reasons
from shared.core.model.plan import ReasonCode
from shared.core.solver.insertion.insert import Insertion
from shared.core.solver.solution.substitutes import Substitutes
from shared.core.solver.solution.to_plan import to_plan
from tests.core.scheduler.world import GIB, demand, fx_type, plain, pool, reservation, with_demand, workload
from tests.core.solver.world import inserting, undecided

FOUR = fx_type("four", 4, 16, 10)


def insert_all(insertion: Insertion) -> None:
    for group in insertion.state.groups:
        insertion.place_group(group)


def test_the_oldest_workload_of_a_group_gets_the_places() -> None:
    one_node = pool("default", limits={})
    state = undecided(
        with_demand(
            plain(FOUR, node_pools=(one_node,)),
            demand(workload("young", 1800, GIB), 2),
            demand(workload("old", 1800, GIB), 2, waiting=timedelta(hours=1)),
        )
    )
    option = state.catalogue.options[0]
    state.place(state.open_bin(option, 1), state.groups[0].relaxed[0], 2)

    plan = to_plan(state, Substitutes(state.catalogue), Reasons(state).explain)

    assert [(it.workload_key, it.count) for it in plan.launches[0].placements] == [("ns/old", 2)]
    assert [(item.workload_key, item.count) for item in plan.unplaced] == [("ns/young", 2)]


def test_the_reason_is_that_of_the_offering_that_came_furthest() -> None:
    """One type is too small; the other would serve, but its reservation is full and the pool buys nothing."""
    full = reservation("cr-1", "four", 1, free_units=0)
    state = undecided(
        with_demand(
            plain(fx_type("two", 2, 4, 10, offered=()), fx_type("four", 4, 16, 10, offered=()), reservations=(full,)),
            demand(workload(cpu=3000)),
        )
    )
    insert_all(inserting(state))

    (unplaced,) = to_plan(state, Substitutes(state.catalogue), Reasons(state).explain).unplaced

    assert unplaced.code is ReasonCode.RESERVATION_FULL
    assert "no free unit (1 in all)" in unplaced.message
