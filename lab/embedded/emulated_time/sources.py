"""What becomes due in the embedded AWS: EC2's agenda, schedules, and messages that wait for their consumer."""

# ruff: noqa: SLF001 - MiniStack has no public hooks; its version is pinned exactly

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any, Final, Protocol

from ministack.services import eventbridge, lambda_svc, scheduler, sqs

from lab.embedded.emulated_time.clock import EPOCH, NEVER_US
from lab.embedded.emulated_time.governor import DueWork

# MiniStack's times are floats: the clock stops this much after one of them, when no rounding makes it seem too early.
_ROUNDING_US: Final = 100


class DueInEc2(Protocol):
    """The part of the EC2 emulation that knows what it will do later."""

    def tick(self) -> None:
        """Do everything that is due."""
        ...

    def next_due(self) -> datetime | None:
        """Return when the next of it is due."""
        ...


class Ec2Agenda:
    """States of instances and reservations, notices, events that come late."""

    def __init__(self, ec2: DueInEc2) -> None:
        self._ec2 = ec2

    def begin_due(self, *, recurring: bool) -> None:
        """Let EC2 do what is due, and deliver its events."""
        del recurring
        self._ec2.tick()

    def due_work(self, now_us: int, *, recurring: bool) -> DueWork:
        """Return when the agenda goes on."""
        del recurring
        due = self._ec2.next_due()
        if due is None:
            return DueWork()
        return _at((due - EPOCH) // timedelta(microseconds=1), now_us)


class Schedules:
    """Rules with a schedule, and EventBridge Scheduler."""

    def begin_due(self, *, recurring: bool) -> None:
        """Fire what is due."""
        if recurring:
            eventbridge._tick_scheduled_rules()
        scheduler._tick_schedules()

    def due_work(self, now_us: int, *, recurring: bool) -> DueWork:
        """Return when a schedule fires next."""
        next_s = [when for when in _timers() if when is not None]
        if recurring:
            next_s += [when for when in _rules() if when is not None]
        return _at(_after_us(min(next_s)), now_us) if next_s else DueWork()


def _rules() -> Iterator[float | None]:
    for key, rule in list(eventbridge._rules._data.items()):
        if rule.get("State") == "ENABLED" and rule.get("ScheduleExpression"):
            fired_s = eventbridge._rule_last_fired.get(key, rule.get("CreationTime"))
            yield _next_s(rule["ScheduleExpression"], fired_s)


def _timers() -> Iterator[float | None]:
    fired = scheduler._schedule_last_fired
    for key, schedule in list(scheduler._schedules._data.items()):
        if schedule.get("State") != "ENABLED":
            continue
        at_s = scheduler._at_time_epoch(schedule["ScheduleExpression"])
        if at_s is not None:
            yield None if key in fired else at_s
            continue
        next_s = _next_s(
            schedule["ScheduleExpression"], fired.get(key, schedule.get("CreationDate"))
        )
        if next_s is None:
            continue
        end_s = scheduler._to_epoch(schedule.get("EndDate"))
        next_s = max(next_s, scheduler._to_epoch(schedule.get("StartDate")) or next_s)
        yield None if end_s is not None and next_s > end_s else next_s


def _next_s(expression: str, fired_s: float | None) -> float | None:
    if fired_s is None:
        return None  # the next look sees it for the first time
    period_s = eventbridge._parse_rate_seconds(expression)
    if period_s is not None:
        return fired_s + float(period_s)
    fields = eventbridge._parse_cron_fields(expression)
    due = (
        None
        if fields is None
        else eventbridge._cron_next_fire(fields, datetime.fromtimestamp(fired_s, tz=UTC))
    )
    return None if due is None else float(due.timestamp())


class QueuedMessages:
    """Messages of queues that feed a function; ``backoff`` has until when a queue's poller rests after a failure."""

    def __init__(self, backoff: Mapping[str, float]) -> None:
        self._backoff = backoff

    def begin_due(self, *, recurring: bool) -> None:
        """Nothing: the pollers take what they may, once they are woken."""

    def due_work(self, now_us: int, *, recurring: bool) -> DueWork:
        """Return whether a poller may take a message, and when the next one may be taken; wake them if so."""
        del recurring
        now_s, ready, next_us = now_us / 1e6, False, NEVER_US
        for url, queue in _fed_queues():
            rests_s = self._backoff.get(url, 0.0)
            takeable_s = [max(visible_s, rests_s) for visible_s in _takeable(queue, now_s)]
            ready = ready or any(when_s <= now_s for when_s in takeable_s)
            next_us = min(
                [next_us, *(_after_us(when_s) for when_s in takeable_s if when_s > now_s)]
            )
        if ready:
            lambda_svc.esm_wake.set()
        return DueWork(ready, next_us)


def _fed_queues() -> Iterator[tuple[str, dict[str, Any]]]:
    for account_id, region, mapping in lambda_svc._iter_all_esms():
        arn = mapping.get("EventSourceArn", "")
        if not mapping.get("Enabled", True) or ":sqs:" not in arn:
            continue
        function = lambda_svc._functions.get_scoped(
            account_id, region, mapping["FunctionName"]
        )
        queue = sqs._queue_by_arn(arn)
        if function is None or queue is None:
            continue
        if (
            lambda_svc._sqs_esm_concurrency(
                mapping, function, function.get("config") or {}, queue
            )
            > 0
        ):
            yield queue["url"], queue


def _takeable(queue: dict[str, Any], now_s: float) -> Iterator[float]:
    """Return when the messages become visible; in a FIFO queue only those that no message of their group holds up."""
    messages = list(queue["messages"])
    if not queue["is_fifo"]:
        yield from (message["visible_at"] for message in messages)
        return
    held_up = {
        message["group_id"]
        for message in messages
        if message["visible_at"] > now_s and message["receive_count"] > 0
    }
    for message in messages:
        if message["group_id"] not in held_up or message["receive_count"] > 0:
            yield message["visible_at"]


def _at(due_us: int, now_us: int) -> DueWork:
    return DueWork(ready=True) if due_us <= now_us else DueWork(next_us=due_us)


def _after_us(seconds: float) -> int:
    return NEVER_US if seconds == float("inf") else ceil(seconds * 1e6) + _ROUNDING_US
