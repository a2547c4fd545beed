"""Nodes are worth what their offering costs today, whatever they cost when they were launched (R-27, R-170, R-201)."""

from reservoir.core.disruption.saving.node_prices import NodePrices
from reservoir.core.model.node_pool import ConsolidationPolicy, Disruption
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from tests.core.disruption.world import (
    LARGE,
    ON_DEMAND,
    RESERVED,
    SMALL,
    SPOT,
    Fleet,
    instance_type,
    node_pool,
    reservation,
    short,
    workload,
)

TINY, THREE, SIX = workload("tiny", 1), workload("three", 3), workload("six", 6)
WORK = {it.key: it for it in (TINY, THREE, SIX)}


def micro(amount: int) -> int:
    return amount * ATTO_USD_PER_MICRO_USD


def test_a_reserved_job_stays_when_the_cheapest_spot_price_falls() -> None:
    """Reserved prices follow the cheapest spot price; an equal reservation is no cheaper for that."""
    it = Fleet(
        (LARGE,),
        (node_pool(),),
        WORK,
        (reservation("cr-1", "large", 1, 0), reservation("cr-2", "large", 1, 1)),
    )
    # when spot cost twice as much
    at_launch = 2 * NodePrices.of(it.types).reserved["large"]
    it.add_node(
        "job",
        "large",
        RESERVED,
        {SIX.key: 1},
        reservation_id="cr-1",
        price_atto_usd_per_hour=at_launch,
    )

    assert it.decide().commands == ()


def test_a_spot_node_that_has_become_dearer_than_on_demand_is_replaced() -> None:
    dear = instance_type("small", 2, on_demand=100_000, spot=500_000)
    it = Fleet((dear,), (node_pool("default", SPOT, ON_DEMAND),), WORK)
    it.add_node("spot", "small", SPOT, {TINY.key: 1}, price_atto_usd_per_hour=micro(40_000))

    (command,) = it.decide().commands

    assert [planned.offering.capacity_type for planned in command.replacements] == [
        ON_DEMAND
    ]
    assert command.savings_atto_usd_per_hour == micro(500_000 - 100_000)


def test_two_spot_nodes_that_have_become_cheap_are_not_replaced_by_a_dearer_one() -> None:
    """Launched at 80,000 each, they cost 20,000 each today: one node of 90,000 would save nothing."""
    middle = short(instance_type("middle", 4, on_demand=None, spot=20_000))
    wide = instance_type("wide", 12, on_demand=None, spot=90_000)
    it = Fleet((middle, wide), (node_pool("default", SPOT),), WORK)
    for name in ("a", "b"):
        it.add_node(
            name, "middle", SPOT, {THREE.key: 1}, price_atto_usd_per_hour=micro(80_000)
        )

    assert it.decide().commands == ()


def test_balanced_weighs_todays_prices() -> None:
    """The small node is a fifth of what the pool costs today, and half of its disruption."""
    balanced = Disruption(consolidation_policy=ConsolidationPolicy.BALANCED)
    it = Fleet(
        (SMALL, LARGE), (node_pool("default", ON_DEMAND, disruption=balanced),), WORK
    )
    it.add_node(
        "roomy", "large", ON_DEMAND, {SIX.key: 1}, price_atto_usd_per_hour=micro(40_000)
    )
    it.add_node("small", "small", ON_DEMAND, {TINY.key: 1})

    decision = it.decide()

    assert decision.commands == ()
    reasons = {refusal.claim_id: refusal.reason for refusal in decision.refusals}
    assert (
        reasons["small"]
        == "NodePool default is Balanced: the saving is not worth the disruption"
    )


def test_a_node_of_which_the_offering_is_unknown_keeps_its_price() -> None:
    it = Fleet((SMALL,), (node_pool(),), WORK, (reservation("cr-1", "small", 1, 0),))
    prices = NodePrices.of((LARGE,))
    for market, reservation_id in ((SPOT, None), (RESERVED, "cr-1")):
        claim = it.add_node("a", "small", market, {}, reservation_id=reservation_id)

        assert prices.today(claim.offering, 7) == 7
