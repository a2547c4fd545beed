"""What bounds a pass: effort, room that is promised, replicas that wait, the Balanced policy, and nodes to buy."""

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from lab.fakes import values
from lab.fakes.values import one_of
from reservoir.core.disruption.command import LATER, DisruptionDecision
from reservoir.core.disruption.decide import DisruptionInput, decide_disruption
from reservoir.core.disruption.effort import EFFORT_A_PASS, Effort, effort_a_pass
from reservoir.core.disruption.simulation import PassState
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
    SPOT,
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
# More than what each kind of move may do with no effort at all: one node to empty, a pair, one single node.
FIRST_TRIES = 5
fleet = partial(Fleet, pools=(node_pool("default", RESERVED, ON_DEMAND),), workloads=WORK)


# -- demand that waits


@pytest.mark.parametrize("policy", ConsolidationPolicy)
def test_where_demand_will_go_is_asked_only_if_a_node_could_go(
    policy: ConsolidationPolicy,
) -> None:
    it = fleet(
        pools=(
            node_pool(
                "default", ON_DEMAND, disruption=Disruption(consolidation_policy=policy)
            ),
        )
    )
    it.add_node("busy", "large", ON_DEMAND, {"default/five": 1})
    asked: list[int] = []
    given = DisruptionInput(
        replace(it.snapshot(), demands=(Demand(WORK["default/tiny"], 1, NOW),)),
        it.claims,
        {},
    )

    def ask(snapshot: Snapshot) -> Plan:
        asked.append(len(snapshot.demands))
        return Plan()

    decide_disruption(given, ask, now=NOW)

    assert bool(asked) == (policy is not ConsolidationPolicy.WHEN_EMPTY)


# -- effort


def refused_each_time(count: int, **changes: Any) -> Fleet:
    """Spot nodes for which something cheaper exists, but spot does not replace spot."""
    it = fleet(pools=(node_pool("default", SPOT),), spot_to_spot=False, effort=1, **changes)
    for number in range(count):
        it.add_node(f"n{number}", "large", SPOT, {"default/seven": 1})
    it.types = (instance_type("cheaper", 8, on_demand=None, spot=150_000), *it.types)
    return it


def removed(decision: DisruptionDecision) -> int:
    return sum(len(command.claim_ids) for command in decision.commands)


def judged(decision: DisruptionDecision) -> set[str]:
    return {refusal.claim_id for refusal in decision.refusals if refusal.reason != LATER}


@pytest.mark.parametrize("remembers", [True, False])
def test_each_node_is_judged_within_as_many_passes_as_there_are_nodes(
    *, remembers: bool
) -> None:
    it = refused_each_time(7)
    seen: list[set[str]] = []
    for minute in range(7):
        it.now = NOW + timedelta(minutes=minute)
        decision = it.decide()
        it.waiting = (
            {each.claim_id: each.since for each in decision.waiting} if remembers else {}
        )
        seen.append(judged(decision))

    assert set().union(*seen) == set(it.claims)
    assert all(len(of_pass) == 1 for of_pass in seen), (
        "the least that a pass does, for this test to say something"
    )


@pytest.mark.parametrize("budget", [1, 2, 5])
@pytest.mark.parametrize("others", [1, 9, 30])
def test_nodes_that_cannot_be_bettered_take_no_others_place_in_the_budget(
    budget: int, others: int
) -> None:
    it = fleet(
        pools=(node_pool("default", SPOT, ON_DEMAND),), budget=budget, spot_to_spot=False
    )
    for number in range(others):
        it.add_node(f"a{number:02}", "large", SPOT, {"default/seven": 1})
    it.add_node("paid", "small", ON_DEMAND, {"default/pair": 1})

    decision = it.decide()

    assert [command.claim_ids for command in decision.commands] == [("paid",)]
    assert refusal(decision, "a00") != "budget of NodePool default is used up"


@pytest.mark.parametrize("budget", [1, 3])
def test_within_a_budget_each_node_is_judged_in_as_many_passes_as_there_are_nodes(
    budget: int,
) -> None:
    it = refused_each_time(7, budget=budget)
    seen: set[str] = set()
    for minute in range(7):
        it.now = NOW + timedelta(minutes=minute)
        decision = it.decide()
        it.waiting = {each.claim_id: each.since for each in decision.waiting}
        seen |= judged(decision)

    assert seen == set(it.claims)


def test_whose_turn_did_not_come_says_since_when() -> None:
    it = refused_each_time(3)
    it.waiting = {"n1": NOW - timedelta(minutes=5), "n2": NOW - timedelta(hours=2)}

    decision = it.decide()

    assert judged(decision) == {"n2"}
    assert {each.claim_id: each.since for each in decision.waiting} == {
        "n0": NOW,
        "n1": NOW - timedelta(minutes=5),
    }


def test_a_drifted_node_that_is_refused_each_time_does_not_keep_its_turn() -> None:
    it = fleet(pools=(node_pool("default", ON_DEMAND, static_hash="new"),), effort=1)
    alone = replace(
        WORK["default/tiny"],
        name="alone",
        node_selector=Requirements.of(one_of("gone", "x")),
    )
    it.workloads = {**WORK, alone.key: alone}
    for number, held in enumerate((alone.key, alone.key, "default/tiny")):
        it.add_node(f"old{number}", "large", ON_DEMAND, {held: 1}, node_pool_hash="old")
    went: list[str] = []
    for minute in range(3):
        it.now = NOW + timedelta(minutes=minute)
        decision = it.decide()
        it.waiting = {each.claim_id: each.since for each in decision.waiting}
        went += [key for command in decision.commands for key in command.claim_ids]

    assert set(went) == {"old2"}


@pytest.mark.parametrize(
    ("pools", "effort"),
    [(1, EFFORT_A_PASS), (9, EFFORT_A_PASS), (50, EFFORT_A_PASS), (9, -(10**6))],
)
@pytest.mark.parametrize("waits", [True, False])
def test_neither_pools_nor_waiting_demand_keep_a_node_from_its_turn(
    pools: int, effort: int, *, waits: bool
) -> None:
    zones = [(f"zone-{number}", f"z{number}") for number in range(6)]
    sold = values.sold({ON_DEMAND: 3_000_000, SPOT: 1_500_000}, zones)
    # 12,780 offerings
    region = tuple(
        values.instance_type(f"other{number}", 64, 256, sold) for number in range(1_065)
    )
    wanted = (
        one_of(labels.CAPACITY_TYPE, SPOT, ON_DEMAND),
        one_of(labels.INSTANCE_TYPE, "small", "large"),
    )
    several = tuple(
        values.node_pool("default" if not number else f"p{number}", *wanted)
        for number in range(pools)
    )
    huge = workload("huge", 5000)
    it = fleet(
        types=(SMALL, LARGE, *region),
        pools=several,
        workloads={**WORK, huge.key: huge},
        effort=effort,
    )
    it.add_node("paid", "small", ON_DEMAND, {"default/tiny": 1})

    decision = it.decide((Demand(huge, 1, NOW),) if waits else ())

    assert [command.claim_ids for command in decision.commands] == [("paid",)]


def test_a_pass_is_charged_for_what_its_pools_sell() -> None:
    unlike = tuple(
        instance_type(f"other{number}", 64, on_demand=3_000_000) for number in range(5_000)
    )
    narrow = values.node_pool("default", one_of(labels.INSTANCE_TYPE, "small", "large"))
    without, among_many = (
        fleet(types=types, pools=(narrow,))
        for types in ((SMALL, LARGE), (SMALL, LARGE, *unlike))
    )

    def charged(it: Fleet) -> int:
        effort = Effort(0)
        PassState.of(it.snapshot(), lambda _: Plan(), NOW, effort=effort).pending()
        return -effort.left

    assert charged(among_many) == charged(without)


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
    given = DisruptionInput(
        waiting, it.claims, {("default", reason): 300 for reason in DisruptionReason}
    )

    def nothing_placed(_snapshot: Snapshot) -> Plan:
        return Plan()

    assert removed(decide_disruption(given, nothing_placed, now=NOW)) > 100
    assert (
        removed(decide_disruption(given, nothing_placed, now=NOW, effort=EFFORT_A_PASS))
        < FIRST_TRIES
    )


@pytest.mark.parametrize(("effort", "moves"), [(1_000, False), (2_000, True)])
def test_what_a_look_at_waiting_demand_leaves_of_the_effort_is_for_moves(
    effort: int, *, moves: bool
) -> None:
    it = fleet(effort=effort)
    for number in range(40):
        it.add_node(f"n{number:02}", "large", ON_DEMAND, {"default/tiny": 1})

    # where it will go is looked at first: it may need a launch
    waiting = (Demand(WORK["default/tiny"], 1, NOW),)

    assert (removed(it.decide(waiting)) >= FIRST_TRIES) is moves
    assert removed(it.decide()) >= FIRST_TRIES, "without it either suffices"


def test_drift_leaves_half_of_the_effort_to_consolidation() -> None:
    it = fleet(pools=(node_pool("default", ON_DEMAND, static_hash="new"),), effort=5_000)
    for number in range(8):
        it.add_node(
            f"old{number}", "large", ON_DEMAND, {"default/seven": 1}, node_pool_hash="old"
        )
    it.add_node("oversized", "large", ON_DEMAND, {"default/pair": 1}, node_pool_hash="new")

    reasons = [command.reason for command in it.decide().commands]

    assert 1 <= reasons.count(DisruptionReason.DRIFTED) < 8
    assert DisruptionReason.UNDERUTILIZED in reasons
    assert any("later pass" in refusal.reason for refusal in it.decide().refusals)


# -- limits


@pytest.mark.parametrize(("limit", "moved"), [(12, 1), (16, 2)])
def test_what_one_command_launches_counts_for_the_limits_of_the_next(
    limit: int, moved: int
) -> None:
    limits = Resources.of({"cpu": limit * 1000, "nodes": 2})
    pool = node_pool("default", RESERVED, static_hash="new", limits=limits)
    it = fleet(pools=(pool,), reservations=(reservation("cr-large", "large", 2, 2),))
    for number in range(2):
        it.add_node(
            f"small{number}", "small", ON_DEMAND, {"default/pair": 1}, node_pool_hash="old"
        )

    launched = [
        planned for command in it.decide().commands for planned in command.replacements
    ]

    assert sum(planned.count for planned in launched) == moved


# -- promised room


@pytest.mark.parametrize(
    "changes",
    [{"nominated_until": NOW + timedelta(minutes=1)}, {"state": ClaimState.LAUNCHED}],
    ids=["promised", "new"],
)
def test_room_that_is_promised_or_not_there_yet_takes_nobody(
    changes: dict[str, object],
) -> None:
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
    assert (
        refusal(it.decide(), "b")
        == "NodePool default changed; replicas of other nodes move here"
    )


def test_a_node_that_receives_the_replicas_of_a_drifted_one_is_not_made_smaller() -> None:
    middle = instance_type("middle", 6, on_demand=290_000)
    it = fleet(types=(SMALL, middle, LARGE), pools=(node_pool("default", ON_DEMAND),))
    it.add_node("drifted", "large", ON_DEMAND, {"default/pair": 1}, node_pool_hash="old")
    # which a middle node would hold, but for the pair
    it.add_node("stays", "large", ON_DEMAND, {"default/five": 1})

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


def test_an_on_demand_node_goes_back_to_spot_although_two_smaller_ones_would_cost_still_less() -> (
    None
):
    cheap_small = instance_type("small", 4, on_demand=200_000, spot=50_000)
    it = fleet(
        types=(cheap_small, LARGE),
        pools=(node_pool("a", SPOT, ON_DEMAND), node_pool("default", SPOT, ON_DEMAND)),
    )
    it.add_node("n", "large", ON_DEMAND, {"default/pair": 4})

    (command,) = it.decide().commands

    (planned,) = command.replacements
    assert (
        planned.offering.instance_type,
        planned.offering.capacity_type,
        planned.count,
    ) == ("large", SPOT, 1)


def test_it_goes_back_to_spot_whatever_else_its_pools_have() -> None:
    cheap_small = instance_type("small", 4, on_demand=200_000, spot=50_000)
    it = fleet(
        types=(cheap_small, LARGE),
        pools=(node_pool("a", SPOT, ON_DEMAND), node_pool("default", SPOT, ON_DEMAND)),
    )
    stays = workload("stays", 4, do_not_disrupt=True)
    it.workloads = {**WORK, stays.key: stays}
    it.add_node("n", "large", ON_DEMAND, {"default/pair": 4})
    for pool in ("a", "default"):
        it.add_node(f"of-{pool}", "small", SPOT, {stays.key: 1}, node_pool_name=pool)

    (command,) = it.decide().commands

    (planned,) = command.replacements
    assert command.claim_ids == ("n",)
    assert (planned.offering.instance_type, planned.offering.capacity_type) == (
        "large",
        SPOT,
    )


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
    assert [
        (planned.offering.instance_type, planned.count) for planned in command.replacements
    ] == [("middle", 2)]
    because = refusal(it.decide(), "right-sized")
    assert "a node like it" in because or "nothing cheaper" in because


def test_groups_of_reserved_nodes_are_not_moved_to_paid_ones_with_a_paid_nodes_saving() -> (
    None
):
    it = fleet(reservations=(reservation("cr-1", "large", 1, 0),))
    it.add_node("paid", "large", ON_DEMAND, {"default/pair": 1})
    it.add_node(
        "reserved",
        "large",
        RESERVED,
        {"default/six": 1, "default/pair": 1},
        reservation_id="cr-1",
    )

    it.apply(it.decide())

    assert "reserved" in it.claims


# -- Balanced


@pytest.mark.parametrize(
    ("policy", "goes"), [(ConsolidationPolicy.BALANCED, False), (None, True)]
)
def test_balanced_moves_no_work_for_a_small_saving(
    policy: ConsolidationPolicy | None, goes: bool
) -> None:
    # 7 of the pool's 20 units of disruption for a sixteenth of its price
    disruption = Disruption() if policy is None else Disruption(consolidation_policy=policy)
    it = fleet(
        pools=(node_pool("default", ON_DEMAND, disruption=disruption),),
        types=(SMALL, LARGE),
    )
    it.add_node("crowded", "small", ON_DEMAND, {"default/tiny": 2})
    for number in range(3):
        it.add_node(f"large{number}", "large", ON_DEMAND, {"default/six": 1})

    assert (
        "crowded" in {key for command in it.decide().commands for key in command.claim_ids}
    ) is goes
    if not goes:
        assert "Balanced" in refusal(it.decide(), "crowded")


def test_balanced_lets_a_large_saving_pass() -> None:
    pool = node_pool(
        "default",
        ON_DEMAND,
        disruption=Disruption(consolidation_policy=ConsolidationPolicy.BALANCED),
    )
    it = fleet(pools=(pool,))
    it.add_node("oversized", "large", ON_DEMAND, {"default/pair": 1})

    assert len(it.decide().commands) == 1
