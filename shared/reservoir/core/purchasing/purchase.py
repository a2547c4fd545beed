"""One purchase or change of capacity, from the intent to its outcome.

EC2 has no client token for purchases. The offering makes one happen at most once: after a purchase of it, it is never
bought again, and the purchase is found by its id. A change of on-demand reservations has an id of its own.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from reservoir.core.purchasing.change import ChangeKind, OrderedChange

# The call is begun within a minute of the intent or not at all, and EC2 takes a signature for five minutes on either
# side of its own time: what was not bought half an hour after the intent, by any clock, never will be.
CALLED_WITHIN: Final = timedelta(minutes=1)
DECIDED_AFTER: Final = timedelta(minutes=30)


class PurchaseState(StrEnum):
    """How far a purchase has come."""

    INTENDED = "intended"  # EC2 may have been asked to sell; its answer is not known
    BOUGHT = "bought"
    NOT_BOUGHT = "not-bought"  # EC2 refused, or a person has looked and confirmed it


@dataclass(frozen=True, slots=True)
class BlockOrder:
    """The order. ``extends``: the reservation of the block that gets longer; None: a new block.

    With a ``change`` it is about on-demand reservations: the offering is an id of ours, the fee is what the change
    commits to or may cost until ``end_at``, and the count is the new one of a resized reservation.
    """

    offering_id: str
    instance_type: str
    zone: str
    count: int
    start_at: datetime
    end_at: datetime
    fee_micro_usd: int
    platform: str = "Linux/UNIX"
    tags: tuple[tuple[str, str], ...] = ()
    extends: str | None = None
    change: OrderedChange | None = None

    @property
    def adds_capacity(self) -> bool:
        """Whether units or time are bought by it, beside being paid for."""
        change = self.change
        if change is None or change.kind is ChangeKind.CREATE:
            return True
        return change.kind is ChangeKind.RESIZE and self.count > change.count_before

    @property
    def counted_micro_usd(self) -> int:
        """What counts against ceilings. The charge of a cancellation does not: it is part of an earlier commitment."""
        change = self.change
        if change is not None and change.kind is ChangeKind.CANCEL:
            return 0
        return self.fee_micro_usd

    @property
    def unit_hour_micro_usd(self) -> int:
        """What an hour of one unit costs, rounded up."""
        seconds = int((self.end_at - self.start_at).total_seconds()) * self.count
        return -(-self.fee_micro_usd * 3600 // max(1, seconds))


@dataclass(frozen=True, slots=True)
class Purchase:
    """An order, its buyer, and its outcome. The fee counts in the month of the intent."""

    order: BlockOrder
    intended_at: datetime
    by: str
    state: PurchaseState = PurchaseState.INTENDED
    settled_at: datetime | None = None
    settled_by: str = ""
    reservation_ids: tuple[str, ...] = field(default=())
    note: str = ""  # why it was not bought: EC2's code, or a person's reason

    @property
    def id(self) -> str:
        """Name the purchase: as the offering, which is sold once."""
        return self.order.offering_id

    @property
    def month(self) -> str:
        """The month whose ceiling it counts against."""
        return month_of(self.intended_at)

    def may_still_be_called(self, now: datetime) -> bool:
        """Whether the process that wrote the intent may ask EC2 to sell now."""
        return now - self.intended_at <= CALLED_WITHIN

    def may_be_called_off(self, now: datetime) -> bool:
        """Whether what EC2 does not show by now was not bought."""
        return now - self.intended_at >= DECIDED_AFTER

    def bought(
        self, reservation_ids: tuple[str, ...], *, by: str, now: datetime
    ) -> "Purchase":
        """Return it as bought."""
        return replace(
            self,
            state=PurchaseState.BOUGHT,
            settled_at=now,
            settled_by=by,
            reservation_ids=reservation_ids,
            note="",
        )

    def not_bought(self, note: str, *, by: str, now: datetime) -> "Purchase":
        """Return it as one that did not happen."""
        return replace(
            self, state=PurchaseState.NOT_BOUGHT, settled_at=now, settled_by=by, note=note
        )


def month_of(at: datetime) -> str:
    """Return the month of an instant, as a ceiling counts it: 2026-11."""
    return f"{at:%Y-%m}"
