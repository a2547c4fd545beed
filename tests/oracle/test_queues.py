"""The simulated queues and MiniStack's against ElasticMQ: the same random requests, the same answers."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.local import ministack
from lab.simulation.aws.sqs import Queue, Sqs
from lab.simulation.faults import Faults
from lab.simulation.kernel import SECOND, Chance, Kernel

pytestmark = pytest.mark.embedded
HIDDEN_S = 60
RECEIVES_MAX = 100  # more than anybody receives, where nothing is to be a dead letter
CALM = Faults(message_doubled=0, message_late=0)
_names = itertools.count()

# (what, which): send a body under an id, receive, delete what was received n-th, or give back all that is in flight.
# All, since ElasticMQ delivers again what is given back of a group while other messages of the group are in flight, and
# SQS delivers nothing of it.
number = st.integers(0, 3)
requests = st.lists(
    st.tuples(st.sampled_from(["send", "receive", "delete", "return"]), number), max_size=14
)

# The same, of which much is received and given back, with or without something deleted.
sent = number.map(lambda which: [("send", which)])
spurned = st.just([("receive", 0), ("return", 0)])
worked_in_part = number.map(
    lambda which: [("receive", 0), ("delete", which), ("return", 0)]
)
spurning = st.lists(st.one_of(sent, spurned, worked_in_part), max_size=12).map(
    lambda parts: [*itertools.chain(*parts)]
)


class Simulated:
    """The simulation's FIFO queue."""

    def __init__(self, receives_max: int = RECEIVES_MAX) -> None:
        self.kernel = Kernel()
        self.sqs = Sqs(self.kernel, Chance(0), lambda: CALM)
        self.queue = self.sqs.queues["q"] = Queue(
            "q", HIDDEN_S * SECOND, receives_max, fifo=True
        )

    def send(self, which: int) -> None:
        self.sqs.send_message(
            QueueUrl="q", MessageBody=f"body {which}", MessageDeduplicationId=f"id-{which}"
        )

    def receive(self) -> list[tuple[str, str]]:
        return [
            (message.body, message.receipt) for message in self.sqs.take(self.queue, 10)
        ]

    def delete(self, receipt: str) -> None:
        self.sqs.delete(self.queue, [receipt])

    def dead(self) -> list[str]:
        return [message.body for message in self.queue.dead]

    def hide(self, receipt: str) -> None:
        entries = [{"Id": "0", "ReceiptHandle": receipt, "VisibilityTimeout": 0}]
        self.sqs.change_message_visibility_batch(QueueUrl="q", Entries=entries)


class Served:
    """A FIFO queue of something that speaks SQS's protocol, and its queue of dead letters."""

    def __init__(self, client: Any, receives_max: int = RECEIVES_MAX) -> None:
        self.client = client
        self.dead_url = self._created({})
        arn = client.get_queue_attributes(
            QueueUrl=self.dead_url, AttributeNames=["QueueArn"]
        )["Attributes"]["QueueArn"]
        redrive = {"deadLetterTargetArn": arn, "maxReceiveCount": receives_max}
        self.url = self._created({"RedrivePolicy": json.dumps(redrive)})

    def _created(self, attributes: dict[str, str]) -> str:
        attributes = {"FifoQueue": "true", "VisibilityTimeout": str(HIDDEN_S), **attributes}
        url: str = self.client.create_queue(
            QueueName=f"q-{next(_names)}.fifo", Attributes=attributes
        )["QueueUrl"]
        return url

    def send(self, which: int) -> None:
        self.client.send_message(
            QueueUrl=self.url,
            MessageBody=f"body {which}",
            MessageGroupId="one",
            MessageDeduplicationId=f"id-{which}",
        )

    def receive(self) -> list[tuple[str, str]]:
        answer = self.client.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10)
        return [
            (message["Body"], message["ReceiptHandle"])
            for message in answer.get("Messages", [])
        ]

    def delete(self, receipt: str) -> None:
        self.client.delete_message(QueueUrl=self.url, ReceiptHandle=receipt)

    def dead(self) -> list[str]:
        answer = self.client.receive_message(QueueUrl=self.dead_url, MaxNumberOfMessages=10)
        return [message["Body"] for message in answer.get("Messages", [])]

    def hide(self, receipt: str) -> None:
        self.client.change_message_visibility(
            QueueUrl=self.url, ReceiptHandle=receipt, VisibilityTimeout=0
        )


def played(queue: Simulated | Served, wanted: list[tuple[str, int]]) -> list[list[str]]:
    """Return what each request to receive brought; only receipts of messages in flight are used."""
    received: list[list[str]] = []
    held: list[tuple[str, str]] = []
    for what, which in wanted:
        if what == "send":
            queue.send(which)
        elif what == "receive":
            found = queue.receive()
            received.append([body for body, _ in found])
            held += found
        elif what == "return":
            for _, receipt in held:
                queue.hide(receipt)
            held.clear()
        elif which < len(held):
            queue.delete(held.pop(which)[1])
    return received


@settings(max_examples=40)
@given(wanted=requests)
def test_the_simulated_fifo_queue_answers_as_elasticmq(
    elasticmq: str, wanted: list[tuple[str, int]]
) -> None:
    assert played(Simulated(), wanted) == played(
        Served(ministack.client("sqs", elasticmq)), wanted
    )


@settings(max_examples=40)
@given(wanted=requests)
def test_ministacks_fifo_queue_answers_as_elasticmq(
    elasticmq: str, aws_endpoint: str, wanted: list[tuple[str, int]]
) -> None:
    served = (
        Served(ministack.client("sqs", endpoint)) for endpoint in (aws_endpoint, elasticmq)
    )
    ours, theirs = (played(queue, wanted) for queue in served)
    assert ours == theirs


@settings(max_examples=40)
@given(wanted=spurning, receives_max=st.integers(1, 3))
def test_what_is_given_back_too_often_is_a_dead_letter_as_elasticmq_has_it(
    elasticmq: str, wanted: list[tuple[str, int]], receives_max: int
) -> None:
    ours, theirs = (
        Simulated(receives_max),
        Served(ministack.client("sqs", elasticmq), receives_max),
    )
    assert played(ours, wanted) == played(theirs, wanted)
    assert ours.dead() == theirs.dead()
