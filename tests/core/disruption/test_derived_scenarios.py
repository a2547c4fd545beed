"""Scenarios that follow from Karpenter's code but stand in no suite of it (section L): what we do, and where we part.

L-03, L-04 and L-07 are in test_decide.py and test_balanced.py, L-08 belongs to launching, L-10 to reservations.
"""

from dataclasses import replace
from datetime import timedelta
from functools import partial

from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.plan import Plan, ReasonCode
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.workload import Demand, Workload
from reservoir.core.scheduler import solve
from tests.core.disruption.world import (
    NOW,
    ON_DEMAND,
    RESERVED,
    SPOT,
    Fleet,
    instance_type,
    node_pool,
    reservation,
    workload,
)

GPU = instance_type("gpu", 64, on_demand=None)  # sold in blocks and reservations only
BIG = instance_type("big", 64, on_demand=3_000_000, spot=1_000_000)
SMALL = instance_type("small", 2, on_demand=100_000, spot=20_000)
WORK = {w.key: w for w in (workload("tiny", 1), workload("wide", 60))}

PLAIN = SchedulingPolicy()
fleet = partial(Fleet, types=(GPU, BIG, SMALL), workloads=WORK)
block = partial(
    reservation, kind=ReservationKind.CAPACITY_BLOCK, end_at=NOW + timedelta(hours=24)
)


def plan_for(
    it: Fleet, wanted: Workload, count: int, policy: SchedulingPolicy = PLAIN
) -> Plan:
    snapshot = replace(it.snapshot(), demands=(Demand(wanted, count, it.now),))
    return solve(snapshot, now=it.now, policy=policy)


def launched(plan: Plan) -> list[tuple[str, str, int]]:
    return sorted(
        (nodes.offering.instance_type, nodes.offering.reservation_id or "", nodes.count)
        for nodes in plan.launches
    )


def test_l02_of_two_equal_blocks_the_one_with_more_units_is_used() -> None:
    it = fleet(reservations=(block("cr-a", "gpu", 8, 1), block("cr-b", "gpu", 8, 7)))

    assert launched(plan_for(it, WORK["default/wide"], 1)) == [("gpu", "cr-b", 1)]


def test_l11_a_future_reservation_serves_from_its_start() -> None:
    start = NOW + timedelta(hours=1)
    future = reservation("cr-1", "gpu", 1, 1, state="scheduled", start_at=start)
    only_reserved = node_pool("default", RESERVED)
    it = fleet(reservations=(future,), types=(GPU,), pools=(only_reserved,))

    (waiting,) = plan_for(it, WORK["default/wide"], 1).unplaced
    assert (waiting.code, waiting.earliest_at) == (
        ReasonCode.RESERVATION_NOT_STARTED,
        start,
    )

    it.now, it.reservations = start, (replace(future, state="active"),)
    assert launched(plan_for(it, WORK["default/wide"], 1)) == [("gpu", "cr-1", 1)]


def test_l14_reserved_comes_before_cheap_spot_unless_a_floor_keeps_tiny_work_off_it() -> (
    None
):
    it = fleet(reservations=(reservation("cr-1", "big", 1, 1),))

    assert launched(plan_for(it, WORK["default/tiny"], 1)) == [("big", "cr-1", 1)]
    floor = SchedulingPolicy(reserved_floor_percent=25)
    assert launched(plan_for(it, WORK["default/tiny"], 1, floor)) == [("small", "", 1)]


def test_l16_where_the_only_block_is_expiring_on_demand_is_open_at_once() -> None:
    expiring = block("cr-1", "big", 1, 1, end_at=NOW + timedelta(minutes=39))
    it = fleet(reservations=(expiring,), pools=(node_pool("default", RESERVED, ON_DEMAND),))

    assert launched(plan_for(it, WORK["default/wide"], 1)) == [("big", "", 1)]


def test_l19_a_type_that_is_only_reserved_and_full_leaves_the_lighter_pool() -> None:
    heavy = node_pool("heavy", RESERVED, weight=100)
    light = node_pool("light", ON_DEMAND, weight=1)
    it = fleet(reservations=(reservation("cr-1", "gpu", 1, 0),), pools=(heavy, light))

    plan = plan_for(it, WORK["default/wide"], 1)

    assert launched(plan) == [("big", "", 1)]
    assert [nodes.node_pool_name for nodes in plan.launches] == ["light"]


def test_l20_of_two_readings_of_a_reservation_the_smaller_counts() -> None:
    readings = (reservation("cr-1", "big", 3, 3), reservation("cr-1", "big", 3, 1))
    it = fleet(
        reservations=readings,
        pools=(node_pool("default", RESERVED, SPOT),),
        types=(BIG,),
        selected=("cr-1",),
    )

    assert launched(plan_for(it, WORK["default/wide"], 3)) == [
        ("big", "", 2),
        ("big", "cr-1", 1),
    ]
