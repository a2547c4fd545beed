"""A block is bought at most once, within the ceilings, and every cent has a name."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from lab.fakes.block_shop import NOT_ON_SALE, BlockShop
from lab.fakes.messaging import MemoryBus
from lab.fakes.stores.purchases import MemoryPurchases
from lab.fakes.system import START, ManualClock
from reservoir.core.purchasing.book import Ceilings
from reservoir.core.purchasing.purchase import BlockOrder, PurchaseState
from reservoir.ports.errors import AccessDeniedError, ThrottledError, UnknownOutcomeError
from reservoir.ports.state import ConflictError
from reservoir.usecases.purchasing.buy_block import BuyBlock, PurchaseRefusedError, Result

USD = 1_000_000
ORDER = BlockOrder(
    "cb-1", "p5.48xlarge", "us-east-1c", 2, START, START + timedelta(days=1), 1_500 * USD
)
OTHER = replace(ORDER, offering_id="cb-2")
EXTENSION = replace(ORDER, offering_id="cbe-1", extends="cr-7")
CEILINGS = Ceilings(2_000 * USD, 4_000 * USD)


@dataclass
class Desk:
    """Where people buy."""

    clock: ManualClock = field(default_factory=ManualClock)
    store: Any = field(default_factory=MemoryPurchases)
    bus: MemoryBus = field(default_factory=MemoryBus)
    shop: Any = None
    ceilings: Ceilings = CEILINGS
    paused_s: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shop = self.shop or BlockShop(self.clock)

    def of(self, buyer: str = "ada") -> BuyBlock:
        return BuyBlock(
            self.store, self.shop, self.bus, self.clock, self._pause, self.ceilings, buyer
        )

    def _pause(self, seconds: float) -> None:
        self.paused_s.append(seconds)
        self.clock.advance(seconds=seconds)

    def buy(self, order: BlockOrder = ORDER, buyer: str = "ada") -> Result:
        use_case = self.of(buyer)
        return use_case.buy(use_case.preview(order)).result


@dataclass
class LosesAnswers:
    """Sells, or not, and its answer is lost."""

    shop: BlockShop
    sells: bool = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.shop, name)

    def buy(self, order: BlockOrder) -> tuple[str, ...]:
        if self.sells:
            self.shop.buy(order)
        raise UnknownOutcomeError("ReadTimeoutError", "PurchaseCapacityBlock")


@pytest.mark.parametrize("order", [ORDER, EXTENSION])
def test_what_is_bought_is_written_down_and_told_with_who(order: BlockOrder) -> None:
    desk = Desk()
    assert desk.buy(order) is Result.BOUGHT
    (purchase,) = desk.store.list_all()
    assert (purchase.state, purchase.by, purchase.order.fee_micro_usd) == (
        PurchaseState.BOUGHT,
        "ada",
        1_500 * USD,
    )
    (told,) = desk.bus.of("Capacity Purchased")
    assert (told["by"], told["feeMicroUsd"], told["offering"]) == (
        "ada",
        1_500 * USD,
        order.offering_id,
    )
    assert desk.store.book().book.spent_micro_usd("2026-01") == 1_500 * USD


class RefusingBus(MemoryBus):
    """A bus that its caller may not use."""

    def publish(self, facts: Any) -> None:
        del facts
        raise AccessDeniedError("AccessDeniedException", "PutEvents")


def test_a_bus_that_refuses_keeps_no_purchase_open() -> None:
    desk = Desk(bus=RefusingBus())
    outcome = desk.of().buy(desk.of().preview(ORDER))
    assert (outcome.result, outcome.is_written) == (Result.BOUGHT, True)
    assert "not published" in outcome.why
    assert desk.store.book().book.unsettled is None, "others may buy"


def test_an_offering_is_never_bought_again() -> None:
    desk = Desk()
    desk.buy()
    assert (
        desk.of("bob").preview(ORDER).refusals[0].startswith("ada has bought cb-1 already")
    )
    with pytest.raises(PurchaseRefusedError, match="ada has bought cb-1 already"):
        desk.buy(buyer="bob")
    assert len(desk.shop.sales) == 1


def test_consent_is_to_the_book_that_was_shown() -> None:
    """Two see the same offers at once; whoever is second is told before he buys another one."""
    desk = Desk()
    seen = desk.of("bob").preview(OTHER)
    desk.buy(buyer="ada")
    with pytest.raises(ConflictError):
        desk.of("bob").buy(seen)
    assert [order.offering_id for _, order in desk.shop.sales] == ["cb-1"]


def test_what_ec2_refuses_costs_nothing_and_may_be_tried_again() -> None:
    desk = Desk()
    for refusal in (
        NOT_ON_SALE,
        ThrottledError("RequestLimitExceeded", "PurchaseCapacityBlock"),
    ):
        desk.shop.refusal = refusal
        use_case = desk.of()
        outcome = use_case.buy(use_case.preview(ORDER))
        assert (outcome.result, outcome.why) == (Result.NOT_BOUGHT, refusal.code)
        assert desk.store.book().book.months == ()
    desk.shop.refusal = None
    assert desk.buy() is Result.BOUGHT


@pytest.mark.parametrize(
    ("order", "ceilings", "reason"),
    [
        (ORDER, Ceilings(), "the deployment allows no purchases"),
        (ORDER, Ceilings(1_499 * USD, 4_000 * USD), "one purchase may cost 1499.00 USD"),
        (
            ORDER,
            Ceilings(2_000 * USD, 1_000 * USD),
            "of the 1000.00 USD of 2026-01 1000.00 USD are left",
        ),
    ],
)
def test_ceilings(order: BlockOrder, ceilings: Ceilings, reason: str) -> None:
    desk = Desk(ceilings=ceilings)
    assert reason in desk.of().preview(order).refusals[0]
    with pytest.raises(PurchaseRefusedError, match=reason):
        desk.buy(order)
    assert desk.shop.sales == []


def test_a_month_has_room_for_what_is_left_of_it() -> None:
    desk = Desk()
    assert [desk.buy(ORDER), desk.buy(OTHER)] == [Result.BOUGHT, Result.BOUGHT]
    third = replace(ORDER, offering_id="cb-3")
    with pytest.raises(
        PurchaseRefusedError, match=r"of the 4000.00 USD of 2026-01 1000.00 USD are left"
    ):
        desk.buy(third)
    desk.clock.advance(days=31)
    assert desk.buy(third) is Result.BOUGHT


def test_a_lost_answer_is_looked_for_until_ec2_shows_what_it_sold() -> None:
    desk = Desk()
    desk.shop = LosesAnswers(BlockShop(desk.clock, shown_after=timedelta(seconds=15)))
    assert desk.buy() is Result.BOUGHT
    assert desk.paused_s == [0, 2, 5, 10]


def test_who_does_not_know_stops_and_nobody_buys_before_it_is_settled() -> None:
    desk = Desk()
    desk.shop = LosesAnswers(BlockShop(desk.clock, shown_after=timedelta(minutes=5)))
    assert desk.buy() is Result.UNCLEAR
    assert (
        "it is not known whether cb-1 was carried out"
        in desk.of("bob").preview(OTHER).refusals[0]
    )
    with pytest.raises(PurchaseRefusedError, match="tried to"):
        desk.buy()
    assert desk.of("bob").settle("cb-1").result is Result.UNCLEAR
    desk.clock.advance(minutes=5)
    assert desk.of("bob").settle("cb-1").result is Result.BOUGHT
    (purchase,) = desk.store.list_all()
    assert (purchase.by, purchase.settled_by) == ("ada", "bob")
    assert len(desk.shop.sales) == 1


def test_what_was_not_bought_is_called_off_by_somebody_and_not_too_early() -> None:
    desk = Desk()
    desk.shop = LosesAnswers(BlockShop(desk.clock), sells=False)
    assert desk.buy() is Result.UNCLEAR
    with pytest.raises(PurchaseRefusedError, match="half an hour after the intent"):
        desk.of("bob").settle("cb-1", not_bought="not in the console")
    desk.clock.advance(minutes=30)
    outcome = desk.of("bob").settle("cb-1", not_bought="not in the console")
    assert (outcome.result, outcome.why) == (Result.NOT_BOUGHT, "not in the console")
    assert desk.store.book().book.spent_micro_usd("2026-01") == 0


def test_who_has_slept_since_the_intent_does_not_buy() -> None:
    """A laptop is closed between the intent and the call; meanwhile somebody has called it off."""
    desk = Desk()

    class Sleeps(MemoryPurchases):
        def commit(self, *args: Any, **more: Any) -> None:
            super().commit(*args, **more)
            desk.clock.advance(minutes=2)

    desk.store = Sleeps()
    assert desk.buy() is Result.UNCLEAR
    assert desk.shop.sales == []


def test_what_ec2_shows_as_bought_is_not_bought_again_although_the_tables_forgot_it() -> (
    None
):
    desk = Desk()
    desk.buy()
    desk.store = MemoryPurchases()  # restored to a time before
    with pytest.raises(PurchaseRefusedError, match="EC2 shows cb-1 as bought already"):
        desk.buy()


def test_only_what_was_intended_is_settled() -> None:
    with pytest.raises(PurchaseRefusedError, match="no purchase was tried of cb-9"):
        Desk().of().settle("cb-9")
