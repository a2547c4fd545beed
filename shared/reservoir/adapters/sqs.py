"""Queues: demand, wake-ups of the planner, launch batches, rejected demand."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.core.node_life.notice import (
    DUE_TYPE,
    ENDING_TYPE,
    INSTANCES,
    OWN_SOURCE,
    RESERVATION,
)
from reservoir.core.serialisation.json_codec import dumps
from reservoir.names import PLANNING_MESSAGE_GROUP
from reservoir.ports.ec2 import TerminationReceipt
from reservoir.ports.errors import AwsError, TransientError
from reservoir.ports.messaging import ClassToValidate, LaunchBatch
from reservoir.ports.system import Clock, IdFactory

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_ENTRIES_MAX: Final = 10  # of one SendMessageBatch
# of at most 320 characters each: below half of what a message may hold
_KEYS_MAX: Final = 1_000
_MESSAGE_BYTES_MAX: Final = 1 << 20  # body and attributes together
_ATTRIBUTE_CHARS_MAX: Final = 2_000
_DELAY_MAX_S: Final = 900  # of a message
_WAITING: Final = "ApproximateNumberOfMessages"
_ENDINGS_MAX: Final = 100  # instances that one message names


class SqsWorkQueue:
    """Implements ``reservoir.ports.messaging.WorkQueue``."""

    def __init__(
        self, client: "SQSClient", *, planning_url: str, launches_url: str, ids: IdFactory
    ) -> None:
        self._client = client
        self._planning_url = planning_url
        self._launches_url = launches_url
        self._ids = ids

    def wake_planner(
        self, *, reason: str, workload_keys: Collection[str] = (), group: Sequence[str] = ()
    ) -> None:
        """Ask for a planning pass.

        No two wake-ups share a deduplication id: SQS would drop the second although the first one's pass may have read
        the state before. Wake-ups that wait while a pass runs are delivered together, so a burst of them costs few
        passes, and a pass without waiting workloads is one query.
        """
        keys = sorted(workload_keys)
        told = {"group": list(group)} if group else {}
        for start in range(0, max(1, len(keys)), _KEYS_MAX):
            with map_client_errors():
                self._client.send_message(
                    QueueUrl=self._planning_url,
                    MessageBody=json.dumps(
                        {
                            "reason": reason,
                            "workloads": keys[start : start + _KEYS_MAX],
                            **told,
                        }
                    ),
                    MessageGroupId=_message_group(group),
                    MessageDeduplicationId=self._ids.new_id("wake"),
                )

    def planner_is_awaited(self) -> bool:
        """Ask SQS how many wake-ups wait, in all groups."""
        try:
            with map_client_errors():
                answer = self._client.get_queue_attributes(
                    QueueUrl=self._planning_url, AttributeNames=[_WAITING]
                )
        except AwsError:
            return False
        return int(answer["Attributes"].get(_WAITING, 0)) > 0

    def send_launches(self, batches: Sequence[LaunchBatch], *, delay_s: int = 0) -> None:
        """Enqueue launch batches; raises when any was not accepted."""
        self._send_to_launcher([dumps(batch) for batch in batches], delay_s)

    def send_validations(self, node_class_names: Sequence[str]) -> None:
        """Enqueue dry runs of classes; raises when any was not accepted."""
        self._send_to_launcher(
            [dumps(ClassToValidate(name)) for name in node_class_names], 0
        )

    def _send_to_launcher(self, bodies: Sequence[str], delay_s: int) -> None:
        for start in range(0, len(bodies), _ENTRIES_MAX):
            entries: list[Any] = [
                {"Id": str(index), "MessageBody": body, "DelaySeconds": delay_s}
                for index, body in enumerate(bodies[start : start + _ENTRIES_MAX])
            ]
            with map_client_errors():
                answer = self._client.send_message_batch(
                    QueueUrl=self._launches_url, Entries=entries
                )
            if answer.get("Failed"):
                raise TransientError(answer["Failed"][0]["Code"], "SendMessageBatch")


def _message_group(group: Sequence[str]) -> str:
    """Return the FIFO group of wake-ups; a NodePool's name may be longer than SQS takes."""
    if not group:
        return PLANNING_MESSAGE_GROUP
    return f"{PLANNING_MESSAGE_GROUP}-{sha256(group[0].encode()).hexdigest()[:32]}"


class SqsDemandQueue:
    """Implements ``reservoir.ports.messaging.DemandQueue``."""

    def __init__(self, client: "SQSClient", url: str) -> None:
        self._client = client
        self._url = url

    def send(self, body: str) -> str:
        """Send a message; SQS itself adds who sent it."""
        with map_client_errors():
            return self._client.send_message(QueueUrl=self._url, MessageBody=body)[
                "MessageId"
            ]


class SqsRedelivery:
    """Implements ``reservoir.ports.messaging.Redelivery`` for one queue."""

    def __init__(self, client: "SQSClient", url: str) -> None:
        self._client = client
        self._url = url

    def hasten(self, delays_s: Mapping[str, int]) -> None:
        """Let messages come again after so many seconds.

        A receipt that SQS does not take any more is left to the queue's own hidden time: its message comes, later.
        """
        receipts = sorted(delays_s)
        for start in range(0, len(receipts), _ENTRIES_MAX):
            entries: list[Any] = [
                {
                    "Id": str(index),
                    "ReceiptHandle": receipt,
                    "VisibilityTimeout": delays_s[receipt],
                }
                for index, receipt in enumerate(receipts[start : start + _ENTRIES_MAX])
            ]
            with map_client_errors():
                self._client.change_message_visibility_batch(
                    QueueUrl=self._url, Entries=entries
                )


class SqsStartMessages:
    """Implements ``reservoir.ports.messaging.StartTimers`` by messages to the reactions queue that come later.

    ``react`` sends the next one itself while EC2 is late. Each waits twice as long, so that there are fewer than the
    sixteen after which Lambda takes a function that feeds itself for a runaway.
    """

    def __init__(
        self,
        client: "SQSClient",
        url: str,
        clock: Clock,
        on_refusal: Callable[[str, AwsError], None],
    ) -> None:
        """``on_refusal`` hears for which reservation SQS took no message; the sweep looks without one."""
        self._client = client
        self._url = url
        self._clock = clock
        self._on_refusal = on_refusal

    def set_start_timer(self, reservation_id: str, at: datetime) -> None:
        """Have ``react`` look then, never before it."""
        now = self._clock.now()
        told = {
            "source": OWN_SOURCE,
            "detail-type": DUE_TYPE,
            "time": now.isoformat(),
            "detail": {RESERVATION: reservation_id},
        }
        delay_s = min(max(0, ceil((at - now).total_seconds())), _DELAY_MAX_S)
        try:
            with map_client_errors():
                self._client.send_message(
                    QueueUrl=self._url, MessageBody=json.dumps(told), DelaySeconds=delay_s
                )
        except AwsError as error:
            self._on_refusal(reservation_id, error)


class SqsEndings:
    """Implements ``reservoir.ports.ec2.InstanceTerminator`` for functions that read what strangers write.

    They may end nothing: ``react`` does, where it finds that the claim is to be terminated. What gets lost, the
    minute's sweep does, as everywhere.
    """

    def __init__(self, client: "SQSClient", url: str, clock: Clock) -> None:
        self._client = client
        self._url = url
        self._clock = clock

    def terminate(self, instance_ids: Collection[str]) -> TerminationReceipt:
        """Ask ``react`` to end the instances; the receipt reports nothing, because EC2 has not been asked yet."""
        ids = sorted(instance_ids)
        for start in range(0, len(ids), _ENDINGS_MAX):
            told = {
                "source": OWN_SOURCE,
                "detail-type": ENDING_TYPE,
                "time": self._clock.now().isoformat(),
                "detail": {INSTANCES: ids[start : start + _ENDINGS_MAX]},
            }
            with map_client_errors():
                self._client.send_message(QueueUrl=self._url, MessageBody=json.dumps(told))
        return TerminationReceipt(accepted=frozenset())


class SqsDeadLetters:
    """Implements ``reservoir.ports.messaging.DeadLetters``."""

    def __init__(self, client: "SQSClient", url: str) -> None:
        self._client = client
        self._url = url

    def put(self, body: str, attributes: Mapping[str, str]) -> None:
        """Keep a message that was refused; a body that would not fit beside its attributes is cut."""
        shortened = {
            name: value[:_ATTRIBUTE_CHARS_MAX] for name, value in attributes.items()
        }
        room = _MESSAGE_BYTES_MAX - sum(
            len(name) + len(value.encode()) + 10 for name, value in shortened.items()
        )
        encoded = body.encode()
        if len(encoded) > room:
            body = encoded[:room].decode(errors="ignore")
            shortened["Truncated"] = "true"
            body = body[: len(body) - len("TruncatedtrueString")]
        values: Any = {
            name: {"DataType": "String", "StringValue": value}
            for name, value in shortened.items()
        }
        with map_client_errors():
            self._client.send_message(
                QueueUrl=self._url, MessageBody=body or "(empty)", MessageAttributes=values
            )
