"""Facts and launches in the log of the function that sends them, with the correlation ids of their workloads."""

from collections.abc import Collection, Mapping, Sequence

from reservoir.core.history.past_event import correlation_ids_in
from reservoir.ports.messaging import (
    NAMED_MAX,
    EventPublisher,
    LaunchBatch,
    OutboundEvent,
    WorkQueue,
)
from reservoir.runtime.observability import CORRELATION_IDS, about, logger


class LoggedBus:
    """A bus whose events are logged too; implements ``reservoir.ports.messaging.EventPublisher``.

    Facts about many workloads take several lines, so that each id is in one.
    """

    def __init__(self, bus: EventPublisher) -> None:
        self._bus = bus

    def publish(self, events: Sequence[OutboundEvent]) -> None:
        """Publish all events, then say so."""
        self._bus.publish(events)
        _say_all(events)

    def announce(self, events: Sequence[OutboundEvent]) -> None:
        """Publish what must be known before it is done, then say so."""
        self._bus.announce(events)
        _say_all(events)


def _say_all(events: Sequence[OutboundEvent]) -> None:
    kinds: dict[str, int] = {}
    ids: dict[str, None] = {}
    for event in events:
        kinds[event.detail_type] = kinds.get(event.detail_type, 0) + 1
        ids |= dict.fromkeys(correlation_ids_in(event.detail()))
        if len(ids) >= NAMED_MAX:
            _say(kinds, ids)
            kinds, ids = {}, {}
    _say(kinds, ids)


def _say(kinds: Mapping[str, int], ids: Collection[str]) -> None:
    if ids:
        about(ids)
        logger.info("facts told", extra={"facts": kinds, CORRELATION_IDS: list(ids)})


class LoggedQueue:
    """A queue whose launches are logged too; implements ``reservoir.ports.messaging.WorkQueue``."""

    def __init__(self, queue: WorkQueue) -> None:
        self._queue = queue

    def wake_planner(
        self, *, reason: str, workload_keys: Collection[str] = (), group: Sequence[str] = ()
    ) -> None:
        """Ask for a planning pass, without a line: the function that wrote the demand logs it."""
        self._queue.wake_planner(reason=reason, workload_keys=workload_keys, group=group)

    def planner_is_awaited(self) -> bool:
        """Ask, without a line."""
        return self._queue.planner_is_awaited()

    def send_validations(self, node_class_names: Sequence[str]) -> None:
        """Send them, without a line: they concern no workload."""
        self._queue.send_validations(node_class_names)

    def send_launches(self, batches: Sequence[LaunchBatch], *, delay_s: int = 0) -> None:
        """Send the batches, then say so: one line each, as the function that launches them will."""
        self._queue.send_launches(batches, delay_s=delay_s)
        for batch in batches:
            about(batch.correlation_ids)
            more = {
                "batch_id": batch.batch_id,
                "claims": len(batch.claim_ids),
                "claim_ids": batch.claim_ids[:NAMED_MAX],
            }
            logger.info(
                "launch sent", extra={**more, CORRELATION_IDS: list(batch.correlation_ids)}
            )
