"""Schedule -> one sweep over all live claims; exact timer of a reservation -> a look at that one."""

from typing import Any

from shared.runtime import bootstrap
from shared.runtime.observability import count, logger, observed


@observed
def handler(event: dict[str, Any], _context: Any) -> None:
    """Sweep once, or look at the reservation that a timer names."""
    reservation_id = event.get("capacityReservationId")
    expire = bootstrap.expire()
    report = expire.run_for(reservation_id) if isinstance(reservation_id, str) else expire.run()
    meanings = {meaning.value: number for meaning, number in sorted(report.by_meaning.items())}
    logger.info("swept", extra={"claims": report.seen_count, **meanings, "refused": report.refused})
    count("BlockDrainsStarted", report.block_drain_count)
    count("DeadlinesPassed", report.deadline_count)
    count("NodesExpired", report.aged_count)
    count("NodesUnhealthy", report.unhealthy_count)
    count("NodesNeverStarted", report.stuck_count)
    count("CapacitySuspected", report.suspected_count)
    count("ReservationsStarted", report.started_count)
    count("ReservationsUnread", report.unread_count)
    count("CapacityTypesChanged", report.rebought_count)
    count("TerminationsRefused", len(report.refused))
