"""All that EC2 sells in us-east-1: moto's copy of its types and zones read as the product reads EC2's answer.

``ec2_catalogue`` leaves out what few want; a region has all of it, and a pass of a deployment looks at all of it.
"""

import random
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any, Final

from lab.bench.worlds.catalogue import (
    ZONES,
    Catalogue,
    listed_prices,
    offered_zones,
    resource,
)
from reservoir.adapters.ec2.instance_types import parse
from reservoir.core.model.instance_type import CapacityType, InstanceType, Offering
from reservoir.core.scheduling_terms import labels

_REGION: Final = "us-east-1"
_OVERHEAD: Final = Fraction(75, 1000)
_ALL_ZONES: Final = (*ZONES, "us-east-1e")
_ARCHITECTURES: Final = frozenset({"x86_64", "arm64"})
# What the formula does not know, a price an hour of each vCPU, in micro-USD.
_PRICE_PER_VCPU: Final = 48_000


@cache
def whole_region(seed: int = 7) -> Catalogue:
    """Return every type of the region with its offerings; spot at 25 to 60 % of the price on demand, drawn."""
    prices, source = listed_prices(resource("instance_types.json.gz"))
    rng = random.Random(seed)
    found = tuple(
        _priced(instance_type, markets, prices, rng)
        for instance_type, markets in _described()
    )
    return Catalogue(found, tuple((zone, _zone_id(zone)) for zone in _ALL_ZONES), source)


def _described() -> Iterator[tuple[InstanceType, frozenset[CapacityType]]]:
    descriptions: dict[str, dict[str, Any]] = resource("instance_types.json.gz")
    for name in sorted(descriptions):
        info = descriptions[name]
        if _ARCHITECTURES.isdisjoint(
            info["ProcessorInfo"]["SupportedArchitectures"]
        ) or not _zones_of(name):
            continue
        if "hvm" in info.get("SupportedVirtualizationTypes", ()):
            discovered = parse(info, _REGION, _OVERHEAD)
            yield discovered.instance_type, discovered.markets


def _zones_of(name: str) -> list[str]:
    return sorted(offered_zones().get(name, ()))


def _priced(
    kind: InstanceType,
    markets: frozenset[CapacityType],
    prices: dict[str, int],
    rng: random.Random,
) -> InstanceType:
    cpus = int(kind.requirements.labels()[labels.INSTANCE_CPU])
    price = prices.get(kind.name, _PRICE_PER_VCPU * cpus)
    offerings = [
        Offering(zone, _zone_id(zone), market, _price_in(market, price, rng))
        for market in (CapacityType.ON_DEMAND, CapacityType.SPOT)
        if market in markets
        for zone in _zones_of(kind.name)
    ]
    return InstanceType(
        name=kind.name,
        requirements=kind.requirements,
        capacity=kind.capacity,
        overhead=kind.overhead,
        offerings=tuple(offerings),
        on_demand_price_micro_usd_per_hour=price,
        ultra_server=kind.ultra_server,
        efa_cards=kind.efa_cards,
    )


def _price_in(market: CapacityType, price: int, rng: random.Random) -> int:
    if market is CapacityType.ON_DEMAND:
        return price
    return max(1, round(price * rng.uniform(0.25, 0.6)))


def _zone_id(zone: str) -> str:
    return f"use1-az{'abcdef'.index(zone[-1]) + 1}"
