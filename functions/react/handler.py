"""Reactions queue -> claims follow what AWS tells. One reading of EC2 serves the whole batch of events."""

import json
from typing import Any

from shared.core.notice import Notice, NoticeError, parse_notice
from shared.runtime import bootstrap
from shared.runtime.batch import QueueMessage, messages
from shared.runtime.observability import count, logger, observed


@observed
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Handle a batch of events; return the ids of the messages to deliver again."""
    notices = {message.id: notice for message in messages(event) if (notice := _notice(message)) is not None}
    report = bootstrap.react().run(list(notices.values()))
    for kind, number in sorted(report.by_kind.items()):
        count(kind.value, number)
    count("EventsAboutOthers", report.foreign_count)
    count("NodesDrained", report.drained_count)
    count("CapacitySuspected", report.suspected_count)
    failed = [name for name, notice in notices.items() if report.failed_instance_ids.intersection(notice.instance_ids)]
    if failed:
        logger.warning("events will be delivered again", extra={"instances": sorted(report.failed_instance_ids)})
        count("MessageRetried", len(failed))
    return {"batchItemFailures": [{"itemIdentifier": name} for name in failed]}


def _notice(message: QueueMessage) -> Notice | None:
    """Read an event; what nobody can read or has asked for is counted and dropped, it would never get better."""
    try:
        event = json.loads(message.body)
        notice = parse_notice(event) if isinstance(event, dict) else None
    except (NoticeError, ValueError) as error:
        logger.warning("event cannot be read", extra={"message_id": message.id, "error": str(error)})
        count("EventsUnreadable")
        return None
    if notice is None:
        count("EventsIgnored")
    return notice
