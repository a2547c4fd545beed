"""The two queues: demand out, facts in."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import botocore.session
from botocore.config import Config

_RECEIVED_AT_ONCE: Final = 10
LONG_POLL_S: Final = 20  # the longest that SQS waits for a message
# Standard mode backs off exponentially with full jitter; a read that waits for messages takes longer than others.
_CONFIG: Final = Config(
    retries={"mode": "standard", "total_max_attempts": 8},
    connect_timeout=5,
    read_timeout=30,
)

MakeClient = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message of the subscription's queue; a later delivery of it has another receipt."""

    message_id: str
    receipt: str
    body: str


class Outbox(Protocol):
    """The demand queue."""

    def send(self, message: Mapping[str, Any]) -> str:
        """Send a message; return SQS's id of it."""
        ...


class Inbox(Protocol):
    """The subscription's queue."""

    def receive(self, wait_s: int) -> Sequence[Delivery]:
        """Return the messages in the queue, or those that come within ``wait_s``."""
        ...

    def delete(self, receipts: Sequence[str]) -> None:
        """Have messages never delivered again; one that is none the less is recognised by its content."""
        ...


def default_clients() -> MakeClient:
    """Return how clients are made: credentials, region and endpoint are found as by every AWS tool."""
    session = botocore.session.get_session()
    return lambda service: session.create_client(service, config=_CONFIG)


class SqsOutbox:
    """Implements ``Outbox``."""

    def __init__(self, sqs: Any, queue_url: str) -> None:
        self._sqs = sqs
        self._queue_url = queue_url

    def send(self, message: Mapping[str, Any]) -> str:
        """Send a message. A lost answer has it sent twice; each is applied once by its generation."""
        sent = self._sqs.send_message(
            QueueUrl=self._queue_url, MessageBody=json.dumps(message)
        )
        return str(sent["MessageId"])


class SqsInbox:
    """Implements ``Inbox``."""

    def __init__(self, sqs: Any, queue_url: str) -> None:
        self._sqs = sqs
        self._queue_url = queue_url

    def receive(self, wait_s: int) -> Sequence[Delivery]:
        """Receive up to ten messages."""
        answer = self._sqs.receive_message(
            QueueUrl=self._queue_url,
            MaxNumberOfMessages=_RECEIVED_AT_ONCE,
            WaitTimeSeconds=max(0, min(wait_s, LONG_POLL_S)),
        )
        return [
            Delivery(it["MessageId"], it["ReceiptHandle"], it["Body"])
            for it in answer.get("Messages", [])
        ]

    def delete(self, receipts: Sequence[str]) -> None:
        """Delete in batches; a receipt that has expired belongs to a message that comes again."""
        for start in range(0, len(receipts), _RECEIVED_AT_ONCE):
            part = receipts[start : start + _RECEIVED_AT_ONCE]
            entries = [
                {"Id": str(index), "ReceiptHandle": receipt}
                for index, receipt in enumerate(part)
            ]
            self._sqs.delete_message_batch(QueueUrl=self._queue_url, Entries=entries)
