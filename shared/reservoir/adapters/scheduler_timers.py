"""One-time schedules of EventBridge Scheduler: a Capacity Block's drain, a reservation's start, a drain's deadline.

Timers are a refinement: the minute's sweep does everything that they are set for. So no answer of Scheduler, and no
silence, is an error for the caller; it is reported, and counted where functions are composed.
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.ports.errors import AwsError, RefusedError, TransientError
from reservoir.ports.system import Clock

if TYPE_CHECKING:
    from mypy_boto3_scheduler import EventBridgeSchedulerClient

_EXISTS = "ConflictException"
# Scheduler would retry for a day; by then the minute's sweep has done it.
_RETRIES: Final = {"MaximumEventAgeInSeconds": 120}
# A Scheduler that does not answer is asked again after this: the function's time belongs to what is necessary.
_REST: Final = timedelta(minutes=1)


class SchedulerDrainTimers:
    """Implements ``reservoir.ports.messaging.DrainTimers``."""

    def __init__(
        self,
        client: "EventBridgeSchedulerClient",
        *,
        group: str,
        role_arn: str,
        target_arn: str,
        dead_letters_arn: str | None,
        clock: Clock,
        on_refusal: Callable[[str, AwsError], None],
    ) -> None:
        """``on_refusal`` hears of each timer that Scheduler did not take: its name, and why.

        ``dead_letters_arn``: the queue that gets what a timer could not deliver, if the stack has one.
        """
        self._client = client
        self._group = group
        self._target: Any = {
            "RoleArn": role_arn,
            "Arn": target_arn,
            "RetryPolicy": _RETRIES,
        }
        if dead_letters_arn is not None:
            self._target["DeadLetterConfig"] = {"Arn": dead_letters_arn}
        self._clock = clock
        self._on_refusal = on_refusal
        self._rests_until: datetime | None = None

    def set_timer(self, reservation_id: str, at: datetime) -> None:
        """Fire when the block is to be drained."""
        self._set_for(f"drain-{reservation_id}", reservation_id, at)

    def set_start_timer(self, reservation_id: str, at: datetime) -> None:
        """Fire when the reservation is to begin."""
        self._set_for(f"start-{reservation_id}", reservation_id, at)

    def set_deadline_timer(self, at: datetime) -> None:
        """Fire at the next deadline of any drain."""
        self._set("deadline", {"drainDeadline": at.isoformat()}, at)

    def _set_for(self, name: str, reservation_id: str, at: datetime) -> None:
        self._set(
            name, {"capacityReservationId": reservation_id, "due": at.isoformat()}, at
        )

    def _set(self, name: str, asked: Mapping[str, str], at: datetime) -> None:
        """Fire at ``at`` (Scheduler: within the minute that follows) and delete the schedule afterwards.

        The name identifies the event that is timed, so a repeat changes nothing and a new date moves the timer. No
        timer is set in the past: Scheduler may refuse it, and the next sweep is as soon.
        """
        now = self._clock.now()
        if at <= now or (self._rests_until is not None and now < self._rests_until):
            return
        try:
            self._put(name, asked, at)
        except TransientError as error:
            self._rests_until = now + _REST
            self._on_refusal(name, error)
        except AwsError as error:
            self._on_refusal(name, error)

    def _put(self, name: str, asked: Mapping[str, str], at: datetime) -> None:
        request: Any = {
            "Name": name,
            "GroupName": self._group,
            "ScheduleExpression": f"at({_whole_second(at).strftime('%Y-%m-%dT%H:%M:%S')})",
            "ScheduleExpressionTimezone": "UTC",
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "ActionAfterCompletion": "DELETE",
            "Target": {**self._target, "Input": json.dumps(asked)},
        }
        try:
            with map_client_errors():
                self._client.create_schedule(**request)
        except RefusedError as error:
            if error.code != _EXISTS:
                raise
            with map_client_errors():
                self._client.update_schedule(**request)


def _whole_second(at: datetime) -> datetime:
    """Round up: a timer that fires early finds nothing to do yet."""
    return (at.astimezone(UTC) + timedelta(microseconds=999_999)).replace(microsecond=0)
