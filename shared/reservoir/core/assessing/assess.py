"""What runs in reservations, how much of them is idle, and what is paid for on demand beside them.

An instance would fit a free unit if type, zone, platform and tenancy are the same: EC2 compares nothing else. Prices
are those of Linux on shared hardware; other prices are unknown, and never zero.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.model.capacity_reservation import (
    ACTIVE,
    ENDED_STATES,
    ObservedReservation,
    ReservationKind,
)

LINUX: Final = "Linux/UNIX"
SHARED: Final = "default"
UNTAGGED: Final = "untagged"
ELSEWHERE: Final = "another account, or nothing that is shown"
# Tags that name the owner of an instance, the most specific first; without any, no owner is named.
HOLDER_TAGS: Final = (
    "karpenter.sh/nodepool",
    "eks:nodegroup-name",
    "aws:autoscaling:groupName",
    "parallelcluster:cluster-name",
    "ray-cluster-name",
    "team",
    "Name",
)
Place = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Running:
    """An instance of the account. ``lifecycle`` is empty for an instance that is on demand or runs in a reservation."""

    id: str
    instance_type: str
    zone: str
    platform: str
    tenancy: str
    lifecycle: str
    reservation_id: str | None
    tags: Mapping[str, str]

    @property
    def holder(self) -> str:
        """The owner, by its tags."""
        return next(
            (f"{key}={self.tags[key]}" for key in HOLDER_TAGS if self.tags.get(key)),
            UNTAGGED,
        )


@dataclass(frozen=True, slots=True)
class Use:
    """One reservation. Idle money is of free units of an active one, an hour; None without a price."""

    reservation: ObservedReservation
    free_count: int
    holders: Mapping[str, int]  # units by holder, the most first
    idle_micro_usd_per_hour: int | None
    ends_soon: bool


@dataclass(frozen=True, slots=True)
class Beside:
    """Instances that are paid for on demand while units of their kind are free: ``count`` of them would fit."""

    instance_type: str
    zone: str
    platform: str
    free_count: int
    on_demand_count: int
    holders: Mapping[str, int]
    micro_usd_per_hour: int | None  # of the instances that would fit

    @property
    def count(self) -> int:
        """How many would fit."""
        return min(self.free_count, self.on_demand_count)


@dataclass(frozen=True, slots=True)
class Assessment:
    """All of it: the most expensive idle units first."""

    uses: tuple[Use, ...]
    beside: tuple[Beside, ...]


def assess(
    reservations: Sequence[ObservedReservation],
    instances: Sequence[Running],
    prices: Mapping[str, int],
    now: datetime,
    soon: timedelta,
) -> Assessment:
    """Judge an account in one region.

    Parameters
    ----------
    instances
        Those that run.
    prices
        Micro-USD an hour on demand, by type.
    """
    living = [each for each in reservations if each.state not in ENDED_STATES]
    uses = [_use(each, instances, prices, now + soon) for each in living]
    return Assessment(tuple(sorted(uses, key=_order)), _beside(uses, instances, prices))


def _order(use: Use) -> tuple[int, int, str]:
    return -(use.idle_micro_usd_per_hour or 0), -use.free_count, use.reservation.id


def _use(
    reservation: ObservedReservation,
    instances: Sequence[Running],
    prices: Mapping[str, int],
    soon: datetime,
) -> Use:
    holders = Counter(
        each.holder for each in instances if each.reservation_id == reservation.id
    )
    free_count = reservation.available_count if reservation.state == ACTIVE else 0
    taken = reservation.total_count - reservation.available_count
    hidden = taken - holders.total() if reservation.state == ACTIVE else 0
    if hidden > 0:
        holders[ELSEWHERE] = hidden
    price = _price(_place_of(reservation), prices)
    idle_micro_usd_per_hour: int | None = 0
    if free_count:
        idle_micro_usd_per_hour = None if price is None else free_count * price
    return Use(
        reservation=reservation,
        free_count=free_count,
        holders=dict(sorted(holders.items(), key=lambda item: (-item[1], item[0]))),
        idle_micro_usd_per_hour=idle_micro_usd_per_hour,
        ends_soon=reservation.end_at is not None and reservation.end_at <= soon,
    )


def _beside(
    uses: Sequence[Use], instances: Sequence[Running], prices: Mapping[str, int]
) -> tuple[Beside, ...]:
    free: Counter[Place] = Counter()
    for use in uses:
        # an instance that runs cannot move into a block
        if use.reservation.kind is ReservationKind.DEFAULT:
            free[_place_of(use.reservation)] += use.free_count
    outside = _on_demand(instances)
    found = [
        _fitting(place, free[place], running, prices)
        for place, running in outside.items()
        if free[place]
    ]
    return tuple(
        sorted(
            found, key=lambda it: (-(it.micro_usd_per_hour or 0), it.instance_type, it.zone)
        )
    )


def _on_demand(instances: Sequence[Running]) -> Mapping[Place, Sequence[Running]]:
    """Return the instances that are on demand and in no reservation, by place."""
    found: dict[Place, list[Running]] = {}
    for each in instances:
        if not each.lifecycle and each.reservation_id is None:
            place = (each.instance_type, each.zone, each.platform, each.tenancy)
            found.setdefault(place, []).append(each)
    return found


def _fitting(
    place: Place, free_count: int, running: Sequence[Running], prices: Mapping[str, int]
) -> Beside:
    price, holders = _price(place, prices), Counter(each.holder for each in running)
    paid = None if price is None else price * min(free_count, len(running))
    return Beside(
        place[0], place[1], place[2], free_count, len(running), dict(holders), paid
    )


def _place_of(reservation: ObservedReservation) -> Place:
    return (
        reservation.instance_type,
        reservation.zone,
        reservation.platform,
        reservation.tenancy,
    )


def _price(place: Place, prices: Mapping[str, int]) -> int | None:
    instance_type, _, platform, tenancy = place
    return prices.get(instance_type) if (platform, tenancy) == (LINUX, SHARED) else None
