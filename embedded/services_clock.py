"""Make MiniStack's services keep the emulated time.

Scheduler, EventBridge, SQS and DynamoDB read the wall clock as ``time.time()`` of their module's ``time``; each gets a
stand-in for that module. The other services, and everything about Lambda's own work, keep real time: a function gets as
many real seconds as its timeout says.

Two consequences are handled here. A long poll with a stopped clock would never end, so it is bounded in real time. And
a message that a function is working on must not become visible again because the clock was moved: its visibility
timeout counts real seconds until the batch ends (AWS requires it to be at least the function's timeout, which is
enforced in real time).
"""

import asyncio
import time
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any, Final

from ministack.services import cloudwatch, dynamodb, eventbridge, lambda_svc, scheduler, sqs

from embedded.clock import EmulatedClock

IN_WORK: Final = float("inf")  # visible_at of a message whose batch is with a function


class _EmulatedTime:
    """The module ``time`` with another wall clock."""

    def __init__(self, clock: EmulatedClock) -> None:
        self.time: Callable[[], float] = clock.epoch_s

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def install(clock: EmulatedClock) -> None:
    """Replace the clock of the services that follow the emulated time."""
    emulated = _EmulatedTime(clock)
    for service in (dynamodb, eventbridge, scheduler, sqs):
        service.time = emulated
    # Their own sweeps run every 10 real seconds; ``fire_schedules`` takes their place.
    eventbridge.start_scheduler = scheduler.start_scheduler = lambda: None
    _bound_long_polls()
    _keep_messages_in_work(clock)


def fire_schedules() -> None:
    """Fire every rule and schedule that is due; after a jump of the clock each one once, not once a missed period."""
    eventbridge._tick_scheduled_rules()  # noqa: SLF001 - MiniStack has no public hook; its version is pinned
    scheduler._tick_schedules()  # noqa: SLF001 - as above


def _bound_long_polls() -> None:
    receive = sqs._act_receive_message  # noqa: SLF001 - as above

    async def bounded(data: MutableMapping[str, Any], queue_url: str) -> Any:
        wait_s = data.get("WaitTimeSeconds")
        try:
            return await asyncio.wait_for(receive(data, queue_url), 20 if wait_s is None else int(wait_s) + 0.1)
        except TimeoutError:
            return await receive({**data, "WaitTimeSeconds": 0}, queue_url)

    sqs._HANDLERS["ReceiveMessage"] = bounded  # noqa: SLF001 - as above


def _keep_messages_in_work(clock: EmulatedClock) -> None:
    run_batch = lambda_svc._run_sqs_batch  # noqa: SLF001 - as above

    def run(mapping: Any, function: Any, event: Any, batch: Iterable[dict[str, Any]], *queue: str) -> None:
        hidden_for_s = {id(message): message["visible_at"] - clock.epoch_s() for message in batch}
        started_s = time.monotonic()
        for message in batch:
            message["visible_at"] = IN_WORK
        try:
            run_batch(mapping, function, event, batch, *queue)
        finally:
            passed_s = time.monotonic() - started_s
            # MiniStack keeps this metric for direct invocations only.
            dimensions = {"FunctionName": mapping["FunctionName"]}
            cloudwatch.record_metric("AWS/Lambda", "Duration", passed_s * 1000, "Milliseconds", dimensions)
            for message in batch:
                if message["visible_at"] == IN_WORK:  # else the function itself changed it
                    message["visible_at"] = clock.epoch_s() + max(0.0, hidden_for_s[id(message)] - passed_s)

    lambda_svc._run_sqs_batch = run  # noqa: SLF001 - as above
