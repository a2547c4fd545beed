"""Plan demand that nobody has sent."""

import inspect
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lab.fakes.values import reservation, workload
from lab.worlds.planning_world import PlanningWorld, node_pool_manifest
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.workload import Workload
from reservoir.core.what_if.added_capacity import AddedCapacity
from reservoir.core.what_if.edits import WorldEdits
from reservoir.core.what_if.outcome import DemandOutcome
from reservoir.runtime.composition.parts.planning import check, snapshot_gatherer_from
from reservoir.usecases.provisioning.solver import Solver
from reservoir.usecases.what_if.describe import described
from reservoir.usecases.what_if.plan_demand import PlanDemand, SnapshotSource

NOTHING = WorldEdits()
USD_P5 = 55_040_000


def ready(units: int = 4, **changes: Any) -> PlanningWorld:
    return PlanningWorld().ready(
        reservation("cr-1", units, tags={"team": "research"}),
        **changes,
    )


def asking(world: PlanningWorld) -> PlanDemand:
    solver = Solver(SchedulingPolicy(), world.solve, check)
    return PlanDemand(snapshot_gatherer_from(world.outside()), world.clock, solver)


def told(outcome: DemandOutcome) -> list[tuple[str, str, int]]:
    """Return workload, place and replicas of each place."""
    return [
        (
            place.workload_key,
            place.claim_id
            or (
                place.offering
                and (place.offering.reservation_id or str(place.offering.capacity_type))
            )
            or "",
            place.replica_count,
        )
        for place in outcome.places
    ]


def test_there_is_nothing_to_write_with() -> None:
    methods = {
        name
        for name, _ in inspect.getmembers(SnapshotSource, inspect.isfunction)
        if not name.startswith("_")
    }
    assert methods == {"gather"}
    written = [
        name
        for name in ("commit", "put", "save", "publish", "queue", "ids")
        if name in PlanDemand.__slots__
    ]
    assert written == []


def test_reserved_units_first_and_the_rest_is_bought() -> None:
    world = ready(units=4)
    before = world.state.node_claims.list_live()
    answer = asking(world).plan([workload("train", replicas=6)], NOTHING)
    assert told(answer.present) == [
        ("research/train", "cr-1", 4),
        ("research/train", "on-demand", 2),
    ]
    assert answer.present.added_micro_usd_per_hour == 2 * USD_P5
    assert answer.edited is None
    assert world.state.node_claims.list_live() == before
    assert world.state.workloads.get("research/train") is None
    assert world.queue.launches == []


def test_what_is_planned_is_what_then_happens() -> None:
    world = ready(units=4)
    answer = asking(world).plan([workload("train", replicas=6)], NOTHING)
    world.submit("train", replicas=6)
    world.plan()
    claims = world.state.node_claims.list_live()
    reserved = sum(claim.offering.reservation_id == "cr-1" for claim in claims)
    assert [count for *_, count in told(answer.present)] == [
        reserved,
        len(claims) - reserved,
    ]


def test_what_waits_says_why() -> None:
    world = ready(units=1, pool=node_pool_manifest(capacity_types=("reserved",)))
    (waiting,) = (
        asking(world).plan([workload("train", replicas=3)], NOTHING).present.waiting
    )
    assert (waiting.count, waiting.code.value) == (2, "ReservationFull")


def test_who_waits_already_may_be_displaced() -> None:
    world = ready(units=2, pool=node_pool_manifest(capacity_types=("reserved",)))
    world.submit("batch", replicas=2)
    urgent = replace(workload("urgent", replicas=1), priority=100)
    outcome = asking(world).plan([urgent], NOTHING).present
    assert told(outcome) == [("research/urgent", "cr-1", 1)]
    (displaced,) = outcome.displaced
    assert (displaced.workload_key, displaced.replica_count, displaced.reserved_count) == (
        "research/batch",
        1,
        1,
    )
    assert displaced.waiting is not None
    assert displaced.waiting.code.value == "ReservationFull"


def test_who_is_bought_for_instead_loses_a_unit_but_no_place() -> None:
    world = ready(units=2)
    world.submit("batch", replicas=2)
    outcome = (
        asking(world)
        .plan([replace(workload("urgent", replicas=1), priority=100)], NOTHING)
        .present
    )
    (displaced,) = outcome.displaced
    assert (displaced.replica_count, displaced.reserved_count, displaced.waiting) == (
        0,
        1,
        None,
    )
    assert outcome.added_micro_usd_per_hour == USD_P5


def test_a_workload_that_runs_is_planned_as_if_it_grew() -> None:
    world = ready(units=4)
    world.submit("train", replicas=1)
    world.plan()
    answer = asking(world).plan([workload("train", replicas=3)], NOTHING)
    assert answer.placed == {"research/train": 1}
    assert told(answer.present) == [("research/train", "cr-1", 2)]


def test_the_edited_world_stands_beside_the_present() -> None:
    world = ready(units=1)
    edits = WorldEdits(added=(AddedCapacity(2, "p5.48xlarge", "us-east-1b"),))
    answer = asking(world).plan([workload("train", replicas=3)], edits)
    assert answer.edited is not None
    assert told(answer.present)[1:] == [("research/train", "on-demand", 2)]
    assert sorted(told(answer.edited)) == [
        ("research/train", "cr-1", 1),
        ("research/train", "with-1", 2),
    ]
    assert (
        answer.present.added_micro_usd_per_hour,
        answer.edited.added_micro_usd_per_hour,
    ) == (2 * USD_P5, 0)


def test_a_duration_that_does_not_fit_a_block_to_come() -> None:
    world = ready(units=1, pool=node_pool_manifest(capacity_types=("reserved",)))
    now = world.clock.now()
    block = AddedCapacity(
        2, "p5.48xlarge", "us-east-1b", now + timedelta(hours=1), now + timedelta(hours=4)
    )
    long = replace(workload("train", replicas=2), duration_s=12 * 3600)
    answer = asking(world).plan([long], WorldEdits(added=(block,)))
    assert answer.edited is not None
    assert {item.code.value for item in answer.edited.waiting} == {"ReservationFull"}


@pytest.mark.parametrize("edits", [NOTHING, WorldEdits(removed_ids=("cr-1",))])
def test_the_wire_form_is_stable(edits: WorldEdits) -> None:
    world = ready(units=1)
    wanted: list[Workload] = [workload("train", replicas=2)]
    told_once = described(asking(world).plan(wanted, edits)).model_dump_json()
    assert described(asking(world).plan(wanted, edits)).model_dump_json() == told_once
    assert '"addedMicroUsdPerHour":' in told_once
