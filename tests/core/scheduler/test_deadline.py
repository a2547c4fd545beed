"""A deadline cuts everything short, and what is planned by then keeps every rule (rule 6, "any-time")."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count as numbers

import pytest

from lab.bench.worlds.ladder import diverse_snapshot
from lab.oracle.instances import Features, instance
from reservoir.core.checker import check
from reservoir.core.model.plan import Plan, ReasonCode, UnplacedReplicas
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import Gang
from reservoir.core.scheduler import solve, teams
from reservoir.core.scheduler.placement import place
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.resources import Resources
from tests.core.scheduler.world import (
    NOW,
    POLICY,
    demand,
    fx_type,
    plain,
    spread,
    with_demand,
    workload,
)


def after(asked: int) -> Callable[[], bool]:
    """A deadline that passes when it has been asked about so often."""
    left = asked

    def expired() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    return expired


def cut(snapshot: Snapshot, asked: int, now: datetime = NOW) -> Plan:
    """Return a plan within the deadline; it is complete, and nothing that it does is wrong."""
    policy = replace(POLICY, expired=after(asked))
    plan = solve(snapshot, now=now, policy=policy)
    told: Counter[str] = Counter()
    for launch in plan.launches:
        for item in launch.placements:
            told[item.workload_key] += item.count * launch.count
    for existing in plan.existing:
        told.update({item.workload_key: item.count for item in existing.placements})
    told.update({item.workload_key: item.count for item in plan.unplaced})
    assert told == {item.workload.key: item.pending_count for item in snapshot.demands}
    assert not [
        item
        for item in check(snapshot, plan, now=now, policy=policy)
        if item.forbids_commit
    ]
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
    pools = tuple(
        replace(pool, limits=Resources.of({"cpu": cpu * 2 // part}))
        for pool in whole.node_pools
    )

    cut(replace(whole, node_pools=pools), asked)


def test_who_was_not_looked_at_is_told_so() -> None:
    world = with_demand(plain(), demand(workload("job", cpu=1000), 3))

    clock = numbers(200, 50)  # each look takes half of the budget
    late = replace(POLICY, expired=lambda: True, used_percent=lambda: next(clock))
    assert {item.code for item in solve(world, now=NOW, policy=late).unplaced} == {
        ReasonCode.OUT_OF_TIME
    }
    assert not cut(world, 1000).unplaced


def test_a_true_reason_is_told_where_all_was_looked_at_in_time() -> None:
    world = with_demand(plain(), demand(workload("huge", cpu=10**6)))

    assert {item.code for item in cut(world, 1000).unplaced} == {ReasonCode.TOO_LARGE}


def looks(snapshot: Snapshot) -> int:
    """Count how often a solve without a deadline looks at the clock."""
    count = 0

    def expired() -> bool:
        nonlocal count
        count += 1
        return False

    solve(snapshot, now=NOW, policy=replace(POLICY, expired=expired))
    return count


def placed(plan: Plan) -> Counter[str]:
    found: Counter[str] = Counter()
    for launch in plan.launches:
        for item in launch.placements:
            found[item.workload_key] += item.count * launch.count
    for existing in plan.existing:
        found.update({item.workload_key: item.count for item in existing.placements})
    return found


def test_a_gang_is_whole_or_waits_at_whichever_look_its_time_is_over() -> None:
    """Five times 7 vCPU on nodes of 16: a part of it was planned when time ran out between trial and decision."""
    world = with_demand(
        plain(fx_type("m5.4xlarge", 16, 64)),
        demand(workload("gang", cpu=7000, gang=Gang()), 5),
    )
    for asked in range(looks(world) + 1):
        assert placed(cut(world, asked)) in ({}, {"ns/gang": 5})


@pytest.mark.parametrize("topology_key", [None, labels.ZONE])
@pytest.mark.parametrize("seed", range(20))
def test_small_worlds_with_gangs_are_cut_at_every_look(
    seed: int, topology_key: str | None
) -> None:
    drawn = instance(seed, Features(topology=True, gangs=True, priorities=True, nodes=True))
    demands = tuple(
        replace(
            item,
            workload=replace(item.workload, gang=item.workload.gang and Gang(topology_key)),
        )
        for item in drawn.demands
    )
    snapshot = replace(drawn, demands=demands)
    for asked in range(min(looks(snapshot), 120) + 1):
        cut(snapshot, asked)


@pytest.mark.parametrize("spot_share_percent", [34, 50])
def test_gangs_are_whole_where_shares_of_spot_are_cut_at_every_look(
    spot_share_percent: int,
) -> None:
    gangs = [
        demand(workload(f"gang-{number}", cpu=2500, gang=Gang()), 4) for number in range(3)
    ]
    world = with_demand(plain(), *gangs)
    policy = replace(
        POLICY, spot_pool_share_percent=spot_share_percent, spot_share_from_nodes=2
    )
    for asked in range(200):
        in_time = replace(policy, expired=after(asked))
        plan = solve(world, now=NOW, policy=in_time)
        assert not [
            item
            for item in check(world, plan, now=NOW, policy=in_time)
            if item.forbids_commit
        ]


def left_after(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """Return what waits once the plan is committed, in a world that has as much as before."""
    done = placed(plan)
    left = [
        (item, item.pending_count - done[item.workload.key]) for item in snapshot.demands
    ]
    return replace(
        snapshot,
        demands=tuple(replace(item, pending_count=count) for item, count in left if count),
    )


@pytest.mark.parametrize("asked", range(12))
def test_whatever_the_deadline_work_gets_its_place_from_pass_to_pass(asked: int) -> None:
    """A pass each minute: also where none has time for more than a look, and the most urgent has no place at all."""
    world = with_demand(
        plain(),
        demand(workload("huge", cpu=10**6, priority=100)),
        demand(workload("gang", cpu=1000, gang=Gang(labels.ZONE), priority=10), 4),
        demand(
            workload(
                "spread", cpu=1000, topology_spread=(spread(labels.ZONE, app="spread"),)
            ),
            3,
        ),
        demand(workload("plain", cpu=1000), 5),
    )
    for minute in range(12):
        policy = replace(POLICY, expired=after(asked))
        plan = solve(world, now=NOW + timedelta(minutes=minute), policy=policy)
        assert not [
            item
            for item in check(world, plan, now=NOW, policy=policy)
            if item.forbids_commit
        ]
        world = left_after(world, plan)
    assert [item.workload.key for item in world.demands] == ["ns/huge"]


def test_a_pass_without_time_places_one_workload_and_says_of_the_others_that_they_were_not_looked_at() -> (
    None
):
    world = with_demand(plain(), *(demand(workload(name, cpu=1000)) for name in "abc"))
    plans = [cut(world, 0, now=NOW + timedelta(minutes=minute)) for minute in range(3)]
    assert sorted(key for plan in plans for key in placed(plan)) == ["ns/a", "ns/b", "ns/c"]
    assert {item.code for plan in plans for item in plan.unplaced} == {
        ReasonCode.OUT_OF_TIME
    }


@pytest.mark.parametrize("minute", range(20))
def test_whoever_is_served_alone_keeps_the_rules_of_those_who_wait(minute: int) -> None:
    """Their spreads and affinity count its replicas, wherever EC2 may put them."""
    assert placed(
        cut(
            diverse_snapshot(60, one_workload_a_pod=True),
            0,
            now=NOW + timedelta(minutes=minute),
        )
    )


def within(looks: int, *, used: int = 0) -> SchedulingPolicy:
    """Return a policy with a budget of so many looks at the clock, of which some were used up before the first."""
    passed = numbers(used)

    def used_percent() -> int:
        return next(passed) * 100 // looks

    return replace(POLICY, expired=lambda: used_percent() >= 100, used_percent=used_percent)


def test_all_together_leave_a_fifth_of_the_time_for_one() -> None:
    """Whoever is served alone is served within the budget, not after it."""
    world = with_demand(plain(), *(demand(workload(name, cpu=1000)) for name in "abc"))
    assert placed(solve(world, now=NOW, policy=within(1000))) == {
        "ns/a": 1,
        "ns/b": 1,
        "ns/c": 1,
    }
    assert placed(solve(world, now=NOW, policy=within(1000, used=800))).total() == 1


def test_one_has_a_tenth_of_the_time_where_none_was_left_to_begin_with() -> None:
    world = with_demand(plain(), demand(workload("job", cpu=1000)))
    late = within(1000, used=5000)
    assert placed(solve(world, now=NOW, policy=late)) == {"ns/job": 1}
    used_percent = late.used_percent
    assert used_percent is not None
    assert used_percent() < 510


def late(snapshot: Snapshot) -> Snapshot:
    """Return the world after a pass that had time for none of those who wait."""
    return replace(
        snapshot, demands=tuple(replace(each, was_late=True) for each in snapshot.demands)
    )


def demanding() -> Snapshot:
    """Return a gang that needs some hundred looks at the clock, beside five jobs that need a few each."""
    jobs = [demand(workload(f"job-{number}", cpu=1000)) for number in range(5)]
    return with_demand(plain(), demand(workload("gang", cpu=2500, gang=Gang()), 60), *jobs)


@pytest.mark.parametrize(("used", "is_ever_placed"), [(90, True), (110, False)])
def test_what_needs_nearly_all_of_a_pass_has_a_whole_one_in_its_turn(
    monkeypatch: pytest.MonkeyPatch, used: int, is_ever_placed: bool
) -> None:
    """More than the four fifths that all together have, and more than what is left of the pass for one."""
    passed = 0

    def slow_place(snapshot: Snapshot, now: datetime, policy: SchedulingPolicy) -> Plan:
        nonlocal passed
        passed += used
        plan = place(snapshot, now, policy.without_deadline())
        if not policy.expired():
            return plan
        late = [
            UnplacedReplicas(
                each.workload.key, each.pending_count, ReasonCode.OUT_OF_TIME, ""
            )
            for each in snapshot.demands
        ]
        return Plan(unplaced=tuple(late))

    monkeypatch.setattr(teams, "place", slow_place)
    policy = replace(POLICY, expired=lambda: passed >= 100, used_percent=lambda: passed)
    waiting = demand(workload("gang", cpu=1000, gang=Gang()), 4)
    counts: list[int] = []
    for minute in range(1, 4):
        passed = 0
        world = with_demand(plain(), waiting)
        plan = solve(world, now=NOW + timedelta(minutes=minute), policy=policy)
        counts.append(placed(plan).total())
        waiting = replace(waiting, was_late=True)
    assert counts == [0, 4 if is_ever_placed else 0, 0]


def test_a_whole_pass_for_one_leaves_the_others_waiting_for_time() -> None:
    world = late(demanding())
    gang = replace(world, demands=world.demands[:1])
    budget = looks(gang) * 2
    alone = next(
        plan
        for minute in range(0, 12, 2)
        if set(
            placed(
                plan := solve(
                    world, now=NOW + timedelta(minutes=minute), policy=within(budget)
                )
            )
        )
        == {"ns/gang"}
    )
    assert {item.code for item in alone.unplaced} == {ReasonCode.OUT_OF_TIME}
    assert {item.workload_key for item in alone.unplaced} == {
        each.workload.key for each in world.demands[1:]
    }
    assert not [
        item for item in check(world, alone, now=NOW, policy=POLICY) if item.forbids_commit
    ]


def test_newcomers_are_looked_at_before_one_has_a_pass_for_itself() -> None:
    world = late(demanding())
    gang, *jobs = world.demands
    newcomer = replace(jobs[0], was_late=None)
    with_newcomer = with_demand(world, gang, newcomer, *jobs[1:])
    budget = looks(with_demand(world, gang)) * 2
    for minute in range(0, 12, 2):
        now = NOW + timedelta(minutes=minute)
        assert set(placed(solve(with_newcomer, now=now, policy=within(budget)))) != {
            "ns/gang"
        }


def test_who_needs_little_alone_is_planned_for_with_all_others() -> None:
    world = late(
        with_demand(plain(), *(demand(workload(name, cpu=1000)) for name in "abc"))
    )
    assert set(placed(solve(world, now=NOW, policy=within(1000)))) == {
        "ns/a",
        "ns/b",
        "ns/c",
    }
