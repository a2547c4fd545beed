"""``reservoir status`` and ``top`` on a world in memory."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from io import StringIO
from itertools import repeat
from typing import Any

import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from lab.fakes.stores.history import MemoryHistory
from lab.fakes.system import ManualClock
from lab.worlds.disrupt_world import DisruptWorld
from reservoir.cli.app import app
from reservoir.cli.commands.see.status import see
from reservoir.cli.commands.see.status_document import document
from reservoir.cli.commands.see.status_text import lines
from reservoir.cli.commands.see.top import keep_live, pictures
from reservoir.core.history.past_event import PastEvent
from reservoir.core.history.sample import Sample
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.conditions import Condition, ConditionStatus, ConditionType
from reservoir.names import Function, Queue
from reservoir.ports.errors import RefusedError
from reservoir.ports.overview import QueueDepth
from reservoir.ports.policy import PolicyKind
from tests.cli.world_stack import OwnOutside


class Queues:
    def depths(self) -> Mapping[Queue, QueueDepth]:
        return {Queue.DEMAND: QueueDepth(3, 12), Queue.PLANNING: QueueDepth(0, 0)}


class Alarms:
    def alarming(self) -> tuple[str, ...]:
        return ("Reservoir-DemandAge",)


class Passes:
    """Knows of a reading two minutes ago."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def last(self, function: Function) -> datetime | None:
        assert function is Function.DISCOVER_RESERVATIONS
        return self._clock.now() - timedelta(minutes=2)


class Stack(OwnOutside):
    """The part of ``reservoir.cli.stack.connection.Connection`` that the overview needs."""

    def __init__(self, world: DisruptWorld) -> None:
        state = world.state
        self.reservations: Any = state.reservations
        self.node_claims = state.node_claims
        self.workloads = state.workloads
        self.offerings: Any = state.offerings
        self.history: Any = MemoryHistory()
        self.queues: Any = Queues()
        self.alarms: Any = Alarms()
        self.passes: Any = Passes(world.clock)
        self.clock = world.clock
        self.policy: Any = world.store


class Broken:
    """A source that refuses whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        def refuse(*_: Any, **__: Any) -> Any:
            raise RefusedError("AccessDeniedException", name)

        return refuse


@pytest.fixture
def stack() -> Stack:
    """One job that fills a reservation and has a node bought beside it; a block ends tomorrow; one wait is hopeless."""
    world = DisruptWorld("reserved", "on-demand")
    world.add_reservation("cr-1", total_count=1)
    ends = world.clock.now() + timedelta(hours=23)
    world.add_reservation(
        "cr-block", total_count=4, kind=ReservationKind.CAPACITY_BLOCK, end_at=ends
    )
    world.submit("train", replicas=6, gpus=8)
    world.submit("too-large", replicas=3, gpus=64)
    world.minutes(3)
    stack = Stack(world)
    refused = {
        "nodeClaims": ["nc-9"],
        "offering": {},
        "code": "InsufficientInstanceCapacity",
        "message": "none left",
    }
    stack.history.keep(
        [PastEvent("e-1", world.clock.now() - timedelta(hours=1), "Launch Failed", refused)]
    )
    return stack


def connected(stack: Any) -> Any:
    """Return it as what commands are given."""
    return stack


def shown(stack: Any, width: int = 80) -> list[str]:
    return [line.plain for line in lines(see(connected(stack)).see(), width)]


def part(stack: Any, title: str) -> list[str]:
    """Return the lines of one part."""
    found = shown(stack)
    start = next(number for number, line in enumerate(found) if line.startswith(title))
    rest = found[start + 1 :]
    return [
        found[start],
        *rest[
            : next(
                (number for number, line in enumerate(rest) if line[0] != " "), len(rest)
            )
        ],
    ]


def test_the_daily_questions_are_answered_in_their_order(stack: Stack) -> None:
    titles = [line.split()[0] for line in shown(stack) if line[0] != " "]
    there = ["reservations", "waiting", "ending", "nodes", "bought"]
    assert titles == [*there, "launches", "refused", "discovery", "queues", "alarms"]


def test_each_reservation_has_its_units_and_what_lies_idle(stack: Stack) -> None:
    total, *each = part(stack, "reservations")
    assert "5 units" in total
    rows = {line.split()[0]: line for line in each}
    assert rows.keys() == {"cr-1", "cr-block"}
    assert "1+0/1" in rows["cr-1"]
    assert "USD/h" not in rows["cr-1"]


def test_it_says_what_waits_and_why_and_what_was_refused(stack: Stack) -> None:
    assert any(
        "TooLarge" in line and "3 replicas of 1 workload," in line
        for line in part(stack, "waiting")
    )
    assert part(stack, "refused")[0] == "refused      1 within 1 d"
    assert (
        "node/nc-9: 1 node of ? ? in ?: InsufficientInstanceCapac…"
        in part(stack, "refused")[1]
    )


def test_what_ends_within_two_days_is_told_with_its_drain(stack: Stack) -> None:
    (_, block) = part(stack, "ending")
    assert block.split()[0] == "cr-block"
    assert "drains" in block


def test_a_class_that_is_not_ready_and_a_paused_pool_are_told(stack: Stack) -> None:
    assert part(stack, "launches") == ["launches     every class and pool may launch"]
    image = "AMIsReady: the terms select no machine image (ami-1)"
    unready = Condition(
        ConditionType.READY, ConditionStatus.FALSE, "NoneFound", image, stack.clock.now()
    )
    before = stack.policy.get(PolicyKind.NODE_CLASS, "default").status
    stack.policy.save_status(
        PolicyKind.NODE_CLASS, "default", replace(before, conditions=(unready,))
    )
    assert part(stack, "launches") == [
        "launches     1 object of policy cannot launch",
        f"  ec2nodeclass/default: {image}",
    ]
    told = json.loads(CliRunner().invoke(app, ["status", "-o", "json"], obj=stack).stdout)
    assert told["notLaunching"] == [
        {"kind": "EC2NodeClass", "name": "default", "why": image}
    ]


def test_queues_and_alarms(stack: Stack) -> None:
    assert part(stack, "queues") == ["queues       demand 3 (12 s), planning 0"]
    assert part(stack, "alarms") == ["alarms       Reservoir-DemandAge"]


def test_a_class_that_ec2_refuses_in_a_dry_run_is_told_and_is_not_said_to_be_stopped(
    stack: Stack,
) -> None:
    (item,) = [
        each for each in stack.policy.list_all() if each.kind is PolicyKind.NODE_CLASS
    ]
    kind, at = ConditionType.VALIDATION_SUCCEEDED, stack.clock.now()
    said = Condition(
        kind, ConditionStatus.FALSE, "CreateFleetAuthCheckFailed", "an explicit deny", at
    )
    stack.policy.save_status(
        item.kind,
        item.name,
        replace(item.status, conditions=(*item.status.conditions, said)),
    )
    assert part(stack, "launches") == [
        "launches     every class and pool may launch",
        f"  ec2nodeclass/{item.name}: EC2 refuses a dry run: an explicit deny",
    ]
    told = json.loads(CliRunner().invoke(app, ["status", "-o", "json"], obj=stack).stdout)
    assert [each["why"] for each in told["refusedDryRuns"]] == ["an explicit deny"]


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal_or_than_eighty(
    stack: Stack, width: int
) -> None:
    assert max(map(len, shown(stack, width))) <= max(width, 80)


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("offerings", ["reservations", "waiting", "ending", "nodes", "bought"]),
        ("history", ["refused"]),
        ("queues", ["queues"]),
        ("alarms", ["alarms"]),
        ("policy", ["launches", "starts"]),
    ],
)
def test_what_one_source_does_not_say_is_unknown_and_the_rest_is_told(
    stack: Stack, source: str, parts: list[str]
) -> None:
    setattr(stack, source, Broken())
    unknown = [line.split()[0] for line in shown(stack) if "unknown" in line]
    assert unknown == parts
    assert "AccessDenied" in next(line for line in shown(stack) if "unknown" in line)


def test_a_name_that_somebody_made_up_does_nothing_to_a_terminal(stack: Stack) -> None:
    evil = {
        "workload": {"namespace": "a", "name": "\x1b[2J"},
        "problems": [{"path": "x", "message": "\x07"}],
    }
    stack.history.keep([PastEvent("e-2", stack.clock.now(), "Workload Rejected", evil)])
    assert all(line.isprintable() for line in shown(stack))


def test_programs_get_json_with_what_is_unknown_as_such(stack: Stack) -> None:
    stack.alarms = Broken()
    told = json.loads(CliRunner().invoke(app, ["status", "-o", "json"], obj=stack).stdout)
    assert told["kind"] == "Status"
    assert {it["id"] for it in told["there"]["reservations"]} == {"cr-1", "cr-block"}
    assert told["queues"]["demand"] == {"messages": 3, "oldestS": 12}
    assert "AccessDenied" in told["alarms"]["unknown"]
    assert (
        yaml.safe_load(CliRunner().invoke(app, ["status", "-o", "yaml"], obj=stack).stdout)
        == told
    )


def test_top_looks_as_often_as_it_is_told(stack: Stack) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        stack.clock.advance(seconds=seconds)

    written = StringIO()
    three = (look for _, look in zip(range(3), pictures(5, sleep), strict=False))
    keep_live(see(connected(stack)), Console(file=written, width=80), three)
    assert written.getvalue().count("discovery ") == 3
    assert set(slept) == {5}


def test_top_on_a_terminal_takes_the_whole_screen(stack: Stack) -> None:
    written = StringIO()
    console = Console(file=written, width=80, height=40, force_terminal=True)
    keep_live(see(connected(stack)), console, repeat(None, 2))
    assert "\x1b[?1049h" in written.getvalue()  # the alternate screen


def test_the_age_of_discovery_is_told_where_cloudwatch_knows_it(stack: Stack) -> None:
    told = next(
        line.plain
        for line in lines(see(connected(stack)).see(), 120)
        if line.plain.startswith("discovery")
    )
    assert "read 2 min ago, last change " in told
    stack.passes = Broken()
    seen = see(connected(stack)).see()
    told = next(
        line.plain for line in lines(seen, 120) if line.plain.startswith("discovery")
    )
    assert "read" not in told.partition(";")[0]
    assert "last change " in told
    assert (
        "readAt"
        not in document(seen).model_dump(mode="json", exclude_none=True)["discovery"]
    )


def test_it_says_how_much_of_what_waits_was_not_read(stack: Stack) -> None:
    seen = see(connected(stack)).see()
    assert isinstance(seen.there, Sample)
    more = replace(seen, there=replace(seen.there, unread_count=1200))
    assert "  1200 more workloads not read: one replica of each is counted" in [
        line.plain for line in lines(more, 80)
    ]
    assert not any("not read" in line.plain for line in lines(seen, 80))
