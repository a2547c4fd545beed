"""Run a stored decision again."""

import json
from dataclasses import replace
from datetime import datetime

import pytest

from lab.fakes.values import reservation
from lab.worlds.planning_world import PlanningWorld, solve
from reservoir.core.disruption.decision_ids import LATEST_DECISION
from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.what_if.added_capacity import parse_added_capacity
from reservoir.core.what_if.edits import WorldEdits
from reservoir.runtime.composition.parts.planning import solve_in_full
from reservoir.usecases.what_if.describe import replay_described
from reservoir.usecases.what_if.explain_alternatives import ExplainAlternatives
from reservoir.usecases.what_if.replay import Replay, Replayed, ReplayError

CERTIFIED = SchedulingPolicy(with_certificate=True)


def nothing(now: datetime) -> WorldEdits:
    del now
    return WorldEdits()


def decided(policy: SchedulingPolicy = CERTIFIED) -> tuple[PlanningWorld, str]:
    """One replica in a reservation, three bought."""
    units = reservation("cr-1", 1, tags={"team": "research"})
    world = PlanningWorld().ready(units)
    world.submit("train", replicas=4)
    report = world.provisioner(policy=policy).run()
    (plan_id,) = report.plan_ids
    return world, plan_id


def replayed(world: PlanningWorld, plan_id: str) -> Replayed:
    found = Replay(world.state.decisions, solve_in_full, SchedulingPolicy()).run(
        plan_id, nothing
    )
    assert found is not None
    return found


def test_the_same_to_the_byte() -> None:
    world, plan_id = decided()
    world.clock.advance(days=3)
    found = replayed(world, plan_id)
    assert (found.replayed, found.why, found.notes) == (None, None, ())
    assert found.stored.added_micro_usd_per_hour == 3 * 55_040_000
    assert replay_described(found).same is True


def test_the_settings_of_its_planner_count_and_not_those_of_today() -> None:
    world, plan_id = decided(
        SchedulingPolicy(with_certificate=True, node_overhead_micro_usd_per_hour=9_999)
    )
    assert replayed(world, plan_id).replayed is None


def test_a_decision_that_does_not_say_how_it_was_made() -> None:
    world, plan_id = decided(SchedulingPolicy())
    decision, snapshot = world.state.decisions.rows[plan_id]
    world.state.decisions.rows[plan_id] = (replace(decision, policy_json=None), snapshot)
    found = replayed(world, plan_id)
    assert found.replayed is None
    assert found.notes == (
        "the decision does not say how its planner was set: the deployment's present settings are used",
    )


def test_another_release_decided() -> None:
    world, plan_id = decided()

    def other(snapshot: Snapshot, now: datetime, policy: SchedulingPolicy) -> Plan:
        plan = solve(snapshot, now, policy)
        return replace(plan, launches=plan.launches[:1])

    found = Replay(world.state.decisions, other, CERTIFIED).run(plan_id, nothing)
    assert found is not None
    assert found.replayed is not None
    assert (
        found.why
        == "the same arguments give the same plan: another release decided, or its processor rounds differently"
    )
    answer = replay_described(found)
    assert answer.same is False
    assert answer.replayed is not None
    assert len(answer.replayed.workloads[0].places) < len(answer.stored.workloads[0].places)


def test_a_planner_that_ran_out_of_time() -> None:
    world, plan_id = decided(replace(CERTIFIED, expired=lambda: True))
    found = replayed(world, plan_id)
    assert (
        found.why
        == "the planner noted, and this replay does not: no certificate: out of time"
    )


def test_what_would_have_differed_with_more_capacity() -> None:
    world, plan_id = decided()
    text = "2 p5.48xlarge in us-east-1a"
    found = Replay(world.state.decisions, solve_in_full, CERTIFIED).run(
        plan_id, lambda now: WorldEdits(added=(parse_added_capacity(text, now),))
    )
    assert found is not None
    assert found.replayed is not None
    assert found.replayed.added_micro_usd_per_hour == 55_040_000
    assert replay_described(found).same is None


def test_what_is_not_known_is_told() -> None:
    world, _ = decided()
    assert (
        Replay(world.state.decisions, solve_in_full, CERTIFIED).run("plan-nobody", nothing)
        is None
    )


@pytest.mark.parametrize("text", ["{}", json.dumps({"launches": [{"newer": 1}]})])
def test_what_is_no_plan_is_refused(text: str) -> None:
    world, plan_id = decided()
    decision, snapshot = world.state.decisions.rows[plan_id]
    rows = world.state.decisions.rows
    rows[LATEST_DECISION] = (replace(decision, plan_id=LATEST_DECISION), snapshot)
    rows[plan_id] = (decision, text)
    with pytest.raises(ReplayError, match="is a pass of disruption, not a plan"):
        replayed(world, LATEST_DECISION)
    with pytest.raises(ReplayError, match=f"this release cannot read {plan_id}"):
        replayed(world, plan_id)


@pytest.mark.parametrize("text", ["half a r", '{"min_values_policy":"OfANewerRelease"}'])
def test_settings_of_a_planner_that_this_release_cannot_read_are_refused(text: str) -> None:
    world, plan_id = decided()
    decision, snapshot = world.state.decisions.rows[plan_id]
    world.state.decisions.rows[plan_id] = (replace(decision, policy_json=text), snapshot)
    reason = f"this release cannot read how the planner was set for {plan_id}: not a policy"
    with pytest.raises(ReplayError, match=reason):
        replayed(world, plan_id)
    with pytest.raises(ReplayError, match=reason):
        ExplainAlternatives(
            world.state.node_claims, world.state.decisions, CERTIFIED
        ).explain("research/train")
