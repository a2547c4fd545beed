"""``reservoir reservations``: what is shown, what has to be typed, and what is refused before EC2 is asked."""

import json
from dataclasses import dataclass, field

import pytest
from typer.testing import Result

from lab.fakes.outside import settings
from lab.worlds.cloud import ACCOUNT_ID, ZONE_A
from reservoir.adapters.ec2.block_seller import Ec2BlockSeller
from reservoir.adapters.ec2.reservation_changer import Ec2ReservationChanger
from reservoir.core.purchasing.book import Ceilings
from reservoir.runtime.settings import Settings
from tests.cli.world_stack import OwnOutside, invoke
from tests.usecases.purchasing.test_change_reservations import USD, Desk, Prices

ME = f"arn:aws:sts::{ACCOUNT_ID}:assumed-role/buyers/ada"
AHEAD = ("--starts", "2026-11-20T08:00Z", "--commitment-days", "14")
pytestmark = pytest.mark.usefixtures("at_a_terminal")


@dataclass
class Stack(OwnOutside):
    """The part of ``reservoir.cli.stack.connection.Connection`` that changes need, on an emulated EC2."""

    desk: Desk = field(default_factory=Desk)

    def __post_init__(self) -> None:
        ec2 = self.desk.cloud.ec2
        self.reservation_changer = Ec2ReservationChanger(ec2, ec2)
        self.block_seller = Ec2BlockSeller(ec2, ec2)
        self.offerings = Prices()
        self.ids = self.desk.ids
        self.clock = self.desk.cloud.clock
        self.purchases = self.desk.store
        self.publisher = self.desk.bus

    @property
    def settings(self) -> Settings:
        return settings(purchase_ceilings=Ceilings(2_000 * USD, 2_500 * USD))

    def caller(self) -> str:
        return ME

    def pause(self, seconds: float) -> None:
        self.desk.pause(seconds)

    def say(self, *arguments: str, typed: str = "") -> Result:
        return invoke(self, "reservations", *arguments, given=typed)

    def create(self, *more: str, typed: str = "1344.00\n") -> Result:
        what = ("m5.8xlarge", "--zone", ZONE_A, "--count", "4")
        return self.say("create", *what, *(more or AHEAD), typed=typed)

    def scheduled(self) -> str:
        made = self.create("--yes", "--amount", "1344", *AHEAD)
        assert made.exit_code == 0, made.output
        self.desk.cloud.advance(minutes=1)
        (shown,) = self.shown()
        return shown["CapacityReservationId"]

    def shown(self) -> list[dict[str, str]]:
        found: list[dict[str, str]] = self.desk.cloud.ec2.describe_capacity_reservations()[
            "CapacityReservations"
        ]
        return found


@pytest.fixture
def stack() -> Stack:
    return Stack()


@pytest.fixture
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reservoir.cli.commands.operate.consent.can_ask", lambda: True)


def test_who_types_what_it_commits_to_has_reserved_ahead(stack: Stack) -> None:
    result = stack.create()
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[:3] == [
        "create: 4 m5.8xlarge in us-east-1a",
        "  from        2026-11-20T08:00Z to 2026-12-04T08:00Z",
        "  costs       1344.00 USD",
    ]
    assert "  this month  0.00 USD of 2500.00 USD are spent" in lines
    assert lines[-1].endswith(f"for 1344.00 USD, by {ME}")
    (purchase,) = stack.purchases.list_all()
    assert purchase.by == ME


@pytest.mark.parametrize("typed", ["1344.01\n", "0\n", "yes\n"])
def test_another_amount_changes_nothing(stack: Stack, typed: str) -> None:
    result = stack.create(typed=typed)
    assert (result.exit_code, stack.shown()) == (2, [])
    assert "nothing was changed: it costs 1344.00 USD, not" in result.output


def test_yes_alone_changes_nothing(stack: Stack) -> None:
    result = stack.create("--yes", *AHEAD)
    assert (result.exit_code, stack.shown()) == (2, [])
    assert "only together with --amount" in result.output


def test_a_dry_run_changes_nothing_and_asks_ec2_for_leave(stack: Stack) -> None:
    result = stack.create("--dry-run", *AHEAD)
    assert (result.exit_code, stack.shown()) == (0, [])
    assert "nothing was changed (dry run): EC2 would allow it" in result.output
    assert stack.purchases.list_all() == []


def test_what_ec2_would_refuse_is_refused_with_the_rules(stack: Stack) -> None:
    result = stack.create("--starts", "2026-11-03T08:00Z", "--commitment-days", "1")
    assert (result.exit_code, stack.shown()) == (2, [])
    for rule in ("5 to 120 days ahead", "14 days or more, not 1"):
        assert rule in result.output


def test_the_ceilings_hold(stack: Stack) -> None:
    result = stack.create("--starts", "2026-11-20T08:00Z", "--commitment-days", "28")
    assert (result.exit_code, stack.shown()) == (2, [])
    assert "one purchase may cost 2000.00 USD" in result.output


def test_a_cancellation_shows_awss_quote_before_the_amount_is_typed(stack: Stack) -> None:
    reserved = stack.scheduled()
    refused = stack.say("cancel", reserved, typed="0.00\n")
    assert refused.exit_code == 2
    assert "AWS charges 84 hours of 4 units" in refused.output
    result = stack.say("cancel", reserved, typed="336\n")
    assert result.exit_code == 0, result.output
    assert stack.shown()[0]["State"] == "cancelling"


def test_a_start_is_put_off_and_said_to_be_looked_at(stack: Stack) -> None:
    reserved = stack.scheduled()
    result = stack.say("push-out", reserved, "--to", "2026-11-25T08:00Z", typed="0\n")
    assert result.exit_code == 0, result.output
    assert "EC2 then looks whether it can, and may refuse" in result.output
    assert stack.shown()[0]["AdjustmentStatus"] == "requested"


def test_units_are_resized_split_and_moved(stack: Stack) -> None:
    reserved = stack.desk.cloud.reserve(3)
    for arguments, cost in (
        (("resize", reserved, "--count", "4"), "720"),
        (("split", reserved, "--count", "1", "--tag", "team=ml"), "0"),
    ):
        result = stack.say(*arguments, "--yes", "--amount", cost)
        assert result.exit_code == 0, result.output
    part = result.output.splitlines()[-1].split()[1]
    moved = stack.say("move", reserved, "--into", part, "--count", "2", typed="0.00\n")
    assert moved.exit_code == 0, moved.output
    assert stack.desk.cloud.reservation(part)["TotalInstanceCount"] == 3
    assert len(stack.purchases.list_all()) == 3


def test_purchases_tell_of_changes(stack: Stack) -> None:
    stack.scheduled()
    listed = invoke(stack, "get", "purchases", "-o", "json")
    (row,) = json.loads(listed.stdout)["items"]
    assert (row["spec"]["change"], row["spec"]["by"]) == ("create", ME)
    settled = stack.say("settle", row["metadata"]["name"])
    assert settled.exit_code == 0, settled.output
