"""``reservoir get blocks TYPE --for WORKLOAD``: what it says to buy, and when it says not to."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from typer.testing import Result

from lab.worlds.disrupt_world import DisruptWorld
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.workload import FallbackStep
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.ports.capacity_blocks import BlockOffering
from tests.cli.world_stack import WorldStack, invoke

HOUR = timedelta(hours=1)
RESERVED_ALONE = (FallbackStep(CapacityType.RESERVED),)


@dataclass
class Sale:
    """Sells blocks that begin in five hours, for so much a unit and hour; remembers what it was asked for."""

    world: DisruptWorld
    hourly_usd: int = 30
    currency: str = "USD"
    asked: list[tuple[str, int, int]] = field(default_factory=list)

    def offerings(
        self, instance_type: str, *, count: int, hours: int
    ) -> list[BlockOffering]:
        self.asked.append((instance_type, count, hours))
        if not self.hourly_usd:
            return []
        begin, fee = (
            self.world.clock.now() + 5 * HOUR,
            f"{self.hourly_usd * count * hours}.0000",
        )
        facts = (
            instance_type,
            "us-east-1b",
            count,
            begin,
            begin + hours * HOUR,
            fee,
            self.currency,
        )
        return [BlockOffering(f"cb-{count}-{hours}", *facts)]

    def extensions(self, reservation_id: str, *, hours: int) -> list[BlockOffering]:
        self.asked.append((reservation_id, 0, hours))
        block = self.world.ec2.reservations[reservation_id]
        assert block.end_at is not None
        facts = (
            block.instance_type,
            block.zone,
            block.total_count,
            block.end_at,
            block.end_at + hours * HOUR,
        )
        return [BlockOffering(f"cbe-{hours}", *facts, "100.0000", "USD")]


@dataclass
class Stack(WorldStack[DisruptWorld]):
    """The part of ``reservoir.cli.stack.connection.Connection`` that the search needs."""

    def __post_init__(self) -> None:
        self.capacity_blocks = Sale(self.world)

    def pause(self, seconds: float) -> None:
        self.world.clock.advance(seconds=seconds)

    def wants(self, name: str, units: int, hours: int = 20, **changes: Any) -> None:
        self.world.submit(name, replicas=units, gpus=8, duration_s=hours * 3600, **changes)

    def search(
        self,
        *wanted: str,
        more: tuple[str, ...] = (),
        types: tuple[str, ...] = ("p5.48xlarge",),
    ) -> Result:
        named = [word for name in wanted for word in ("--for", name)]
        return invoke(self, "get", "blocks", *types, *named, *more)


@pytest.fixture
def stack() -> Stack:
    return Stack(DisruptWorld("reserved", "on-demand"))


def lines(result: Result) -> list[str]:
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout.splitlines()


def test_the_block_that_costs_less_than_on_demand_with_the_command_that_buys_it(
    stack: Stack,
) -> None:
    stack.wants("train", 4)
    told = lines(stack.search("research/train"))
    assert (
        told[0]
        == "4 p5.48xlarge for 1d in us-east-1b from 2026-01-15T17:00Z to 2026-01-16T17:00Z: 2880.00 USD"
    )
    assert told[1] == "  a useful hour of a unit costs 36.00 USD; on-demand 98.32 USD"
    assert (
        told[2]
        == '  reservoir blocks buy "4 p5.48xlarge for 1d" --offering cb-4-24 --tag KEY=VALUE'
    )
    assert told[3] == (
        "research/train  waits 5h, begins 2026-01-15T17:00Z on cb-4-24; on demand it costs 7865.60 USD and begins now"
    )
    assert (
        told[4]
        == "altogether      2880.00 USD: 2880.00 USD for blocks, 0.00 USD on demand, 0.00 USD for waiting"
    )
    assert (
        told[5]
        == "without buying  7865.60 USD: 0.00 USD for blocks, 7865.60 USD on demand, 0.00 USD for waiting"
    )


def test_it_says_not_to_buy_what_costs_more_than_on_demand(stack: Stack) -> None:
    stack.wants("train", 4, hours=2)
    told = lines(stack.search("train", more=("-n", "research")))
    assert told[:2] == [
        "buy nothing: blocks that are owned and on-demand cost less than what is on sale",
        "research/train  runs on demand, for 786.56 USD",
    ]


def test_what_waiting_costs_can_make_on_demand_the_better_choice(stack: Stack) -> None:
    stack.wants("train", 4)
    assert lines(stack.search("research/train", more=("--waiting-usd", "249.27")))[
        0
    ].startswith("4 p5.48xlarge for 1d")
    assert lines(stack.search("research/train", more=("--waiting-usd", "249.28")))[
        0
    ].startswith("buy nothing")


def test_all_that_waits_shares_a_block(stack: Stack) -> None:
    stack.wants("a", 4, hours=10, fallback=RESERVED_ALONE)
    stack.wants("b", 4, hours=10, fallback=RESERVED_ALONE)
    stack.world.submit("endless", gpus=8)
    told = lines(stack.search("all"))
    assert told[0].startswith("4 p5.48xlarge for 1d")
    assert (
        "research/a  waits 5h, begins 2026-01-15T17:00Z on cb-4-24; it may not run on demand"
        in told
    )
    assert (
        "research/b  waits 15h, begins 2026-01-16T03:00Z on cb-4-24; it may not run on demand"
        in told
    )
    assert (
        "research/endless  has no duration, so it is not known how long a block it needs"
        in told
    )
    assert stack.capacity_blocks.asked == [("p5.48xlarge", 4, 24), ("p5.48xlarge", 8, 24)]


def test_more_workloads_than_can_be_tried_in_every_way_share_blocks_too(
    stack: Stack,
) -> None:
    for number in range(8):
        stack.wants(f"small-{number}", 2, hours=5, fallback=RESERVED_ALONE)
    told = lines(stack.search("all"))
    # eighty unit hours: four units for a day have room for them, two would take two days
    assert told[0].startswith("4 p5.48xlarge for 1d")
    assert not any("still waits" in line for line in told)
    assert told[-1].startswith("the best that was found")


def test_it_asks_no_faster_than_ec2_answers(stack: Stack) -> None:
    begun_at = stack.world.clock.now()
    for number in range(7):
        stack.wants(f"w-{number}", 2**number, hours=23 * (number + 1))
    lines(stack.search("all"))
    asked = len(stack.capacity_blocks.asked)
    assert asked > 10
    assert stack.world.clock.now() - begun_at == (asked - 10) * timedelta(seconds=7)


def test_what_no_block_serves_goes_on_waiting(stack: Stack) -> None:
    stack.capacity_blocks.hourly_usd = 0
    stack.wants("train", 4, fallback=RESERVED_ALONE)
    told = lines(stack.search("research/train"))
    assert told[0] == "buy nothing: EC2 has no block on sale now that would fit"
    assert told[1].startswith(
        "research/train  still waits: no block that is owned or on sale fits it"
    )
    assert told[2].endswith("; 1 workload waits on")


def test_a_block_lasts_until_its_nodes_have_to_go(stack: Stack) -> None:
    # a node drains 40 minutes before the end
    stack.wants("train", 1, hours=24, fallback=RESERVED_ALONE)
    assert '"1 p5.48xlarge for 2d"' in stack.search("research/train").stdout


def test_work_that_wants_longer_notice_needs_more_of_a_block(stack: Stack) -> None:
    stack.wants("train", 1, hours=23, fallback=RESERVED_ALONE)
    stack.wants("saves", 1, hours=23, fallback=RESERVED_ALONE, checkpoint_period_s=1800)
    assert '"1 p5.48xlarge for 1d"' in stack.search("research/train").stdout
    assert '"1 p5.48xlarge for 2d"' in stack.search("research/saves").stdout


def test_no_block_is_bought_in_a_zone_where_the_work_may_not_be(stack: Stack) -> None:
    elsewhere = Requirements.from_labels({labels.ZONE: "us-east-1a"})
    stack.wants("train", 4, fallback=RESERVED_ALONE, node_selector=elsewhere)
    assert stack.search("research/train").stdout.startswith("buy nothing")


def test_what_is_owned_is_used_and_extended_before_another_is_bought(stack: Stack) -> None:
    now = stack.world.clock.now()
    stack.world.add_block(
        now + 12 * HOUR,
        total_count=4,
        start_at=now - 12 * HOUR,
        instance_type="p5.48xlarge",
    )
    stack.wants("short", 4, hours=10, fallback=RESERVED_ALONE)
    assert "research/short  begins now on cr-block" in stack.search("research/short").stdout
    stack.wants("long", 4, hours=20, fallback=RESERVED_ALONE)
    told = lines(stack.search("research/long"))
    assert told[1] == "  reservoir blocks extend cr-block --days 1"
    assert told[2] == "research/long  begins now on cbe-24; it may not run on demand"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("blocks", "--for", "all"), "name the types that would fit"),
        (("blocks", "4 p5.48xlarge", "--for", "all"), "name the types that would fit"),
        (("nodes", "--for", "all"), "--for and --waiting-usd are about blocks"),
        (
            ("blocks", "p5.48xlarge", "--waiting-usd", "3"),
            "--for and --waiting-usd are about blocks",
        ),
        (("blocks", "p5.48xlarge", "--for", "all", "--for", "x"), "name no others"),
        (
            ("blocks", "p5.48xlarge", "--for", "all", "-o", "json"),
            "--for goes with --namespace alone",
        ),
        (
            ("blocks", "p5.48xlarge", "--for", "all", "--waiting-usd", "-1"),
            "'-1' is not an amount of USD",
        ),
        (
            ("blocks", "p5.48xlarge", "--for", "all", "--waiting-usd", "NaN"),
            "'NaN' is not an amount of USD",
        ),
        (("blocks", "p9.large", "--for", "all"), "the catalogue has no type p9.large"),
        (
            ("blocks", "p5.48xlarge", "--for", "all"),
            "no workload waits that a block could serve",
        ),
        (("blocks", "p5.48xlarge", "--for", "x"), "there is no workload default/x"),
    ],
)
def test_what_cannot_be_asked(stack: Stack, arguments: tuple[str, ...], said: str) -> None:
    result = invoke(stack, "get", *arguments)
    assert (result.exit_code, said in result.stderr) == (2, True), result.output


def test_workloads_that_cannot_be_searched_for_are_refused_with_the_reason(
    stack: Stack,
) -> None:
    stack.world.submit("endless", gpus=8)
    assert "research/endless has no duration" in stack.search("research/endless").stderr
    stack.world.submit("wide", gpus=9, duration_s=3600)
    assert "research/wide cannot run on p5.48xlarge" in stack.search("research/wide").stderr
    for number in range(21):
        stack.wants(f"many-{number}", 1)
    assert (
        "21 workloads wait, and the search is about 20 at most"
        in stack.search("all").stderr
    )
    stack.capacity_blocks = replace(stack.capacity_blocks, currency="CNY")
    assert "is sold in CNY" in stack.search("research/many-1").stderr
