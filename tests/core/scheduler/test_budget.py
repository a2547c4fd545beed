"""The budget bounds the pass: once it is used up, every step ends, and what was planned by then keeps every rule."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from lab.bench.scheduling.budget import world
from lab.bench.worlds.small import small_snapshot
from reservoir.core.checker import check
from reservoir.core.explaining.reasons import Reasons
from reservoir.core.model.plan import Plan, ReasonCode
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.team import Team
from reservoir.core.scheduler import solve
from reservoir.core.solver.insertion.new_nodes import NewNodes
from reservoir.core.solver.packing.knapsack import GreedyKnapsack
from reservoir.core.solver.problem import queue
from tests.core.scheduler.world import NOW

# Steps of which a large pass has thousands.
STEPS = ((GreedyKnapsack, "fill"), (NewNodes, "best"), (Reasons, "_failures"))


class Clock:
    """A deadline that passes after so many looks."""

    def __init__(self, looks_in_time: int) -> None:
        self._looks_in_time = looks_in_time
        self.looks = 0

    @property
    def is_late(self) -> bool:
        """Whether somebody has been told that time is over."""
        return self.looks > self._looks_in_time

    def expired(self) -> bool:
        """Look."""
        self.looks += 1
        return self.is_late


def planned(snapshot: Snapshot, clock: Clock) -> Plan:
    """Return the plan of a pass as deployed, which keeps every rule."""
    policy = SchedulingPolicy(with_certificate=True, expired=clock.expired)
    plan = solve(snapshot, now=NOW, policy=policy)
    assert not [
        item
        for item in check(snapshot, plan, now=NOW, policy=policy)
        if item.forbids_commit
    ]
    return plan


def cut(snapshot: Snapshot, samples: int) -> list[int]:
    """Return looks of a pass over the snapshot: the first ones, and others as far apart as that takes."""
    clock = Clock(1 << 60)
    planned(snapshot, clock)
    return sorted({0, 1, 2, *range(0, clock.looks, max(1, clock.looks // samples))})


@pytest.mark.parametrize("kind", ["plain", "spread", "gangs", "flexible"])
def test_at_whichever_look_time_is_over_the_plan_keeps_every_rule(kind: str) -> None:
    snapshot = world(kind, 12)
    for looks in cut(snapshot, 4):
        planned(snapshot, Clock(looks))


@pytest.mark.parametrize("seed", range(3))
def test_a_small_problem_is_cut_at_whichever_look_too(seed: int) -> None:
    """Its program is bounded as well, and what greed had packed before is not lost."""
    snapshot = small_snapshot(700 + seed)
    for looks in cut(snapshot, 12):
        planned(snapshot, Clock(looks))


@pytest.mark.parametrize(
    ("kind", "looks"), [("plain", 60), ("spread", 60), ("gangs", 60), ("impossible", 4)]
)
def test_hardly_a_step_is_taken_once_time_is_over(
    monkeypatch: pytest.MonkeyPatch, kind: str, looks: int
) -> None:
    """Steps are counted, not seconds: each of these worlds takes hundreds, and one workload served alone a few."""
    clock, late = Clock(looks), list[str]()

    def counted(name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if clock.is_late:
                late.append(name)
            return step(*arguments, **named)

        return call

    for owner, name in STEPS:
        monkeypatch.setattr(owner, name, counted(name, getattr(owner, name)))
    solve(world(kind, 200), now=NOW, policy=SchedulingPolicy(expired=clock.expired))
    assert len(late) <= 8, late


def reading_late(looks_in_time: int) -> SchedulingPolicy:
    """Return a policy whose time to read demand is over after so many looks, but not the time of the pass."""
    looks = count()

    def used_percent() -> int:
        return 0 if next(looks) <= looks_in_time else 50

    return SchedulingPolicy(used_percent=used_percent)


def placed_counts(plan: Plan) -> Counter[str]:
    """Return how many replicas of each workload the plan launches."""
    counts: Counter[str] = Counter()
    for launch in plan.launches:
        for placed in launch.placements:
            counts[placed.workload_key] += placed.count * launch.count
    return counts


@pytest.mark.parametrize("kind", ["plain", "spread", "gangs"])
def test_demand_that_cannot_be_read_in_time_waits_and_the_rest_is_planned(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A pass that reads all of too much demand would have no time left to place any of it."""
    monkeypatch.setattr(queue, "_READ_AT_ONCE", 10)
    snapshot, policy = world(kind, 40), reading_late(1)
    plan = solve(snapshot, now=NOW, policy=policy)
    counts = placed_counts(plan)
    waiting = Counter(dict[str, int]())
    for item in plan.unplaced:
        assert item.code is ReasonCode.OUT_OF_TIME
        waiting[item.workload_key] += item.count
    pending = {item.workload.key: item.pending_count for item in snapshot.demands}
    assert counts + waiting == pending
    assert 5 <= len(counts) <= 20
    found = check(snapshot, plan, now=NOW, policy=policy)
    assert not [item for item in found if item.forbids_commit]


def test_little_demand_is_read_as_a_whole_however_late_it_is() -> None:
    plan = solve(world("plain", 40), now=NOW, policy=reading_late(0))
    assert not plan.unplaced


def test_demand_that_is_solved_again_is_read_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A team would exceed its budget by demand that only the second solve reads."""
    monkeypatch.setattr(queue, "_READ_AT_ONCE", 10)
    team = Team("one", namespaces=("one",))
    snapshot = replace(world("plain", 40), teams=(team,))
    assert not solve(snapshot, now=NOW, policy=reading_late(0)).unplaced


def test_nodes_for_a_part_of_the_demand_stay_in_their_zones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Demand that was not read may have rules about the zones of what was placed."""
    monkeypatch.setattr(queue, "_READ_AT_ONCE", 10)
    plan = solve(world("plain", 40), now=NOW, policy=reading_late(1))
    assert plan.launches
    for launch in plan.launches:
        zones = {key.zone_id for key in launch.alternatives}
        assert zones <= {launch.offering.zone_id}
