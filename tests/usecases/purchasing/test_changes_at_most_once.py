"""Reservations grow and shrink as often as somebody has agreed, whoever is killed and whatever answers are lost."""

from dataclasses import dataclass, replace

import pytest

from lab.fakes.block_shop import BlockShop
from lab.fakes.system import ManualClock
from reservoir.core.purchasing.change import ChangeKind, OrderedChange
from reservoir.core.purchasing.purchase import BlockOrder, PurchaseState
from reservoir.ports.errors import RefusedError
from tests.usecases.purchasing.test_buy_block import ORDER, USD
from tests.usecases.purchasing.test_purchases_at_most_once import MONTH, Story

SEEDS, PART = 10_000, 1_000
RESERVED = "cr-1"


@dataclass
class Reservations(BlockShop):
    """One reservation, which EC2 resizes without a token: what was done is seen by its size alone."""

    count: int = 3

    def buy(self, order: BlockOrder) -> tuple[str, ...]:
        change = order.change
        if change is None or change.count_before != self.count:
            raise RefusedError("ReservationChangedSince", "resize")
        super().buy(order)
        self.count = order.count
        return (RESERVED,)

    def bought(self, order: BlockOrder) -> tuple[str, ...]:
        now = self.clock.now()
        shown = 3
        for at, each in self.sales:
            if now - at >= self.shown_after:
                shown = each.count
        return (RESERVED,) if shown == order.count else ()


class Resizing(Story):
    """People who resize one reservation."""

    def __init__(self, seed: int) -> None:
        self.reservations = Reservations(ManualClock())
        self.ordered = 0
        super().__init__(seed, self.reservations)

    def order(self) -> BlockOrder:
        self.ordered += 1
        before = self.reservations.count
        count = max(1, before + self.chance.choice((-1, 1, 2)))
        change = OrderedChange(ChangeKind.RESIZE, RESERVED, count_before=before)
        again = self.chance.randint(1, self.ordered)
        return replace(
            ORDER,
            offering_id=f"change-{again}",
            count=count,
            fee_micro_usd=max(0, count - before) * 400 * USD,
            change=change,
        )


@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_no_change_is_made_twice_and_each_has_a_row(first: int) -> None:
    made_count = 0
    for seed in range(first, first + PART):
        story = Resizing(seed)
        story.play()
        made = [order.offering_id for _, order in story.shop.sales]
        assert len(made) == len(set(made)), seed
        assert story.shop.spent_micro_usd <= MONTH, seed
        rows = {each.id: each for each in story.store.list_all()}
        for change_id in made:
            assert rows[change_id].by in ("ada", "bob"), seed
            assert rows[change_id].state is not PurchaseState.NOT_BOUGHT, seed
        made_count += len(made)
    assert made_count > PART // 4, "the seeds change nothing, so they show nothing"
