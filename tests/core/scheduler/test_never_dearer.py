"""A certified plan is never dearer than the first one: finished plans are compared, by one account."""

import pytest

from lab.bench.worlds import ladder
from lab.bench.worlds.common import NOW as BENCH_NOW
from lab.bench.worlds.common import counted
from lab.bench.worlds.small import small_snapshot
from lab.oracle.instances import Features, instance
from lab.oracle.world import NOW as ORACLE_NOW
from reservoir.core.model.instance_type import InstanceType
from reservoir.core.model.plan import Plan, PlannedNodes
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms.resources import ACCELERATORS

FIRST, CERTIFIED = SchedulingPolicy(), SchedulingPolicy(with_certificate=True)
KINDS = {
    "plain": Features(),
    "limits": Features(limits=True),
    "everything": Features(True, True, True, True, True, True, True),
}

# Who is left over by priority, money in atto-USD an hour, units whose accelerators idle.
Account = tuple[tuple[int, ...], int, int]


def account(snapshot: Snapshot, plan: Plan) -> Account:
    """Return what a plan costs, most important first, as the documents say it and by no code of the solver's."""
    types = {item.name: item for item in snapshot.instance_types}
    asking = {
        demand.workload.key
        for demand in snapshot.demands
        if any(demand.workload.requests[name] for name in ACCELERATORS)
    }
    bought = misused = 0
    for launch in plan.launches:
        if launch.offering.reservation_id is None:
            bought += price_of_one(launch) * launch.count
        elif is_idle(types[launch.offering.instance_type], launch, asking):
            misused += launch.count
    return left_over(snapshot, plan), bought, misused


def price_of_one(launch: PlannedNodes) -> int:
    """Return what a node costs an hour with what it costs beside its price."""
    return launch.price_atto_usd_per_hour + FIRST.overhead_atto_usd


def is_idle(instance_type: InstanceType, launch: PlannedNodes, asking: set[str]) -> bool:
    """Whether a node has accelerators and holds nobody who asks for some."""
    if not any(instance_type.capacity[name] for name in ACCELERATORS):
        return False
    return asking.isdisjoint(placed.workload_key for placed in launch.placements)


def left_over(snapshot: Snapshot, plan: Plan) -> tuple[int, ...]:
    """Return how many replicas wait, by priority, the highest first."""
    priorities = {it.workload.key: it.workload.priority for it in snapshot.demands}
    left = dict.fromkeys(priorities.values(), 0)
    for item in plan.unplaced:
        left[priorities[item.workload_key]] += item.count
    return tuple([left[priority] for priority in sorted(left, reverse=True)])


@pytest.mark.parametrize("seed", range(330_000, 330_060))
def test_of_small_worlds_with_reservations(seed: int) -> None:
    snapshot = small_snapshot(seed)
    first = solve(snapshot, now=BENCH_NOW, policy=FIRST)
    certified = solve(snapshot, now=BENCH_NOW, policy=CERTIFIED)
    assert account(snapshot, certified) <= account(snapshot, first)


@pytest.mark.parametrize("seed", range(330_000, 330_040))
@pytest.mark.parametrize("kind", KINDS)
def test_of_worlds_with_limits_priorities_and_rules(kind: str, seed: int) -> None:
    snapshot = instance(seed, KINDS[kind])
    first = solve(snapshot, now=ORACLE_NOW, policy=FIRST)
    certified = solve(snapshot, now=ORACLE_NOW, policy=CERTIFIED)
    assert account(snapshot, certified) <= account(snapshot, first)


@pytest.mark.parametrize("seed", [13, 17, 29, 38, *range(330_000, 330_012)])
def test_of_a_mix_with_rules_about_hosts(seed: int) -> None:
    """The program finds cheaper packings, of which elimination and rightsizing may make dearer plans."""
    snapshot = ladder.snapshot(counted(ladder.diverse(100, seed), "pod"))
    first = solve(snapshot, now=BENCH_NOW, policy=FIRST)
    certified = solve(snapshot, now=BENCH_NOW, policy=CERTIFIED)
    assert account(snapshot, certified) <= account(snapshot, first)
