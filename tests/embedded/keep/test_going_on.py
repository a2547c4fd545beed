"""An embedded AWS that was kept and killed goes on: all that was answered is there, and what was due still comes."""

import itertools
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from lab.embedded.client import ControlError, EmbeddedAws
from tests.embedded.conftest import Resources, until

pytestmark = pytest.mark.embedded

FAILING = """
    def handle(event, context):
        print("tried", event["number"])
        raise ValueError("as always")
"""
COPYING = """
    import os, boto3
    def handle(event, context):
        queue = os.environ["TARGET"]
        for record in event["Records"]:
            boto3.client("sqs").send_message(QueueUrl=queue, MessageBody=record["body"])
        return {"batchItemFailures": []}
"""
SEND = {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": "*"}


class Continued:
    """An embedded AWS with a folder to keep in, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.aws = EmbeddedAws(keep=folder)
        self.aws.start()

    def kill_and_start_again(self) -> None:
        self.aws.stop()  # nothing is kept by that
        self.aws = EmbeddedAws(keep=self._folder)
        self.aws.start()


@pytest.fixture
def continued(tmp_path: Path) -> Iterator[Continued]:
    it = Continued(tmp_path / "kept")
    yield it
    print(it.aws.log())  # noqa: T201 - pytest shows it beside a failure
    it.aws.stop()


def test_everything_that_was_kept_is_there_and_what_was_due_still_comes(
    continued: Continued,
) -> None:
    aws, made = continued.aws, Resources(continued.aws)
    aws.clock.advance(timedelta(days=30))  # so that it is not the time of this machine
    aws.clock.pause()  # nothing comes before it is kept
    source, source_arn = made.queue()
    target, _ = made.queue()
    table = made.table()
    made.dynamodb.put_item(
        TableName=table, Item={"id": {"S": "one"}, "large": {"B": b"x" * 100_000}}
    )
    aws.client("s3").create_bucket(Bucket="kept")
    aws.client("s3").put_object(Bucket="kept", Key="object", Body=b"y" * 100_000)
    aws.client("ssm").put_parameter(Name="/kept", Value="value", Type="String")
    copying = made.function(COPYING, SEND, TARGET=target)
    made.feed(copying, source_arn)
    failing = made.function(FAILING)
    made.lambda_.invoke(
        FunctionName=failing, InvocationType="Event", Payload=json.dumps({"number": 7})
    )
    until(lambda: "tried 7" in aws.function_log(failing))
    made.sqs.send_message(QueueUrl=source, MessageBody="later", DelaySeconds=600)
    block = aws.ec2(
        "purchase_capacity_block",
        instance_type="p5.48xlarge",
        zone="us-east-1b",
        count=2,
        end_in_s=7200,
    )
    endpoint_url = aws.endpoint_url
    aws.clock.set_rate(2)
    kept_at = aws.clock.resume()
    aws.keep()
    made.sqs.send_message(QueueUrl=target, MessageBody="after it was kept")
    continued.kill_and_start_again()

    aws, made = continued.aws, Resources(continued.aws)
    assert aws.endpoint_url == endpoint_url
    state = aws.clock.state()
    assert (state["rate"], state["paused"]) == (2, False)
    assert kept_at <= aws.clock.now() < kept_at + timedelta(days=1)
    assert made.items(table)["one"]["large"]["B"] == b"x" * 100_000
    assert (
        aws.client("s3").get_object(Bucket="kept", Key="object")["Body"].read()
        == b"y" * 100_000
    )
    assert aws.client("ssm").get_parameter(Name="/kept")["Parameter"]["Value"] == "value"
    # its logs were those of the process before
    assert "tried 7" not in aws.function_log(failing)
    aws.clock.advance(timedelta(minutes=11))
    # what came after the keeping is gone, the delayed message came
    assert made.bodies(target, 1) == ["later"]
    # the second and third attempt of the event
    assert aws.function_log(failing).count("tried 7") == 2
    aws.clock.advance(timedelta(hours=2))
    shown = aws.client("ec2").describe_capacity_reservations(
        CapacityReservationIds=[block["capacity_reservation_id"]]
    )
    assert shown["CapacityReservations"][0]["State"] == "expired"


def test_requests_wait_while_it_is_kept_and_none_is_half_there(
    continued: Continued,
) -> None:
    aws, made = continued.aws, Resources(continued.aws)
    url, _ = made.queue()
    stopped, answered = threading.Event(), []

    def send() -> None:
        sqs = aws.client("sqs")
        for number in itertools.count():
            if stopped.is_set():
                return
            sqs.send_message(QueueUrl=url, MessageBody=str(number))
            answered.append(number)

    sender = threading.Thread(target=send)
    sender.start()
    until(lambda: len(answered) > 20)
    before = len(answered)
    aws.keep()
    during = len(answered)
    until(lambda: len(answered) > during + 20)  # it goes on after it was kept
    stopped.set()
    sender.join()
    continued.kill_and_start_again()
    attributes = continued.aws.client("sqs").get_queue_attributes(
        QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"]
    )
    kept = int(attributes["Attributes"]["ApproximateNumberOfMessages"])
    # the one that was waiting when it was kept may have been first to be answered
    assert before <= kept <= during + 1


def test_a_clock_that_stood_still_stands_still(continued: Continued) -> None:
    continued.aws.clock.pause()
    at = continued.aws.clock.now()
    continued.aws.keep()
    assert continued.aws.clock.state()["paused"]
    continued.kill_and_start_again()
    assert continued.aws.clock.state()["paused"]
    assert continued.aws.clock.now() == at


def test_without_a_folder_nothing_can_be_kept(embedded_aws: EmbeddedAws) -> None:
    with pytest.raises(ControlError, match="started without --keep"):
        embedded_aws.keep()


def test_where_the_port_is_taken_the_urls_have_another(
    continued: Continued, tmp_path: Path
) -> None:
    made = Resources(continued.aws)
    queue, _ = made.queue()
    made.sqs.send_message(QueueUrl=queue, MessageBody="still there")
    continued.aws.keep()
    with EmbeddedAws(keep=tmp_path / "kept") as other:
        assert other.endpoint_url != continued.aws.endpoint_url
        sqs = other.client("sqs")
        (found,) = sqs.list_queues()["QueueUrls"]
        assert found == queue.replace(continued.aws.endpoint_url, other.endpoint_url)
        (message,) = sqs.receive_message(QueueUrl=found)["Messages"]
        assert message["Body"] == "still there"


def test_a_port_of_other_length_cannot_be_had(continued: Continued, tmp_path: Path) -> None:
    continued.aws.keep()
    with pytest.raises(RuntimeError, match="as many digits"):
        EmbeddedAws(keep=tmp_path / "kept", port=free_port_of_four_digits()).start()


def free_port_of_four_digits() -> int:
    for port in range(8000, 10000):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("every port is taken")
