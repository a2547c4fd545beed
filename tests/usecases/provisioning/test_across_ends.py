"""Work that is longer than a block, and says that it is handed over, is planned across the block's end."""

from datetime import timedelta
from typing import Any

import pytest

from lab.fakes.system import START
from lab.fakes.values import reservation
from lab.worlds.planning_world import PlanningWorld, node_pool_manifest
from reservoir.core.model.capacity_reservation import CapacityReservation, ReservationKind
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.workload import Gang
from reservoir.core.what_if.across_ends import parts_after
from reservoir.usecases.explaining.explain_workload import ExplainWorkload


def block(name: str, first_h: float, last_h: float, **changes: Any) -> CapacityReservation:
    begins_at, ends_at = START + timedelta(hours=first_h), START + timedelta(hours=last_h)
    is_there = first_h <= 0
    facts: dict[str, Any] = {
        "kind": ReservationKind.CAPACITY_BLOCK,
        "state": "active" if is_there else "scheduled",
        "total_count": 2,
        "available_count": 2 if is_there else 0,
        "free_units": 2 if is_there else 0,
        "start_at": begins_at,
        "end_at": ends_at,
        "tags": {"team": "research"},
    }
    return reservation(name, **facts | changes)


FIRST, SECOND = block("cr-1", -1, 24), block("cr-2", 24, 72)


def world(*blocks: CapacityReservation) -> PlanningWorld:
    return PlanningWorld().ready(
        *blocks, pool=node_pool_manifest(capacity_types=("reserved",))
    )


def submit(it: PlanningWorld, **changes: Any) -> None:
    it.submit(
        replicas=2,
        gang=Gang(),
        duration_s=36 * 3600,
        checkpoint_period_s=1200,
        **changes,
    )


@pytest.mark.parametrize(("handover", "placed"), [(True, 2), (None, 0), (False, 0)])
def test_only_what_says_so_is_placed_in_a_block_that_ends_earlier(
    handover: bool | None, placed: int
) -> None:
    it = world(FIRST)
    submit(it, handover=handover)
    it.plan()
    assert it.workload().placed_count == placed


def test_a_plan_says_where_it_goes_on() -> None:
    it = world(FIRST, SECOND)
    submit(it, handover=True)
    snapshot = it.provisioner().gatherer.gather(it.clock.now()).snapshot
    plan = it.solve(snapshot, it.clock.now(), SchedulingPolicy())
    record = it.workload()
    assert record.workload is not None
    (said,) = parts_after(plan, snapshot, [record.workload], it.clock.now())
    assert said.startswith("research/train is not through when cr-1 drains at ")
    assert said.endswith(f"it goes on in cr-2 from {SECOND.start_at:%Y-%m-%d %H:%MZ} on")


def test_what_is_through_before_is_not_spoken_of() -> None:
    it = world(FIRST, SECOND)
    it.submit(replicas=2, duration_s=3600, handover=True)
    snapshot = it.provisioner().gatherer.gather(it.clock.now()).snapshot
    plan = it.solve(snapshot, it.clock.now(), SchedulingPolicy())
    record = it.workload()
    assert record.workload is not None
    assert parts_after(plan, snapshot, [record.workload], it.clock.now()) == ()


@pytest.mark.parametrize(
    ("blocks", "then"),
    [
        ((FIRST, SECOND), "it goes on in cr-2 from"),
        ((FIRST,), "nothing that is known goes on after it"),
    ],
)
def test_explain_says_where_it_goes_on(
    blocks: tuple[CapacityReservation, ...], then: str
) -> None:
    it = world(*blocks)
    submit(it, handover=True)
    it.plan()
    explained = ExplainWorkload(
        it.state.workloads,
        it.state.node_claims,
        it.state.reservations,
        it.outside().shortage_history,
        it.clock,
    ).explain("research/train")
    assert explained is not None
    assert {each.drain_at is not None for each in explained.nodes} == {True}
    assert all((each.goes_on or "").startswith(then) for each in explained.nodes)
