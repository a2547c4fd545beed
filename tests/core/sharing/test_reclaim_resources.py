"""Loans of resources come back: the least loss first, never more than is owed, never back and forth."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_pool import DisruptionReason
from reservoir.core.model.plan import Plan
from reservoir.core.model.snapshot import PlacedReplicas, Snapshot
from reservoir.core.model.team import ReclaimWithinCohort, ResourceQuota, Team
from reservoir.core.model.workload import Demand, Gang, Workload
from reservoir.core.scheduling_terms.resources import Resources
from tests.core.scheduler.world import NOW, ON_DEMAND, SPOT, markets, node, pool
from tests.core.sharing.test_reclaim import decided, taken
from tests.core.sharing.test_resource_quotas import (
    EVERY_MARKET,
    NODE,
    TYPE,
    after,
    market,
    quota,
    team,
)
from tests.core.sharing.world import planned, wants

BOUGHT = (SPOT, ON_DEMAND)
THIRD = NODE // 3
ANY: Any = {"reclaim_within_cohort": ReclaimWithinCohort.ANY}
LOWER: Any = {"reclaim_within_cohort": ReclaimWithinCohort.LOWER_PRIORITY}


def pair(nodes: int = 2, **changes: Any) -> tuple[Team, Team]:
    own, rules = quota(nodes, *BOUGHT), {**ANY, **changes}
    return team("audio", own, **rules), team("vision", own, **rules)


def packed(*nodes: Mapping[str, int], **changes: Any) -> Snapshot:
    """Nodes on spot that carry so many replicas of namespaces, each a third of a node; two teams own six of them."""
    own = ResourceQuota(tuple(sorted(BOUGHT)), "cpu", 6 * THIRD)
    snapshot = market(
        [team(name, own, **ANY) for name in ("audio", "vision")], (), **changes
    )
    found, workloads = [], {}
    for number, carried in enumerate(nodes):
        for name in carried:
            workload = Workload(name, "runs", 1, 9, Resources.of({"cpu": THIRD}))
            workloads[workload.key] = workload
        on_it = tuple(
            PlacedReplicas(f"{name}/runs", count) for name, count in sorted(carried.items())
        )
        pods = sum(carried.values())
        used = Resources.of({"cpu": THIRD * pods, "pods": pods})
        made = node(f"n-{number}", TYPE, capacity_type=SPOT)
        found.append(replace(made, placements=on_it, used=used))
    return replace(snapshot, nodes=tuple(found), workloads=workloads)


def asks(snapshot: Snapshot, *demands: Demand) -> Snapshot:
    return replace(snapshot, demands=demands)


def thirds(name: str, replicas: int) -> Demand:
    return wants(name, replicas, requests=Resources.of({"cpu": THIRD}))


def test_as_much_comes_back_as_is_owned_and_wanted() -> None:
    assert len(taken(market(pair(), [wants("vision", 2)], {"audio": 4}))) == 2
    assert len(taken(market(pair(), [wants("vision", 9)], {"audio": 4}))) == 2
    assert len(taken(market(pair(), [wants("vision", 1)], {"audio": 4}))) == 1
    assert len(taken(market(pair(), [wants("vision", 9)], {"audio": 3, "vision": 1}))) == 1


def test_nothing_comes_back_without_need() -> None:
    assert taken(market(pair(), [wants("vision", 1)], {"audio": 3})) == [], "there is room"
    assert taken(market(pair(), [wants("vision", 1)], {"audio": 2, "vision": 2})) == [], (
        "it has what it owns"
    )
    assert taken(market(pair(), [wants("audio", 1)], {"audio": 3, "vision": 1})) == [], (
        "a borrower has no claim"
    )
    assert taken(market(pair(), (), {"audio": 4})) == []


def test_what_may_not_be_taken_back_is_not() -> None:
    never = pair(reclaim_within_cohort=ReclaimWithinCohort.NEVER)
    assert taken(market(never, [wants("vision", 2)], {"audio": 4})) == []
    lower = pair(**LOWER)
    assert taken(market(lower, [wants("vision", 2)], {"audio": 4})) == []
    assert len(taken(market(lower, [wants("vision", 2, priority=1)], {"audio": 4}))) == 2
    still = market(pair(), [wants("vision", 2)], {"audio": 4})
    for_ever = {
        key: replace(it, do_not_disrupt=key.startswith("audio"))
        for key, it in still.workloads.items()
    }
    assert taken(replace(still, workloads=for_ever)) == []


def test_nothing_is_taken_that_its_owner_cannot_use() -> None:
    """Its work runs on on-demand only, and no pool buys that."""
    snapshot = market(
        pair(), [wants("vision", 2)], {"audio": 4}, node_pools=(pool("default", markets()),)
    )
    assert taken(snapshot) == []


def test_the_least_work_is_lost() -> None:
    snapshot = market(pair(), [wants("vision", 1)], {"audio": 4})
    assert taken(
        snapshot, ages_min={f"audio-{number}": 60 - number for number in range(4)}
    ) == ["audio-3"]
    saved = {
        key: replace(it, checkpoint_period_s=600) for key, it in snapshot.workloads.items()
    }
    # a checkpoint at 20 minutes
    ages = {f"audio-{number}": 17 + number for number in range(4)}
    assert taken(replace(snapshot, workloads=saved), ages_min=ages) == ["audio-3"]


def test_whoever_borrows_most_gives_back_first() -> None:
    teams = [
        team(name, quota(nodes, *BOUGHT), **ANY)
        for name, nodes in (("audio", 1), ("speech", 1), ("vision", 3))
    ]
    snapshot = market(teams, [wants("vision", 1)], {"audio": 3, "speech": 2})
    assert taken(snapshot) == ["audio-0"]


def test_a_budget_bounds_how_many_go_at_once() -> None:
    assert len(taken(market(pair(), [wants("vision", 2)], {"audio": 4}), budget=1)) == 1


def test_what_is_going_already_is_not_taken_twice() -> None:
    snapshot = market(pair(), [wants("vision", 1)], {"audio": 4})
    first, *others = snapshot.nodes
    assert taken(replace(snapshot, nodes=(replace(first, deleting=True), *others))) == []


def owners(count: int) -> tuple[Team, ...]:
    own = [team(f"owner-{number:02}", quota(1, *BOUGHT), **ANY) for number in range(count)]
    return team("audio", quota(0, *BOUGHT), **ANY), *own


def test_what_is_going_already_is_one_owners_alone() -> None:
    snapshot = market(owners(2), [wants("owner-00", 1), wants("owner-01", 1)], {"audio": 2})
    first, *others = snapshot.nodes
    assert taken(replace(snapshot, nodes=(replace(first, deleting=True), *others))) == [
        "audio-1"
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 20])
def test_however_many_owners_reclaim_at_once_all_that_is_owed_is_taken(count: int) -> None:
    demands = [wants(f"owner-{number:02}", 1) for number in range(count)]
    assert len(taken(market(owners(count), demands, {"audio": count}))) == count


def gangs(snapshot: Snapshot, name: str) -> Snapshot:
    """Make what runs for a namespace one gang."""
    found = {
        key: replace(it, gang=Gang() if key.startswith(name) else None)
        for key, it in snapshot.workloads.items()
    }
    return replace(snapshot, workloads=found)


def test_a_gang_goes_whole_and_only_if_single_nodes_are_not_enough() -> None:
    teams = [
        team(name, quota(nodes, *BOUGHT), **ANY)
        for name, nodes in (("audio", 0), ("speech", 0), ("vision", 4))
    ]
    snapshot = gangs(market(teams, (), {"audio": 3, "speech": 1}), "audio")
    assert taken(asks(snapshot, wants("vision", 1))) == ["speech-0"]
    assert taken(asks(snapshot, wants("vision", 2))) == ["audio-0", "audio-1", "audio-2"]


def test_a_gang_that_is_its_teams_own_in_part_stays() -> None:
    assert taken(gangs(market(pair(), [wants("vision", 2)], {"audio": 4}), "audio")) == []


def test_nodes_that_carry_loans_alone_go_before_those_of_others() -> None:
    snapshot = packed(
        {"audio": 3}, {"audio": 3}, {"audio": 2, "of-no-team": 1}, {"audio": 3}
    )
    ages = {"n-0": 900, "n-1": 900, "n-2": 1, "n-3": 800}
    assert taken(asks(snapshot, thirds("vision", 3)), ages_min=ages) == ["n-3"]


def test_a_shared_node_goes_if_those_who_borrow_nothing_find_a_place() -> None:
    snapshot = packed(*[{"audio": 2, "of-no-team": 1}] * 6)
    (found,) = taken(asks(snapshot, thirds("vision", 2)))
    assert found.startswith("n-")


def test_a_node_that_its_owner_shares_goes_if_there_is_no_other() -> None:
    snapshot = packed(*[{"audio": 2, "vision": 1}] * 3, {"audio": 3})
    assert taken(asks(snapshot, thirds("vision", 3)), ages_min={"n-3": 900}) == ["n-3"]
    everywhere = packed(*[{"audio": 2, "vision": 1}] * 4)
    assert len(taken(asks(everywhere, thirds("vision", 2)))) == 1


def test_no_more_goes_than_gives_room() -> None:
    """One node has enough loans; the younger one, which loses less, has not, and stays once the other must go."""
    snapshot = packed({"audio": 1}, {"audio": 3}, {"audio": 3}, {"audio": 3}, {"audio": 2})
    ages = {"n-0": 1, "n-1": 50, "n-2": 900, "n-3": 900, "n-4": 900}
    assert taken(asks(snapshot, thirds("vision", 3)), ages_min=ages) == ["n-1"]


def test_it_says_what_was_lent() -> None:
    (command,) = decided(market(pair(), [wants("vision", 1)], {"audio": 4})).commands
    assert command.reason is DisruptionReason.RECLAIMED
    assert command.explanation == (
        "cpu on on-demand and spot was lent to audio, and Team vision, which owns it, has work that waits"
    )


def test_who_waits_hears_that_it_is_taken_back_and_when() -> None:
    (refusal,) = planned(market(pair(), [wants("vision", 2)], {"audio": 4})).unplaced
    assert refusal.message.endswith("borrowed by others: audio 14; it takes its own back")
    assert refusal.earliest_at == NOW + timedelta(minutes=2)


# owns, runs, wants; whole nodes
OWNERS = st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 4))


@given(st.lists(OWNERS, min_size=2, max_size=3))
def test_a_change_of_demand_moves_each_node_once(
    owners: list[tuple[int, int, int]],
) -> None:
    """After what is taken has gone and everybody was planned, nobody is owed anything."""
    names = [f"team-{number}" for number in range(len(owners))]
    teams = [
        team(name, quota(own, *BOUGHT), **ANY)
        for name, (own, _, _) in zip(names, owners, strict=True)
    ]
    room = sum(own for own, _, _ in owners)
    used = {}
    for name, (_, runs, _) in zip(names, owners, strict=True):
        used[name] = min(runs, room)
        room -= used[name]
    demands = [
        wants(name, count)
        for name, (_, _, count) in zip(names, owners, strict=True)
        if count
    ]
    snapshot = market(teams, demands, used)
    going = taken(snapshot)
    owed = {
        name: max(0, min(count, own - used[name]))
        for name, (own, _, count) in zip(names, owners, strict=True)
    }
    assert len(going) == max(0, sum(owed.values()) - room), (
        "as many as are owed, but for what is free"
    )
    lost = {name: sum(key.startswith(f"{name}-") for key in going) for name in names}
    assert all(
        used[name] - lost[name] >= min(used[name], own)
        for name, (own, _, _) in zip(names, owners, strict=True)
    )
    back = [wants(name, count, job="again") for name, count in lost.items() if count]
    left = replace(
        snapshot,
        nodes=tuple(each for each in snapshot.nodes if each.claim_id not in going),
        demands=(*snapshot.demands, *back),
    )
    plan = planned(left)
    then = replace(after(left, plan), demands=_waiting(left, plan))
    assert taken(then) == []


def _waiting(snapshot: Snapshot, plan: Plan) -> tuple[Demand, ...]:
    left = {item.workload_key: item.count for item in plan.unplaced}
    return tuple(
        replace(each, pending_count=left[each.workload.key])
        for each in snapshot.demands
        if each.workload.key in left
    )


@pytest.mark.parametrize(("on_spot", "moves"), [(1, True), (0, False)])
def test_consolidation_moves_nothing_beyond_a_quota(on_spot: int, moves: bool) -> None:
    """Spot costs half; audio owns as many spot nodes, and one runs there already."""
    snapshot = market(
        [team("audio", quota(1 + on_spot, SPOT))], (), {"audio": 2}, **EVERY_MARKET
    )
    first, second = snapshot.nodes
    price = {SPOT: 5 * 10**17, ON_DEMAND: 10**18}

    def on(each: Any, capacity_type: CapacityType) -> Any:
        named = {**each.labels, "karpenter.sh/capacity-type": capacity_type.value}
        cost = price[capacity_type]
        return replace(
            each, capacity_type=capacity_type, labels=named, price_atto_usd_per_hour=cost
        )

    other = wants("audio", 1, job="other").workload
    moving = replace(on(second, ON_DEMAND), placements=(PlacedReplicas(other.key, 1),))
    workloads = {**snapshot.workloads, other.key: other}
    commands = decided(
        replace(snapshot, nodes=(on(first, SPOT), moving), workloads=workloads)
    ).commands
    assert bool(commands) is moves


def test_room_that_was_borrowed_is_not_kept_by_saying_that_it_must_not_be_disturbed() -> (
    None
):
    still = market(pair(loan_grace_s=50 * 60), [wants("vision", 2)], {"audio": 4})
    for_ever = {
        key: replace(it, do_not_disrupt=key.startswith("audio"))
        for key, it in still.workloads.items()
    }
    assert len(taken(replace(still, workloads=for_ever))) == 2
    strict = market(pair(loan_grace_s=70 * 60), [wants("vision", 2)], {"audio": 4})
    assert taken(replace(strict, workloads=for_ever)) == []
