"""The book of purchases: what each month has committed to, and which purchase is not settled.

It is one value, written together with each purchase under the condition that it has not changed. So no two purchases
are in progress at once, and two purchases that are each within a ceiling cannot exceed it together.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from reservoir.core.purchasing.purchase import Purchase, PurchaseState, month_of
from reservoir.core.scheduling_terms.money import usd


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What one purchase, and all of a month (UTC), may cost. None: nothing may be bought."""

    purchase_micro_usd: int | None = None
    month_micro_usd: int | None = None


@dataclass(frozen=True, slots=True)
class MonthSpent:
    """What was bought in a month, or may have been."""

    month: str
    micro_usd: int


@dataclass(frozen=True, slots=True)
class Book:
    """``unsettled``: the purchase of which it is not known whether EC2 sold it."""

    months: tuple[MonthSpent, ...] = ()
    unsettled: str | None = None

    def spent_micro_usd(self, month: str) -> int:
        """Return what a month has committed to."""
        return sum(each.micro_usd for each in self.months if each.month == month)

    def with_intent(self, purchase: Purchase) -> "Book":
        """Return the book with one more purchase in progress; its fee counts from now on."""
        return replace(
            self._plus(purchase.month, purchase.order.counted_micro_usd),
            unsettled=purchase.id,
        )

    def settled(self, purchase: Purchase) -> "Book":
        """Return the book when the outcome of the purchase in progress is known."""
        refund = (
            purchase.order.counted_micro_usd
            if purchase.state is PurchaseState.NOT_BOUGHT
            else 0
        )
        return replace(self._plus(purchase.month, -refund), unsettled=None)

    def _plus(self, month: str, micro_usd: int) -> "Book":
        total = self.spent_micro_usd(month) + micro_usd
        others = [each for each in self.months if each.month != month]
        kept = sorted([*others, MonthSpent(month, total)], key=lambda each: each.month)
        return replace(self, months=tuple(each for each in kept if each.micro_usd))


def refusals(
    book: Book, fee_micro_usd: int, ceilings: Ceilings, now: datetime
) -> tuple[str, ...]:
    """Return why a purchase of this fee may not be made now; nothing when it may. What costs nothing has no ceiling."""
    if fee_micro_usd == 0:
        return _unsettled(book)
    if ceilings.purchase_micro_usd is None or ceilings.month_micro_usd is None:
        return (
            "the deployment allows no purchases: set purchaseCeilingUsd and purchaseCeilingUsdPerMonth in its settings"
            " file, and deploy",
        )
    found = [*_unsettled(book)]
    if fee_micro_usd > ceilings.purchase_micro_usd:
        found.append(
            f"it costs {usd(fee_micro_usd)}, and one purchase may cost {usd(ceilings.purchase_micro_usd)}"
        )
    month = month_of(now)
    left = ceilings.month_micro_usd - book.spent_micro_usd(month)
    if fee_micro_usd > left:
        found.append(
            f"it costs {usd(fee_micro_usd)}, and of the {usd(ceilings.month_micro_usd)} of {month}"
            f" {usd(max(0, left))} are left"
        )
    return tuple(found)


def _unsettled(book: Book) -> tuple[str, ...]:
    if book.unsettled is None:
        return ()
    return (
        f"it is not known whether {book.unsettled} was carried out: reservoir blocks settle {book.unsettled}",
    )
