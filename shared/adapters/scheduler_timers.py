"""One-time schedules of EventBridge Scheduler, one a Capacity Block."""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from shared.adapters.aws_errors import map_client_errors
from shared.ports.errors import RefusedError

if TYPE_CHECKING:
    from mypy_boto3_scheduler import EventBridgeSchedulerClient

_EXISTS = "ConflictException"


class SchedulerDrainTimers:
    """Implements ``shared.ports.messaging.DrainTimers``."""

    def __init__(self, client: "EventBridgeSchedulerClient", *, group: str, role_arn: str, target_arn: str) -> None:
        self._client = client
        self._group = group
        self._target = {"RoleArn": role_arn, "Arn": target_arn}

    def set_timer(self, reservation_id: str, at: datetime) -> None:
        """Fire at ``at`` (Scheduler: within the minute that follows) and delete the schedule afterwards.

        The name stands for the reservation, so a repeat changes nothing and a new end date moves the timer.
        """
        request: Any = {
            "Name": f"drain-{reservation_id}",
            "GroupName": self._group,
            "ScheduleExpression": f"at({at.astimezone(UTC).strftime('%Y-%m-%dT%H:%M:%S')})",
            "ScheduleExpressionTimezone": "UTC",
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "ActionAfterCompletion": "DELETE",
            "Target": {**self._target, "Input": json.dumps({"capacityReservationId": reservation_id})},
        }
        try:
            with map_client_errors():
                self._client.create_schedule(**request)
        except RefusedError as error:
            if error.code != _EXISTS:
                raise
            with map_client_errors():
                self._client.update_schedule(**request)
