"""Capacity is bought, and reservations are changed, at most once, within the ceilings, by a named person.

The intent is written before EC2 is asked, under the condition that the book has not changed since the buyer saw it.
Only the process that has written an intent asks EC2, once, within a minute. Whatever happens then, no process asks
again for this offering. The outcome is looked up, by the intent's tag or in the history of extensions; where EC2 shows
nothing, a person decides.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from reservoir.core.purchasing.book import Ceilings, refusals
from reservoir.core.purchasing.purchase import BlockOrder, Purchase, PurchaseState
from reservoir.core.scheduling_terms.money import usd
from reservoir.manifests.events import BoughtReservation, CapacityPurchased
from reservoir.ports.capacity_blocks import BlockSeller, PurchaseStore, StoredBook
from reservoir.ports.errors import AwsError, UnknownOutcomeError
from reservoir.ports.messaging import EventPublisher
from reservoir.ports.state import ConflictError
from reservoir.ports.system import Clock

# EC2 may show what it sold some moments later; after each of these pauses it is looked for again.
_LOOKS_AFTER_S: Final = (0, 2, 5, 10, 20)


class PurchaseRefusedError(Exception):
    """EC2 was not asked; the reasons are for the buyer."""


class Result(StrEnum):
    """The outcome of a purchase, as far as it is known."""

    BOUGHT = "bought"
    NOT_BOUGHT = "not-bought"
    UNCLEAR = "unclear"  # a person has to look


@dataclass(frozen=True, slots=True)
class PurchaseOutcome:
    """The outcome of a purchase; ``why`` says what is known of one that was not made or is unclear."""

    result: Result
    purchase: Purchase
    why: str = ""
    is_written: bool = True


@dataclass(frozen=True, slots=True)
class Preview:
    """What a purchase would cost and be refused for; consent is to this, and to the book as it was then."""

    order: BlockOrder
    seen: StoredBook
    spent_micro_usd: int
    refusals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BuyBlock:
    """Buys for one person."""

    store: PurchaseStore
    seller: BlockSeller
    publisher: EventPublisher
    clock: Clock
    pause: Callable[[float], None]
    ceilings: Ceilings
    buyer: str

    def preview(self, order: BlockOrder) -> Preview:
        """Return what buying would mean. Raises AwsError and UnreadableRowError."""
        now = self.clock.now()
        seen = self.store.book()
        known = self.store.get(order.offering_id)
        found = [*refusals(seen.book, order.counted_micro_usd, self.ceilings, now)]
        if known is not None and known.state is PurchaseState.BOUGHT:
            found.append(
                f"{known.by} has bought {known.id} already, on {known.intended_at:%Y-%m-%d at %H:%M} UTC"
            )
        return Preview(order, seen, seen.book.spent_micro_usd(f"{now:%Y-%m}"), tuple(found))

    def buy(self, agreed: Preview) -> PurchaseOutcome:
        """Buy what the buyer has agreed to.

        Raises PurchaseRefusedError when something forbids it, ConflictError when another purchase was made since the
        preview, and AwsError and UnreadableRowError; then this call bought nothing, or the intent stays open.
        """
        order, now = agreed.order, self.clock.now()
        against = refusals(agreed.seen.book, order.counted_micro_usd, self.ceilings, now)
        known = self.store.get(order.offering_id)
        if known is not None and known.state is not PurchaseState.NOT_BOUGHT:
            against = (*against, f"{known.by} has bought {known.id} already, or tried to")
        if against:
            raise PurchaseRefusedError("; ".join(against))
        if self.seller.bought(order):
            raise PurchaseRefusedError(
                "EC2 shows it as it would be afterwards"
                if order.change
                else f"EC2 shows {order.offering_id} as bought already"
            )
        intent = Purchase(order, now, self.buyer)
        book = agreed.seen.book.with_intent(intent)
        self.store.commit(intent, book, over=known, expected_revision=agreed.seen.revision)
        return self._ask(intent)

    def settle(self, purchase_id: str, *, not_bought: str | None = None) -> PurchaseOutcome:
        """Find out the outcome of an open purchase; ``not_bought`` is how the caller knows that it was not made.

        Raises PurchaseRefusedError when there is no such purchase, or when it is too early to be sure.
        """
        purchase = self.store.get(purchase_id)
        if purchase is None:
            raise PurchaseRefusedError(f"no purchase was tried of {purchase_id}")
        if purchase.state is not PurchaseState.INTENDED:
            return _known_outcome(purchase)
        found = self.seller.bought(purchase.order)
        now = self.clock.now()
        if found:
            return self._settle(purchase, purchase.bought(found, by=self.buyer, now=now))
        if not_bought is None:
            return PurchaseOutcome(Result.UNCLEAR, purchase, "EC2 shows nothing of it")
        if not purchase.may_be_called_off(now):
            raise PurchaseRefusedError(
                f"EC2 shows nothing of {purchase_id}, but may still: say so half an hour after the intent of"
                f" {purchase.intended_at:%H:%M} UTC"
            )
        return self._settle(
            purchase, purchase.not_bought(not_bought, by=self.buyer, now=now)
        )

    def _ask(self, intent: Purchase) -> PurchaseOutcome:
        if not intent.may_still_be_called(self.clock.now()):
            return PurchaseOutcome(
                Result.UNCLEAR,
                intent,
                "more than a minute went by before EC2 could be asked, so it was not",
            )
        try:
            found = self.seller.buy(intent.order)
        except UnknownOutcomeError as error:
            return self._look(intent, str(error))
        except AwsError as error:
            refused = intent.not_bought(error.code, by=self.buyer, now=self.clock.now())
            return self._settle(intent, refused)
        return self._settle(
            intent, intent.bought(found, by=self.buyer, now=self.clock.now())
        )

    def _look(self, intent: Purchase, why: str) -> PurchaseOutcome:
        for seconds in _LOOKS_AFTER_S:
            self.pause(seconds)
            found = self.seller.bought(intent.order)
            if found:
                return self._settle(
                    intent, intent.bought(found, by=self.buyer, now=self.clock.now())
                )
        return PurchaseOutcome(
            Result.UNCLEAR,
            intent,
            f"EC2's answer was lost ({why}), and it shows nothing of it",
        )

    def _settle(self, intent: Purchase, settled: Purchase) -> PurchaseOutcome:
        """Publish, then write: a process that dies in between leaves the purchase open; settling it publishes again.

        A bus that refuses stops no write: the book is the record, and while a purchase is open no other can be made.
        """
        outcome = _known_outcome(settled)
        if settled.state is PurchaseState.BOUGHT and settled.order.adds_capacity:
            outcome = self._publish(settled, outcome)
        try:
            seen = self.store.book()
            if seen.book.unsettled == intent.id:
                self.store.commit(
                    settled,
                    seen.book.settled(settled),
                    over=intent,
                    expected_revision=seen.revision,
                )
        except ConflictError:
            # another process has settled it at the same moment, and found the same
            return outcome
        except AwsError as error:
            # the outcome is known all the same, and settling the purchase will find it
            return replace(
                outcome,
                why=f"{outcome.why} (not written down: {error})".strip(),
                is_written=False,
            )
        return outcome

    def _publish(self, bought: Purchase, outcome: PurchaseOutcome) -> PurchaseOutcome:
        try:
            self.publisher.publish([_event_of(bought)])
        except AwsError as error:
            return replace(outcome, why=f"{outcome.why} (not published: {error})".strip())
        return outcome


def _known_outcome(purchase: Purchase) -> PurchaseOutcome:
    if purchase.state is PurchaseState.BOUGHT:
        return PurchaseOutcome(Result.BOUGHT, purchase)
    if purchase.state is PurchaseState.NOT_BOUGHT:
        return PurchaseOutcome(Result.NOT_BOUGHT, purchase, purchase.note)
    return PurchaseOutcome(Result.UNCLEAR, purchase, "it is not settled")


def _event_of(purchase: Purchase) -> CapacityPurchased:
    order = purchase.order
    return CapacityPurchased(
        offering=purchase.id,
        reservations=[
            BoughtReservation(capacity_reservation_id=each)
            for each in purchase.reservation_ids
        ],
        is_extension=order.extends is not None,
        instance_type=order.instance_type,
        zone=order.zone,
        count=order.count,
        start_at=order.start_at,
        end_at=order.end_at,
        fee_micro_usd=order.fee_micro_usd,
        by=purchase.by,
        purchased_at=purchase.intended_at,
    )


def amount(order: BlockOrder) -> str:
    """Return the amount that the buyer types to agree: the fee in USD, without the currency."""
    return usd(order.fee_micro_usd).removesuffix(" USD")
