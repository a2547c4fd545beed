"""The catalogue without what EC2 is known to be short of, or refuses for now."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from reservoir.core.model.capacity_reservation import CapacityReservation, RefusedUnits
from reservoir.core.model.instance_type import CapacityType, InstanceType, Offering
from reservoir.core.model.node_class import MarketRest, NodeClass, NodeClassStatus
from reservoir.core.model.plan import OfferingKey

# EC2's quotas count the vCPUs of these families together (user guide, "On-Demand Instance quotas" and "Spot Instance
# quotas"); a family that is not listed has a quota of its own. Spot counts P5 apart from older P: one rest too many.
_QUOTA_GROUPS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"), "Standard"),
    **dict.fromkeys(("g", "gr", "vt"), "G and VT"),
}
_FAMILY: Final = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True)
class Market:
    """All offerings of a capacity type that share a quota of the account; every one of it where that is empty."""

    capacity_type: CapacityType
    quota_group: str = ""


@dataclass(frozen=True, slots=True)
class SubnetKey:
    """A subnet that EC2 found without a free address, whatever was to be launched there."""

    subnet_id: str


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Not to be asked for before ``until``; ``reason`` is for users, empty for insufficient capacity."""

    until: datetime
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NodeClassKey:
    """A class whose instances do not start, with its configuration: another configuration is another key."""

    name: str
    static_hash: str


@dataclass(frozen=True, slots=True)
class ClassMarketKey:
    """A market on which EC2 refuses what a class asks for, as it is configured, in pools of every kind."""

    name: str
    static_hash: str
    capacity_type: CapacityType


def class_rests(rest: Unavailable) -> str:
    """Return for users why a class launches nothing, and until when."""
    return f"{rest.reason}; launched again from {rest.until:%H:%M} UTC, or when the class changes"


@dataclass(frozen=True, slots=True)
class BootKey:
    """An offering whose instances ended before they ran, or were interrupted, or are at an elevated risk of it.

    EC2 has capacity, so a launch says nothing about it.
    """

    offering: OfferingKey


@dataclass(frozen=True, slots=True)
class SpotLossKey:
    """A workload that lost more by interruptions of spot nodes than they gained it (rule 8)."""

    workload_key: str


@dataclass(frozen=True, slots=True)
class MoveKey:
    """Moves of units from one reservation to another that EC2 refused."""

    source_id: str
    destination_id: str


# what a launch that fails lets rest
Rested = OfferingKey | SubnetKey | NodeClassKey | ClassMarketKey
# failures are counted, so that it rests longer each time
Remembered = Rested | BootKey | MoveKey | SpotLossKey
Place = Rested | Market | SpotLossKey
Rests = Mapping[Place, Unavailable]


def quota_group(instance_type_name: str) -> str:
    """Return which quota counts the type: "Standard", "G and VT", or the letters of its family ("P", "INF")."""
    family = _FAMILY.match(instance_type_name)
    letters = family.group() if family is not None else instance_type_name
    return _QUOTA_GROUPS.get(letters, letters.upper())


def with_shortages(
    instance_types: Sequence[InstanceType], shortages: Mapping[Place, Unavailable]
) -> tuple[InstanceType, ...]:
    """Return the types with ``unavailable_until`` set on the offerings in ``shortages``; the latest end counts.

    Shortages of reservations are left out: reservations are no part of the catalogue (:func:`without_resting`).
    """
    by_type: dict[str, dict[tuple[str, str], Unavailable]] = {}
    markets: dict[Market, Unavailable] = {}
    for place, shortage in shortages.items():
        if isinstance(place, Market):
            markets[place] = shortage
        elif isinstance(place, OfferingKey) and place.reservation_id is None:
            by_type.setdefault(place.instance_type, {})[
                (place.zone_id, place.capacity_type)
            ] = shortage
    return tuple(
        _marked(instance_type, by_type.get(instance_type.name, {}), markets)
        if markets or instance_type.name in by_type
        else instance_type
        for instance_type in instance_types
    )


def _marked(
    instance_type: InstanceType,
    named: Mapping[tuple[str, str], Unavailable],
    markets: Mapping[Market, Unavailable],
) -> InstanceType:
    group = quota_group(instance_type.name)

    def marked(offering: Offering) -> Offering:
        market = offering.capacity_type
        found = [
            named.get((offering.zone_id, market)),
            markets.get(Market(market)),
            markets.get(Market(market, group)),
        ]
        latest = max(
            (each for each in found if each is not None),
            key=lambda each: each.until,
            default=None,
        )
        if latest is None:
            return offering
        return replace(
            offering, unavailable_until=latest.until, unavailable_reason=latest.reason
        )

    return replace(instance_type, offerings=tuple(map(marked, instance_type.offerings)))


def without_resting(
    reservations: Iterable[CapacityReservation], rests: Mapping[Place, Unavailable]
) -> tuple[CapacityReservation, ...]:
    """Return the reservations; resting ones have no free units, because EC2 refuses units that it shows as free."""
    resting = {
        place.reservation_id: rest
        for place, rest in rests.items()
        if isinstance(place, OfferingKey)
    }
    return tuple(
        _without_units(item, resting[item.id]) if item.id in resting else item
        for item in reservations
    )


def _without_units(
    reservation: CapacityReservation, rest: Unavailable
) -> CapacityReservation:
    before = reservation.refusal
    shown_count = reservation.available_count if before is None else before.shown_count
    reason = rest.reason or "EC2 goes on refusing it"
    return replace(
        reservation, free_units=0, refusal=RefusedUnits(reason, shown_count, rest.until)
    )


def with_resting_markets(
    node_class: NodeClass, status: NodeClassStatus, rests: Mapping[Place, Unavailable]
) -> NodeClassStatus:
    """Return the status with the markets on which EC2 refuses the class, as it is configured now."""
    found = {
        str(place.capacity_type): MarketRest(rest.reason, rest.until)
        for place, rest in rests.items()
        if isinstance(place, ClassMarketKey) and _is_of(place, node_class)
    }
    return replace(status, resting_markets=found) if found else status


def _is_of(place: ClassMarketKey, node_class: NodeClass) -> bool:
    return (place.name, place.static_hash) == (node_class.name, node_class.static_hash)


def resting(
    instance_types: Iterable[InstanceType], now: datetime
) -> frozenset[OfferingKey]:
    """Return the offerings that may not be asked for at ``now``."""
    return frozenset(_resting(instance_types, now))


def _resting(
    instance_types: Iterable[InstanceType], now: datetime
) -> Iterator[OfferingKey]:
    for instance_type in instance_types:
        for offering in instance_type.offerings:
            if not offering.is_available(now):
                yield OfferingKey(
                    instance_type.name,
                    offering.zone,
                    offering.zone_id,
                    offering.capacity_type,
                )
