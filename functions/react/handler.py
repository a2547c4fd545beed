"""Reactions queue -> claims follow what AWS tells. One reading of EC2 serves the whole batch of events.

EC2 gives two minutes' notice: what fails in passing is not left until the queue would show it again, but comes back
after two seconds, then twice as long each time.
"""

import json
from collections.abc import Sequence
from typing import Any

from shared.core.notice import Notice, NoticeError, parse_notice
from shared.ports.errors import AwsError
from shared.runtime import bootstrap
from shared.runtime.batch import TRANSIENT, QueueMessage, messages
from shared.runtime.observability import count, logger, observed


@observed
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Handle a batch of events; return the ids of the messages to deliver again."""
    received = messages(event)
    notices = {message.id: notice for message in received if (notice := _notice(message)) is not None}
    try:
        failed_instance_ids = _react(list(notices.values()))
    except TRANSIENT as error:
        logger.warning("events will be delivered again", extra={"error": str(error)})
        failed = [message for message in received if message.id in notices]
    else:
        failed = [
            message
            for message in received
            if message.id in notices and failed_instance_ids.intersection(notices[message.id].instance_ids)
        ]
        if failed:
            logger.warning("events will be delivered again", extra={"instances": sorted(failed_instance_ids)})
    if failed:
        _bring_back_soon(failed)
    return {"batchItemFailures": [{"itemIdentifier": message.id} for message in failed]}


def _react(notices: Sequence[Notice]) -> set[str]:
    """React to notices; return the instances about which something is left to do."""
    report = bootstrap.react().run(notices)
    for kind, number in sorted(report.by_kind.items()):
        count(kind.value, number)
    count("EventsAboutOthers", report.foreign_count)
    count("NodesDrained", report.drained_count)
    count("CapacitySuspected", report.suspected_count)
    return report.failed_instance_ids


def _bring_back_soon(failed: Sequence[QueueMessage]) -> None:
    count("MessageRetried", len(failed))
    try:
        bootstrap.redelivery().hasten({message.receipt: message.retry_delay_s for message in failed})
    except AwsError as error:  # they come all the same, when the queue shows them again
        logger.warning("events cannot be brought back sooner", extra={"error": str(error)})


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
