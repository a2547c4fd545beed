"""Schedule, or the exact timer of a Capacity Block -> one sweep over all live claims."""

from typing import Any

from shared.runtime import bootstrap
from shared.runtime.observability import count, logger, observed


@observed
def handler(_event: dict[str, Any], _context: Any) -> None:
    """Sweep once; what called does not matter."""
    report = bootstrap.expire().run()
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
