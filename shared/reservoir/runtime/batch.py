"""The loop over the messages of an SQS event.

A message that can never be understood is put away with its reason; one that met a passing trouble, or a bug, is
delivered again, alone: its neighbours that were served must not follow it to the dead letters. Where nothing was served
a bug fails the invocation, which has an alarm.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final

from reservoir.ports.errors import TransientError
from reservoir.ports.state import ConflictError
from reservoir.runtime.observability import count, forget, logger

# What the next attempt may not meet again.
TRANSIENT: Final = (TransientError, ConflictError)
RETRY_DELAY_MAX_S: Final = 60


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """One message as Lambda hands it over."""

    id: str
    body: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    receipt: str = ""

    @property
    def sender_id(self) -> str | None:
        """Who sent it, as SQS says; None when SQS does not say."""
        return self.attributes.get("SenderId")

    @property
    def sent_at(self) -> datetime | None:
        """When it came to the queue, by SQS's attribute; None if SQS gives no time."""
        sent_ms = self.attributes.get("SentTimestamp", "")
        return (
            datetime.fromtimestamp(int(sent_ms) / 1000, UTC)
            if sent_ms.isdecimal()
            else None
        )

    @property
    def retry_delay_s(self) -> int:
        """How long to wait before the next try: two seconds after the first, then twice as long each time."""
        received_count = int(self.attributes.get("ApproximateReceiveCount", "1"))
        return min(1 << received_count, RETRY_DELAY_MAX_S)


def messages(event: Mapping[str, Any]) -> tuple[QueueMessage, ...]:
    """Return the messages of an SQS event."""
    return tuple(
        QueueMessage(
            record["messageId"],
            record["body"],
            record.get("attributes", {}),
            record.get("receiptHandle", ""),
        )
        for record in event.get("Records", [])
    )


def each_message(
    event: Mapping[str, Any], handle: Callable[[QueueMessage], None]
) -> dict[str, Any]:
    """Handle every message; return Lambda's partial batch response.

    Raises the first bug where every message failed.
    """
    failures: list[str] = []
    bugs: list[Exception] = []
    received = messages(event)
    for message in received:
        forget()
        try:
            # in every line that its handling writes
            with logger.append_context_keys(message_id=message.id):
                handle(message)
        except TRANSIENT as error:
            logger.warning(
                "message will be delivered again",
                extra={"message_id": message.id, "error": str(error)},
            )
            count("MessageRetried")
            failures.append(message.id)
        except Exception as error:  # noqa: BLE001 # logged, and raised below where nothing else would
            logger.exception("message met a bug", extra={"message_id": message.id})
            count("MessageBug")
            failures.append(message.id)
            bugs.append(error)
    forget()
    if bugs and len(failures) == len(received):
        raise bugs[0]
    return {
        "batchItemFailures": [{"itemIdentifier": message_id} for message_id in failures]
    }


def together(
    named: Mapping[str, Iterable[str]], handle: Callable[[Collection[str]], object]
) -> list[dict[str, str]]:
    """Handle at once what messages name, by message id; return those to be delivered again, all or none.

    For what costs the same for many as for one, and bears to be done again.
    """
    keys = sorted(set(chain.from_iterable(named.values())))
    try:
        handle(keys)
    except TRANSIENT as error:
        failures = sorted(message_id for message_id, keys in named.items() if keys)
        logger.warning(
            "messages will be delivered again",
            extra={"message_ids": failures, "error": str(error)},
        )
        count("MessageRetried", len(failures))
        return [{"itemIdentifier": message_id} for message_id in failures]
    return []
