"""Asynchronous invocations: events wait for their function, are tried again, and are given up, by the emulated clock.

Source: https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html: after an error a minute's
wait before the second attempt and two before the third; a throttled event goes back to the queue, is tried again after
a second, then after twice as long each time, up to five minutes, and counts as no attempt; after six hours, or what the
function's ``MaximumEventAgeInSeconds`` says, the event is given up. What is given up goes to the function's failure
destination or dead letter queue.
"""

# ruff: noqa: SLF001 - MiniStack has no public extension points; its version is pinned exactly

import contextvars
import heapq
import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ministack.core import responses
from ministack.core.arn import parse_arn
from ministack.services import eventbridge, lambda_svc

from lab.embedded.emulated_time.clock import NEVER_US
from lab.embedded.emulated_time.governor import DueWork, Governor
from lab.embedded.functions.runtime import called_by_function

RETRY_AFTER_S: Final = (60, 120)  # before the second and the third attempt
FIRST_THROTTLE_S, LAST_THROTTLE_S = 1, 300
MAX_AGE_S: Final = 21_600
MAX_RETRIES: Final = 2
_SECOND_US: Final = 1_000_000
_KEPT: Final = ("function", "event", "accepted_us", "errors", "throttles", "last")


@dataclass
class _Waiting:
    """An event on its way to a function, with what AWS remembers of it."""

    function: Mapping[str, Any]
    event: Any
    context: contextvars.Context
    accepted_us: int
    errors: int = 0
    throttles: int = 0
    last: Mapping[str, Any] = field(default_factory=dict)


class AsynchronousInvocations:
    """Lambda's internal queue of events. It tells ``governor`` what is under way and, being watched, what is due."""

    def __init__(self, governor: Governor) -> None:
        self._governor = governor
        self._clock = governor.clock
        self._lock = threading.Lock()
        self._added = 0
        self._due: list[tuple[int, int, _Waiting]] = []

    def install(self) -> None:
        """Let MiniStack hand over its asynchronous invocations."""
        lambda_svc.invoke_async_with_retry = self.put

    def put(self, function: Mapping[str, Any], event: Any) -> None:
        """Accept an event; it is handed to the function at once."""
        self._start(
            _Waiting(function, event, contextvars.copy_context(), self._clock.epoch_us())
        )

    def waiting(self) -> list[dict[str, Any]]:
        """Return the events that wait for their next try; for :meth:`put_back`, in this or in another process."""
        found = []
        with self._lock:
            for due_us, _, event in sorted(self._due):
                kept = {name: getattr(event, name) for name in _KEPT}
                found.append({"due_us": due_us, **kept})
        return found

    def put_back(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Go on with what :meth:`waiting` returned."""
        for event in events:
            kept = {name: event[name] for name in _KEPT}
            self._push(
                event["due_us"], _Waiting(context=contextvars.copy_context(), **kept)
            )

    def clear(self) -> None:
        """Forget all events that wait."""
        with self._lock:
            self._due.clear()

    def begin_due(self, *, recurring: bool) -> None:
        """Try those events again whose wait is over."""
        del recurring
        now_us = self._clock.epoch_us()
        while True:
            with self._lock:
                if not self._due or self._due[0][0] > now_us:
                    return
                _, _, waiting = heapq.heappop(self._due)
            self._start(waiting)

    def due_work(self, now_us: int, *, recurring: bool) -> DueWork:
        """Return when an event is tried again."""
        del recurring
        with self._lock:
            due_us = self._due[0][0] if self._due else NEVER_US
        return DueWork(ready=True) if due_us <= now_us else DueWork(next_us=due_us)

    def _start(self, waiting: _Waiting) -> None:
        self._governor.begin_work()
        threading.Thread(
            target=waiting.context.run, args=(self._attempt, waiting), daemon=True
        ).start()

    def _attempt(self, waiting: _Waiting) -> None:
        try:
            config = waiting.function.get("config") or waiting.function
            account_id, region = lambda_svc._account_region_from_function_config(config)
            responses.set_request_account_id(account_id)
            responses.set_request_region(region)
            called_by_function.set(False)
            result = lambda_svc._execute_function(waiting.function, waiting.event)
            if result.get("throttle"):
                waiting.throttles += 1
                self._later(
                    waiting,
                    min(FIRST_THROTTLE_S << (waiting.throttles - 1), LAST_THROTTLE_S),
                )
            elif result.get("error"):
                waiting.errors, waiting.last = waiting.errors + 1, result
                self._again_or_give_up(waiting)
        finally:
            self._governor.end_work()

    def _again_or_give_up(self, waiting: _Waiting) -> None:
        retries = _settings(waiting.function).get("MaximumRetryAttempts")
        if waiting.errors > (MAX_RETRIES if retries is None else int(retries)):
            _give_up(waiting)
        else:
            self._later(waiting, RETRY_AFTER_S[waiting.errors - 1])

    def _later(self, waiting: _Waiting, wait_s: int) -> None:
        due_us = self._clock.epoch_us() + wait_s * _SECOND_US
        max_age_s = int(
            _settings(waiting.function).get("MaximumEventAgeInSeconds") or MAX_AGE_S
        )
        if due_us - waiting.accepted_us > max_age_s * _SECOND_US:
            _give_up(waiting)
            return
        self._push(due_us, waiting)

    def _push(self, due_us: int, waiting: _Waiting) -> None:
        with self._lock:
            self._added += 1
            heapq.heappush(self._due, (due_us, self._added, waiting))


def _settings(function: Mapping[str, Any]) -> Mapping[str, Any]:
    settings = function.get("event_invoke_config") or (
        function.get("event_invoke_configs") or {}
    ).get("$LATEST")
    return settings or {}


def _give_up(waiting: _Waiting) -> None:
    config = waiting.function.get("config") or waiting.function
    destination = (
        (_settings(waiting.function).get("DestinationConfig") or {})
        .get("OnFailure", {})
        .get("Destination")
    )
    dead_letters = (config.get("DeadLetterConfig") or {}).get("TargetArn")
    for target, body in (
        (destination, _record(config, waiting)),
        (dead_letters, waiting.event),
    ):
        if target and parse_arn(target).service == "sqs":
            # Not by MiniStack's Lambda, whose messages bear the real time: a queue would take them for too old.
            eventbridge._dispatch_to_sqs(parse_arn(target), json.dumps(body), {})
        elif target:
            lambda_svc._route_async_failure(
                target, config["FunctionName"], waiting.event, dict(waiting.last)
            )


def _record(config: Mapping[str, Any], waiting: _Waiting) -> dict[str, Any]:
    """Return what a failure destination gets."""
    return {
        "version": "1.0",
        "requestContext": {
            "functionArn": config["FunctionArn"],
            "condition": "RetriesExhausted" if waiting.errors else "EventAgeExceeded",
            "approximateInvokeCount": waiting.errors,
        },
        "requestPayload": waiting.event,
        "responseContext": {
            "statusCode": 200,
            "functionError": waiting.last.get("function_error", "Unhandled"),
        },
        "responsePayload": waiting.last.get("body"),
    }
