"""What bounds a pass: effort, room that is promised, replicas that wait, the Balanced policy, and nodes to buy."""

from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from reservoir.core.disruption.decide import DisruptionInput, decide_disruption
from reservoir.core.disruption.effort import EFFORT_A_PASS, effort_a_pass
from reservoir.core.model.node_claim import ClaimState
from reservoir.core.model.node_pool import ConsolidationPolicy, Disruption, DisruptionReason
from reservoir.core.model.plan import Plan
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import Demand, LabelSelector, TopologySpreadConstraint
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from tests.core.disruption.world import (
    LARGE,
    NOW,
    ON_DEMAND,
    RESERVED,
    SMALL,
    Fleet,
    instance_type,
    node_pool,
    refusal,
    reservation,
    workload,
)

ONLY_SMALL = Requirements.of(Requirement.new(labels.INSTANCE_TYPE, Operator.IN, ("small",)))
WORK = {
    w.key: w
    for w in (
        workload("tiny", 1),
        workload("pair", 2),
        workload("five", 5),
        workload("six", 6),
        workload("seven", 7),
        workload("pinned", 2, node_selector=ONLY_SMALL),
    )
}
fleet = partial(Fleet, pools=(node_pool("default", RESERVED, ON_DEMAND),), workloads=WORK)


# -- demand that waits


@pytest.mark.parametrize("policy", ConsolidationPolicy)
def test_where_demand_will_go_is_asked_only_if_a_node_could_go(policy: ConsolidationPolicy) -> None:
    it = fleet(pools=(node_pool("default", ON_DEMAND, disruption=Disruption(consolidation_policy=policy)),))
    it.add_node("busy", "large", ON_DEMAND, {"default/five": 1})
    asked: list[int] = []
    given = DisruptionInput(replace(it.snapshot(), demands=(Demand(WORK["default/tiny"], 1, NOW),)), it.claims, {})

    def ask(snapshot: Snapshot) -> Plan:
        asked.append(len(snapshot.demands))
        return Plan()

    decide_disruption(given, ask, now=NOW)

    assert bool(asked) == (policy is not ConsolidationPolicy.WHEN_EMPTY)


# -- effort


def test_what_a_pass_has_no_effort_for_waits() -> None:
    middle = instance_type("middle", 6, on_demand=290_000)
    units = (reservation("cr-middle", "middle", 2, 2), reservation("cr-large", "large", 1, 0))
    it = fleet(effort=1, types=(SMALL, middle, LARGE), reservations=units)  # one simulation
    it.add_node("paid", "large", ON_DEMAND, {"default/five": 1})
    it.add_node("roomy", "large", RESERVED, {"default/five": 1}, reservation_id="cr-large")

    first = it.decide()

    assert [command.claim_ids for command in first.commands] == [("paid",)]
    assert "later pass" in refusal(it.decide(), "roomy")
    it.apply(first)
    it.effort = EFFORT_A_PASS
    assert [command.claim_ids for command in it.decide().commands] == [("roomy",)]


def test_a_pass_over_a_large_fleet_can_look_at_each_node_six_times() -> None:
    assert effort_a_pass(500) == effort_a_pass(5_000) == EFFORT_A_PASS
    assert effort_a_pass(50_000) == 6 * 50_000


def test_the_fleet_says_how_much_a_pass_may_simulate_unless_somebody_else_does() -> None:
    spread = TopologySpreadConstraint(labels.ZONE, 1, LabelSelector((("app", "tied"),)))
    tied = replace(WORK["default/tiny"], name="tied", topology_spread=(spread,))
    it = fleet(workloads={**WORK, tied.key: tied})
    for number in range(8_000):
        it.add_node(f"n{number}", "large", ON_DEMAND, {"default/tiny": 1})
    # Each replica with a rule about others looks at each node: dearer than a small fleet's pass, not than this one's.
    waiting = replace(it.snapshot(), demands=(Demand(tied, 116, NOW),))
    given = DisruptionInput(waiting, it.claims, {("default", reason): 1 for reason in DisruptionReason})

    def nothing_placed(_snapshot: Snapshot) -> Plan:
        return Plan()

    assert decide_disruption(given, nothing_placed, now=NOW).commands
    assert not decide_disruption(given, nothing_placed, now=NOW, effort=EFFORT_A_PASS).commands


@pytest.mark.parametrize(("effort", "moves"), [(1_000, False), (2_000, True)])
def test_what_a_look_at_waiting_demand_leaves_of_the_effort_is_for_moves(effort: int, *, moves: bool) -> None:
    it = fleet(effort=effort)
    for number in range(40):
        it.add_node(f"n{number:02}", "large", ON_DEMAND, {"default/tiny": 1})

    waiting = (Demand(WORK["default/tiny"], 1, NOW),)  # where it will go is looked at first: it may need a launch

    assert bool(it.decide(waiting).commands) is moves
    assert it.decide().commands, "without it either suffices"


def test_drift_leaves_half_of_the_effort_to_consolidation() -> None:
    it = fleet(pools=(node_pool("default", ON_DEMAND, static_hash="new"),), effort=5_000)
    for number in range(8):
        it.add_node(f"old{number}", "large", ON_DEMAND, {"default/seven": 1}, node_pool_hash="old")
    it.add_node("oversized", "large", ON_DEMAND, {"default/pair": 1}, node_pool_hash="new")

    reasons = [command.reason for command in it.decide().commands]

    assert 1 <= reasons.count(DisruptionReason.DRIFTED) < 8
    assert DisruptionReason.UNDERUTILIZED in reasons
    assert any("later pass" in refusal.reason for refusal in it.decide().refusals)


# -- limits


@pytest.mark.parametrize(("limit", "moved"), [(12, 1), (16, 2)])
def test_what_one_command_launches_counts_for_the_limits_of_the_next(limit: int, moved: int) -> None:
    limits = Resources.of({"cpu": limit * 1000, "nodes": 2})
    pool = node_pool("default", RESERVED, static_hash="new", limits=limits)
    it = fleet(pools=(pool,), reservations=(reservation("cr-large", "large", 2, 2),))
    for number in range(2):
        it.add_node(f"small{number}", "small", ON_DEMAND, {"default/pair": 1}, node_pool_hash="old")

    launched = [planned for command in it.decide().commands for planned in command.replacements]

    assert sum(planned.count for planned in launched) == moved


# -- promised room


@pytest.mark.parametrize(
    "changes",
    [{"nominated_until": NOW + timedelta(minutes=1)}, {"state": ClaimState.LAUNCHED}],
    ids=["promised", "new"],
)
def test_room_that_is_promised_or_not_there_yet_takes_nobody(changes: dict[str, object]) -> None:
    it = fleet(types=(LARGE,))
    it.add_node("busy", "large", ON_DEMAND, {"default/pair": 1})
    taken = it.add_node("taken", "large", ON_DEMAND, {"default/pair": 1})
    it.claims["taken"] = replace(taken, **changes)  # type: ignore[arg-type]  # keyword by keyword, as above

    assert it.decide().commands == ()


def test_a_drifted_node_that_receives_the_replicas_of_another_stays_for_now() -> None:
    it = fleet(pools=(node_pool("default", ON_DEMAND, static_hash="new"),))
    it.add_node("a", "large", ON_DEMAND, {"default/pair": 1})
    it.add_node("b", "large", ON_DEMAND, {"default/five": 1})

    (command,) = it.decide().commands

    assert (command.claim_ids, command.destinations) == (("a",), ("b",))
    assert refusal(it.decide(), "b") == "NodePool default changed; replicas of other nodes move here"


def test_a_node_that_receives_the_replicas_of_a_drifted_one_is_not_made_smaller() -> None:
    middle = instance_type("middle", 6, on_demand=290_000)
    it = fleet(types=(SMALL, middle, LARGE), pools=(node_pool("default", ON_DEMAND),))
    it.add_node("drifted", "large", ON_DEMAND, {"default/pair": 1}, node_pool_hash="old")
    it.add_node("stays", "large", ON_DEMAND, {"default/five": 1})  # which a middle node would hold, but for the pair

    (command,) = it.decide().commands

    assert (command.claim_ids, command.destinations) == (("drifted",), ("stays",))
    assert refusal(it.decide(), "stays") == "replicas of other nodes move here"


def test_replicas_that_wait_have_the_first_right_to_what_is_free() -> None:
    it = fleet(types=(LARGE,))
    it.add_node("a", "large", ON_DEMAND, {"default/pair": 1})
    it.add_node("b", "large", ON_DEMAND, {"default/pair": 1})
    assert len(it.decide().commands) == 1

    waiting = workload("waits", 6)  # and runs nowhere yet

    assert it.decide((Demand(waiting, 2, NOW),)).commands == ()


def test_an_empty_node_that_replicas_wait_for_stays() -> None:
    it = fleet(types=(LARGE,))
    it.add_node("empty", "large", ON_DEMAND, {})

    decision = it.decide((Demand(WORK["default/tiny"], 1, NOW),))

    assert decision.commands == ()
    assert decision.refusals[0].reason == "replicas that wait will be placed on it"


# -- prices


def test_one_node_is_not_split_into_many_although_they_cost_less() -> None:
    cheap_small = instance_type("small", 2, on_demand=90_000)
    it = fleet(types=(cheap_small, LARGE))
    it.add_node("n", "large", ON_DEMAND, {"default/pair": 4})

    assert it.decide().commands == ()


def test_one_node_may_be_split_into_many_prepaid_units() -> None:
    it = fleet(reservations=(reservation("cr-1", "small", 4, 4),))
    it.add_node("n", "large", ON_DEMAND, {"default/pair": 4})

    (command,) = it.decide().commands

    assert sum(planned.count for planned in command.replacements) == 4


def test_a_node_that_would_be_launched_again_does_not_keep_a_group_from_going() -> None:
    middle = instance_type("middle", 6, on_demand=290_000)
    it = fleet(types=(SMALL, middle, LARGE))
    it.add_node("right-sized", "small", ON_DEMAND, {"default/pinned": 1})
    for number in range(2):
        it.add_node(f"oversized{number}", "large", ON_DEMAND, {"default/five": 1})

    (command,) = it.decide().commands

    assert command.claim_ids == ("oversized0", "oversized1")
    assert [(planned.offering.instance_type, planned.count) for planned in command.replacements] == [("middle", 2)]
    because = refusal(it.decide(), "right-sized")
    assert "a node like it" in because or "nothing cheaper" in because


def test_groups_of_reserved_nodes_are_not_moved_to_paid_ones_with_a_paid_nodes_saving() -> None:
    it = fleet(reservations=(reservation("cr-1", "large", 1, 0),))
    it.add_node("paid", "large", ON_DEMAND, {"default/pair": 1})
    it.add_node("reserved", "large", RESERVED, {"default/six": 1, "default/pair": 1}, reservation_id="cr-1")

    it.apply(it.decide())

    assert "reserved" in it.claims


# -- Balanced


@pytest.mark.parametrize(("policy", "goes"), [(ConsolidationPolicy.BALANCED, False), (None, True)])
def test_balanced_moves_no_work_for_a_small_saving(policy: ConsolidationPolicy | None, goes: bool) -> None:
    # 7 of the pool's 20 units of disruption for a sixteenth of its price
    disruption = Disruption() if policy is None else Disruption(consolidation_policy=policy)
    it = fleet(pools=(node_pool("default", ON_DEMAND, disruption=disruption),), types=(SMALL, LARGE))
    it.add_node("crowded", "small", ON_DEMAND, {"default/tiny": 2})
    for number in range(3):
        it.add_node(f"large{number}", "large", ON_DEMAND, {"default/six": 1})

    assert ("crowded" in {key for command in it.decide().commands for key in command.claim_ids}) is goes
    if not goes:
        assert "Balanced" in refusal(it.decide(), "crowded")


def test_balanced_lets_a_large_saving_pass() -> None:
    pool = node_pool("default", ON_DEMAND, disruption=Disruption(consolidation_policy=ConsolidationPolicy.BALANCED))
    it = fleet(pools=(pool,))
    it.add_node("oversized", "large", ON_DEMAND, {"default/pair": 1})

    assert len(it.decide().commands) == 1
