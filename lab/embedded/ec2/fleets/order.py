"""The order in which allocation strategies turn to the pools of a fleet."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from lab.embedded.ec2.account.state import Market
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.fleets.request import Pool
from lab.embedded.ec2.instances.placement import Draft
from lab.embedded.ec2.market import spot
from lab.embedded.ec2.market.catalogue import instance_types
from lab.embedded.ec2.market.prices import on_demand_micro_usd_per_hour

SortKey = Callable[[Pool], tuple[Any, ...]]


def on_demand_order(strategy: str) -> SortKey:
    """Return the order of on-demand pools: by price of a unit, or by priority."""

    def by_price(pool: Pool) -> tuple[Any, ...]:
        return (_unit_price(pool, _on_demand_price(pool)), pool.index)

    def by_priority(pool: Pool) -> tuple[Any, ...]:
        return (pool.priority, pool.index)

    return by_priority if strategy == "prioritized" else by_price


def spot_order(world: World, draft: Draft, strategy: str, units: int) -> SortKey:
    """Return the order of Spot pools.

    EC2 does not publish how it rates capacity. Here a pool either can hold the whole request or has as much as it has;
    strategies that look at capacity first compare that, and only then price or priority. ``units`` are of target
    capacity; what a pool can hold is compared with them as if every instance were one.
    """

    def price(pool: Pool) -> Fraction:
        if pool.spec is None or pool.spec.instance_type not in instance_types():
            return Fraction(0)
        return _unit_price(
            pool,
            spot.price_micro_usd_per_hour(
                world, pool.spec.instance_type, pool.spec.zone.name
            ),
        )

    def missing(pool: Pool) -> int:
        free = (
            draft.free_hardware(replace(pool.spec, market=Market.SPOT))
            if pool.spec is not None
            else 0
        )
        return 0 if free is None else max(0, units - free)

    if strategy in {"price-capacity-optimized", "capacity-optimized"}:
        return lambda pool: (missing(pool), price(pool), pool.index)
    if strategy == "capacity-optimized-prioritized":
        return lambda pool: (missing(pool), pool.priority, price(pool), pool.index)
    return lambda pool: (price(pool), pool.index)


def _on_demand_price(pool: Pool) -> int:
    known = pool.spec is not None and pool.spec.instance_type in instance_types()
    if known and pool.spec is not None:
        return on_demand_micro_usd_per_hour(pool.spec.instance_type)
    return 0


def _unit_price(pool: Pool, micro_usd_per_hour: int) -> Fraction:
    return Fraction(micro_usd_per_hour) / pool.weight
