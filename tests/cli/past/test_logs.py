"""``reservoir logs`` on a log group in memory."""

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.fakes.system import START, ManualClock
from tests.cli.past.test_events import Claims
from tests.cli.world_stack import OwnOutside, invoke

PAGE = 3


class LogGroup:
    """CloudWatch Logs with one group, whose pages are small."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.is_there = True

    def write(self, stream: str, minute: int, *lines: str) -> None:
        at = START + timedelta(minutes=minute)
        for line in lines:
            self.events.append(
                {
                    "eventId": f"event-{len(self.events)}",
                    "logStreamName": stream,
                    "timestamp": int(at.timestamp() * 1000),
                    "message": line,
                }
            )

    def filter_log_events(
        self,
        *,
        logGroupName: str,  # noqa: N803 - botocore's name
        logStreamNamePrefix: str,  # noqa: N803 - botocore's name
        startTime: int = 0,  # noqa: N803 - botocore's name
        startFromHead: bool = True,  # noqa: N803 - botocore's name
        nextToken: str = "0",  # noqa: N803 - botocore's name
    ) -> dict[str, Any]:
        assert logGroupName == "test-NodeLogs"
        if not self.is_there:
            code = "ResourceNotFoundException"
            raise ClientError({"Error": {"Code": code}}, "FilterLogEvents")
        found = [
            event
            for event in self.events
            if event["logStreamName"].startswith(logStreamNamePrefix)
            and event["timestamp"] >= startTime
        ]
        ordered = found if startFromHead else found[::-1]
        start = int(nextToken)
        answer: dict[str, Any] = {"events": ordered[start : start + PAGE]}
        if start + PAGE < len(ordered):
            answer["nextToken"] = str(start + PAGE)
        return answer


class Stack(OwnOutside):
    """The part of ``reservoir.cli.stack.connection.Connection`` that logs need."""

    def __init__(self) -> None:
        self.clock = ManualClock(START + timedelta(minutes=60))
        self.node_claims = Claims()
        self.group = LogGroup()
        self.rounds: list[tuple[str, ...]] = []

    def client(self, service: str) -> LogGroup:
        assert service == "logs"
        return self.group

    def pause(self, _: float) -> None:
        """Let a command write between two looks, until somebody presses Ctrl-C."""
        if not self.rounds:
            raise KeyboardInterrupt
        self.clock.advance(seconds=2)
        self.group.write("default/train/nc-1/0", 60, *self.rounds.pop(0))


@pytest.fixture
def stack() -> Stack:
    stack = Stack()
    stack.group.write("default/train/nc-1/0", 10, "one", "two")
    stack.group.write("default/train/nc-2/1", 20, "three", "four")
    stack.group.write("default/train-more/nc-3/0", 30, "another workload's")
    return stack


def test_all_that_is_kept_is_printed_with_its_node_and_replica(stack: Stack) -> None:
    done = invoke(stack, "logs", "train")
    assert done.output.splitlines() == [
        "nc-1/0  one",
        "nc-1/0  two",
        "nc-2/1  three",
        "nc-2/1  four",
    ]


def test_one_replica_of_one_node_needs_no_names(stack: Stack) -> None:
    done = invoke(stack, "logs", "default/train", "--node", "i-1", "--replica", "0")
    assert done.output.splitlines() == ["one", "two"]


def test_the_newest_lines_are_printed_in_their_order(stack: Stack) -> None:
    done = invoke(stack, "logs", "train", "--tail", "3", "--timestamps")
    first, *_ = lines = done.output.splitlines()
    assert [line.split()[-1] for line in lines] == ["two", "three", "four"]
    assert first.startswith(f"{START + timedelta(minutes=10):%Y-%m-%dT%H:%M:%SZ}  nc-1/0")


def test_lines_of_a_length_of_time_are_printed(stack: Stack) -> None:
    done = invoke(stack, "logs", "train", "--since", "45m")
    assert done.output.splitlines() == ["nc-2/1  three", "nc-2/1  four"]


def test_following_prints_each_new_line_once(stack: Stack) -> None:
    stack.rounds = [("five",), (), ("six", "seven")]
    done = invoke(stack, "logs", "train", "--since", "1m", "-f")
    assert done.output.splitlines() == ["nc-1/0  five", "nc-1/0  six", "nc-1/0  seven"]


def test_what_tail_left_out_does_not_come_as_new(stack: Stack) -> None:
    stack.group.write("default/train/nc-1/0", 60, "before", "last")
    stack.rounds = [("new",)]
    done = invoke(stack, "logs", "train", "--tail", "1", "-f")
    assert done.output.splitlines() == ["nc-1/0  last", "nc-1/0  new"]


def test_a_line_does_nothing_to_the_terminal(stack: Stack) -> None:
    stack.group.write("default/train/nc-1/0", 50, "\x1b[2Jgone")
    done = invoke(stack, "logs", "train", "--tail", "1")
    assert done.output == "nc-1/0  \\x1b[2Jgone\n"


def test_a_long_line_is_printed_whole(stack: Stack) -> None:
    stack.group.write("default/train/nc-1/0", 50, "word " * 100)
    done = invoke(stack, "logs", "train", "--tail", "1", "--node", "nc-1", "--replica", "0")
    assert done.output == "word " * 100 + "\n"


def test_who_finds_nothing_hears_why_that_may_be(stack: Stack) -> None:
    done = invoke(stack, "logs", "research/none")
    assert done.exit_code == 0
    assert "log_group" in done.output


def test_a_stack_of_an_older_release_has_no_logs_of_nodes(stack: Stack) -> None:
    stack.group.is_there = False
    done = invoke(stack, "logs", "train")
    assert done.exit_code == 2
    assert "older release" in done.output


def test_logs_are_of_one_workload(stack: Stack) -> None:
    assert "name one workload" in invoke(stack, "logs", "train", "eval").output
