"""Queues, bus and timers that remember."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from reservoir.ports.errors import AwsError
from reservoir.ports.messaging import LaunchBatch, OutboundEvent


@dataclass
class MemoryQueue:
    """Implements ``WorkQueue``."""

    wake_ups: list[str] = field(default_factory=list)
    named: set[str] = field(default_factory=set)
    # by their parts: whom the last wake-up named
    groups: dict[str, frozenset[str]] = field(default_factory=dict)
    launches: list[LaunchBatch] = field(default_factory=list)
    delays_s: list[int] = field(default_factory=list)
    validations: list[str] = field(default_factory=list)  # names of classes
    is_awaited: bool = False

    def send_validations(self, node_class_names: Sequence[str]) -> None:
        self.validations.extend(node_class_names)

    def wake_planner(
        self, *, reason: str, workload_keys: Collection[str] = (), group: Sequence[str] = ()
    ) -> None:
        self.wake_ups.append(reason)
        self.named |= set(workload_keys)
        if group:
            self.groups["+".join(group)] = frozenset(workload_keys)

    def planner_is_awaited(self) -> bool:
        return self.is_awaited

    def send_launches(self, batches: Sequence[LaunchBatch], *, delay_s: int = 0) -> None:
        self.launches.extend(batches)
        self.delays_s.extend([delay_s] * len(batches))


@dataclass
class MemoryRedelivery:
    """Implements ``Redelivery``."""

    delays_s: dict[str, int] = field(default_factory=dict)

    def hasten(self, delays_s: Mapping[str, int]) -> None:
        self.delays_s |= delays_s


@dataclass
class MemoryDeadLetters:
    """Implements ``DeadLetters``."""

    letters: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)

    def put(self, body: str, attributes: Mapping[str, str]) -> None:
        self.letters.append((body, dict(attributes)))


@dataclass
class MemoryBus:
    """Implements ``EventPublisher``; keeps what would be on the wire."""

    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def publish(self, events: Sequence[OutboundEvent]) -> None:
        for event in events:
            self.events.append((event.detail_type, json.loads(json.dumps(event.detail()))))

    def announce(self, events: Sequence[OutboundEvent]) -> None:
        self.publish(events)

    def of(self, detail_type: str) -> list[dict[str, Any]]:
        """Return the details of one type, in order."""
        return [detail for name, detail in self.events if name == detail_type]


@dataclass
class MemoryUnpublishedEvents:
    """Implements ``UnpublishedEvents``; ``refusal``: what the bus still says, if it takes nothing."""

    kept_count: int = 0
    refusal: AwsError | None = None

    def publish(self) -> int:
        if self.kept_count and self.refusal is not None:
            raise self.refusal
        published_count, self.kept_count = self.kept_count, 0
        return published_count


@dataclass
class MemoryTimers:
    """Implements ``DrainTimers``."""

    at: dict[str, datetime] = field(default_factory=dict)
    starts: dict[str, datetime] = field(default_factory=dict)
    deadline: datetime | None = None
    set_count: int = 0

    def set_timer(self, reservation_id: str, at: datetime) -> None:
        self.at[reservation_id] = at
        self.set_count += 1

    def set_start_timer(self, reservation_id: str, at: datetime) -> None:
        self.starts[reservation_id] = at
        self.set_count += 1

    def set_deadline_timer(self, at: datetime) -> None:
        self.deadline = at
        self.set_count += 1
