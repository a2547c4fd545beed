"""What only AWS knows of a deployment: how full its queues are, and which of its alarms have gone off."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from reservoir.names import Function, Queue


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """How many messages wait; ``oldest_s`` is the age of the oldest, None where CloudWatch has not reported it."""

    message_count: int
    oldest_s: int | None = None


class QueueReader(Protocol):
    """The deployment's queues."""

    def depths(self) -> Mapping[Queue, QueueDepth]:
        """Return the approximate number of messages in each queue, by SQS."""
        ...


class PassReader(Protocol):
    """The passes of the deployment's functions."""

    def last(self, function: Function) -> datetime | None:
        """Return, to the minute, about when the last successful pass ended; None if CloudWatch has no record."""
        ...


class AlarmReader(Protocol):
    """The deployment's alarms."""

    def alarming(self) -> tuple[str, ...]:
        """Return the names of the alarms that are in alarm, sorted."""
        ...
