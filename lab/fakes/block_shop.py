"""EC2 where it sells blocks, in memory: each call sells, and what was sold is shown later."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lab.fakes.system import ManualClock
from reservoir.core.purchasing.purchase import BlockOrder
from reservoir.ports.errors import AwsError, RefusedError


@dataclass
class BlockShop:
    """Implements ``BlockSeller``. Unlike EC2 it sells an offering any number of times, so that a repeat is seen."""

    clock: ManualClock
    shown_after: timedelta = timedelta()
    refusal: AwsError | None = None
    sales: list[tuple[datetime, BlockOrder]] = field(default_factory=list)

    def buy(self, order: BlockOrder) -> tuple[str, ...]:
        if self.refusal is not None:
            raise self.refusal
        self.sales.append((self.clock.now(), order))
        return self._ids(order)

    def try_to_buy(self, order: BlockOrder) -> None:
        del order
        if self.refusal is not None:
            raise self.refusal

    def bought(self, order: BlockOrder) -> tuple[str, ...]:
        now = self.clock.now()
        is_shown = any(
            each.offering_id == order.offering_id and now - at >= self.shown_after
            for at, each in self.sales
        )
        return self._ids(order) if is_shown else ()

    @property
    def spent_micro_usd(self) -> int:
        return sum(order.fee_micro_usd for _, order in self.sales)

    @staticmethod
    def _ids(order: BlockOrder) -> tuple[str, ...]:
        return (order.extends or f"cr-{order.offering_id}",)


NOT_ON_SALE = RefusedError("InvalidCapacityBlockOfferingIdExpired", "PurchaseCapacityBlock")
