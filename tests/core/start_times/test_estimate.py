"""When work starts, asked with the scheduler, on demand small enough to be counted by hand."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from lab.fakes import values
from lab.worlds.demand_traces import SINCE, Stream, Trace, lives_of, snapshot_of, steady
from reservoir.core import scheduler
from reservoir.core.advice.lives import Life
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.plan import OfferingKey, Plan, ReasonCode
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Node, PlacedReplicas, Snapshot
from reservoir.core.model.workload import Demand, Workload
from reservoir.core.start_times.estimate import Past, StartQuantiles, estimate_starts
from reservoir.core.start_times.foreseen import is_foreseen

P5 = "p5.48xlarge"
HOUR = timedelta(hours=1)
NOW = SINCE + timedelta(days=20)
POLICY = SchedulingPolicy()


def solve(snapshot: Snapshot, now: datetime) -> Plan:
    return scheduler.solve(snapshot, now=now, policy=POLICY)


def trace(units: int, market: str = "reserved") -> Trace:
    stream = Stream("train", P5, 1, 1, steady, market=market)
    return Trace("by-hand", is_stationary=True, streams=(stream,), units={P5: units})


def job(name: str, market: str = "reserved") -> Workload:
    return replace(lives_of(trace(1, market), 1)[0].workload, name=name)


def runs(*hours: float) -> list[Life]:
    """Runs that are over, one each day up to yesterday, and gone before the next."""
    return [
        Life(
            job(f"job-{number}"),
            NOW - timedelta(days=len(hours) - number),
            int(each * 3600),
            number=number,
        )
        for number, each in enumerate(hours)
    ]


def world(*waiting: Workload, running: int = 1, market: str = "reserved") -> Snapshot:
    """Units all in use by jobs that waited for nothing."""
    found = snapshot_of(trace(running, market))
    (unit,) = found.reservations
    old = [job(f"old-{number}") for number in range(running)]
    nodes = tuple(_node(each, unit.id) for each in old)
    full = replace(unit, available_count=0, free_units=0)
    return replace(
        found,
        reservations=(full,),
        nodes=nodes,
        demands=tuple(Demand(each, each.replicas, NOW) for each in waiting),
        workloads={each.key: each for each in (*old, *waiting)},
    )


def _node(workload: Workload, reservation_id: str) -> Node:
    return values.node(
        f"nc-{workload.name}",
        OfferingKey(P5, "us-east-1a", "use1-aza", CapacityType.RESERVED, reservation_id),
        {},
        reservation_id=reservation_id,
        allocatable=workload.requests,
        used=workload.requests,
        placements=(PlacedReplicas(workload.key, 1),),
        created_at=NOW,
    )


def hours(
    snapshot: Snapshot, past: Past, name: str = "train/new"
) -> tuple[float, ...] | None:
    found = estimate_starts(snapshot, past, [name], solve, NOW)
    return _hours(found[name]) if name in found else None


def _hours(starts: StartQuantiles) -> tuple[float, ...]:
    return tuple((at - NOW) / HOUR for at in (starts.p10, starts.p50, starts.p90))


def test_a_unit_is_free_when_runs_of_that_name_usually_end() -> None:
    past = Past(runs(*([4] * 15)), begins=SINCE)
    found = hours(world(job("new")), past)
    assert found == pytest.approx((4, 4, 4), rel=0.1)


def test_runs_of_differing_length_make_a_wide_interval() -> None:
    past = Past(runs(*(range(1, 20))), begins=SINCE)
    p10, p50, p90 = hours(world(job("new")), past) or (0, 0, 0)
    assert (p10, p50, p90) == pytest.approx((2, 10, 18), abs=1.5)


def test_what_has_run_for_long_ends_sooner() -> None:
    past = Past(runs(*([4] * 15)), {"train/old-0": NOW - 3 * HOUR}, SINCE)
    assert hours(world(job("new")), past) == pytest.approx((1, 1, 1), abs=0.4)


def test_nothing_is_told_where_nothing_is_known() -> None:
    assert hours(world(job("new")), Past()) is None
    assert hours(world(job("new")), Past(runs(4, 4), begins=SINCE)) is None


def test_who_is_before_it_in_the_queue_is_counted() -> None:
    first = job("first")
    snapshot = world(first, job("new"))
    ahead = replace(snapshot.demands[0], pending_since=NOW - HOUR)
    snapshot = replace(snapshot, demands=(ahead, snapshot.demands[1]))
    past = Past(runs(*([4] * 15)), begins=SINCE)
    assert hours(snapshot, past, "train/first") == pytest.approx((4, 4, 4), rel=0.1)
    assert hours(snapshot, past) == pytest.approx((8, 8, 8), rel=0.1)


def test_a_block_that_begins_is_certain_without_any_past() -> None:
    snapshot = world(job("new"))
    block = values.reservation(
        "cr-block",
        2,
        instance_type=P5,
        zone="us-east-1a",
        zone_id="use1-aza",
        kind=ReservationKind.CAPACITY_BLOCK,
        state="scheduled",
        start_at=NOW + 6 * HOUR,
        end_at=NOW + timedelta(days=3),
    )
    (known,) = snapshot.node_classes
    ids = (*known.status.reservation_ids, block.id)
    both = replace(known, status=replace(known.status, reservation_ids=ids))
    snapshot = replace(
        snapshot,
        node_classes=(both,),
        reservations=(*snapshot.reservations, replace(block, free_units=0)),
    )
    assert hours(snapshot, Past()) == (6, 6, 6)


def test_a_ladder_that_goes_on_is_certain_without_any_past() -> None:
    # Two hours of reserved units alone, then what is sold on demand.
    snapshot = world(job("new", "ladder"), market="ladder")
    assert hours(snapshot, Past()) == (2, 2, 2)


def test_work_that_usually_arrives_with_a_higher_priority_goes_first() -> None:
    urgent = [
        replace(life, workload=replace(life.workload, priority=9, name=f"urgent-{day}"))
        for day, life in enumerate(
            Life(job("urgent"), NOW - timedelta(days=19 - day) + HOUR, 6 * 3600, number=day)
            for day in range(19)
        )
    ]
    past = Past([*runs(*([4] * 15)), *urgent], begins=SINCE)
    _, p50, _ = hours(world(job("new")), past) or (0, 0, 0)
    assert p50 > 8


def test_the_same_question_has_the_same_answer() -> None:
    past = Past(runs(*(range(1, 20))), begins=SINCE)
    assert hours(world(job("new")), past) == hours(world(job("new")), past)


def test_quotas_and_rules_are_not_foreseen() -> None:
    assert is_foreseen({ReasonCode.RESERVATION_FULL, ReasonCode.FALLBACK_NOT_YET})
    assert not is_foreseen({ReasonCode.RESERVATION_FULL, ReasonCode.TEAM_QUOTA})
    assert not is_foreseen({ReasonCode.OFFERING_UNAVAILABLE})
