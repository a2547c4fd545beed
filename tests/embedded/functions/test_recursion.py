"""What goes round is stopped as Lambda stops it, and mappings of queues are refused as Lambda refuses them."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.embedded.conftest import Resources, allow

pytestmark = pytest.mark.embedded

RUNS_MAX = 16
# Wakes itself by its own queue, as often as it is asked to.
WAKE_ITSELF = """
    import boto3, json, os
    sqs, dynamodb = boto3.client("sqs"), boto3.client("dynamodb")
    def handle(event, context):
        for record in event["Records"]:
            left = json.loads(record["body"])["left"]
            dynamodb.update_item(
                TableName=os.environ["TABLE"], Key={"id": {"S": "runs"}},
                UpdateExpression="ADD seen :one", ExpressionAttributeValues={":one": {"N": "1"}},
            )
            if left:
                sqs.send_message(QueueUrl=os.environ["QUEUE"], MessageBody=json.dumps({"left": left - 1}))
"""
INVOKE_ITSELF = """
    import boto3, json
    def handle(event, context):
        if event["left"]:
            payload = json.dumps({"left": event["left"] - 1})
            answer = boto3.client("lambda").invoke(FunctionName=context.function_name, Payload=payload)
            return json.loads(answer["Payload"].read())
        return "done"
"""


def runs_of_a_loop(resources: Resources, choice: str, asked: int) -> tuple[int, list[str]]:
    """Return how often a function ran that wakes itself, and what is left in its dead letters."""
    table, (letters, letters_arn) = resources.table(), resources.queue()
    redrive = {"deadLetterTargetArn": letters_arn, "maxReceiveCount": 2}
    url, arn = resources.queue(VisibilityTimeout=600, RedrivePolicy=redrive)
    may = allow("sqs:*", "dynamodb:UpdateItem")
    function = resources.function(WAKE_ITSELF, may, TABLE=table, QUEUE=url)
    resources.lambda_.put_function_recursion_config(
        FunctionName=function, RecursiveLoop=choice
    )
    resources.feed(function, arn)
    resources.sqs.send_message(QueueUrl=url, MessageBody=json.dumps({"left": asked}))
    resources.aws.clock.settle()
    ran = int(resources.items(table)["runs"]["seen"]["N"])
    found = resources.sqs.receive_message(QueueUrl=letters, MaxNumberOfMessages=10)
    return ran, [message["Body"] for message in found.get("Messages", ())]


def test_a_function_that_wakes_itself_by_a_queue_is_stopped_after_16_runs(
    resources: Resources,
) -> None:
    ran, given_up = runs_of_a_loop(resources, "Terminate", asked=20)
    assert ran == RUNS_MAX
    assert given_up == [json.dumps({"left": 20 - RUNS_MAX})]


def test_a_function_that_may_loop_goes_on(resources: Resources) -> None:
    assert runs_of_a_loop(resources, "Allow", asked=20) == (21, [])


def test_messages_of_their_own_are_no_loop(resources: Resources) -> None:
    """What nobody's invocation sent begins a chain, however often that happens."""
    table, (url, arn) = resources.table(), resources.queue()
    may = allow("sqs:*", "dynamodb:UpdateItem")
    function = resources.function(WAKE_ITSELF, may, TABLE=table, QUEUE=url)
    resources.feed(function, arn)
    for _ in range(2 * RUNS_MAX):
        resources.sqs.send_message(QueueUrl=url, MessageBody=json.dumps({"left": 0}))
    resources.aws.clock.settle()
    assert resources.items(table)["runs"]["seen"]["N"] == str(2 * RUNS_MAX)


def test_a_function_that_invokes_itself_is_refused_after_16_runs(
    resources: Resources,
) -> None:
    function = resources.function(INVOKE_ITSELF, allow("lambda:InvokeFunction"))
    answer, _ = resources.invoke(function, {"left": RUNS_MAX - 1})
    assert answer == "done"
    told, _ = resources.invoke(function, {"left": RUNS_MAX})
    assert "RecursiveInvocationException" in json.dumps(told)


@pytest.mark.parametrize(
    ("fifo", "settings", "refusal"),
    [
        (True, {"MaximumBatchingWindowInSeconds": 1}, "not supported for FIFO"),
        (True, {"BatchSize": 11}, "must not exceed 10"),
        (False, {"BatchSize": 11}, "must be greater than 0"),
        (
            False,
            {"BatchSize": 11, "MaximumBatchingWindowInSeconds": 301},
            "less than or equal to 300",
        ),
    ],
)
def test_mappings_that_lambda_refuses_are_refused(
    resources: Resources, fifo: bool, settings: dict[str, Any], refusal: str
) -> None:
    _, arn = resources.queue(**({"FifoQueue": "true"} if fifo else {}))
    function = resources.function("def handle(*_): pass")
    with pytest.raises(ClientError, match=refusal) as error:
        resources.feed(function, arn, **settings)
    assert error.value.response["Error"]["Code"] == "InvalidParameterValueException"
