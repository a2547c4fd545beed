"""Why an offering cannot serve, and which of many such failures a person would act on."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.plan import OfferingKey, ReasonCode
from reservoir.core.model.workload import Withheld
from reservoir.core.scheduling_terms.labels import (
    CAPACITY_RESERVATION_ID,
    CAPACITY_TYPE,
    ZONE,
    ZONE_ID,
)

# How far an offering came, from nothing to everything; the farthest names the reason.
_ORDER: Final = (
    ReasonCode.NO_NODE_POOL,
    ReasonCode.INCOMPATIBLE,
    ReasonCode.TOO_LARGE,
    ReasonCode.DURATION_DOES_NOT_FIT,
    ReasonCode.FALLBACK_NOT_YET,
    ReasonCode.RESERVATION_NOT_STARTED,
    ReasonCode.OFFERING_UNAVAILABLE,
    ReasonCode.RESERVATION_FULL,
    ReasonCode.TEAM_QUOTA,
    ReasonCode.LIMIT_EXCEEDED,
    ReasonCode.MAX_PRICE,
    ReasonCode.TEAM_BUDGET,
    ReasonCode.MIN_VALUES,
    ReasonCode.NODE_CLASS_NOT_READY,
    ReasonCode.NODE_POOL_PAUSED,
    ReasonCode.SPOT_SHARE,
    ReasonCode.TOPOLOGY,
)
_RANK: Final = {code: rank for rank, code in enumerate(_ORDER)}
# The reason that is left when the offering itself meets every request.
LAST: Final = (ReasonCode.SPOT_SHARE, ReasonCode.TOPOLOGY)


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure. ``misses`` counts the requests that are not met, of those that the offering itself must meet.

    ``lacks_resource``: the types have nothing at all of a resource that is asked for. They are not meant for such work,
    so a failure elsewhere is nearer.
    """

    code: ReasonCode
    message: str
    key: OfferingKey | None = None
    price: int = 0
    at: datetime | None = None
    misses: int = 0
    lacks_resource: bool = False
    # what else the workload asked for and the pool was not made for; less is nearer
    distance: tuple[int, int] = (0, 0)

    @property
    def rank(self) -> int:
        """How far the offering came."""
        return _RANK[ReasonCode.INCOMPATIBLE if self.lacks_resource else self.code]

    def labels(self, of_node: Mapping[str, str]) -> Mapping[str, str]:
        """Return the labels that a node of the offering would have, beside those of its type and pool."""
        if self.key is None:
            return of_node
        place = {
            ZONE: self.key.zone,
            ZONE_ID: self.key.zone_id,
            CAPACITY_TYPE: str(self.key.capacity_type.value),
        }
        reserved = (
            {}
            if self.key.reservation_id is None
            else {CAPACITY_RESERVATION_ID: self.key.reservation_id}
        )
        return {**of_node, **place, **reserved}

    @property
    def is_mismatch(self) -> bool:
        """Whether the offering is of the wrong kind; no time and no free capacity would change that."""
        return self.rank <= _RANK[ReasonCode.TOO_LARGE]

    @property
    def order(self) -> tuple[int, bool, int, tuple[int, int], int, tuple[str, ...], str]:
        """Sort key: the farthest first, then the fewest misses, the nearest to the request, the cheapest, the name."""
        key = self.key
        name = (
            ("",)
            if key is None
            else (key.instance_type, key.zone, key.reservation_id or key.capacity_type)
        )
        return (
            -self.rank,
            self.lacks_resource,
            self.misses,
            self.distance,
            self.price,
            name,
            self.message,
        )


def words(key: OfferingKey | None) -> str:
    """Return an offering as a sentence names it."""
    if key is None:
        return "nothing"
    where = f"{key.instance_type} {key.capacity_type} in {key.zone}"
    return where if key.reservation_id is None else f"{where} of {key.reservation_id}"


def at(moment: datetime | None) -> str:
    """Return a moment, if there is one, as a sentence ends with it."""
    return "" if moment is None else f" at {moment.isoformat()}"


def no_unit(reservation: CapacityReservation, key: OfferingKey | None) -> Failure:
    """Return that EC2 refuses to give one, that none is the team's turn, or that no unit is free."""
    refusal = reservation.refusal
    if refusal is not None and refusal.shown_count > 0:
        message = f"{words(key)} rests: {refusal.reason}; EC2 shows {refusal.shown_count} of its units as free"
        return Failure(ReasonCode.OFFERING_UNAVAILABLE, message, key, at=refusal.until)
    share = reservation.share
    if share is not None and share.is_withheld:
        message = f"no unit of {words(key)} is for its team now: {share.note}"
        return Failure(ReasonCode.TEAM_QUOTA, message, key, at=share.back_at)
    units = f"{reservation.total_count} in all"
    if reservation.lent is not None and reservation.lent.count > 0:
        units = f"{units}, {reservation.lent}"
    message = f"{words(key)} has no free unit ({units})"
    return Failure(ReasonCode.RESERVATION_FULL, message, key)


def no_room_in_quota(
    withheld: Iterable[Withheld], key: OfferingKey, price: int
) -> Failure | None:
    """Return which quota of a resource keeps the work from the offering; None: no quota does."""
    for each in withheld:
        if key.capacity_type in each.capacity_types:
            message = f"{words(key)} would fit, but {each.note}"
            return Failure(ReasonCode.TEAM_QUOTA, message, key, price, each.back_at)
    return None
