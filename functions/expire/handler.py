"""Schedule -> one sweep over all live claims; exact timers -> one reservation, or the drains that are over."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from reservoir.runtime.composition.expire import expire
from reservoir.runtime.observability import amount, count, count_for_all, logger, observed
from reservoir.usecases.node_life.expire import Expire, ExpireReport


@observed
def handler(event: dict[str, Any], _context: Any) -> None:
    """Sweep once, or do the part of it that a timer asks for."""
    report = _asked(event, expire())
    meanings = {
        meaning.value: number for meaning, number in sorted(report.by_meaning.items())
    }
    logger.info(
        "swept", extra={"claims": report.seen_count, **meanings, "refused": report.refused}
    )
    amount("BlockDrainLateness", report.block_drain_late_s)
    amount("DrainLateness", report.drain_late_s)
    count("BlockDrainsStarted", report.block_drain_count)
    count("DeadlinesPassed", report.deadline_count)
    count("NodesExpired", report.aged_count)
    count("NodesUnhealthy", report.unhealthy_count)
    count("NodesNeverStarted", report.stuck_count)
    count_for_all("CapacitySuspected", report.suspected_count)
    count("NodesEndedEarly", report.early_count)
    count_for_all("LaunchesBlocked", report.blocked_count)
    count("ReservationsStarted", report.started_count)
    count("ReservationsUnread", report.unread_count)
    count("HealthUnread", report.health_unread_count)
    count("CapacityTypesChanged", report.rebought_count)
    count_for_all("TerminationsRefused", len(report.refused))


def _asked(event: Mapping[str, Any], expire: Expire) -> ExpireReport:
    reservation_id = event.get("capacityReservationId")
    if isinstance(reservation_id, str):
        return expire.run_for(reservation_id, _time(event.get("due")))
    if "drainDeadline" in event:
        return expire.run_deadlines(_time(event["drainDeadline"]))
    return expire.run()


def _time(told: str | None) -> datetime | None:
    """Read what a timer was set to; those of releases before this one do not say it."""
    return None if told is None else datetime.fromisoformat(told)
