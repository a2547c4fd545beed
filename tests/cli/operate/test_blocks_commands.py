"""``reservoir blocks``: what is shown, what has to be typed, and what is refused before EC2 is asked."""

import json
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from typer.testing import Result

from lab.fakes.block_shop import NOT_ON_SALE, BlockShop
from lab.fakes.messaging import MemoryBus
from lab.fakes.outside import settings
from lab.fakes.stores.purchases import MemoryPurchases
from lab.fakes.system import ManualClock
from lab.worlds.disrupt_world import DisruptWorld
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.purchasing.book import Ceilings
from reservoir.core.purchasing.purchase import BlockOrder, PurchaseState
from reservoir.ports.capacity_blocks import BlockOffering
from reservoir.ports.errors import UnknownOutcomeError
from reservoir.runtime.settings import Settings
from tests.cli.world_stack import WorldStack, invoke

ME = "arn:aws:sts::111122223333:assumed-role/buyers/ada"
USD = 1_000_000
WANTED = "2 p5.48xlarge for 1d"
pytestmark = pytest.mark.usefixtures("at_a_terminal")


@dataclass
class Sale:
    """What is on sale."""

    clock: ManualClock
    zones: tuple[str, ...] = ("us-east-1c",)
    currency: str = "USD"

    def offerings(
        self, instance_type: str, *, count: int, hours: int
    ) -> list[BlockOffering]:
        begin = self.clock.now() + timedelta(hours=5)
        price = (f"{20 * count * hours}.5000", self.currency)
        return [
            BlockOffering(
                f"cb-{zone}",
                instance_type,
                zone,
                count,
                begin,
                begin + timedelta(hours=hours),
                *price,
            )
            for zone in self.zones
        ]

    def extensions(self, reservation_id: str, *, hours: int) -> list[BlockOffering]:
        return [
            replace(each, id=f"cbe-{reservation_id}")
            for each in self.offerings("p5", count=1, hours=hours)
        ]


class Silent(BlockShop):
    """Sells nothing and says nothing."""

    def buy(self, order: BlockOrder) -> tuple[str, ...]:
        del order
        raise UnknownOutcomeError("ReadTimeoutError", "PurchaseCapacityBlock")


@dataclass
class Stack(WorldStack[DisruptWorld]):
    """The part of ``reservoir.cli.stack.connection.Connection`` that buying needs."""

    publisher: MemoryBus = field(default_factory=MemoryBus)
    purchases: MemoryPurchases = field(default_factory=MemoryPurchases)

    def __post_init__(self) -> None:
        self.capacity_blocks = Sale(self.world.clock)
        self.block_seller = BlockShop(self.world.clock)

    @property
    def settings(self) -> Settings:
        return settings(purchase_ceilings=Ceilings(2_000 * USD, 2_500 * USD))

    def caller(self) -> str:
        return ME

    def pause(self, seconds: float) -> None:
        self.world.clock.advance(seconds=seconds)

    def buy(self, *more: str, wanted: str = WANTED, typed: str = "960.50\n") -> Result:
        return invoke(self, "blocks", "buy", wanted, *more, given=typed)


@pytest.fixture
def stack() -> Stack:
    return Stack(DisruptWorld("reserved", "on-demand"))


@pytest.fixture
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reservoir.cli.commands.operate.consent.can_ask", lambda: True)


def test_whoever_types_the_amount_has_bought_it(stack: Stack) -> None:
    result = stack.buy("--tag", "team=training")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[:2] == [
        "2 p5.48xlarge in us-east-1c for 1d",
        "  from        2026-01-15T17:00Z to 2026-01-16T17:00Z",
    ]
    assert "  costs       960.50 USD, 20.010417 USD a unit and hour" in lines
    assert "  tags        team=training, reservoir:purchase=cb-us-east-1c" in lines
    assert "  this month  0.00 USD of 2500.00 USD are spent" in lines
    assert lines[-1] == f"bought cr-cb-us-east-1c for 960.50 USD, by {ME}"
    (purchase,) = stack.purchases.list_all()
    assert (purchase.state, purchase.by) == (PurchaseState.BOUGHT, ME)
    assert purchase.order.tags == (("team", "training"),)


@pytest.mark.parametrize("typed", ["960\n", "yes\n", "960.51\n", "96050\n"])
def test_another_amount_buys_nothing(stack: Stack, typed: str) -> None:
    result = stack.buy(typed=typed)
    assert result.exit_code == 2
    assert "nothing was bought: it costs 960.50 USD, not" in result.output
    assert stack.block_seller.sales == []


def test_scripts_say_the_amount_beside_yes(stack: Stack) -> None:
    assert "--yes agrees only together with --amount" in stack.buy("--yes").output
    assert "it costs 960.50 USD, not 900" in stack.buy("--yes", "--amount", "900").output
    assert stack.block_seller.sales == []
    assert stack.buy("--yes", "--amount", "960.5").exit_code == 0


def test_without_a_terminal_nothing_is_bought(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reservoir.cli.commands.operate.consent.can_ask", lambda: False)
    assert "no terminal on which to type the amount" in stack.buy().output
    assert stack.block_seller.sales == []


def test_a_dry_run_asks_ec2_and_buys_nothing(stack: Stack) -> None:
    assert "nothing was bought (dry run)" in stack.buy("--dry-run").output
    stack.block_seller.refusal = NOT_ON_SALE
    result = stack.buy("--dry-run")
    assert (result.exit_code, "InvalidCapacityBlockOfferingIdExpired" in result.output) == (
        2,
        True,
    )
    assert stack.purchases.list_all() == []


def test_of_several_one_is_chosen_by_its_id(stack: Stack) -> None:
    stack.capacity_blocks.zones = ("us-east-1b", "us-east-1c")
    assert "several are on sale; choose with --offering" in stack.buy().output
    assert "cb-9 is not among what EC2 sells now" in stack.buy("--offering", "cb-9").output
    assert "bought cr-cb-us-east-1c" in stack.buy("--offering", "cb-us-east-1c").output


@pytest.mark.parametrize(
    ("wanted", "more", "reason"),
    [
        (
            "3 p5.48xlarge for 1d",
            (),
            "EC2 sells blocks of 1, 2, 4, 8, 16, 32 or 64 instances, not of 3",
        ),
        (
            "2 p5.48xlarge for 15d",
            (),
            "EC2 sells 1 to 14 days, and whole weeks up to 182 days, not 15",
        ),
        (WANTED, ("--platform", "Windows"), "not for Windows"),
        (WANTED, ("--tag", "reservoir:purchase=x"), "is not a tag of yours"),
        ("4 p5.48xlarge for 2d", (), "one purchase may cost 2000.00 USD"),
    ],
)
def test_what_is_refused_before_ec2_is_asked(
    stack: Stack, wanted: str, more: tuple[str, ...], reason: str
) -> None:
    result = stack.buy(*more, wanted=wanted)
    assert (result.exit_code, reason in result.output) == (2, True), result.output
    assert stack.block_seller.sales == []


def test_another_currency_is_under_no_ceiling(stack: Stack) -> None:
    stack.capacity_blocks.currency = "CNY"
    assert "it is sold in CNY" in stack.buy().output


def test_what_nobody_knows_stops_everything_until_it_is_settled(stack: Stack) -> None:
    stack.block_seller = Silent(stack.world.clock)
    result = stack.buy()
    assert result.exit_code == 2
    assert "it is not known whether it was bought" in result.output
    stack.block_seller = BlockShop(stack.world.clock)
    assert "reservoir blocks settle cb-us-east-1c" in stack.buy().output
    settle = ("blocks", "settle", "cb-us-east-1c")
    assert "half an hour after" in invoke(stack, *settle, "--not-bought", "OPS-7").output
    stack.world.clock.advance(minutes=30)
    assert "it is not known" in invoke(stack, *settle).output
    assert (
        "nothing was bought: OPS-7"
        in invoke(stack, *settle, "--not-bought", "OPS-7").output
    )
    assert stack.buy().exit_code == 0


def test_a_block_is_extended(stack: Stack) -> None:
    now = stack.world.clock.now()
    stack.world.add_reservation(
        "cr-block",
        kind=ReservationKind.CAPACITY_BLOCK,
        start_at=now,
        end_at=now + timedelta(days=1),
    )
    result = invoke(stack, "blocks", "extend", "cr-block", "--days", "2", given="960.50\n")
    assert "bought cr-block for 960.50 USD" in result.output
    assert (
        "EC2 sells 1 to 14 days"
        in invoke(stack, "blocks", "extend", "cr-block", "--days", "15").output
    )
    assert (
        "there is no reservation cr-9"
        in invoke(stack, "blocks", "extend", "cr-9", "--days", "1").output
    )


def test_every_purchase_is_listed_with_who_and_what_became_of_it(stack: Stack) -> None:
    assert stack.buy().exit_code == 0
    (row,) = json.loads(invoke(stack, "get", "purchases", "-o", "json").stdout)["items"]
    assert (row["metadata"]["name"], row["status"]["state"]) == ("cb-us-east-1c", "bought")
    assert (row["spec"]["by"], row["spec"]["feeMicroUsd"]) == (ME, 960_500_000)
    assert row["status"]["capacityReservationIds"] == ["cr-cb-us-east-1c"]
    listed = (
        invoke(stack, "get", "purchases", "--state", "bought")
        .stdout.splitlines()[1]
        .split()
    )
    assert listed[:7] == [
        "cb-us-east-1c",
        "bought",
        "2",
        "p5.48xlarge",
        "1d",
        "960.50",
        "USD",
    ]
    assert listed[-1] == ME
    assert invoke(stack, "get", "purchase", "cb-9").exit_code == 2


def test_what_is_not_settled_says_how_to_settle_it(stack: Stack) -> None:
    stack.block_seller = Silent(stack.world.clock)
    stack.buy()
    assert (
        "reservoir blocks settle cb-us-east-1c"
        in invoke(stack, "describe", "purchase", "cb-us-east-1c").stdout
    )
