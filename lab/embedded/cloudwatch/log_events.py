"""Log events as CloudWatch Logs takes and gives them.

MiniStack takes any batch, and ``FilterLogEvents`` there knows neither prefixes of streams nor pages. Sources:
https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutLogEvents.html and API_FilterLogEvents.html.
"""

# ruff: noqa: SLF001 - MiniStack has no public extension points; its version is pinned exactly

import base64
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ministack.core.responses import error_response_json, json_response
from ministack.services import cloudwatch_logs

BATCH_EVENTS: Final = 10_000
BATCH_BYTES: Final = 1_048_576
EVENT_OVERHEAD_BYTES: Final = 26
BATCH_SPAN_MS: Final = 24 * 3600 * 1000
OLDEST_MS: Final = 14 * 24 * 3600 * 1000
LATEST_MS: Final = 2 * 3600 * 1000
PAGE_EVENTS: Final = 10_000
PAGE_BYTES: Final = 1_048_576
_STREAM: Final = re.compile("[^:*]{1,512}")

Answer = tuple[Any, ...]  # status, headers, body
Event = Mapping[str, Any]


def install() -> None:
    """Take the place of what MiniStack does."""
    create, put = cloudwatch_logs._create_log_stream, cloudwatch_logs._put_log_events

    def checked_create(data: dict[str, Any]) -> Answer:
        if not _STREAM.fullmatch(str(data.get("logStreamName"))):
            return _invalid("Value at 'logStreamName' failed to satisfy constraint")
        answer: Answer = create(data)
        return answer

    def checked_put(data: dict[str, Any]) -> Answer:
        events = data.get("logEvents", [])
        refused = refusal_of_batch(events)
        if refused is not None:
            return _invalid(refused)
        taken = {**data, "logEvents": [each for each in events if _is_timely(each)]}
        answer: Answer = put(taken)
        return answer

    cloudwatch_logs._create_log_stream = checked_create
    cloudwatch_logs._put_log_events = checked_put
    cloudwatch_logs._filter_log_events = filter_log_events


def refusal_of_batch(events: list[Event]) -> str | None:
    """Say why CloudWatch Logs takes no such batch."""
    if not 1 <= len(events) <= BATCH_EVENTS:
        return f"A batch has 1 to {BATCH_EVENTS} log events."
    if not all(each.get("message") for each in events):
        return "Log event message must not be empty."
    sizes_bytes = (len(each["message"].encode()) + EVENT_OVERHEAD_BYTES for each in events)
    size_bytes = sum(sizes_bytes)
    if size_bytes > BATCH_BYTES:
        return f"Upload too large: {size_bytes} bytes exceeds limit of {BATCH_BYTES}"
    times_ms = [each["timestamp"] for each in events]
    if times_ms != sorted(times_ms):
        return "Log events in a single PutLogEvents request must be in chronological order."
    if times_ms[-1] - times_ms[0] > BATCH_SPAN_MS:
        return "The batch of log events in a single PutLogEvents request cannot span more than 24 hours."
    return None


def _is_timely(event: Event) -> bool:
    """Whether an event is kept; AWS leaves others out of a batch, and takes the rest."""
    now_ms = cloudwatch_logs.time.time() * 1000
    is_timely: bool = now_ms - OLDEST_MS <= event["timestamp"] <= now_ms + LATEST_MS
    return is_timely


def filter_log_events(data: dict[str, Any]) -> Answer:
    """Answer ``FilterLogEvents``: all events of the streams that are meant, in pages."""
    group = cloudwatch_logs._log_groups.get(data.get("logGroupName"))
    if group is None:
        return _refused(
            "ResourceNotFoundException", "The specified log group does not exist."
        )
    named, prefix = data.get("logStreamNames"), data.get("logStreamNamePrefix")
    if named and prefix:
        return _invalid("logStreamNames and logStreamNamePrefix exclude each other.")
    matches = cloudwatch_logs._compile_filter_pattern(data.get("filterPattern", ""))
    found = [
        {**event, "logStreamName": stream}
        for stream, event in _events_of(group["streams"], named, prefix or "")
        if _is_within(event, data) and matches(event["message"])
    ]
    found.sort(key=lambda event: (event["timestamp"], event["ingestionTime"]))
    if not data.get("startFromHead", True):
        found.reverse()
    start = _position(data.get("nextToken"))
    page = list(_page(found[start:], min(data.get("limit", PAGE_EVENTS), PAGE_EVENTS)))
    following = start + len(page)
    answer: dict[str, Any] = {"events": page, "searchedLogStreams": []}
    if following < len(found):
        answer["nextToken"] = base64.b64encode(str(following).encode()).decode()
    given: Answer = json_response(answer)
    return given


def _events_of(
    streams: Mapping[str, Any], named: Iterable[str] | None, prefix: str
) -> Iterator[tuple[str, Event]]:
    for name, stream in streams.items():
        if name.startswith(prefix) and (named is None or name in named):
            yield from ((name, event) for event in stream["events"])


def _is_within(event: Event, data: Mapping[str, Any]) -> bool:
    at_ms = event["timestamp"]
    begins_ms, ends_ms = data.get("startTime", 0), data.get("endTime", at_ms)
    return bool(begins_ms <= at_ms <= ends_ms)


def _page(events: Iterable[Event], limit: int) -> Iterator[Event]:
    """Yield as many events as a page holds, one at least."""
    size_bytes = 0
    for event in itertools.islice(events, limit):
        size_bytes += len(event["message"].encode())
        if size_bytes > PAGE_BYTES and size_bytes > len(event["message"].encode()):
            return
        yield event


def _position(token: str | None) -> int:
    return int(base64.b64decode(token)) if token else 0


def _invalid(message: str) -> Answer:
    return _refused("InvalidParameterException", message)


def _refused(code: str, message: str) -> Answer:
    answer: Answer = error_response_json(code, message, 400)
    return answer
