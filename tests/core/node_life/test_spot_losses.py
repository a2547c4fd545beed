"""When interruptions have cost a workload more than spot gained it (rule 8)."""

from datetime import timedelta

import pytest

from lab.fakes.system import START
from lab.fakes.values import workload
from reservoir.core.capacity.shortage import Shortage
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.workload import FallbackStep, Gang, Workload
from reservoir.core.node_life.spot_losses import (
    SpotRun,
    after_loss,
    has_lost_more,
    loss_forgotten_at,
    off_spot,
)

HOUR_S = 3600
SERVICE = workload()
JOB = workload(duration_s=6 * HOUR_S)
SAVING_EACH_TEN_MINUTES = workload(duration_s=6 * HOUR_S, checkpoint_period_s=600)
SAVING_ON_NOTICE = workload(duration_s=6 * HOUR_S, checkpoint_period_s=120)


def run(run_s: int, start_s: int = 60, spot: int = 1) -> SpotRun:
    """On demand costs 3 an hour."""
    return SpotRun(start_s, run_s, spot, 3)


@pytest.mark.parametrize(
    ("wanted", "run_s", "lost_more"),
    [
        (SERVICE, 89, True),  # 2 x 89 gained, 3 x 60 lost
        (SERVICE, 90, False),
        (SAVING_ON_NOTICE, 90, False),
        (SAVING_EACH_TEN_MINUTES, 989, True),  # 2 x 989 gained, 3 x 660 lost
        (SAVING_EACH_TEN_MINUTES, 990, False),
        (JOB, 5 * HOUR_S, True),  # all of it is lost, whatever it cost
    ],
)
def test_what_is_lost_is_the_start_and_the_work_that_was_not_saved(
    wanted: Workload, run_s: int, lost_more: bool
) -> None:
    assert has_lost_more(wanted, [run(run_s)]) is lost_more


def test_spot_as_dear_as_on_demand_gains_nothing() -> None:
    assert has_lost_more(SERVICE, [run(HOUR_S, spot=3)])


def test_what_other_nodes_of_the_workload_gain_counts() -> None:
    assert has_lost_more(SERVICE, [run(10)])
    assert not has_lost_more(SERVICE, [run(10)], [run(HOUR_S), run(HOUR_S)])


def test_all_nodes_of_a_gang_lose_work_with_one() -> None:
    gang = workload(duration_s=6 * HOUR_S, gang=Gang())
    assert has_lost_more(gang, [run(10)], [run(HOUR_S)] * 3)
    alone = workload(duration_s=6 * HOUR_S)
    assert not has_lost_more(alone, [run(10)], [run(HOUR_S)] * 3)


def test_a_workload_rests_longer_each_time() -> None:
    first = after_loss(None, START)
    assert first.until == START + timedelta(hours=1)
    within = after_loss(first, START + timedelta(minutes=59))
    assert within == first  # its last spot nodes go: no loss of the next try
    known, rests = first, []
    for _ in range(6):
        again_at = known.until + timedelta(minutes=30)
        known = after_loss(known, again_at)
        rests.append((known.until - again_at) // timedelta(hours=1))
    assert rests == [2, 4, 8, 16, 24, 24]


def test_a_loss_is_forgotten_after_a_day_without_another() -> None:
    known = Shortage(START, 3)
    later = loss_forgotten_at(known) + timedelta(seconds=1)
    assert after_loss(known, later) == Shortage(later + timedelta(hours=1))


RESERVED = FallbackStep(CapacityType.RESERVED, 7200)
SPOT = FallbackStep(CapacityType.SPOT, 900)
ON_DEMAND = FallbackStep(CapacityType.ON_DEMAND)


@pytest.mark.parametrize(
    ("ladder", "left"),
    [
        ((), (FallbackStep(CapacityType.RESERVED, 0), ON_DEMAND)),
        ((RESERVED, SPOT, ON_DEMAND), (RESERVED, ON_DEMAND)),
        ((RESERVED, SPOT), (RESERVED, SPOT)),  # its policy excludes on-demand
    ],
)
def test_who_rests_from_spot_has_the_rest_of_its_ladder(
    ladder: tuple[FallbackStep, ...], left: tuple[FallbackStep, ...]
) -> None:
    assert off_spot(workload(fallback=ladder), lambda _: True).fallback == left
    assert off_spot(workload(fallback=ladder), lambda _: False).fallback == ladder
