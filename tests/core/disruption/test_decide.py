"""Whole passes: what goes, what stays and why (sections G, H and L of the scenarios; users' asks A-1 and A-5)."""

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from reservoir.core.disruption.saving.cost import DELETION_COST_ANNOTATION
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState, DisruptionMark, DrainReason
from reservoir.core.model.node_pool import ConsolidationPolicy, Disruption, DisruptionReason
from reservoir.core.model.workload import FallbackStep, Gang
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.resources import Resources
from tests.core.disruption.world import (
    NOW,
    ON_DEMAND,
    RESERVED,
    SPOT,
    Fleet,
    node_pool,
    refusal,
    reservation,
    workload,
)

WORK = {w.key: w for w in (workload("tiny", 1), workload("pair", 2), workload("big", 6))}

fleet = partial(Fleet, workloads=WORK)


def test_an_empty_on_demand_node_goes() -> None:
    it = fleet()
    it.add_node("idle", "large", ON_DEMAND, {})

    (command,) = it.decide().commands

    assert (command.reason, command.claim_ids, command.replacements) == (
        DisruptionReason.EMPTY,
        ("idle",),
        (),
    )


@pytest.mark.parametrize(
    "change",
    [{"priority": -40_000_000}, {"annotations": {DELETION_COST_ANNOTATION: "-2147483648"}}],
    ids=["low priority", "negative deletion cost"],
)
def test_a_node_is_not_empty_while_replicas_run_there_that_cost_nothing_to_move(
    change: dict[str, Any],
) -> None:
    """Deleted as empty, it would be launched for them again a minute later."""
    willing = workload("willing", 2, **change)
    it = fleet(workloads={willing.key: willing}, pools=(node_pool("default", ON_DEMAND),))
    it.add_node("n", "small", ON_DEMAND, {willing.key: 1})

    assert it.decide().commands == ()


def test_on_demand_moves_into_a_free_reserved_unit_of_the_same_type() -> None:
    it = fleet(reservations=(reservation("cr-1", "large", total=1, free=1),))
    it.add_node("paid", "large", ON_DEMAND, {"default/big": 1})

    (command,) = it.decide().commands

    assert command.claim_ids == ("paid",)
    assert [(p.offering.reservation_id, p.count) for p in command.replacements] == [
        ("cr-1", 1)
    ]


def test_spot_moves_into_a_free_reserved_unit_although_few_types_exist() -> None:
    # S-88: the rule against chasing spot pools does not stand in the way of prepaid capacity
    it = fleet(reservations=(reservation("cr-1", "large", total=1, free=1),))
    it.add_node("spot", "large", SPOT, {"default/big": 1})

    (command,) = it.decide().commands

    assert command.replacements[0].offering.capacity_type is RESERVED


def test_reserved_moves_to_a_smaller_reserved_type() -> None:
    # S-89
    it = fleet(
        reservations=(
            reservation("cr-large", "large", 1, 0),
            reservation("cr-small", "small", 1, 1),
        )
    )
    it.add_node("roomy", "large", RESERVED, {"default/tiny": 1}, reservation_id="cr-large")

    (command,) = it.decide().commands

    assert command.replacements[0].offering.reservation_id == "cr-small"


@pytest.mark.parametrize("market", [ON_DEMAND, SPOT])
def test_reserved_never_moves_to_paid_capacity_by_price(market: CapacityType) -> None:
    it = fleet(
        reservations=(reservation("cr-large", "large", 1, 0),),
        pools=(node_pool("default", RESERVED, market),),
    )
    it.add_node(
        "reserved", "large", RESERVED, {"default/tiny": 1}, reservation_id="cr-large"
    )

    assert it.decide().commands == ()


@pytest.mark.parametrize(("free", "on"), [(1, RESERVED), (0, RESERVED), (0, ON_DEMAND)])
def test_work_with_a_ladder_is_not_moved_to_where_it_would_not_go(
    free: int, on: CapacityType
) -> None:
    """Demand again, it would ask for reserved units first, for three minutes, or get one and be moved again."""
    ladder = (FallbackStep(RESERVED, 180), FallbackStep(ON_DEMAND))
    work = (
        workload("fixed", 2, do_not_disrupt=True),
        workload("climber", 2, fallback=ladder),
    )
    it = fleet(
        workloads={w.key: w for w in work},
        reservations=(reservation("cr-1", "small", 2, free),),
    )
    it.add_node("stays", "large", ON_DEMAND, {"default/fixed": 1})
    place = {"reservation_id": "cr-1"} if on is RESERVED else {}
    it.add_node("moves", "small", on, {"default/climber": 1}, **place)

    assert it.decide().commands == ()
    assert "default/climber would begin its fallback ladder again" in refusal(
        it.decide(), "moves"
    )


def test_work_with_a_ladder_moves_to_a_free_reserved_unit() -> None:
    ladder = (FallbackStep(RESERVED, 180), FallbackStep(ON_DEMAND))
    climber = workload("climber", 2, fallback=ladder)
    it = fleet(
        workloads={climber.key: climber}, reservations=(reservation("cr-1", "small", 1, 1),)
    )
    it.add_node("paid", "small", ON_DEMAND, {"default/climber": 1})

    it.apply(it.decide())

    assert [claim.offering.reservation_id for claim in it.claims.values()] == ["cr-1"]


def test_spot_to_spot_needs_fifteen_cheaper_types() -> None:
    # S-92
    it = fleet()
    it.add_node("spot", "large", SPOT, {"default/tiny": 1})

    assert it.decide().commands == ()
    assert "spot to spot requires 15 cheaper types, got 1" in refusal(it.decide(), "spot")


def test_half_used_on_demand_nodes_are_merged_without_a_launch() -> None:
    it = fleet(pools=(node_pool("default", ON_DEMAND),))
    for name in ("a", "b", "c", "d"):
        it.add_node(name, "large", ON_DEMAND, {"default/pair": 1})

    it.apply(it.decide())

    assert it.launches == 0
    assert len(it.claims) == 1


def test_scale_down_of_a_mixed_fleet_keeps_the_reserved_nodes_and_launches_nothing() -> (
    None
):
    # L-04, asks A-5: 15 reserved + 5 on-demand; five replicas left, from 3 reserved and 2 on-demand nodes
    it = fleet(reservations=(reservation("cr-1", "large", total=15, free=0),))
    for index in range(15):
        it.add_node(
            f"r{index:02d}",
            "large",
            RESERVED,
            {"default/big": int(index >= 3)},
            reservation_id="cr-1",
        )
    for index in range(5):
        it.add_node(f"o{index}", "large", ON_DEMAND, {"default/big": int(index >= 2)})

    it.apply(it.decide())

    assert it.launches == 0
    assert sorted(it.removals) == ["o0", "o1", "o2", "o3", "o4"]
    assert len(it.claims) == 15


def test_an_empty_reserved_node_goes_back_to_its_reservation() -> None:
    it = fleet(reservations=(reservation("cr-1", "large", 1, 0),))
    it.add_node("idle", "large", RESERVED, {}, reservation_id="cr-1")

    (command,) = it.decide().commands

    assert command.claim_ids == ("idle",)


@pytest.mark.parametrize(
    ("keep_s", "empty_min", "stays"), [(0, 600, True), (3600, 30, True), (3600, 61, False)]
)
def test_a_pool_may_keep_its_empty_reserved_nodes(
    keep_s: int, empty_min: int, stays: bool
) -> None:
    pool = node_pool(disruption=Disruption(keep_reserved_s=keep_s))
    it = fleet(reservations=(reservation("cr-1", "large", 1, 0),), pools=(pool,))
    since = NOW - timedelta(minutes=empty_min)
    it.add_node(
        "idle", "large", RESERVED, {}, reservation_id="cr-1", placements_changed_at=since
    )

    assert (it.decide().commands == ()) is stays


def test_budgets_bound_what_goes() -> None:
    it = fleet(budget=3)
    for index in range(10):
        it.add_node(f"n{index}", "large", ON_DEMAND, {})

    (command,) = it.decide().commands

    assert len(command.claim_ids) == 3  # S-101
    assert "budget" in refusal(it.decide(), "n9")


def test_paid_nodes_use_up_a_budget_before_reserved_ones() -> None:
    it = fleet(budget=1, reservations=(reservation("cr-1", "large", 1, 0),))
    it.add_node("a-reserved", "large", RESERVED, {}, reservation_id="cr-1")
    it.add_node("z-paid", "large", ON_DEMAND, {})

    (command,) = it.decide().commands

    assert command.claim_ids == ("z-paid",)


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"state": ClaimState.LAUNCHED}, "not running"),
        ({"nominated_until": NOW + timedelta(seconds=1)}, "are expected on it"),
        ({"placements_changed_at": NOW - timedelta(seconds=10)}, "consolidateAfter"),
        # Its replicas were placed long ago, but it took its time to come up.
        (
            {
                "placements_changed_at": NOW - timedelta(minutes=9),
                "running_at": NOW - timedelta(seconds=10),
            },
            "consolidateAfter",
        ),
        (
            {"disruption": DisruptionMark("c-1", DrainReason.DRIFT, NOW)},
            "already draining or ending",
        ),
    ],
)
def test_a_node_is_left_alone_and_says_why(
    changes: dict[str, object], because: str
) -> None:
    it = fleet(pools=(node_pool(disruption=Disruption(consolidate_after_s=30)),))
    claim = it.add_node("n", "large", ON_DEMAND, {})
    it.claims["n"] = replace(claim, **changes)  # type: ignore[arg-type]  # keyword by keyword, checked by the dataclass

    assert it.decide().commands == ()
    assert because in refusal(it.decide(), "n")


@pytest.mark.parametrize("change", [{"do_not_disrupt": True}, {"gang": Gang()}])
def test_protected_work_is_left_alone(change: dict[str, Any]) -> None:
    protected = replace(WORK["default/tiny"], **change)
    it = fleet(
        workloads={protected.key: protected},
        reservations=(reservation("cr-1", "small", 1, 1),),
    )
    it.add_node("n", "large", ON_DEMAND, {protected.key: 1})

    assert it.decide().commands == ()
    assert protected.key in refusal(it.decide(), "n")


@pytest.mark.parametrize("grace_s", [None, 600])
@pytest.mark.parametrize(
    "placements", [{}, {"default/tiny": 1}], ids=["empty", "oversized"]
)
@pytest.mark.parametrize("pool_hash", ["new", "old"], ids=["as its pool asks", "drifted"])
def test_a_pool_whose_template_says_do_not_disrupt_keeps_its_nodes(
    pool_hash: str, placements: dict[str, int], grace_s: int | None
) -> None:
    calm = {labels.DO_NOT_DISRUPT: "true"}
    pool = node_pool(
        annotations=calm, static_hash="new", termination_grace_period_s=grace_s
    )
    it = fleet(pools=(pool,))
    it.add_node("n", "large", ON_DEMAND, placements, node_pool_hash=pool_hash)

    assert it.decide().commands == ()
    assert (
        refusal(it.decide(), "n") == "NodePool default says do-not-disrupt in its template"
    )

    it.pools = (replace(pool, annotations={labels.DO_NOT_DISRUPT: "false"}),)
    assert it.decide().commands != ()


def test_when_empty_policy_moves_no_work() -> None:
    pool = node_pool(
        disruption=Disruption(consolidation_policy=ConsolidationPolicy.WHEN_EMPTY)
    )
    it = fleet(pools=(pool,), reservations=(reservation("cr-1", "large", 1, 1),))
    it.add_node("busy", "large", ON_DEMAND, {"default/big": 1})

    assert it.decide().commands == ()


def test_static_pools_do_not_consolidate() -> None:
    # S-110
    it = fleet(pools=(node_pool(replicas=1),))
    it.add_node("n", "large", ON_DEMAND, {"default/tiny": 1})

    assert "static" in refusal(it.decide(), "n")


def test_drift_makes_before_it_breaks() -> None:
    it = fleet(pools=(node_pool("default", ON_DEMAND, static_hash="new"),))
    it.add_node("old", "small", ON_DEMAND, {"default/tiny": 1}, node_pool_hash="old")

    (command,) = it.decide().commands

    assert command.reason is DisruptionReason.DRIFTED
    assert not command.terminate_first
    assert sum(p.count for p in command.replacements) == 1


@pytest.mark.parametrize(
    ("replicas", "reason"),
    [(0, DisruptionReason.EMPTY), (1, DisruptionReason.UNDERUTILIZED)],
)
def test_a_drifted_node_that_drift_may_not_replace_goes_as_any_other(
    replicas: int, reason: DisruptionReason
) -> None:
    pool = node_pool("default", ON_DEMAND, static_hash="new")
    it = fleet(pools=(pool,), budget_for={DisruptionReason.DRIFTED: 0})
    it.add_node(
        "old",
        "large",
        ON_DEMAND,
        {"default/pair": replicas} if replicas else {},
        node_pool_hash="old",
    )
    it.add_node("right-sized", "large", ON_DEMAND, {"default/big": 1}, node_pool_hash="old")

    (command,) = it.decide().commands

    assert (command.reason, command.claim_ids) == (reason, ("old",))
    assert (
        refusal(it.decide(), "right-sized")
        == "NodePool default changed; budget of NodePool default is used up"
    )


def test_an_empty_drifted_node_goes_as_drifted_where_empty_ones_must_stay() -> None:
    pool = node_pool(
        "default",
        ON_DEMAND,
        static_hash="new",
        disruption=Disruption(consolidate_after_s=None),
    )
    it = fleet(pools=(pool,))
    it.add_node("old", "large", ON_DEMAND, {}, node_pool_hash="old")

    (command,) = it.decide().commands

    assert (command.reason, command.replacements) == (DisruptionReason.DRIFTED, ())


@pytest.mark.parametrize(
    ("limits", "replaced"), [(None, True), (Resources.of({"nodes": 0}), False)]
)
def test_drift_replaces_a_node_whose_work_would_begin_its_ladder_anew_on_another(
    limits: Resources | None, replaced: bool
) -> None:
    """There is room on an on-demand node, but as demand again the work would ask for reserved units for two hours."""
    climber = workload(
        "climber", 2, fallback=(FallbackStep(RESERVED, 7200), FallbackStep(ON_DEMAND))
    )
    # what the limits leave
    pool = node_pool("default", RESERVED, ON_DEMAND, static_hash="new", limits=limits)
    it = fleet(pools=(pool,), workloads={**WORK, climber.key: climber})
    it.add_node("roomy", "large", ON_DEMAND, {"default/big": 1}, node_pool_hash="new")
    it.add_node("old", "small", ON_DEMAND, {climber.key: 1}, node_pool_hash="old")

    commands = it.decide().commands

    assert [(it.claim_ids, it.destinations) for it in commands] == (
        [(("old",), ())] if replaced else []
    )


def test_drift_moves_work_with_a_ladder_to_room_that_its_first_rung_allows() -> None:
    climber = workload(
        "climber", 2, fallback=(FallbackStep(RESERVED, 7200), FallbackStep(ON_DEMAND))
    )
    it = fleet(
        pools=(node_pool(static_hash="new"),),
        reservations=(reservation("cr-1", "large", total=1, free=0),),
        workloads={**WORK, climber.key: climber},
    )
    it.add_node(
        "roomy",
        "large",
        RESERVED,
        {"default/big": 1},
        reservation_id="cr-1",
        node_pool_hash="new",
    )
    it.add_node("old", "small", ON_DEMAND, {climber.key: 1}, node_pool_hash="old")

    (command,) = it.decide().commands

    assert (command.claim_ids, command.destinations) == (("old",), ("roomy",))


def test_drift_in_a_full_reservation_terminates_first_one_at_a_time() -> None:
    # Asks A-1, L-03
    it = fleet(
        pools=(node_pool("default", RESERVED, static_hash="new"),),
        reservations=(reservation("cr-1", "large", 2, 0),),
    )
    for name in ("a", "b"):
        it.add_node(
            name,
            "large",
            RESERVED,
            {"default/big": 1},
            reservation_id="cr-1",
            node_pool_hash="old",
        )

    decision = it.decide()

    (command,) = decision.commands
    assert command.terminate_first
    assert command.claim_ids == ("a",)
    assert [p.offering.reservation_id for p in command.replacements] == ["cr-1"]
    assert "waits for another" in refusal(it.decide(), "b")


@pytest.mark.parametrize(
    "on_its_way",
    [
        {"state": ClaimState.PLANNED, "waits_for_slot": True},
        {"state": ClaimState.LAUNCHED, "replaces": ("ended",)},
    ],
    ids=["awaits the slot", "starts in it"],
)
def test_no_second_node_leaves_a_full_reservation_before_the_first_is_replaced(
    on_its_way: dict[str, Any],
) -> None:
    it = fleet(
        pools=(node_pool("default", RESERVED, static_hash="new"),),
        reservations=(reservation("cr-1", "large", 2, 0),),
    )
    for name, hashed in (("a", "old"), ("b", "new")):
        it.add_node(
            name,
            "large",
            RESERVED,
            {"default/big": 1},
            reservation_id="cr-1",
            node_pool_hash=hashed,
        )
    it.claims["b"] = replace(it.claims["b"], **on_its_way)

    assert it.decide().commands == ()
    assert "waits for another terminate-first replacement of its pool" in refusal(
        it.decide(), "a"
    )


def test_a_demoted_node_drifts_only_where_on_demand_is_not_allowed() -> None:
    # ODCR RFC, "Drift" and goal 9; S-76
    for markets, drifts in (((RESERVED,), True), ((RESERVED, ON_DEMAND), False)):
        it = fleet(
            pools=(node_pool("default", *markets),),
            reservations=(reservation("cr-1", "large", 1, 1),),
        )
        it.add_node("demoted", "large", ON_DEMAND, {"default/big": 1})

        reasons = {command.reason for command in it.decide().commands}

        assert (DisruptionReason.DRIFTED in reasons) is drifts


def test_demand_that_waits_for_ever_does_not_hold_drift_back_for_ever() -> None:
    it = fleet(
        pools=(node_pool("default", RESERVED),),
        reservations=(reservation("cr-1", "large", 1, 1),),
    )
    it.add_node("demoted", "large", ON_DEMAND, {"default/big": 1})
    # what a look at the waiting demand has left of a pass, with many pools and types
    it.effort = -1_000

    reasons = {command.reason for command in it.decide().commands}

    assert DisruptionReason.DRIFTED in reasons


def test_a_reservation_that_is_no_longer_selected_drifts() -> None:
    it = fleet(
        reservations=(
            reservation("cr-1", "large", 1, 0),
            reservation("cr-2", "large", 1, 1),
        ),
        selected=("cr-2",),
    )
    it.add_node("n", "large", RESERVED, {"default/big": 1}, reservation_id="cr-1")

    (command,) = it.decide().commands

    assert "cr-1 is no longer selected" in command.explanation
    assert command.replacements[0].offering.reservation_id == "cr-2"


def orphaned(*pools: str, **changes: Any) -> Fleet:
    """A node whose pool was deleted, and the pools that there are."""
    it = fleet(pools=tuple(node_pool(name, ON_DEMAND) for name in pools), **changes)
    it.add_node("orphan", "large", ON_DEMAND, {"default/big": 1}, node_pool_name="former")
    return it


def test_a_node_of_a_deleted_pool_is_replaced_in_another_before_it_goes() -> None:
    (command,) = orphaned("default").decide().commands

    assert (command.claim_ids, command.pool_deleted) == (("orphan",), True)
    assert [(p.node_pool_name, p.count) for p in command.replacements] == [("default", 1)]
    assert command.explanation == "NodePool former was deleted"


def test_a_node_of_a_deleted_pool_goes_although_nothing_else_holds_its_replicas() -> None:
    (command,) = orphaned().decide().commands

    assert (command.claim_ids, command.replacements, command.destinations) == (
        ("orphan",),
        (),
        (),
    )
    assert "former was deleted; no other place" in command.explanation


def test_the_slot_of_a_node_whose_pool_was_deleted_is_refilled_by_another_pool() -> None:
    it = fleet(
        pools=(node_pool("default", RESERVED),),
        reservations=(reservation("cr-1", "large", 1, 0),),
    )
    it.add_node(
        "orphan",
        "large",
        RESERVED,
        {"default/big": 1},
        reservation_id="cr-1",
        node_pool_name="former",
    )

    (command,) = it.decide().commands

    assert (command.terminate_first, command.pool_deleted) == (True, True)
    assert [p.node_pool_name for p in command.replacements] == ["default"]


@pytest.mark.parametrize("change", [{"do_not_disrupt": True}, {"gang": Gang()}])
def test_protected_work_keeps_its_node_although_the_pool_was_deleted(
    change: dict[str, Any],
) -> None:
    it = orphaned("default")
    it.workloads = {**WORK, "default/big": replace(WORK["default/big"], **change)}

    assert it.decide().commands == ()
    assert "NodePool former was deleted; workload default/big" in refusal(
        it.decide(), "orphan"
    )


def test_nothing_moves_onto_a_node_whose_pool_was_deleted() -> None:
    it = orphaned("default")
    it.budget_of = {"former": 0}
    it.add_node("n", "large", ON_DEMAND, {"default/tiny": 1})

    (command,) = it.decide().commands

    # one small node instead
    assert (command.claim_ids, command.destinations) == (("n",), ())
    assert "budget of NodePool former" in refusal(it.decide(), "orphan")
