"""Two people buy at once, are killed anywhere and lose answers: nothing is bought twice, and no ceiling is passed."""

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from lab.fakes.block_shop import NOT_ON_SALE, BlockShop
from lab.fakes.effects import Effects, Killed
from lab.fakes.system import ManualClock
from reservoir.core.purchasing.book import Ceilings
from reservoir.core.purchasing.purchase import BlockOrder, PurchaseState
from reservoir.ports.errors import AwsError, RefusedError
from reservoir.ports.state import ConflictError
from reservoir.usecases.purchasing.buy_block import PurchaseRefusedError
from tests.usecases.purchasing.test_buy_block import ORDER, USD, Desk

SEEDS, PART = 10_000, 500
ORDERS = [
    replace(ORDER, offering_id=f"cb-{n}", fee_micro_usd=fee * USD)
    for n, fee in enumerate((900, 1_200, 1_500))
]
MONTH = 2_500 * USD
STORED, SOLD = ("book", "get", "commit"), ("buy", "bought")
_EFFECTS_MAX = 14


class Wire:
    """What is signed before EC2 is asked: EC2 takes it for five minutes, however long it was on its way."""

    def __init__(self, shop: BlockShop) -> None:
        self.shop = shop
        self.signed_at = shop.clock.now()

    def bought(self, order: BlockOrder) -> tuple[str, ...]:
        return self.shop.bought(order)

    def buy(self, order: BlockOrder) -> tuple[str, ...]:
        if self.shop.clock.now() - self.signed_at > timedelta(minutes=5):
            raise RefusedError("RequestExpired", "PurchaseCapacityBlock")
        return self.shop.buy(order)


class Signing:
    """The end of the wire at which a command signs."""

    def __init__(self, wire: Wire, effects: Effects) -> None:
        self.wire = wire
        self.watched = effects.watch(wire, SOLD, remote=True)

    def bought(self, order: BlockOrder) -> tuple[str, ...]:
        found: tuple[str, ...] = self.watched.bought(order)
        return found

    def buy(self, order: BlockOrder) -> tuple[str, ...]:
        self.wire.signed_at = self.wire.shop.clock.now()
        found: tuple[str, ...] = self.watched.buy(order)
        return found


class Story:
    """What a seed brings about: commands of several people, mishaps, time that passes."""

    def __init__(self, seed: int, shop: BlockShop | None = None) -> None:
        self.chance = random.Random(seed)  # noqa: S311 # a seed that can be played again
        clock = shop.clock if shop else ManualClock()
        self.desk = Desk(clock=clock, shop=shop, ceilings=Ceilings(2_000 * USD, MONTH))
        self.shop: BlockShop = self.desk.shop
        self.shop.shown_after = timedelta(seconds=self.chance.choice((0, 0, 8, 90)))
        self.store = self.desk.store

    def play(self) -> None:
        for _ in range(self.chance.randint(2, 6)):
            self.command(depth=0)
            self.desk.clock.advance(seconds=self.chance.choice((0, 1, 50, 70, 600, 2_000)))

    def command(self, depth: int) -> None:
        """One person runs one command; before one of its effects somebody else may run another, whole."""
        number = self.chance.randint(1, _EFFECTS_MAX)
        is_joined = depth < 2 and self.chance.random() < 0.5
        meanwhile = {number: lambda: self.command(depth + 1)} if is_joined else {}
        effects = Effects(
            kill_before=self._one_of(0.3),
            lose_answer_of=self._one_of(0.3),
            before={**meanwhile, **self._sleep()},
        )
        self.shop.refusal = NOT_ON_SALE if self.chance.random() < 0.1 else None
        desk = Desk(
            clock=self.desk.clock,
            store=effects.watch(self.store, STORED, remote=True),
            bus=self.desk.bus,
            shop=Signing(Wire(self.shop), effects),
            ceilings=self.desk.ceilings,
        )
        buyer = desk.of(self.chance.choice(("ada", "bob")))
        order = self.order()
        try:
            if self.chance.random() < 0.6:
                buyer.buy(buyer.preview(order))
            else:
                buyer.settle(
                    order.offering_id,
                    not_bought=self.chance.choice((None, "not in the console")),
                )
        except (Killed, AwsError, ConflictError, PurchaseRefusedError):
            return

    def order(self) -> BlockOrder:
        """Return what somebody wants."""
        return self.chance.choice(ORDERS)

    def _pass(self, seconds: int) -> None:
        self.desk.clock.advance(seconds=seconds)

    def _one_of(self, share: float) -> int | None:
        return (
            self.chance.randint(1, _EFFECTS_MAX) if self.chance.random() < share else None
        )

    def _sleep(self) -> dict[int, Callable[[], None]]:
        """A machine is suspended before an effect, and goes on later."""
        if self.chance.random() < 0.8:
            return {}
        seconds = self.chance.choice((30, 70, 2_000))
        return {self.chance.randint(1, _EFFECTS_MAX): lambda: self._pass(seconds)}


@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_nothing_is_bought_twice_and_every_cent_has_a_row(first: int) -> None:
    bought_count = 0
    for seed in range(first, first + PART):
        story = Story(seed)
        story.play()
        sold = [order.offering_id for _, order in story.shop.sales]
        assert len(sold) == len(set(sold)), seed
        assert story.shop.spent_micro_usd <= MONTH, seed
        rows = {each.id: each for each in story.store.list_all()}
        for offering_id in sold:
            assert rows[offering_id].by in ("ada", "bob"), seed
            assert rows[offering_id].state is not PurchaseState.NOT_BOUGHT, seed
        spent = story.store.book().book.spent_micro_usd("2026-01")
        assert spent >= story.shop.spent_micro_usd, seed
        bought_count += len(sold)
    assert bought_count > PART // 4, "the seeds buy nothing, so they show nothing"
