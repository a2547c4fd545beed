"""``reservoir events`` on a history in memory."""

import json
from datetime import timedelta
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from lab.fakes.stores.history import MemoryHistory
from lab.fakes.system import START, ManualClock
from reservoir.cli.app import app
from reservoir.cli.commands.past.events import Tail
from reservoir.core.history.past_event import PastEvent
from tests.cli.world_stack import OwnOutside


class Stack(OwnOutside):
    """The part of ``reservoir.cli.stack.connection.Connection`` that looking back needs."""

    def __init__(self) -> None:
        self.history = MemoryHistory()
        self.clock = ManualClock(START + timedelta(hours=3))
        self.node_claims = Claims()


class Claims:
    """Knows one instance."""

    def find_by_instance(self, instance_ids: list[str]) -> dict[str, Any]:
        return {"i-1": Claim()} if instance_ids == ["i-1"] else {}


class Claim:
    id = "nc-1"


NODE = {
    "nodeClaim": "nc-1",
    "instanceType": "p5.48xlarge",
    "capacityType": "reserved",
    "zone": "us-east-1a",
}
REF = {"namespace": "default", "name": "train"}
DETAILS: dict[str, dict[str, Any]] = {
    "Workload Pending": {
        "workload": REF,
        "replicas": 1,
        "reason": "ReservationFull",
        "message": "cr-1 is full",
    },
    "Workload Placed": {"workload": REF, "replicas": 1, "nodes": [{**NODE, "replicas": 1}]},
    "Node Launched": {
        "node": {**NODE, "instanceId": "i-1"},
        "workloads": [{**REF, "replicas": 1}],
    },
    "Node Terminated": {"node": NODE, "reason": "Withdrawn", "returned": []},
}


@pytest.fixture
def stack() -> Stack:
    """A workload's life within three hours."""
    stack = Stack()
    for number, (detail_type, detail) in enumerate(DETAILS.items()):
        stack.history.keep(
            [
                PastEvent(
                    f"e-{number}",
                    START + timedelta(minutes=55 * number),
                    detail_type,
                    detail,
                )
            ]
        )
    return stack


def events(stack: Stack, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["events", *arguments], obj=stack)


def told(stack: Stack, *arguments: str) -> list[str]:
    result = events(stack, *arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    return [item["type"] for item in json.loads(result.stdout)["items"]]


def test_the_last_hour_unless_one_says_how_far_back(stack: Stack) -> None:
    assert told(stack) == ["Node Terminated"]
    assert told(stack, "--since", "7d") == list(DETAILS)


def test_an_object_is_told_of_from_its_first_message_on(stack: Stack) -> None:
    assert told(stack, "--for", "workload/train") == [
        "Workload Pending",
        "Workload Placed",
        "Node Launched",
    ]
    assert (
        told(stack, "--for", "node/nc-1")
        == told(stack, "--for", "node/i-1")
        == list(DETAILS)[1:]
    )


def test_a_line_says_when_what_to_whom_and_what_it_was(stack: Stack) -> None:
    lines = [
        line.split(None, 2)[2]
        for line in events(stack, "--since", "1d").stdout.splitlines()[1:]
    ]
    assert lines == [
        "Workload Pending  workload/default/train  1 replica waits: ReservationFull: cr-1 is full",
        "Workload Placed   workload/default/train  1 replica placed on 1 x p5.48xlarge reserved in us-east-1a",
        "Node Launched     node/nc-1               i-1 launched: p5.48xlarge reserved in us-east-1a",
        "Node Terminated   node/nc-1               terminated: Withdrawn",
    ]


def test_a_window_of_the_past_is_told(stack: Stack) -> None:
    at = START + timedelta(minutes=60)
    kinds = [
        line[:16].strip()
        for line in told(stack, "--since", "30m", "--until", f"{at:%Y-%m-%dT%H:%MZ}")
    ]
    assert kinds == ["Workload Placed"]
    assert told(stack, "--since", "30m", "--until", f"{at:%Y-%m-%dT%H:%M}") == told(
        stack, "--since", "30m", "--until", at.isoformat()
    ), "without a zone it is UTC"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--for", "pod/a"], "'pod' is not a kind of object"),
        (["--for", "offering/a"], "is not KIND/NAME"),
        (["--for", "node/"], "is not KIND/NAME"),
        (["--for", "node/i-2"], "name its claim"),
        (["--since", "yesterday"], "is not a duration"),
        (["--until", "yesterday"], "neither a time such as"),
        (["--until", "1h", "--follow"], "--until ends what --follow goes on with"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    stack: Stack, arguments: list[str], said: str
) -> None:
    result = events(stack, *arguments)
    assert (result.exit_code, said in result.stderr) == (2, True)


def test_nothing_is_said_in_words(stack: Stack) -> None:
    assert events(stack, "--for", "node/nc-9").stderr == "no events of node/nc-9\n"


def test_a_tail_tells_each_event_once_and_those_that_come_late_too(stack: Stack) -> None:
    tail = Tail(stack.history.timeline, stack.clock, [])
    now = stack.clock.now()
    first, late = (
        PastEvent(f"new-{name}", now - timedelta(seconds=30), "Envelope Lifted", {})
        for name in "ab"
    )
    stack.history.keep([first])
    assert tail.more() == [first]
    stack.history.keep([late])
    stack.clock.advance(seconds=2)
    assert tail.more() == [late]
    assert tail.more() == []
