"""Queues and their messages, timers and the outbound bus."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

NAMED_MAX: Final = 50  # ids in a line of a log
# Spans of a census.
MINUTE: Final = timedelta(minutes=1)
DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class LaunchBatch:
    """Equal claims that one CreateFleet call shall launch; their state is in the store, this only names them.

    The message carries the claim ids because an index by batch may lag the commit that a launch follows at once. Its
    body is this dataclass in ``reservoir.core.serialisation.json_codec``'s form. ``retry_count``: how often it was sent
    again because EC2 could not be asked, or did not answer; ``throttle_count``: how often in a row because EC2
    throttled it. ``correlation_ids`` are those of its workloads, at most ``NAMED_MAX``, for lines of the log
    about it.
    """

    batch_id: str
    claim_ids: tuple[str, ...]
    retry_count: int = 0
    correlation_ids: tuple[str, ...] = ()
    throttle_count: int = 0


@dataclass(frozen=True, slots=True)
class ClassToValidate:
    """A class that the role that launches shall try by a dry run; a message's body, as ``LaunchBatch`` is."""

    node_class_name: str


class WorkQueue(Protocol):
    """Wakes the planner and hands launch batches on."""

    def wake_planner(
        self, *, reason: str, workload_keys: Collection[str] = (), group: Sequence[str] = ()
    ) -> None:
        """Ask for a planning pass that begins after this call.

        ``workload_keys``: workloads whose demand has just been written. An index may not list them yet; the pass reads
        their rows. ``group``: the parts of the group of NodePools that the pass is for, the first of which names it;
        empty for a pass that finds out. One pass of a group (and one that finds out) runs at a time.
        """
        ...

    def planner_is_awaited(self) -> bool:
        """Whether wake-ups wait for a pass; as of some moments ago, and False where it cannot be told."""
        ...

    def send_launches(self, batches: Sequence[LaunchBatch], *, delay_s: int = 0) -> None:
        """Enqueue launch batches, to be delivered after ``delay_s`` (at most 900); a repeat is harmless.

        Raises TransientError when SQS did not take all of them.
        """
        ...

    def send_validations(self, node_class_names: Sequence[str]) -> None:
        """Enqueue dry runs of classes, beside the launches; a repeat is harmless. Raises TransientError as above."""
        ...


class DemandQueue(Protocol):
    """Where workload systems and people say what they want."""

    def send(self, body: str) -> str:
        """Send a message with the given credentials; return SQS's id of it."""
        ...


class DemandCensus(Protocol):
    """Counts of demand, as good as a bound needs them."""

    def add(self, whose: str, span: timedelta) -> int:
        """Count one more; return how many there are since the last whole multiple of the span.

        One whose answer was lost may count twice.
        """
        ...

    def waiting_keys(self) -> Collection[str]:
        """Return the keys of workloads with pending or surplus replicas; may lag a write by moments."""
        ...


class Redelivery(Protocol):
    """Decides when failed messages are redelivered, instead of waiting out the queue's visibility timeout."""

    def hasten(self, delays_s: Mapping[str, int]) -> None:
        """Redeliver each message, named by its receipt handle, after that many seconds."""
        ...


class DeadLetters(Protocol):
    """Where messages go that can never be understood, so that a person may look at them."""

    def put(self, body: str, attributes: Mapping[str, str]) -> None:
        """Keep the message; ``attributes`` say why and where it came from."""
        ...


class OutboundEvent(Protocol):
    """An event model of ``reservoir.manifests.events``: its EventBridge detail-type and its detail."""

    @property
    def detail_type(self) -> str:
        """Name the EventBridge detail-type, such as ``Node Draining``."""
        ...

    def detail(self) -> dict[str, Any]:
        """Return the detail as JSON-ready values."""
        ...


class EventPublisher(Protocol):
    """The outbound bus."""

    def publish(self, events: Sequence[OutboundEvent]) -> None:
        """Publish all events, at once or as soon as the bus takes them.

        Raises AwsError when they can neither be published nor be kept, so that the caller is retried.
        """
        ...

    def announce(self, events: Sequence[OutboundEvent]) -> None:
        """Publish what must be known before it is done; raises AwsError when the bus does not take it now."""
        ...


class UnpublishedEvents(Protocol):
    """Events that the bus refused and that are kept until it takes them."""

    def publish(self) -> int:
        """Publish them and return how many requests they were; raises AwsError for events that are refused again."""
        ...


class StartTimers(Protocol):
    """Have a reservation read again when it is to begin.

    It refines the minute's sweep, which reads it too: the method raises no AwsError.
    """

    def set_start_timer(self, reservation_id: str, at: datetime) -> None:
        """Look at that time, or almost at once if it has passed; an extra look is harmless."""
        ...


class DrainTimers(Protocol):
    """Exact one-time timers that fire the expire function.

    One per Capacity Block, one per reservation that is to come, and one for the next deadline of a drain. They refine
    the minute's sweep, which does the same: no method raises AwsError, and a time that has passed is not asked for.
    """

    def set_timer(self, reservation_id: str, at: datetime) -> None:
        """Fire when the block is to be drained; replaces its earlier timer, a repeat changes nothing."""
        ...

    def set_start_timer(self, reservation_id: str, at: datetime) -> None:
        """Fire when the reservation is to begin; replaces its earlier start timer, a repeat changes nothing."""
        ...

    def set_deadline_timer(self, at: datetime) -> None:
        """Fire at the next deadline of any drain; replaces the earlier timer, a repeat changes nothing."""
        ...
