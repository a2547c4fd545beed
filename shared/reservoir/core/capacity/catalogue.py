"""The catalogue: instance types with the offerings that follow from zones and prices."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from reservoir.core.model.instance_type import CapacityType, InstanceType, Offering

# Spot prices move a little all the time. A type is written again once one of its prices is further off than this. Until
# then the stored prices stay, so none is ever further from EC2's than this, and a quiet market causes no writes.
SPOT_WOBBLE_PERCENT: Final = 2


@dataclass(frozen=True, slots=True)
class DiscoveredType:
    """An instance type as EC2 describes it, and the markets on which it is sold at all."""

    instance_type: InstanceType
    markets: frozenset[CapacityType]


@dataclass(frozen=True, slots=True)
class Discovered:
    """What was read. Prices of None could not be read; the last known ones are used instead."""

    types: Sequence[DiscoveredType]
    zone_ids: Mapping[str, Collection[str]]  # by type name
    zone_names: Mapping[str, str]  # by zone id
    on_demand: Mapping[str, int] | None  # micro-USD per hour by type name
    spot: Mapping[tuple[str, str], int] | None  # by type name and zone name


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The result. A type that is sold on demand and has no price, now or before, cannot be bought: it is named."""

    instance_types: tuple[InstanceType, ...]
    unpriced: tuple[str, ...] = field(default=())  # sold on demand, price never seen
    # the price list misses them now
    priced_from_before: tuple[str, ...] = field(default=())
    # "type zone", sold there as before, but spot has no price any more
    spot_lost: tuple[str, ...] = field(default=())


# Branches: one pass over the types; every branch is a price that may be missing.
def compose(discovered: Discovered, before: Sequence[InstanceType]) -> Catalogue:
    """Put types, zones and prices together.

    A missing price never makes an offering free: the last known on-demand price stays; without one the offering is
    left out and the type is reported. A spot pool without a price has no spot offering (R-198), and is reported if it
    had one, unless spot prices could not be read at all.
    """
    last = {instance_type.name: instance_type for instance_type in before}
    composed = []
    unpriced = []
    kept = []
    for item in sorted(discovered.types, key=lambda item: item.instance_type.name):
        name = item.instance_type.name
        earlier = last.get(name)
        price = None if discovered.on_demand is None else discovered.on_demand.get(name)
        if (
            price is None
            and earlier is not None
            and earlier.on_demand_price_micro_usd_per_hour is not None
        ):
            price = earlier.on_demand_price_micro_usd_per_hour
            kept.append(name)
        if price is None and CapacityType.ON_DEMAND in item.markets:
            unpriced.append(name)
        offerings: list[Offering] = []
        for zone_id in sorted(discovered.zone_ids.get(name, ())):
            offerings.extend(_offerings(item, discovered, earlier, zone_id, price))
        found = replace(
            item.instance_type,
            offerings=tuple(offerings),
            on_demand_price_micro_usd_per_hour=price,
        )
        composed.append(
            earlier if earlier is not None and _only_wobbles(earlier, found) else found
        )
    return Catalogue(
        tuple(composed),
        tuple(unpriced),
        tuple(kept),
        _spot_lost(composed, discovered, last),
    )


def _spot_lost(
    composed: Sequence[InstanceType],
    discovered: Discovered,
    last: Mapping[str, InstanceType],
) -> tuple[str, ...]:
    """Name the spot offerings that are gone for want of a price alone."""
    markets = {item.instance_type.name: item.markets for item in discovered.types}
    lost = []
    for found in composed:
        if found.name in last and CapacityType.SPOT in markets[found.name]:
            gone = _spot_zones(last[found.name]) - _spot_zones(found)
            still_sold = gone & set(discovered.zone_ids.get(found.name, ()))
            lost += [
                f"{found.name} {discovered.zone_names.get(zone_id, zone_id)}"
                for zone_id in sorted(still_sold)
            ]
    return tuple(lost)


def _spot_zones(instance_type: InstanceType) -> set[str]:
    return {
        each.zone_id
        for each in instance_type.offerings
        if each.capacity_type is CapacityType.SPOT
    }


def _only_wobbles(earlier: InstanceType, found: InstanceType) -> bool:
    """Whether nothing but spot prices differs, and those hardly."""
    if (
        len(earlier.offerings) != len(found.offerings)
        or replace(earlier, offerings=found.offerings) != found
    ):
        return False
    return all(map(_is_nearly, earlier.offerings, found.offerings))


def _is_nearly(earlier: Offering, found: Offering) -> bool:
    old, new = earlier.price_micro_usd_per_hour, found.price_micro_usd_per_hour
    allowed = old * SPOT_WOBBLE_PERCENT if found.capacity_type is CapacityType.SPOT else 0
    return (
        replace(earlier, price_micro_usd_per_hour=new) == found
        and abs(new - old) * 100 <= allowed
    )


def _offerings(
    item: DiscoveredType,
    discovered: Discovered,
    earlier: InstanceType | None,
    zone_id: str,
    price: int | None,
) -> list[Offering]:
    zone = discovered.zone_names.get(zone_id)
    if zone is None:
        return []  # a Local Zone or one that the account has not opted into
    found = []
    if CapacityType.ON_DEMAND in item.markets and price is not None:
        found.append(Offering(zone, zone_id, CapacityType.ON_DEMAND, price))
    if CapacityType.SPOT in item.markets:
        spot = _spot_price(item.instance_type.name, discovered, earlier, zone, zone_id)
        if spot is not None:
            found.append(Offering(zone, zone_id, CapacityType.SPOT, spot))
    return found


def _spot_price(
    name: str, discovered: Discovered, earlier: InstanceType | None, zone: str, zone_id: str
) -> int | None:
    if discovered.spot is not None:
        return discovered.spot.get((name, zone))
    if earlier is None:
        return None
    return next(
        (
            offering.price_micro_usd_per_hour
            for offering in earlier.offerings
            if offering.capacity_type is CapacityType.SPOT and offering.zone_id == zone_id
        ),
        None,
    )
