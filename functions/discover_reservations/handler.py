"""Schedule and reservation events -> Reservations and class statuses."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from reservoir.core.node_life.notice import NoticeError, event_time
from reservoir.runtime.composition.discover_reservations import (
    discover_on_event,
    discover_reservations,
)
from reservoir.runtime.observability import (
    count,
    count_for_all,
    count_unreadable,
    logger,
    observed,
)
from reservoir.usecases.discovery.discover_reservations import Discovery


@observed
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any] | None:
    """Observe once; whatever the event says, EC2 is asked. Events of a moment share a reading."""
    moment = _event_time(event)
    found = (
        discover_reservations().run() if moment is None else discover_on_event().run(moment)
    )
    if found is None:
        logger.info("another reading serves this event", extra={"told_at": str(moment)})
        count("DiscoveriesShared")
        return None
    return _outcome(found)


def _outcome(found: Discovery) -> dict[str, Any]:
    logger.info("reservations discovered", extra=asdict(found))
    count("LeasesAbsorbed", found.absorbed_count)
    count("DiscoveryFailures", len(found.failures))
    count_for_all("LaunchesBlocked", found.unready_count)
    count_unreadable(len(found.unreadable))
    return asdict(found)


def _event_time(event: dict[str, Any]) -> datetime | None:
    """Return the time of an event; None for the schedule, which always reads EC2, and for an event without a time."""
    if event.get("source") in (None, "aws.events"):
        return None
    try:
        return event_time(event)
    except NoticeError:
        return None
