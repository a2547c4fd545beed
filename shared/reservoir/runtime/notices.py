"""The reactions queue: events in, notices out, and failed messages back within seconds.

EC2 gives two minutes' notice, so a message that fails in passing does not wait until the queue would show it again: it
comes back after two seconds, then after twice as long each time.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from reservoir.core.node_life.notice import Notice, NoticeError, NoticeKind, parse_notice
from reservoir.ports.errors import AwsError
from reservoir.ports.messaging import Redelivery
from reservoir.runtime.batch import QueueMessage
from reservoir.runtime.observability import count, logger


def notices_in(
    received: Sequence[QueueMessage], marking: Collection[str] = ()
) -> Mapping[str, Notice]:
    """Return the notices in the messages, by message id.

    A message that cannot be read, or was not asked for, is counted and dropped: it would never get better. ``marking``
    are names of functions that read strangers' messages: of theirs only marks of nodes are accepted, and nothing that
    EC2 alone can say. SQS says who has sent a message: the id of a role, and its session, which Lambda names after the
    function.
    """
    found: dict[str, Notice] = {}
    for message in received:
        notice = _notice(message)
        if notice is None:
            continue
        sender = (message.sender_id or "").partition(":")[2]
        if sender in marking and notice.kind is not NoticeKind.NODES_ENDING:
            logger.error(
                "event that its sender may not tell",
                extra={"message_id": message.id, "sender": sender, "kind": notice.kind},
            )
            count("EventsUnreadable")
            continue
        found[message.id] = notice
    return found


def bring_back(failed: Sequence[QueueMessage], redelivery: Redelivery) -> dict[str, Any]:
    """Return Lambda's partial batch response, and have the messages that failed delivered again soon."""
    if failed:
        count("MessageRetried", len(failed))
        try:
            redelivery.hasten(
                {message.receipt: message.retry_delay_s for message in failed}
            )
        except AwsError as error:  # they come all the same, when the queue shows them again
            logger.warning(
                "events cannot be brought back sooner", extra={"error": str(error)}
            )
    return {"batchItemFailures": [{"itemIdentifier": message.id} for message in failed]}


def _notice(message: QueueMessage) -> Notice | None:
    try:
        event = json.loads(message.body)
        notice = parse_notice(event, message.sent_at) if isinstance(event, dict) else None
    except (NoticeError, ValueError) as error:
        logger.warning(
            "event cannot be read", extra={"message_id": message.id, "error": str(error)}
        )
        count("EventsUnreadable")
        return None
    if notice is None:
        count("EventsIgnored")
    return notice
