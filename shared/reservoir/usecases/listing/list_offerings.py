"""List offerings: what can be had where, for how much, and what rests and why."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Final

from reservoir.core.capacity.unavailable_offerings import Place, Unavailable
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.instance_type import CapacityType, InstanceType, Offering
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import OfferingKey
from reservoir.core.scheduling_terms.labels import CAPACITY_TYPE, ZONE
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.manifests.answers.listed import (
    Named,
    OfferingRow,
    OfferingRowSpec,
    OfferingRowStatus,
    OfferingState,
)
from reservoir.ports.state import OfferingStore, ReservationStore
from reservoir.ports.system import Clock

NO_CAPACITY: Final = "EC2 had no capacity"


@dataclass(frozen=True, slots=True)
class ForPool:
    """A pool, and the reservations that its class selects: nothing else is offered to it."""

    pool: NodePool
    reservation_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class ListedOffering:
    """An offering, and whether it can be had now. An account has some ten thousand: the model is made when asked for.

    ``reservation_id``: of a reservation, and bought where there is none. ``price_micro_usd_per_hour``: None where no
    price is known. ``free``: units of a reservation. ``rests_until`` and ``reason``: where it is not available.
    """

    instance_type: str
    zone: str
    capacity_type: CapacityType
    price_micro_usd_per_hour: int | None
    state: OfferingState = OfferingState.AVAILABLE
    reservation_id: str | None = None
    free: int | None = None
    rests_until: datetime | None = None
    reason: str | None = None

    @property
    def name(self) -> str:
        """The offering's name: its type, its zone, and its market or reservation."""
        return f"{self.instance_type}/{self.zone}/{self.reservation_id or self.capacity_type.value}"

    def row(self) -> OfferingRow:
        """Return it as programs read it."""
        return OfferingRow(
            metadata=Named(name=self.name),
            spec=OfferingRowSpec(
                instance_type=self.instance_type,
                zone=self.zone,
                capacity_type=self.capacity_type,
                capacity_reservation_id=self.reservation_id,
                price_micro_usd_per_hour=self.price_micro_usd_per_hour,
            ),
            status=OfferingRowStatus(
                state=self.state,
                free=self.free,
                rests_until=self.rests_until,
                reason=self.reason,
            ),
        )


@dataclass(frozen=True, slots=True)
class ListOfferings:
    """Lists offerings of the catalogue (one partition of an index: a row an instance type) and of reservations."""

    offerings: OfferingStore
    reservations: ReservationStore
    clock: Clock

    def list(
        self, names: Collection[str] = (), wanted_by: ForPool | None = None
    ) -> list[ListedOffering]:
        """Return the offerings of these instance types or families (``p5``); without names, of all.

        With a pool, only those that its requirements and its class allow. By type; reserved ones first, then the
        cheapest. Raises UnreadableRowsError when the catalogue cannot be read.
        """
        now = self.clock.now()
        pool = None if wanted_by is None else wanted_by.pool
        types, rests = self.offerings.load_with_rests()
        wanted = {each.name: each for each in types if _is_named(each.name, names)}
        rows = list(
            chain.from_iterable(_bought(each, now, pool) for each in wanted.values())
        )
        for record in self.reservations.list_current():
            each = record.reservation
            is_selected = wanted_by is None or each.id in wanted_by.reservation_ids
            if not (is_selected and _is_named(each.instance_type, names)):
                continue
            if _is_allowed(
                pool, wanted.get(each.instance_type), each.zone, CapacityType.RESERVED
            ):
                rows.append(_reserved(each, rests, now))
        return sorted(rows, key=_order)


def _is_named(instance_type_name: str, names: Collection[str]) -> bool:
    return (
        not names
        or instance_type_name in names
        or instance_type_name.partition(".")[0] in names
    )


def _is_allowed(
    pool: NodePool | None,
    instance_type: InstanceType | None,
    zone: str,
    market: CapacityType,
) -> bool:
    if pool is None:
        return True
    place = Requirements.from_labels({ZONE: zone, CAPACITY_TYPE: market.value})
    whole = place if instance_type is None else instance_type.requirements.merged(place)
    return pool.requirements.intersects(whole) is None


def _order(found: ListedOffering) -> tuple[str, bool, int, str, str]:
    is_bought = found.reservation_id is None
    return (
        found.instance_type,
        is_bought,
        found.price_micro_usd_per_hour or 0,
        found.zone,
        found.name,
    )


def _bought(
    instance_type: InstanceType, now: datetime, pool: NodePool | None
) -> Iterator[ListedOffering]:
    for offering in instance_type.offerings:
        if _is_allowed(pool, instance_type, offering.zone, offering.capacity_type):
            found = ListedOffering(
                instance_type.name,
                offering.zone,
                offering.capacity_type,
                offering.price_micro_usd_per_hour,
            )
            yield found if offering.is_available(now) else _resting(found, offering)


def _resting(found: ListedOffering, offering: Offering) -> ListedOffering:
    return replace(
        found,
        state=OfferingState.RESTING,
        rests_until=offering.unavailable_until,
        reason=offering.unavailable_reason or NO_CAPACITY,
    )


def _reserved(
    reservation: CapacityReservation, rests: Mapping[Place, Unavailable], now: datetime
) -> ListedOffering:
    place = OfferingKey(
        reservation.instance_type,
        reservation.zone,
        reservation.zone_id,
        CapacityType.RESERVED,
        reservation.id,
    )
    rest, free = rests.get(place), reservation.free_units
    state = OfferingState.AVAILABLE if free else OfferingState.FULL
    found = ListedOffering(
        place.instance_type,
        place.zone,
        place.capacity_type,
        0,
        state,
        reservation_id=reservation.id,
        free=free,
    )
    if not reservation.is_active(now):
        return replace(
            found, state=OfferingState.NOT_ACTIVE, reason=_why_not_active(reservation, now)
        )
    if rest is not None and rest.until > now:
        reason = rest.reason or "EC2 refused a unit"
        return replace(
            found, state=OfferingState.RESTING, rests_until=rest.until, reason=reason
        )
    return found


def _why_not_active(reservation: CapacityReservation, now: datetime) -> str:
    drain_at = reservation.drain_at()
    if drain_at is not None and drain_at <= now:
        return "about to end: nothing more is launched into it"
    return f"{reservation.state} in EC2"
