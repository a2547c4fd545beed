"""Ordered failures hit the requests they name, and what happens to the caller is what happens on AWS."""

import json

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from lab.embedded.faults import FaultRule, Faults, Request
from tests.embedded.conftest import Resources, allow, until

TWO_EFFECTS = """
    import boto3, os
    from botocore.config import Config
    once = Config(retries={"total_max_attempts": 1})
    dynamodb, sqs = boto3.client("dynamodb", config=once), boto3.client("sqs", config=once)
    def handle(event, context):
        dynamodb.put_item(TableName=os.environ["TABLE"], Item={"id": {"S": "effect 1"}})
        sqs.send_message(QueueUrl=os.environ["QUEUE_URL"], MessageBody="effect 2")
        dynamodb.put_item(TableName=os.environ["TABLE"], Item={"id": {"S": "effect 3"}})
"""


def test_a_rule_skips_then_hits_then_is_used_up() -> None:
    faults = Faults()
    faults.add(FaultRule("lose", service="sqs", skip=1, times=2))
    wanted, other = (
        Request("sqs", "SendMessage", "launch"),
        Request("ec2", "CreateFleet", "launch"),
    )
    hits = [
        faults.take(request) is not None
        for request in (wanted, other, wanted, wanted, wanted)
    ]
    assert hits == [False, False, True, True, False]
    assert faults.rules()[0]["hits"] == 2


def test_a_rule_names_service_operation_and_function() -> None:
    rule = FaultRule("kill", service="ec2", operation="CreateFleet", function="launch")
    assert rule.matches(Request("ec2", "CreateFleet", "launch"))
    # nobody to kill
    assert not FaultRule("kill").matches(Request("ec2", "CreateFleet", None))
    for request in (
        Request("sqs", "CreateFleet", "launch"),
        Request("ec2", "RunInstances", "launch"),
        Request("ec2", "CreateFleet", None),
    ):
        assert not rule.matches(request)


@pytest.mark.parametrize(
    "document",
    [{"action": "explode"}, {"action": "lose", "what": 1}, {"action": "error"}, {}],
)
def test_an_order_that_means_nothing_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"unknown|unexpected|needs|missing"):
        FaultRule.parse(document)


@pytest.mark.embedded
@pytest.mark.parametrize(
    ("service", "operation", "call", "code"),
    [
        ("dynamodb", "ListTables", "list_tables", "ThrottlingException"),
        ("sqs", "ListQueues", "list_queues", "RequestThrottled"),
        ("ec2", "DescribeVpcs", "describe_vpcs", "RequestLimitExceeded"),
        ("s3", "ListAllMyBuckets", "list_buckets", "SlowDown"),
        ("scheduler", "ListSchedules", "list_schedules", "ThrottlingException"),
    ],
)
def test_a_throttled_request_gets_its_services_throttling_error(
    resources: Resources, service: str, operation: str, call: str, code: str
) -> None:
    resources.aws.fault("throttle", service=service, operation=operation)
    request = getattr(resources.aws.client(service), call)
    with pytest.raises(ClientError) as refused:
        request()
    assert refused.value.response["Error"]["Code"] == code
    request()


@pytest.mark.embedded
def test_a_lost_response_leaves_the_effect(resources: Resources) -> None:
    url, _ = resources.queue()
    resources.aws.fault("lose", service="sqs", operation="SendMessage")
    with pytest.raises(ConnectionClosedError):
        resources.sqs.send_message(QueueUrl=url, MessageBody="sent")
    assert resources.bodies(url, 1) == ["sent"]


@pytest.mark.embedded
def test_a_refused_connection_has_no_effect(resources: Resources) -> None:
    url, _ = resources.queue()
    resources.aws.fault("refuse", service="sqs", operation="SendMessage")
    with pytest.raises(ConnectionClosedError):
        resources.sqs.send_message(QueueUrl=url, MessageBody="never")
    resources.sqs.send_message(QueueUrl=url, MessageBody="second")
    assert resources.bodies(url, 1) == ["second"]


@pytest.mark.embedded
def test_a_delayed_request_is_executed_late(resources: Resources) -> None:
    from botocore.config import Config

    url, _ = resources.queue()
    impatient = resources.aws.client(
        "sqs", config=Config(read_timeout=0.3, retries={"total_max_attempts": 1})
    )
    resources.aws.fault("delay", service="sqs", operation="SendMessage", delay_s=3_600)
    with pytest.raises(ReadTimeoutError):
        impatient.send_message(QueueUrl=url, MessageBody="late")
    assert "Messages" not in resources.sqs.receive_message(QueueUrl=url)
    until(lambda: resources.aws.faults()[0]["hits"])
    resources.aws.clear_faults()  # which ends the delay
    assert resources.bodies(url, 1) == ["late"]


@pytest.mark.embedded
def test_a_function_can_be_killed_before_and_after_each_of_its_effects(
    resources: Resources,
) -> None:
    for position in range(3):
        for moment in ("before", "after"):
            table, (url, _) = resources.table(), resources.queue()
            function = resources.function(
                TWO_EFFECTS,
                allow("dynamodb:PutItem", "sqs:SendMessage"),
                TABLE=table,
                QUEUE_URL=url,
            )
            resources.aws.fault("kill", function=function, skip=position, moment=moment)
            answer, failed = resources.invoke(function, {})
            assert failed
            assert answer["errorMessage"].endswith(
                "Runtime exited with error: signal: SIGKILL"
            )
            done = position + (moment == "after")
            assert ("effect 1" in resources.items(table)) == (done >= 1)
            assert len(resources.sqs.receive_message(QueueUrl=url).get("Messages", ())) == (
                done >= 2
            )
            assert ("effect 3" in resources.items(table)) == (done >= 3)
            assert [
                request["operation"] for request in resources.aws.requests(function)
            ] == [*["PutItem", "SendMessage", "PutItem"][: position + 1]]
            resources.aws.clear_faults()
    assert resources.invoke(function, {}) == (None, False)


@pytest.mark.embedded
def test_a_killed_functions_message_is_delivered_again(resources: Resources) -> None:
    from datetime import timedelta

    table, (other, _), (url, arn) = (
        resources.table(),
        resources.queue(),
        resources.queue(VisibilityTimeout=60),
    )
    function = resources.function(
        TWO_EFFECTS,
        allow("dynamodb:PutItem", "sqs:SendMessage"),
        TABLE=table,
        QUEUE_URL=other,
    )
    resources.aws.fault("kill", function=function, skip=1)
    resources.feed(function, arn)
    resources.sqs.send_message(QueueUrl=url, MessageBody=json.dumps({}))
    until(lambda: resources.aws.faults()[0]["hits"] == 1)
    hidden = ["ApproximateNumberOfMessagesNotVisible"]
    until(lambda: resources.aws.requests(function)[-1]["operation"] == "SendMessage")

    def moved() -> bool:
        resources.aws.clock.advance(timedelta(seconds=61))
        return "effect 3" in resources.items(table)

    until(moved)
    until(
        lambda: (
            resources.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=hidden)[
                "Attributes"
            ][hidden[0]]
            == "0"
        )
    )
