"""Facts, said in the log of the function that tells them: for whom, as every other line says it."""

from collections.abc import Collection, Mapping, Sequence

from shared.core.history.past_event import correlation_ids_in
from shared.ports.messaging import NAMED_MAX, EventPublisher, OutboundEvent
from shared.runtime.observability import FOLLOWED_BY, about, logger


class ToldInTheLog:
    """A bus that also says in the log what is told on it; implements ``shared.ports.messaging.EventPublisher``.

    Facts about many workloads take several lines, so that each id is in one.
    """

    def __init__(self, bus: EventPublisher) -> None:
        self._bus = bus

    def publish(self, events: Sequence[OutboundEvent]) -> None:
        """Publish all events, then say so."""
        self._bus.publish(events)
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
        logger.info("facts told", extra={"facts": kinds, FOLLOWED_BY: list(ids)})
