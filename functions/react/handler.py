"""Reactions queue -> claims follow what AWS tells. One reading of EC2 serves the whole batch of events."""

from typing import Any

from reservoir.runtime.batch import TRANSIENT, messages
from reservoir.runtime.composition.react import marking_functions, react, redelivery
from reservoir.runtime.notices import bring_back, notices_in
from reservoir.runtime.observability import about, count, count_for_all, logger, observed


@observed
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Handle a batch of events; return the ids of the messages to deliver again."""
    received = messages(event)
    notices = notices_in(received, marking_functions())
    try:
        report = react().run(list(notices.values()))
    except TRANSIENT as error:
        logger.warning("events will be delivered again", extra={"error": str(error)})
        return bring_back(
            [message for message in received if message.id in notices], redelivery()
        )
    about(report.correlation_ids)
    for kind, number in sorted(report.by_kind.items()):
        count(kind.value, number)
    count("EventsAboutOthers", report.foreign_count)
    count("NodesDrained", report.drained_count)
    count_for_all("CapacitySuspected", report.suspected_count)
    count("NodesEndedEarly", report.early_count)
    count_for_all("LaunchesBlocked", report.blocked_count)
    count("ReservationsStarted", report.started_count)
    count("ReservationsUnread", report.unread_count)
    left = report.failed_instance_ids
    failed = [
        it
        for it in received
        if it.id in notices and left.intersection(notices[it.id].instance_ids)
    ]
    if failed:
        logger.warning("events will be delivered again", extra={"instances": sorted(left)})
    return bring_back(failed, redelivery())
