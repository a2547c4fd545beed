"""SQS: at least once, hidden while worked on, dead letters; FIFO queues with groups and deduplication."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lab.simulation.faults import Faults
from lab.simulation.kernel import MINUTE, SECOND, Chance, Kernel

_DEDUPLICATED_FOR: Final = 5 * MINUTE


@dataclass
class Message:
    """A message in a queue. ``receipt`` is that of the latest delivery."""

    id: str
    body: str
    visible_us: int
    received_count: int = 0
    receipt: str = ""
    in_flight: bool = False
    sender: str = ""  # the id of who sent it, as AWS says
    group: str = ""  # of a FIFO queue's message

    def record(self) -> dict[str, Any]:
        """Return it as Lambda gets it."""
        return {
            "messageId": self.id,
            "receiptHandle": self.receipt,
            "body": self.body,
            "attributes": {
                "ApproximateReceiveCount": str(self.received_count),
                "SenderId": self.sender,
            },
        }


@dataclass
class Queue:
    """One queue. ``look`` is called when something may have become visible."""

    name: str
    hidden_us: int
    receives_max: int
    delay_us: int = 0
    fifo: bool = False
    messages: list[Message] = field(default_factory=list)
    dead: list[Message] = field(default_factory=list)
    # deduplication id -> when it was sent
    seen: dict[str, int] = field(default_factory=dict)
    sent_count: int = 0
    look: Callable[[], None] = lambda: None


class Sqs:
    """The queues, and as much of boto3's client as the adapters use; a queue's URL is its name."""

    def __init__(
        self, kernel: Kernel, chance: Chance, faults: Callable[[], Faults]
    ) -> None:
        self._kernel = kernel
        self._chance = chance
        self._faults = faults
        self.queues: dict[str, Queue] = {}

    # --- the client

    def send_message(self, **request: Any) -> Mapping[str, Any]:
        """SendMessage."""
        queue = self.queues[request["QueueUrl"]]
        self.put(
            queue,
            request["MessageBody"],
            request.get("MessageDeduplicationId"),
            delay_s=request.get("DelaySeconds", 0),
            group=request.get("MessageGroupId", ""),
        )
        return {}

    def send_message_batch(self, **request: Any) -> Mapping[str, Any]:
        """SendMessageBatch."""
        for entry in request["Entries"]:
            self.put(
                self.queues[request["QueueUrl"]],
                entry["MessageBody"],
                delay_s=entry["DelaySeconds"],
            )
        return {}

    def change_message_visibility_batch(self, **request: Any) -> Mapping[str, Any]:
        """ChangeMessageVisibilityBatch; receipts that are not the latest are refused one by one."""
        delays = {
            entry["ReceiptHandle"]: entry["VisibilityTimeout"]
            for entry in request["Entries"]
        }
        queue = self.queues[request["QueueUrl"]]
        for message in queue.messages:
            if message.in_flight and message.receipt in delays:
                self._hide(queue, message, delays[message.receipt] * SECOND)
        return {}

    def get_queue_attributes(self, **request: Any) -> Mapping[str, Any]:
        """GetQueueAttributes: how many messages wait to be received, and nothing else."""
        queue = self.queues[request["QueueUrl"]]
        now = self._kernel.now_us
        waiting = sum(
            not message.in_flight and message.visible_us <= now
            for message in queue.messages
        )
        return {"Attributes": {"ApproximateNumberOfMessages": str(waiting)}}

    def receive_message(self, **request: Any) -> Mapping[str, Any]:
        """ReceiveMessage, of a queue that no function polls."""
        queue = self.queues[request["QueueUrl"]]
        taken = self.take(
            queue,
            request["MaxNumberOfMessages"],
            hidden_us=request["VisibilityTimeout"] * SECOND,
        )
        return {
            "Messages": [
                {"Body": message.body, "ReceiptHandle": message.receipt}
                for message in taken
            ]
        }

    def delete_message(self, **request: Any) -> Mapping[str, Any]:
        """DeleteMessage."""
        self.delete(self.queues[request["QueueUrl"]], [request["ReceiptHandle"]])
        return {}

    # --- what is behind it

    def put(
        self,
        queue: Queue,
        body: str,
        deduplication_id: str | None = None,
        *,
        delay_s: int = 0,
        sender: str = "",
        group: str = "",
    ) -> None:
        """Take a message in; a FIFO queue drops one whose id it has seen within five minutes."""
        now = self._kernel.now_us
        if queue.fifo:
            key = deduplication_id or body
            sent = queue.seen.get(key)
            if sent is not None and now - sent < _DEDUPLICATED_FOR:
                return
            queue.seen[key] = now
        times = 1
        if not queue.fifo and self._chance.hits(
            "message_doubled", self._faults().message_doubled
        ):
            times = 2
        for _ in range(times):
            late = 0
            if not queue.fifo and self._chance.hits(
                "message_late", self._faults().message_late
            ):
                late = self._chance.between("message_late", SECOND, 3 * MINUTE)
            queue.sent_count += 1
            message = Message(
                f"m-{queue.name}-{queue.sent_count}", body, 0, sender=sender, group=group
            )
            queue.messages.append(message)
            self._hide(queue, message, max(queue.delay_us, delay_s * SECOND) + late)

    def take(
        self, queue: Queue, count: int, hidden_us: int | None = None
    ) -> Sequence[Message]:
        """Deliver up to ``count`` visible messages; of a FIFO queue none of a group of which something is in flight."""
        now = self._kernel.now_us
        visible = [message for message in queue.messages if message.visible_us <= now]
        if not visible:
            return []
        if queue.fifo:
            flying = {
                message.group
                for message in queue.messages
                if message.in_flight and message.visible_us > now
            }
            visible = [message for message in visible if message.group not in flying]
        if not queue.fifo:
            self._chance.stream("order").shuffle(visible)
        taken: list[Message] = []
        if hidden_us is None:
            hidden_us = queue.hidden_us
        if visible and self._chance.hits("hidden_short", self._faults().hidden_short):
            # the poller held them for the rest of it
            hidden_us = self._chance.between("hidden", SECOND, hidden_us)
        for message in visible:
            if message.received_count >= queue.receives_max:
                queue.messages.remove(message)
                queue.dead.append(message)
            elif len(taken) < count:
                message.received_count += 1
                message.receipt = f"{message.id}/{message.received_count}"
                message.in_flight = True
                self._hide(queue, message, hidden_us)
                taken.append(message)
        return taken

    def delete(self, queue: Queue, receipts: Sequence[str]) -> None:
        """Delete what was delivered and is still hidden; of a queue that is not FIFO also what is visible again.

        A receipt of a FIFO queue expires with the hidden time; other queues take it until the next delivery.
        """
        done, now = frozenset(receipts), self._kernel.now_us
        queue.messages = [
            message
            for message in queue.messages
            if message.receipt not in done or (queue.fifo and message.visible_us <= now)
        ]
        queue.look()

    def _hide(self, queue: Queue, message: Message, us: int) -> None:
        message.visible_us = self._kernel.now_us + us
        self._kernel.at(message.visible_us, lambda: queue.look())
