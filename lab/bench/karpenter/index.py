"""Instance types and offerings as bit sets, so that the port of Karpenter's loop is fast enough to be measured.

Only the representation is ours; what is asked of it is Karpenter's type filter (R-24, R-52).
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources


@dataclass(frozen=True, slots=True)
class PortOffering:
    """One purchasable variant of a type; ``type_index`` is the type's bit."""

    type_index: int
    zone: str
    zone_id: str
    capacity_type: CapacityType
    price_atto_usd: int
    requirements: Requirements
    reservation_id: str | None = None


class Index:
    """All types of a snapshot, with memoised answers. Requirement sets are interned, so that a memo key is cheap."""

    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        self.types: tuple[InstanceType, ...] = snapshot.instance_types
        self.offerings = tuple(_offerings(snapshot, now))
        self.counts = {item.id: item.free_units for item in snapshot.reservations}
        self._interned: dict[Requirements, Requirements] = {}
        self._merged: dict[tuple[int, int], Requirements | None] = {}
        self._matching: dict[int, int] = {}
        self._offered: dict[int, int] = {}
        self._reserved: dict[int, tuple[PortOffering, ...]] = {}
        self._by_amount: dict[str, tuple[list[int], list[int]]] = {}
        self._groups = _grouped(self.offerings)
        self._by_reservation = [
            item for item in self.offerings if item.reservation_id is not None
        ]
        self._markets: dict[int, tuple[_Market, ...]] = {}

    def new_loop(self) -> None:
        """Forget what depended on the counts of reservations: a launch has changed them."""
        self._offered.clear()
        self._reserved.clear()

    def interned(self, requirements: Requirements) -> Requirements:
        """Return the one object that stands for all equal requirement sets."""
        return self._interned.setdefault(requirements, requirements)

    def merged(self, claim: Requirements, wanted: Requirements) -> Requirements | None:
        """Return both together, or None when a claim of the first cannot meet the second. Both must be interned."""
        key = (id(claim), id(wanted))
        if key not in self._merged:
            is_met = claim.compatible(wanted, labels.WELL_KNOWN) is None
            self._merged[key] = self.interned(claim.merged(wanted)) if is_met else None
        return self._merged[key]

    def matching(self, requirements: Requirements) -> int:
        """Return the types whose own requirements meet these (interned) ones."""
        known = self._matching.get(id(requirements))
        if known is None:
            known = sum(
                1 << index
                for index, item in enumerate(self.types)
                if requirements.intersects(item.requirements) is None
            )
            self._matching[id(requirements)] = known
        return known

    def offered(self, requirements: Requirements) -> int:
        """Return the types with an available offering that meets these (interned) requirements."""
        known = self._offered.get(id(requirements))
        if known is None:
            known = 0
            for group in self._compatible(requirements):
                known |= group.types
            for offering in self.reserved(requirements):
                known |= 1 << offering.type_index
            self._offered[id(requirements)] = known
        return known

    def _compatible(self, requirements: Requirements) -> tuple["_Market", ...]:
        known = self._markets.get(id(requirements))
        if known is None:
            known = tuple(
                market
                for market in self._groups
                if requirements.compatible(market.requirements, labels.WELL_KNOWN) is None
            )
            self._markets[id(requirements)] = known
        return known

    def cheapest(self, requirements: Requirements, types: int) -> PortOffering:
        """Return the cheapest spot or on-demand offering of these types that meets the (interned) requirements."""
        found = []
        for market in self._compatible(requirements):
            found.extend(
                next(
                    ([item] for item in market.by_price if types >> item.type_index & 1), []
                )
            )
        return min(found, key=_price_order)

    def cheapest_held(self, held: Iterable[str], types: int) -> PortOffering:
        """Return the cheapest offering among held reservations."""
        wanted = frozenset(held)
        return min(
            (
                item
                for item in self._by_reservation
                if item.reservation_id in wanted and types >> item.type_index & 1
            ),
            key=_price_order,
        )

    def reserved(self, requirements: Requirements) -> tuple[PortOffering, ...]:
        """Return the reserved offerings that have units left and meet these (interned) requirements."""
        known = self._reserved.get(id(requirements))
        if known is None:
            known = tuple(
                offering
                for offering in self._by_reservation
                if offering.reservation_id is not None
                and self.counts[offering.reservation_id] > 0
                and requirements.compatible(offering.requirements, labels.WELL_KNOWN)
                is None
            )
            self._reserved[id(requirements)] = known
        return known

    def holding(self, load: Iterable[tuple[str, int]]) -> int:
        """Return the types whose allocatable resources hold the load."""
        mask = -1
        for name, amount in load:
            if amount > 0:
                mask &= self._with_at_least(name, amount)
        return mask & ((1 << len(self.types)) - 1)

    def _with_at_least(self, name: str, amount: int) -> int:
        known = self._by_amount.get(name)
        if known is None:
            order = sorted(
                range(len(self.types)),
                key=lambda index: self.types[index].allocatable[name],
            )
            masks, mask = [0], 0
            for index in reversed(order):
                mask |= 1 << index
                masks.append(mask)
            known = [self.types[index].allocatable[name] for index in order], masks[::-1]
            self._by_amount[name] = known
        amounts, masks = known
        return masks[bisect_left(amounts, amount)]

    def members(self, mask: int) -> list[int]:
        """Return the indices of a set of types."""
        found = []
        while mask:
            low = mask & -mask
            found.append(low.bit_length() - 1)
            mask ^= low
        return found

    def largest(self, mask: int) -> Resources:
        """Return the most of each resource over the types (R-58)."""
        most: dict[str, int] = {}
        for index in self.members(mask):
            for name, amount in self.types[index].capacity.items():
                most[name] = max(amount, most.get(name, 0))
        return Resources.of(most)


def _offerings(snapshot: Snapshot, now: datetime) -> Iterable[PortOffering]:
    reservation_labels = [
        Requirement.new(key, Operator.DOES_NOT_EXIST)
        for key in sorted(labels.RESERVATION_LABELS)
    ]
    by_name = {item.name: index for index, item in enumerate(snapshot.instance_types)}
    for index, item in enumerate(snapshot.instance_types):
        for offering in item.offerings:
            if offering.is_available(now):
                price = offering.price_micro_usd_per_hour * ATTO_USD_PER_MICRO_USD
                where = _described(offering.zone, offering.zone_id, offering.capacity_type)
                yield PortOffering(
                    index,
                    offering.zone,
                    offering.zone_id,
                    offering.capacity_type,
                    price,
                    where.add(*reservation_labels),
                )
    for reservation in snapshot.reservations:
        if not reservation.is_active(now) or not _is_selected(
            reservation.id, snapshot.node_classes
        ):
            continue
        index = by_name[reservation.instance_type]
        kind = (
            "capacity-block"
            if reservation.kind is ReservationKind.CAPACITY_BLOCK
            else "default"
        )
        where = _described(
            reservation.zone, reservation.zone_id, CapacityType.RESERVED
        ).add(
            Requirement.new(labels.CAPACITY_RESERVATION_ID, Operator.IN, (reservation.id,)),
            Requirement.new(labels.CAPACITY_RESERVATION_TYPE, Operator.IN, (kind,)),
        )
        on_demand = snapshot.instance_types[index].on_demand_price_micro_usd_per_hour or 0
        # Karpenter's constant divisor
        price = on_demand * ATTO_USD_PER_MICRO_USD // 10_000_000
        yield PortOffering(
            index,
            reservation.zone,
            reservation.zone_id,
            CapacityType.RESERVED,
            price,
            where,
            reservation.id,
        )


def _is_selected(reservation_id: str, node_classes: Iterable[NodeClass]) -> bool:
    return any(reservation_id in item.status.reservation_ids for item in node_classes)


def _described(zone: str, zone_id: str, capacity_type: CapacityType) -> Requirements:
    facts = {
        labels.ZONE: zone,
        labels.ZONE_ID: zone_id,
        labels.CAPACITY_TYPE: str(capacity_type),
    }
    return Requirements.from_labels(facts)


@dataclass(frozen=True, slots=True)
class _Market:
    """All spot or on-demand offerings with the same labels: they answer alike."""

    requirements: Requirements
    types: int
    by_price: tuple[PortOffering, ...]


def _price_order(offering: PortOffering) -> tuple[int, int, str]:
    return offering.price_atto_usd, offering.type_index, offering.zone


def _grouped(offerings: Iterable[PortOffering]) -> list[_Market]:
    found: dict[Requirements, list[PortOffering]] = {}
    for offering in offerings:
        if offering.reservation_id is None:
            found.setdefault(offering.requirements, []).append(offering)
    markets = []
    for requirements, items in found.items():
        types = sum(1 << item.type_index for item in items)
        by_price = tuple(sorted(items, key=_price_order))
        markets.append(_Market(requirements, types, by_price))
    return markets
