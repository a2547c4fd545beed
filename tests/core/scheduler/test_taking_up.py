"""A pass takes up what it can look at: every team's light work, and of what is heavier another part each minute."""

from dataclasses import replace
from datetime import timedelta

import pytest

from reservoir.core.checker import check
from reservoir.core.model.plan import ReasonCode
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.team import Team
from reservoir.core.model.workload import Demand, PreferredNodeTerm, Workload
from reservoir.core.scheduler import solve, taking_up
from reservoir.core.scheduler.taking_up import taken_up
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirements import Requirements
from tests.core.scheduler.world import (
    NOW,
    POLICY,
    demand,
    one_of,
    plain,
    with_demand,
    workload,
)

# One type in one pool: a workload of one term and so many preferences costs 2 for each, and 2.
_TEAMS = tuple(Team(name, namespaces=(name,)) for name in ("loud", "quiet"))


def choosy(namespace: str, name: str, preferences: int, priority: int = 0) -> Demand:
    """Return a workload with preferences of its own, none of which says where it may not be."""
    wanted = [
        PreferredNodeTerm(
            weight + 1, Requirements.of(one_of(labels.ZONE, f"{name}-{weight}"))
        )
        for weight in range(preferences)
    ]
    asked: Workload = replace(
        workload(name, cpu=500, priority=priority),
        namespace=namespace,
        preferred_node_terms=tuple(wanted),
    )
    return Demand(asked, 1, NOW)


def world(*demands: Demand) -> Snapshot:
    return replace(with_demand(plain(), *demands), teams=_TEAMS)


def taken_keys(snapshot: Snapshot, effort_max: int, minute: int = 0) -> set[str]:
    taken = taken_up(snapshot, NOW + timedelta(minutes=minute), effort_max)
    keys = {each.workload.key for each in taken.snapshot.demands}
    left = {each.workload.key for each in taken.left}
    assert not keys & left
    assert keys | left == {each.workload.key for each in snapshot.demands}
    return keys


def test_what_a_pass_can_look_at_is_taken_as_it_is() -> None:
    snapshot = world(choosy("loud", "a", 5), demand(workload("plain"), 3))
    assert taken_up(snapshot, NOW).snapshot is snapshot


def test_what_asks_nothing_of_nodes_costs_nothing() -> None:
    snapshot = world(*(demand(workload(f"w-{number}")) for number in range(50)))
    assert len(taken_keys(snapshot, 1)) == 50


@pytest.mark.parametrize(("teams", "in_all"), [((), 3), (_TEAMS[:1], 3), (_TEAMS, 1)])
def test_where_others_wait_for_its_end_a_pass_looks_at_less(
    teams: tuple[Team, ...], in_all: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking_up, "EFFORT_MAX", 10_000)
    monkeypatch.setattr(taking_up, "EFFORT_BESIDE_TEAMS_MAX", 100)
    demands = [choosy("loud", f"a-{number}", 40) for number in range(3)]
    snapshot = replace(world(*demands), teams=teams)
    assert len(taken_up(snapshot, NOW).snapshot.demands) == in_all


@pytest.mark.parametrize(("zone_count", "are_all_taken"), [(1, True), (2_000, False)])
def test_values_cost_as_requirements_do(zone_count: int, are_all_taken: bool) -> None:
    zones = one_of(labels.ZONE, *(f"zone-{number}" for number in range(zone_count)))
    found = [choosy("loud", f"a-{number}", 1) for number in range(4)]
    selecting = [
        replace(each, workload=replace(each.workload, node_selector=Requirements.of(zones)))
        for each in found
    ]
    assert (len(taken_keys(world(*selecting), 1_000)) == 4) is are_all_taken


def test_a_loud_team_takes_its_own_part_and_no_others() -> None:
    loud = [choosy("loud", f"a-{number}", 20) for number in range(50)]
    taken = taken_keys(world(*loud, choosy("quiet", "job", 2)), 2_000)
    assert "quiet/job" in taken
    assert len(taken) < 51


def test_urgent_work_beyond_its_part_lets_lighter_work_of_its_team_pass() -> None:
    urgent = choosy("loud", "urgent", 1_000, priority=10)
    others = [choosy("loud", f"more-{number}", 1_000) for number in range(4)]
    assert "loud/light" in taken_keys(
        world(urgent, *others, choosy("loud", "light", 2)), 100
    )


def test_those_that_accept_the_same_cost_it_once() -> None:
    alike = []
    for number in range(100):
        first = choosy("loud", "same", 20)
        same = replace(first.workload, name=f"same-{number}")
        alike.append(replace(first, workload=same))
    types = len(plain().instance_types)
    assert len(taken_keys(world(*alike), 2 * 45 * types)) == 100


@pytest.mark.parametrize("effort_max", [1, 100, 1_000])
def test_everybody_has_a_turn_within_as_many_minutes_as_there_are(effort_max: int) -> None:
    """Also one that is more than any pass can look at."""
    heavy = [choosy("loud", f"a-{number}", 40 + number) for number in range(12)]
    snapshot = world(*heavy, choosy("quiet", "huge", 400))
    turns = [taken_keys(snapshot, effort_max, minute) for minute in range(13)]
    assert set[str]().union(*turns) == {each.workload.key for each in snapshot.demands}


def test_who_is_left_is_told_so_and_the_plan_keeps_the_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(taking_up, "EFFORT_BESIDE_TEAMS_MAX", 200)
    loud = [choosy("loud", f"a-{number}", 40) for number in range(20)]
    snapshot = world(*loud, choosy("quiet", "job", 1))
    policy = replace(POLICY, with_certificate=True)
    plan = solve(snapshot, now=NOW, policy=policy)
    assert {each.code for each in plan.unplaced} == {ReasonCode.OUT_OF_TIME}
    assert "quiet/job" not in {each.workload_key for each in plan.unplaced}
    assert 0 < len(plan.unplaced) < 20
    assert plan.lower_bound_atto_usd_per_hour is None
    assert "no certificate: out of time" in plan.notes
    assert not [
        each
        for each in check(snapshot, plan, now=NOW, policy=policy)
        if each.forbids_commit
    ]
