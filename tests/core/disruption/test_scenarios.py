"""Karpenter's own consolidation scenarios (sections G, H and J), one after the other. More of them: test_decide.py."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from reservoir.core.disruption.command import DisruptionDecision
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_pool import Budget, Disruption, DisruptionReason
from reservoir.core.model.plan import PlannedNodes
from reservoir.core.model.schedule import allowed_disruptions
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
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

MIDDLE = instance_type("middle", 4, on_demand=190_000, spot=80_000)
WORK = {
    w.key: w
    for w in (
        workload("tiny", 1),
        workload("pair", 2),
        workload("three", 3),
        workload("six", 6),
    )
}
TYPES = (SMALL, MIDDLE, LARGE)
fleet = partial(
    Fleet, types=TYPES, pools=(node_pool("default", ON_DEMAND),), workloads=WORK
)


def removed(decision: DisruptionDecision) -> list[str]:
    return sorted(
        claim_id for command in decision.commands for claim_id in command.claim_ids
    )


def types_of(planned: PlannedNodes) -> list[str]:
    return list(
        dict.fromkeys(
            key.instance_type for key in (planned.offering, *planned.alternatives)
        )
    )


# -- G: reservations


@pytest.mark.parametrize("market", [ON_DEMAND, SPOT])
def test_s88_paid_nodes_move_to_a_free_reserved_unit_of_any_type(
    market: CapacityType,
) -> None:
    it = fleet(pools=(node_pool(),), reservations=(reservation("cr-1", "small", 10, 10),))
    it.add_node("dearest", "large", market, {"default/tiny": 1})

    (command,) = it.decide().commands

    assert [
        (p.offering.instance_type, p.offering.reservation_id, p.count)
        for p in command.replacements
    ] == [("small", "cr-1", 1)]


def test_s89_a_reserved_node_moves_to_the_smallest_reserved_type() -> None:
    cheapest = (
        reservation("cr-small", "small", 10, 10),
        reservation("cr-middle", "middle", 10, 10),
    )
    it = fleet(
        pools=(node_pool(),),
        reservations=(reservation("cr-large", "large", 1, 0), *cheapest),
    )
    it.add_node("roomy", "large", RESERVED, {"default/tiny": 1}, reservation_id="cr-large")

    (command,) = it.decide().commands

    assert command.replacements[0].offering.reservation_id == "cr-small"


# -- H: in general


def test_s91_a_replacement_never_offers_the_removed_nodes_own_type() -> None:
    it = fleet()
    it.add_node("dearest", "large", ON_DEMAND, {"default/three": 1})

    (command,) = it.decide().commands

    assert types_of(command.replacements[0]) == ["middle"]


def eighteen_spot_types() -> Sequence[InstanceType]:
    prices = [1_000_000 + 100_000 * number for number in range(18)]
    prices[16] = 1_000
    return tuple(
        instance_type(f"t{number:02d}", 4, on_demand=None, spot=price)
        for number, price in enumerate(prices)
    )


def test_without_the_gate_no_spot_node_becomes_another() -> None:
    it = fleet(pools=(node_pool("default", SPOT),), types=eighteen_spot_types())
    it.spot_to_spot = False
    it.add_node("spot", "t17", SPOT, {"default/tiny": 1})

    decision = it.decide()

    assert decision.commands == ()
    assert "spotToSpotConsolidation is off" in refusal(decision, "spot")


#
def test_without_the_gate_several_spot_nodes_do_not_become_one_but_may_be_emptied() -> None:
    it = fleet(pools=(node_pool("default", SPOT),), types=(SMALL, LARGE))
    it.spot_to_spot = False
    for name in ("one", "two"):
        it.add_node(name, "large", SPOT, {"default/tiny": 1})
    it.add_node("three", "large", SPOT, {"default/tiny": 1})

    commands = it.decide().commands

    assert [len(command.claim_ids) for command in commands] == [2]
    assert not any(command.replacements for command in commands)


def test_s94_a_spot_node_among_the_fifteen_cheapest_types_stays() -> None:
    it = fleet(pools=(node_pool("default", SPOT),), types=eighteen_spot_types())
    it.add_node("spot", "t13", SPOT, {"default/tiny": 1})

    decision = it.decide()

    assert decision.commands == ()
    assert "requires 15 cheaper types, got 14" in refusal(decision, "spot")


def test_s95_a_dear_spot_node_may_become_one_of_the_fifteen_cheapest_types() -> None:
    it = fleet(pools=(node_pool("default", SPOT),), types=eighteen_spot_types())
    it.add_node("spot", "t17", SPOT, {"default/tiny": 1})

    (command,) = it.decide().commands

    assert types_of(command.replacements[0]) == [
        "t16",
        *(f"t{number:02d}" for number in range(14)),
    ]


def test_s97_cheap_spot_is_no_reason_where_only_on_demand_is_allowed() -> None:
    mine = instance_type("mine", 4, on_demand=500_000)
    other = instance_type("other", 4, on_demand=600_000, spot=200_000)
    it = fleet(types=(mine, other))
    it.add_node("n", "mine", ON_DEMAND, {"default/tiny": 1})

    assert it.decide().commands == ()


@pytest.mark.parametrize(
    "markets",
    [(ON_DEMAND, ON_DEMAND, ON_DEMAND), (SPOT, SPOT, SPOT), (ON_DEMAND, SPOT, ON_DEMAND)],
    ids=["on demand", "spot", "mixed"],
)
def test_s98_three_nodes_become_one_cheaper_node(markets: tuple[CapacityType, ...]) -> None:
    wide = instance_type("wide", 12, on_demand=210_000, spot=90_000)
    it = fleet(pools=(node_pool(),), types=(MIDDLE, wide))
    for number, market in enumerate(markets):
        it.add_node(f"n{number}", "middle", market, {"default/three": 1})

    (command,) = it.decide().commands

    assert command.claim_ids == ("n0", "n1", "n2")
    assert [(p.offering.instance_type, p.count) for p in command.replacements] == [
        ("wide", 1)
    ]


def test_s100_of_two_nodes_at_one_price_the_one_with_less_work_goes_first() -> None:
    it = fleet(budget=1, types=(LARGE,))
    it.add_node("a-two", "large", ON_DEMAND, {"default/tiny": 2})
    it.add_node("b-one", "large", ON_DEMAND, {"default/tiny": 1})
    it.add_node("c-full", "large", ON_DEMAND, {"default/pair": 2})

    assert removed(it.decide()) == ["b-one"]


@pytest.mark.parametrize(("budget", "goes"), [("30%", 3), ("100%", 10), ("0%", 0)])
def test_s101_empty_nodes_go_within_the_budget_in_one_command(
    budget: str, goes: int
) -> None:
    it = fleet(budget=allowed(budget, nodes=10, reason=DisruptionReason.EMPTY))
    for number in range(10):
        it.add_node(f"n{number}", "large", ON_DEMAND, {})

    decision = it.decide()

    assert [len(command.claim_ids) for command in decision.commands] == (
        [goes] if goes else []
    )


def allowed(budget: str, nodes: int, reason: DisruptionReason) -> int:
    return allowed_disruptions(
        (Budget(budget),), reason, node_count=nodes, unavailable_count=0, now=NOW
    ).nodes


def test_s103_underused_nodes_go_within_the_budget() -> None:
    it = fleet(
        types=(LARGE,),
        budget=allowed("30%", nodes=10, reason=DisruptionReason.UNDERUTILIZED),
    )
    for number in range(10):
        it.add_node(f"n{number}", "large", ON_DEMAND, {"default/three": 1})

    decision = it.decide()
    it.apply(decision)

    assert len(removed(decision)) == 3
    assert (len(it.claims), it.launches) == (7, 0)


def test_s104_each_pools_budget_rounds_up_and_one_command_takes_them_all() -> None:
    names = [f"pool-{number}" for number in range(10)]
    two_of_three = allowed("50%", nodes=3, reason=DisruptionReason.EMPTY)
    it = fleet(
        pools=tuple(node_pool(name, ON_DEMAND) for name in names), budget=two_of_three
    )
    for name in names:
        for number in range(3):
            claim = it.add_node(
                f"{name}-{number}", "large", ON_DEMAND, {}, node_pool_name=name
            )
            it.claims[claim.id] = replace(
                claim, labels={**claim.labels, labels.NODE_POOL: name}
            )

    (command,) = it.decide().commands

    assert len(command.claim_ids) == 20


def test_s107_a_node_that_changed_lately_takes_nothing_but_a_cheaper_new_node_may() -> None:
    settling = node_pool(
        "default", ON_DEMAND, disruption=Disruption(consolidate_after_s=30)
    )
    it = fleet(pools=(settling,))
    it.add_node(
        "lately",
        "large",
        ON_DEMAND,
        {"default/tiny": 1},
        placements_changed_at=NOW - timedelta(seconds=10),
    )
    it.add_node("settled", "large", ON_DEMAND, {"default/tiny": 1})

    (command,) = it.decide().commands

    assert command.claim_ids == ("settled",)
    assert command.destinations == ()
    assert [p.offering.instance_type for p in command.replacements] == ["small"]


def test_s107_without_anything_cheaper_nothing_moves_onto_it() -> None:
    settling = node_pool(
        "default", ON_DEMAND, disruption=Disruption(consolidate_after_s=30)
    )
    it = fleet(pools=(settling,), types=(LARGE,))
    it.add_node(
        "lately",
        "large",
        ON_DEMAND,
        {"default/tiny": 1},
        placements_changed_at=NOW - timedelta(seconds=10),
    )
    it.add_node("settled", "large", ON_DEMAND, {"default/tiny": 1})

    assert it.decide().commands == ()

    it.now += timedelta(seconds=20)
    assert len(removed(it.decide())) == 1


def test_s109_min_values_that_the_price_would_break_stand_in_the_way() -> None:
    pool = node_pool("default", ON_DEMAND)
    names = [kind.name for kind in TYPES]
    wanted = Requirement.new(labels.INSTANCE_TYPE, Operator.IN, names, min_values=3)
    it = fleet(pools=(replace(pool, requirements=pool.requirements.add(wanted)),))
    it.add_node("n", "middle", ON_DEMAND, {"default/tiny": 1})

    decision = it.decide()

    assert decision.commands == ()
    assert "minValues of NodePool default" in refusal(decision, "n")
