"""``reservoir dlq`` on queues of the services' API."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from typer.testing import Result

from lab.local import ministack
from reservoir.cli.stack.dead_letters import DeadLetterQueue, dead_letter_queues
from reservoir.names import Queue, dead_letters_output, output_name
from tests.cli.world_stack import invoke

pytestmark = pytest.mark.embedded

BODY = '{"action": "submit"}'


@dataclass
class Letters:
    """Implements what the commands use of ``reservoir.cli.stack.connection.Connection``."""

    sqs: Any
    outputs: dict[str, str]

    @property
    def dead_letter_queues(self) -> Mapping[str, DeadLetterQueue]:
        return dead_letter_queues(self.sqs, self.outputs)

    def put(self, queue: str, body: str = BODY, **attributes: str) -> None:
        values: Any = {
            name: {"DataType": "String", "StringValue": value}
            for name, value in attributes.items()
        }
        url = self.outputs[queue]
        order: Any = (
            {"MessageGroupId": "plan", "MessageDeduplicationId": body}
            if url.endswith(".fifo")
            else {}
        )
        self.sqs.send_message(
            QueueUrl=url, MessageBody=body, MessageAttributes=values, **order
        )

    def bodies(self, output: str) -> list[str]:
        found = self.sqs.receive_message(
            QueueUrl=self.outputs[output], MaxNumberOfMessages=10, VisibilityTimeout=0
        )
        return [message["Body"] for message in found.get("Messages", [])]

    def run(self, *arguments: str) -> Result:
        return invoke(self, "dlq", *arguments)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with ministack.running("sqs") as url:
        yield url


@pytest.fixture
def letters(endpoint: str, request: pytest.FixtureRequest) -> Letters:
    sqs = ministack.client("sqs", endpoint)
    outputs = {}
    for queue in Queue:
        ending = ".fifo" if queue is Queue.PLANNING else ""
        attributes = {"FifoQueue": "true"} if ending else {}
        for output in (output_name(queue), dead_letters_output(queue)):
            name = f"{output}-{abs(hash(request.node.name))}{ending}"
            outputs[output] = sqs.create_queue(QueueName=name, Attributes=attributes)[
                "QueueUrl"
            ]
    outputs["UndeliveredQueueUrl"] = sqs.create_queue(
        QueueName=f"u-{abs(hash(request.node.name))}"
    )["QueueUrl"]
    return Letters(sqs, outputs)


def test_all_queues_are_listed_with_what_lies_in_them(letters: Letters) -> None:
    letters.put("DemandDeadLettersUrl", Reason="spec.replica: is not a known field")
    lines = letters.run("list").stdout.splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["QUEUE", "LETTERS", "SENT", "AGAIN"],
        ["demand", "1", "yes"],
        ["planning", "0", "yes"],
    ]
    assert lines[-1].split() == ["undelivered", "0", "no"]
    items = json.loads(letters.run("list", "-o", "json").stdout)["items"]
    assert {item["metadata"]["name"] for item in items} == {
        *(queue.name.lower() for queue in Queue),
        "undelivered",
    }


def test_letters_are_shown_with_their_reason_and_do_nothing_to_a_terminal(
    letters: Letters,
) -> None:
    letters.put("DemandDeadLettersUrl", body="\u202ered\n", Reason="is not JSON")
    shown = letters.run("show", "demand", "-o", "wide")
    assert "is not JSON" in shown.stdout
    assert "\\u202ered\\n" in shown.stdout
    assert letters.run("show", "launches").stderr == "launches is empty\n"
    assert (
        letters.run("show", "demnad").stderr
        == "there is no dead-letter queue 'demnad'; did you mean demand?\n"
    )


def test_what_is_sent_again_goes_to_where_it_came_from_and_leaves(letters: Letters) -> None:
    for number in range(12):
        letters.put("DemandDeadLettersUrl", body=json.dumps({"number": number}), Reason="r")
    letters.put("PlanningDeadLettersUrl")
    assert letters.run("redrive", "demand").exit_code == 2, "nobody was asked"
    assert letters.run("redrive", "demand", "--yes").stdout == "demand: 12 sent again\n"
    assert letters.run("redrive", "planning", "--yes").stdout == "planning: 1 sent again\n"
    assert letters.bodies("PlanningQueueUrl") == [BODY]
    assert letters.dead_letter_queues["demand"].count() == 0
    found = letters.sqs.get_queue_attributes(
        QueueUrl=letters.outputs["DemandQueueUrl"],
        AttributeNames=["ApproximateNumberOfMessages"],
    )
    assert found["Attributes"]["ApproximateNumberOfMessages"] == "12"
    assert (
        letters.run("redrive", "demand", "--yes").stdout
        == "demand is empty: nothing to send again\n"
    )


def test_what_was_not_kept_of_the_history_is_sent_again_and_reports_are_not(
    letters: Letters,
) -> None:
    letters.put("HistoryDeadLettersUrl")
    assert letters.run("redrive", "history", "--yes").stdout == "history: 1 sent again\n"
    assert letters.bodies("HistoryQueueUrl") == [BODY]
    letters.put("ReportsDeadLettersUrl")
    assert letters.run("redrive", "reports", "--yes").exit_code == 2, (
        "AWS would say that they are the operator's"
    )
    assert letters.dead_letter_queues["reports"].count() == 1


def test_whoever_dies_between_sending_and_deleting_loses_nothing(letters: Letters) -> None:
    letters.put("DemandDeadLettersUrl")
    queue = letters.dead_letter_queues["demand"]
    (letter,) = queue.letters(1)

    class Dies:
        """Sends, and does not come to deleting."""

        send_message = letters.sqs.send_message

        def delete_message(self, **_: object) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        DeadLetterQueue(Dies(), queue.name, queue.url, queue.source_url).send_again(letter)
    assert letters.bodies("DemandQueueUrl") == [BODY]
    assert queue.count() == 1


def test_a_letter_that_lacks_its_end_stays(letters: Letters) -> None:
    letters.put("DemandDeadLettersUrl", Reason="size", Truncated="true")
    assert (
        letters.run("redrive", "demand", "--yes").stdout
        == "demand: 0 sent again, 1 kept, because they are cut off\n"
    )
    assert letters.bodies("DemandQueueUrl") == []


def test_events_are_not_sent_again_and_are_thrown_away(letters: Letters) -> None:
    letters.put("ReactionsDeadLettersUrl")
    refused = letters.run("redrive", "reactions", "--yes")
    assert refused.exit_code == 2
    assert "accepts no messages from operators" in refused.stderr
    assert letters.run("purge", "reactions").exit_code == 2, "nobody was asked"
    assert letters.run("purge", "reactions", "--yes").stdout == "reactions: 1 deleted\n"
    assert (
        letters.run("purge", "reactions", "--yes").stdout
        == "reactions is empty: nothing to delete\n"
    )
