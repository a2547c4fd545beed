"""A deadline cuts everything short, and what is planned by then keeps every rule (rule 6, "any-time")."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from bench.worlds.ladder import diverse_snapshot
from shared.core.checker import check
from shared.core.model.plan import Plan, ReasonCode
from shared.core.model.snapshot import Snapshot
from shared.core.scheduler import solve
from shared.core.scheduling_terms.resources import Resources
from tests.core.oracle.instances import Features, instance
from tests.core.scheduler.world import NOW, POLICY, demand, plain, with_demand, workload


def after(asked: int) -> Callable[[], bool]:
    """A deadline that passes when it has been asked about so often."""
    left = asked

    def expired() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    return expired


def cut(snapshot: Snapshot, asked: int) -> Plan:
    """Return a plan within the deadline; it is complete, and nothing that it does is wrong."""
    policy = replace(POLICY, expired=after(asked))
    plan = solve(snapshot, now=NOW, policy=policy)
    told: Counter[str] = Counter()
    for launch in plan.launches:
        for item in launch.placements:
            told[item.workload_key] += item.count * launch.count
    for existing in plan.existing:
        told.update({item.workload_key: item.count for item in existing.placements})
    told.update({item.workload_key: item.count for item in plan.unplaced})
    assert told == {item.workload.key: item.pending_count for item in snapshot.demands}
    assert not [item for item in check(snapshot, plan, now=NOW, policy=policy) if item.forbids_commit]
    return plan


@pytest.mark.parametrize("seed", range(25))
def test_small_worlds_with_everything_are_cut_anywhere(seed: int) -> None:
    snapshot = instance(seed, Features(True, True, True, True, True, True, True))
    for asked in (0, 1, 2, 3, 5, 8, 13, 21, 34, 55):
        cut(snapshot, asked)


@pytest.mark.parametrize("seed", [2713, 2949])
def test_the_search_for_exchanges_is_cut_anywhere(seed: int) -> None:
    """Both leave something over until the last step, an exchange, which comes after some 200 questions."""
    snapshot = instance(seed, Features(limits=True))
    for asked in range(0, 240, 3):
        cut(snapshot, asked)


@pytest.mark.parametrize("asked", [0, 10, 100, 300, 1000])
@pytest.mark.parametrize("part", [1, 4])
def test_a_large_mix_under_a_limit_is_cut_anywhere(asked: int, part: int) -> None:
    whole = diverse_snapshot(300)
    cpu = sum(item.workload.requests["cpu"] * item.pending_count for item in whole.demands)
    pools = tuple(replace(pool, limits=Resources.of({"cpu": cpu * 2 // part})) for pool in whole.node_pools)

    cut(replace(whole, node_pools=pools), asked)


def test_who_was_not_looked_at_is_told_so() -> None:
    world = with_demand(plain(), demand(workload("job", cpu=1000), 3))

    assert {item.code for item in cut(world, 0).unplaced} == {ReasonCode.OUT_OF_TIME}
    assert not cut(world, 1000).unplaced


def test_a_true_reason_is_told_where_all_was_looked_at_in_time() -> None:
    world = with_demand(plain(), demand(workload("huge", cpu=10**6)))

    assert {item.code for item in cut(world, 1000).unplaced} == {ReasonCode.TOO_LARGE}
