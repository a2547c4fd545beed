"""Queues feed functions as on AWS: partial failures, dead letters, order, and delays by the emulated clock."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.embedded.conftest import Resources, allow, until

pytestmark = pytest.mark.embedded

FAIL_BAD = """
    def handle(event, context):
        bad = [record["messageId"] for record in event["Records"] if record["body"].startswith("bad")]
        return {"batchItemFailures": [{"itemIdentifier": identity} for identity in bad]}
"""
COUNT_AND_WORK = """
    import boto3, os, time
    dynamodb = boto3.client("dynamodb")
    def handle(event, context):
        for record in event["Records"]:
            dynamodb.update_item(
                TableName=os.environ["TABLE"], Key={"id": {"S": record["body"]}},
                UpdateExpression="ADD seen :one", ExpressionAttributeValues={":one": {"N": "1"}},
            )
        time.sleep(2)
        while "Item" not in dynamodb.get_item(TableName=os.environ["TABLE"], Key={"id": {"S": "you may end"}}):
            time.sleep(0.1)
"""


def test_only_the_failed_messages_of_a_batch_come_back_and_end_in_the_dead_letter_queue(
    resources: Resources,
) -> None:
    dead_url, dead_arn = resources.queue()
    redrive = {"deadLetterTargetArn": dead_arn, "maxReceiveCount": 2}
    url, arn = resources.queue(VisibilityTimeout=600, RedrivePolicy=redrive)
    entries = [
        {"Id": str(n), "MessageBody": f"{'bad' if n % 3 == 0 else 'good'} {n}"}
        for n in range(9)
    ]
    resources.sqs.send_message_batch(QueueUrl=url, Entries=entries)
    resources.feed(resources.function(FAIL_BAD), arn, BatchSize=10)

    def counts() -> tuple[str, str]:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = resources.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)[
            "Attributes"
        ]
        return found[names[0]], found[names[1]]

    resources.aws.clock.settle()
    # each failed message is hidden for ten minutes, then tried again, then given up
    for _ in range(2):
        assert counts() == ("0", "3")
        resources.aws.clock.advance(timedelta(minutes=5))
        assert counts() == ("0", "3")
        resources.aws.clock.advance(timedelta(minutes=6))
    assert counts() == ("0", "0")
    assert sorted(resources.bodies(dead_url, 3)) == ["bad 0", "bad 3", "bad 6"]


def test_a_batch_may_exceed_ten_messages(resources: Resources) -> None:
    table, (url, arn) = resources.table(), resources.queue()
    for start in range(0, 40, 10):
        entries = [{"Id": str(n), "MessageBody": f"message {start + n}"} for n in range(10)]
        resources.sqs.send_message_batch(QueueUrl=url, Entries=entries)
    source = """
        import boto3, os
        def handle(event, context):
            item = {"id": {"S": context.aws_request_id}, "size": {"N": str(len(event["Records"]))}}
            boto3.client("dynamodb").put_item(TableName=os.environ["TABLE"], Item=item)
    """
    function = resources.function(source, allow("dynamodb:PutItem"), TABLE=table)
    resources.feed(function, arn, BatchSize=100, MaximumBatchingWindowInSeconds=1)
    sizes = until(
        lambda: [int(item["size"]["N"]) for item in resources.items(table).values()]
    )
    assert sizes == [40]


def test_a_message_in_work_does_not_come_back_because_the_clock_was_moved(
    resources: Resources,
) -> None:
    table, (url, arn) = resources.table(), resources.queue(VisibilityTimeout=600)
    allowed = allow("dynamodb:UpdateItem", "dynamodb:GetItem")
    function = resources.function(COUNT_AND_WORK, allowed, timeout_s=600, TABLE=table)
    resources.feed(function, arn)
    # else it would wait until the message has been worked off
    resources.aws.clock.govern(governed=False)
    try:
        resources.sqs.send_message(QueueUrl=url, MessageBody="once")
        # the function has begun, and works until it is told to end
        until(lambda: resources.items(table))
        resources.aws.clock.advance(timedelta(hours=1))
        resources.sqs.send_message(QueueUrl=url, MessageBody="marker")
        until(lambda: len(resources.items(table)) == 2)
        resources.dynamodb.put_item(TableName=table, Item={"id": {"S": "you may end"}})
    finally:
        resources.aws.clock.govern(governed=True)
    resources.aws.clock.settle()
    assert resources.items(table)["once"]["seen"]["N"] == "1"
    assert longest_ms(resources, function) >= 2_000  # Lambda's own metric, of batches too


def longest_ms(resources: Resources, function: str) -> float:
    now = datetime.now(tz=UTC)  # noqa: TID251 # metrics keep real time, whatever the emulated clock says
    found = resources.aws.client("cloudwatch").get_metric_statistics(
        Namespace="AWS/Lambda",
        MetricName="Duration",
        Dimensions=[{"Name": "FunctionName", "Value": function}],
        StartTime=now - timedelta(minutes=10),
        EndTime=now + timedelta(minutes=10),
        Period=3_600,
        Statistics=["Maximum"],
    )
    return max((float(point["Maximum"]) for point in found["Datapoints"]), default=0.0)


def test_a_fifo_queue_feeds_a_function_in_order_and_once(resources: Resources) -> None:
    table, (url, arn) = resources.table(), resources.queue(FifoQueue="true")
    source = """
        import boto3, os
        def handle(event, context):
            for record in event["Records"]:
                boto3.client("dynamodb").update_item(
                    TableName=os.environ["TABLE"], Key={"id": {"S": "all"}},
                    UpdateExpression="SET seen = list_append(if_not_exists(seen, :none), :one)",
                    ExpressionAttributeValues={":none": {"L": []}, ":one": {"L": [{"S": record["body"]}]}},
                )
    """
    function = resources.function(source, allow("dynamodb:UpdateItem"), TABLE=table)
    resources.feed(function, arn, BatchSize=1, FunctionResponseTypes=[])
    for number in [0, 1, 2, 2, 3, 0]:  # repeats are dropped for five minutes
        resources.sqs.send_message(
            QueueUrl=url,
            MessageBody=str(number),
            MessageGroupId="group",
            MessageDeduplicationId=str(number),
        )
    seen = until(
        lambda: (
            (found := resources.items(table))
            and len(found["all"]["seen"]["L"]) == 4
            and found
        )
    )
    assert [each["S"] for each in seen["all"]["seen"]["L"]] == ["0", "1", "2", "3"]


def test_groups_of_a_fifo_queue_are_worked_on_side_by_side(resources: Resources) -> None:
    table, (url, arn) = resources.table(), resources.queue(FifoQueue="true")
    source = """
        import boto3, os, time
        def handle(event, context):
            table = boto3.client("dynamodb")
            groups = {record["attributes"]["MessageGroupId"] for record in event["Records"]}
            assert len(groups) == 1
            table.put_item(TableName=os.environ["TABLE"], Item={"id": {"S": groups.pop()}})
            while table.scan(TableName=os.environ["TABLE"])["Count"] < 2:
                time.sleep(0.05)
    """
    function = resources.function(
        source, allow("dynamodb:PutItem", "dynamodb:Scan"), TABLE=table
    )
    for number in range(4):
        resources.sqs.send_message(
            QueueUrl=url,
            MessageBody="x",
            MessageGroupId=f"group-{number % 2}",
            MessageDeduplicationId=str(number),
        )
    resources.feed(function, arn, BatchSize=10, FunctionResponseTypes=[])
    until(lambda: len(resources.items(table)) == 2)  # each waits for the other


def test_a_delayed_message_appears_when_the_clock_says_so(resources: Resources) -> None:
    url, _ = resources.queue()
    resources.sqs.send_message(QueueUrl=url, MessageBody="later", DelaySeconds=900)
    assert "Messages" not in resources.sqs.receive_message(QueueUrl=url)
    resources.aws.clock.advance(timedelta(minutes=16))
    assert resources.bodies(url, 1) == ["later"]
