"""CloudWatch Logs takes batches within AWS's limits, and gives the lines of streams with a prefix in pages."""

from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from lab.embedded.cloudwatch.log_events import BATCH_BYTES, BATCH_EVENTS
from tests.embedded.conftest import Resources, unique

pytestmark = pytest.mark.embedded
HOUR_MS: Final = 3_600_000


class Group:
    """A log group."""

    def __init__(self, resources: Resources) -> None:
        self._client = resources.aws.client("logs")
        self._name = unique("group")
        self._client.create_log_group(logGroupName=self._name)

        self._clock = resources.aws.clock

    def now_ms(self) -> int:
        return int(self._clock.now().timestamp() * 1000)

    def stream(self, name: str) -> None:
        self._client.create_log_stream(logGroupName=self._name, logStreamName=name)

    def put(self, stream: str, *events: tuple[int, str]) -> None:
        self._client.put_log_events(
            logGroupName=self._name,
            logStreamName=stream,
            logEvents=[{"timestamp": at_ms, "message": text} for at_ms, text in events],
        )

    def lines(self, prefix: str, **asked: Any) -> list[str]:
        found: list[str] = []
        pages = self._client.get_paginator("filter_log_events").paginate(
            logGroupName=self._name, logStreamNamePrefix=prefix, **asked
        )
        for page in pages:
            assert len(page["events"]) <= BATCH_EVENTS
            found += [event["message"] for event in page["events"]]
        return found


@pytest.fixture
def group(resources: Resources) -> Group:
    return Group(resources)


def test_lines_of_streams_with_a_prefix_come_in_the_order_of_their_time(
    group: Group,
) -> None:
    begin_ms = group.now_ms()
    for stream in ("a/1", "a/2", "ab/1"):
        group.stream(stream)
    group.put("a/1", (begin_ms, "first"), (begin_ms + 2, "third"))
    group.put("a/2", (begin_ms + 1, "second"))
    group.put("ab/1", (begin_ms, "another's"))
    assert group.lines("a/") == ["first", "second", "third"]
    assert group.lines("a/", startFromHead=False) == ["third", "second", "first"]
    assert group.lines("a/", startTime=begin_ms + 1) == ["second", "third"]


def test_what_one_page_does_not_hold_comes_in_the_next(group: Group) -> None:
    group.stream("a")
    at_ms = group.now_ms()
    for _ in range(3):
        group.put("a", *[(at_ms, f"{number}") for number in range(4_000)])
    assert len(group.lines("a")) == 12_000


def test_a_batch_that_is_too_large_or_out_of_order_is_refused(group: Group) -> None:
    group.stream("a")
    at_ms = group.now_ms()
    group.put("a", (at_ms, "x" * (BATCH_BYTES - 26)))
    for bad in (
        [(at_ms, "x" * (BATCH_BYTES - 25))],
        [(at_ms, "x")] * (BATCH_EVENTS + 1),
        [(at_ms, "late"), (at_ms - 1, "early")],
        [(at_ms - 25 * HOUR_MS, "a"), (at_ms, "b")],
    ):
        with pytest.raises(ClientError, match="InvalidParameter"):
            group.put("a", *bad)


def test_lines_of_another_time_are_left_out_of_a_batch(group: Group) -> None:
    group.stream("a")
    group.put("a", (group.now_ms() - 15 * 24 * HOUR_MS, "too old"))
    group.put("a", (group.now_ms(), "now"), (group.now_ms() + 3 * HOUR_MS, "not yet"))
    assert group.lines("a") == ["now"]


def test_a_stream_is_made_once_and_has_no_colon(group: Group) -> None:
    group.stream("a")
    with pytest.raises(ClientError, match="ResourceAlreadyExists"):
        group.stream("a")
    with pytest.raises(ClientError, match="InvalidParameter"):
        group.stream("a:b")
    with pytest.raises(ClientError, match="ResourceNotFound"):
        group.put("none", (group.now_ms(), "x"))
