"""The dead-letter queues of a deployment: their messages are shown, sent again or deleted."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from reservoir.names import Queue, dead_letters_output, output_name

UNDELIVERED: Final = "undelivered"
# The sender of a report counts, so a report of another sender cannot be sent again; reactions come from EventBridge
# alone.
SENT_AGAIN: Final = (Queue.DEMAND, Queue.PLANNING, Queue.LAUNCHES, Queue.HISTORY)
_BATCH: Final = 10  # of one ReceiveMessage
# while it is moved; a letter that was only looked at shows again after so long, too
_HIDDEN_S: Final = 30
_CUT: Final = "Truncated"


@dataclass(frozen=True, slots=True)
class Letter:
    """A message that was given up. ``reason`` is the known reason; a letter that ``is_cut`` lacks its end."""

    id: str
    sent_at: datetime
    reason: str
    body: str
    is_cut: bool
    receipt: str
    group: str | None  # of a FIFO queue


@dataclass(frozen=True, slots=True)
class DeadLetterQueue:
    """One dead-letter queue. ``source_url`` None: what lies in it cannot be sent again."""

    client: Any
    name: str
    url: str
    source_url: str | None

    def count(self) -> int:
        """Return about how many letters there are, including those that are being read."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)[
            "Attributes"
        ]
        return sum(int(found[name]) for name in names)

    def letters(self, most: int) -> Iterator[Letter]:
        """Yield at most so many letters, each hidden from others for a while."""
        left = most
        while left > 0:
            answer = self.client.receive_message(
                QueueUrl=self.url,
                MaxNumberOfMessages=min(left, _BATCH),
                VisibilityTimeout=_HIDDEN_S,
                WaitTimeSeconds=1,
                AttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
            messages = answer.get("Messages", [])
            if not messages:
                return
            left -= len(messages)
            yield from map(_letter, messages)

    def send_again(self, letter: Letter) -> None:
        """Send a letter to its first queue, then delete it: a process that dies in between leaves it twice."""
        order = {}
        if letter.group is not None:
            order = {
                "MessageGroupId": letter.group,
                "MessageDeduplicationId": f"again-{letter.id}",
            }
        self.client.send_message(QueueUrl=self.source_url, MessageBody=letter.body, **order)
        self.client.delete_message(QueueUrl=self.url, ReceiptHandle=letter.receipt)

    def purge(self) -> None:
        """Throw away all letters."""
        self.client.purge_queue(QueueUrl=self.url)


def dead_letter_queues(
    client: Any, outputs: Mapping[str, str]
) -> dict[str, DeadLetterQueue]:
    """Return the queues that a stack's outputs name, by name."""
    found = {}
    for queue in Queue:
        name, url = queue.name.lower(), outputs.get(dead_letters_output(queue))
        if url is not None:
            source = outputs[output_name(queue)] if queue in SENT_AGAIN else None
            found[name] = DeadLetterQueue(client, name, url, source)
    found[UNDELIVERED] = DeadLetterQueue(
        client, UNDELIVERED, outputs["UndeliveredQueueUrl"], None
    )
    return found


def _letter(message: Mapping[str, Any]) -> Letter:
    told = {
        name: value.get("StringValue", "")
        for name, value in message.get("MessageAttributes", {}).items()
    }
    known = message["Attributes"]
    return Letter(
        id=message["MessageId"],
        sent_at=datetime.fromtimestamp(int(known["SentTimestamp"]) / 1000, UTC),
        reason=told.get("Reason")
        or told.get("ERROR_MESSAGE")
        or told.get("ERROR_CODE")
        or "it failed too often",
        body=message["Body"],
        is_cut=told.get(_CUT) == "true",
        receipt=message["ReceiptHandle"],
        group=known.get("MessageGroupId"),
    )
