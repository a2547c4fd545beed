"""Make MiniStack's services keep the emulated time, and tell the governor what they work on.

Scheduler, EventBridge, SQS, DynamoDB and CloudWatch Logs read the wall clock as ``time.time()`` of their module's
``time``; each gets a stand-in for that module. The other services, and everything about Lambda's own work, keep real
time: a function gets as many real seconds as its timeout says. The ``Date`` of every answer is the emulated time, as
whoever asks from outside knows no other.

Two consequences are handled here. A long poll with a stopped clock would never end, so it is bounded in real time. And
a message that a function is working on stays invisible until its batch ends, wherever the clock is by then: AWS wants
the visibility timeout to be at least the function's timeout, which is enforced in real time.
"""

# ruff: noqa: SLF001 - MiniStack has no public hooks; its version is pinned exactly

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from email.utils import formatdate
from typing import Any, Final

from ministack import app
from ministack.services import (
    cloudwatch,
    cloudwatch_logs,
    dynamodb,
    eventbridge,
    lambda_svc,
    scheduler,
    sqs,
)

from lab.embedded.emulated_time.clock import EmulatedClock
from lab.embedded.emulated_time.governor import Governor

IN_WORK: Final = float("inf")  # visible_at of a message whose batch is with a function
BACKOFF_S: Final = 1.0  # how long a poller rests after a batch that failed as a whole


class _EmulatedTime:
    """The module ``time`` with another wall clock."""

    def __init__(self, clock: EmulatedClock) -> None:
        self.time: Callable[[], float] = clock.epoch_s

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def install(clock: EmulatedClock, backoff: MutableMapping[str, float]) -> None:
    """Replace the clock of the services that follow the emulated time.

    ``backoff`` is kept up to date with the instants (seconds since 1970) until which pollers rest, by queue URL.
    """
    emulated = _EmulatedTime(clock)
    for service in (cloudwatch_logs, dynamodb, eventbridge, scheduler, sqs):
        service.time = emulated
    app.formatdate = lambda *, usegmt: formatdate(clock.epoch_s(), usegmt=usegmt)
    # Their own sweeps run every 10 real seconds; the governor takes their place.
    eventbridge.start_scheduler = scheduler.start_scheduler = lambda: None
    # the governor wakes the pollers only when there is something to take
    lambda_svc._ESM_IDLE_WAKE_GAP_SECONDS = 0.005
    _bound_long_polls()
    _keep_messages_in_work(clock)
    _rest_after_failures(clock, backoff)


def count_work(governor: Governor) -> None:
    """Tell the governor of requests, looks into queues, batches and invocations."""
    _count_requests(governor)
    _count_batches(governor)
    execute = lambda_svc._execute_function

    def counted(function: Any, event: Any) -> Any:
        with governor.work():
            return execute(function, event)

    lambda_svc._execute_function = counted


def _count_requests(governor: Governor) -> None:
    dispatch: Callable[..., Awaitable[Any]] = app._dispatch_service_request

    async def counted(
        method: str, path: str, headers: dict[str, str], body: bytes, *rest: Any
    ) -> Any:
        if _is_receive(headers, body):  # may wait for emulated time
            try:
                return await dispatch(method, path, headers, body, *rest)
            finally:
                governor.look()
        with governor.work(finishes=False):
            return await dispatch(method, path, headers, body, *rest)

    app._dispatch_service_request = counted


def _is_receive(headers: dict[str, str], body: bytes) -> bool:
    return (
        headers.get("x-amz-target") == "AmazonSQS.ReceiveMessage"
        or b"Action=ReceiveMessage" in body[:4096]
    )


def _count_batches(governor: Governor) -> None:
    dispatch = lambda_svc._dispatch_esm_batch

    def counted(mapping_id: str, run: Callable[..., None], *arguments: Any) -> None:
        def run_and_end(*arguments: Any) -> None:
            try:
                run(*arguments)
            finally:
                governor.end_work()

        governor.begin_work()
        try:
            dispatch(mapping_id, run_and_end, *arguments)
        except BaseException:  # no thread was to be had: nothing will end it
            governor.end_work()
            raise

    lambda_svc._dispatch_esm_batch = counted
    for name in ("_poll_sqs", "_poll_dynamodb_streams"):
        setattr(lambda_svc, name, _counting(governor, getattr(lambda_svc, name)))


def _counting(governor: Governor, poll: Callable[[], bool]) -> Callable[[], bool]:
    def counted() -> bool:
        with governor.work(finishes=False):
            return poll()

    return counted


def _rest_after_failures(clock: EmulatedClock, backoff: MutableMapping[str, float]) -> None:
    # MiniStack's own rest counts real seconds; the clock would run past what waits for its end.
    run_batch = lambda_svc._run_sqs_batch
    receive = sqs._receive_messages_for_esm

    def run(
        mapping: Any, function: Any, event: Any, batch: Any, url: str, name: str
    ) -> None:
        run_batch(mapping, function, event, batch, url, name)
        if lambda_svc._esm_backoff_until.pop(mapping["UUID"], None) is not None:
            backoff[url] = clock.epoch_s() + BACKOFF_S

    def receive_unless_resting(url: str, max_number: int) -> Any:
        return [] if backoff.get(url, 0.0) > clock.epoch_s() else receive(url, max_number)

    lambda_svc._run_sqs_batch = run
    sqs._receive_messages_for_esm = receive_unless_resting


def _bound_long_polls() -> None:
    receive = sqs._act_receive_message

    async def bounded(data: MutableMapping[str, Any], queue_url: str) -> Any:
        wait_s = data.get("WaitTimeSeconds")
        try:
            return await asyncio.wait_for(
                receive(data, queue_url), 20 if wait_s is None else int(wait_s) + 0.1
            )
        except TimeoutError:
            return await receive({**data, "WaitTimeSeconds": 0}, queue_url)

    sqs._HANDLERS["ReceiveMessage"] = bounded


def _keep_messages_in_work(clock: EmulatedClock) -> None:
    run_batch = lambda_svc._run_sqs_batch

    def run(
        mapping: Any,
        function: Any,
        event: Any,
        batch: Iterable[dict[str, Any]],
        *queue: str,
    ) -> None:
        visible_at = {id(message): message["visible_at"] for message in batch}
        started_s = time.monotonic()
        for message in batch:
            message["visible_at"] = IN_WORK
        try:
            run_batch(mapping, function, event, batch, *queue)
        finally:
            # MiniStack keeps this metric for direct invocations only.
            dimensions = {"FunctionName": mapping["FunctionName"]}
            duration_ms = (time.monotonic() - started_s) * 1000
            cloudwatch.record_metric(
                "AWS/Lambda", "Duration", duration_ms, "Milliseconds", dimensions
            )
            for message in batch:
                if message["visible_at"] == IN_WORK:  # else the function itself changed it
                    message["visible_at"] = max(visible_at[id(message)], clock.epoch_s())

    lambda_svc._run_sqs_batch = run
