"""What a solve may cost where much is refused, told by its own cost where nothing is."""

import sys
from dataclasses import replace
from types import FrameType

import pytest

from lab.bench.worlds.cases import half_limited
from lab.bench.worlds.ladder import diverse_snapshot
from reservoir.core.checker import check
from reservoir.core.model.plan import ReasonCode
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduler import solve
from tests.core.scheduler.world import NOW, POLICY, demand, unplaced_count, workload

# about two and a half; it was many times that when each refused workload looked at each offering
TIMES_MAX = 5


def effort(snapshot: Snapshot, policy: SchedulingPolicy = POLICY) -> int:
    """Count the calls of functions in a solve and its check; unlike their time, it is the same in every run."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        plan = solve(snapshot, now=NOW, policy=policy)
        violations = check(snapshot, plan, now=NOW, policy=policy)
    finally:
        sys.setprofile(None)
    assert violations == ()
    return calls


@pytest.mark.parametrize("one_workload_a_pod", [False, True])
def test_a_limit_that_refuses_half_costs_little_more_than_none(
    one_workload_a_pod: bool,
) -> None:
    whole = diverse_snapshot(500, one_workload_a_pod=one_workload_a_pod)

    assert effort(half_limited(whole)) < TIMES_MAX * effort(whole)
    plan = solve(half_limited(whole), now=NOW, policy=POLICY)
    assert 0 < unplaced_count(plan) < 300
    assert {item.code for item in plan.unplaced} == {ReasonCode.LIMIT_EXCEEDED}


def steps(snapshot: Snapshot) -> int:
    """Count how often a solve asks whether its time is over, which it does at each step."""
    asked = 0

    def expired() -> bool:
        nonlocal asked
        asked += 1
        return False

    solve(snapshot, now=NOW, policy=replace(POLICY, expired=expired))
    return asked


def test_nothing_is_tried_again_for_what_has_no_place_at_all() -> None:
    whole = diverse_snapshot(50)
    hopeless = replace(
        whole, demands=(*whole.demands, demand(workload("huge", cpu=10**9), 3))
    )

    assert steps(hopeless) < 1.5 * steps(whole)


def test_the_search_for_exchanges_is_bounded() -> None:
    whole = diverse_snapshot(50)

    assert steps(half_limited(whole)) < 40 * steps(whole)
