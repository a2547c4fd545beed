"""A Capacity Block ends: what it cannot take any more, it says by its times, whatever the policy about durations."""

from dataclasses import dataclass
from datetime import timedelta

import pytest

from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.plan import ReasonCode
from reservoir.core.model.policy import NoDurationPolicy, SchedulingPolicy
from reservoir.core.model.workload import Workload
from tests.core.scheduler.world import (
    NOW,
    POLICY,
    RESERVED,
    block,
    demand,
    fx_type,
    markets,
    plain,
    planned,
    pool,
    with_demand,
    workload,
)

AVOID = SchedulingPolicy(no_duration_policy=NoDurationPolicy.AVOID)


def small_block(ends_in: int, **changes: object) -> CapacityReservation:
    return block("cr-1", "small", 1, ends_in=timedelta(minutes=ends_in), **changes)


@dataclass(frozen=True)
class Ending:
    """A block, work for it, and what the work is told. Blocks drain forty minutes before their end."""

    name: str
    unit: CapacityReservation
    wanted: Workload
    code: ReasonCode
    told: str
    policy: SchedulingPolicy = POLICY


JOB = workload(cpu=1000)
LATE = small_block(35, state="delayed", start_at=NOW - timedelta(hours=1))
SHORT = small_block(40, state="scheduled", start_at=NOW + timedelta(minutes=5))
TOMORROW = small_block(3000, state="scheduled", start_at=NOW + timedelta(days=1))
ENDINGS = (
    Ending(
        "a delayed block of which too little is left",
        LATE,
        JOB,
        ReasonCode.DURATION_DOES_NOT_FIT,
        "ends at 2026-01-01T00:35:00+00:00 and takes no new work: it begins too close to its end",
    ),
    Ending(
        "a block that is shorter than draining takes",
        SHORT,
        JOB,
        ReasonCode.DURATION_DOES_NOT_FIT,
        "ends at 2026-01-01T00:40:00+00:00 and takes no new work: it begins too close to its end",
    ),
    Ending(
        "work that needs more notice than is left",
        small_block(60),
        workload(cpu=1000, checkpoint_period_s=1800),
        ReasonCode.DURATION_DOES_NOT_FIT,
        "the work needs 1800 s of notice, which small reserved in zone-1 of cr-1 cannot give any more,"
        " because it drains at "
        "2026-01-01T00:20:00+00:00",
    ),
    Ending(
        "a block to come that the policy will keep such work out of",
        TOMORROW,
        JOB,
        ReasonCode.DURATION_DOES_NOT_FIT,
        "it has no duration, and noDurationPolicy Avoid keeps such work out of small reserved in zone-1 of cr-1",
        AVOID,
    ),
    Ending(
        "a block to come that will serve",
        TOMORROW,
        JOB,
        ReasonCode.RESERVATION_NOT_STARTED,
        "starts at 2026-01-02T00:00:00+00:00",
    ),
)


@pytest.mark.parametrize("it", ENDINGS, ids=lambda it: it.name)
def test_work_is_told_why_a_block_does_not_take_it(it: Ending) -> None:
    world = plain(
        fx_type("small", 2, 2),
        reservations=[it.unit],
        node_pools=(pool("default", markets(RESERVED)),),
    )

    (refusal,) = planned(with_demand(world, demand(it.wanted)), policy=it.policy).unplaced

    assert refusal.code is it.code
    assert it.told in refusal.message
