"""How many invocations there may be at once, and what happens to the others, as on Lambda."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.embedded.conftest import Resources, allow, unique, until

pytestmark = pytest.mark.embedded

# Works until it is told to end, unless it is not to wait.
WAIT = """
    import boto3, os, time
    dynamodb = boto3.client("dynamodb")
    def handle(event, context):
        records = event.get("Records", [{"body": event.get("name")}])
        for record in records:
            dynamodb.put_item(TableName=os.environ["TABLE"], Item={"id": {"S": record["body"]}})
        end = {"id": {"S": "you may end"}}
        while "Item" not in dynamodb.get_item(TableName=os.environ["TABLE"], Key=end):
            time.sleep(0.1)
"""


class Waiting:
    """A function of which one invocation is under way."""

    def __init__(
        self, resources: Resources, pool: ThreadPoolExecutor, reserved: int | None
    ) -> None:
        self.resources = resources
        self.table = resources.table()
        allowed = allow("dynamodb:PutItem", "dynamodb:GetItem")
        self.name = resources.function(WAIT, allowed, timeout_s=600, TABLE=self.table)
        if reserved is not None:
            resources.lambda_.put_function_concurrency(
                FunctionName=self.name, ReservedConcurrentExecutions=reserved
            )
        self.under_way = pool.submit(resources.invoke, self.name, {"name": "first"})
        until(lambda: "first" in resources.items(self.table))

    def end(self) -> None:
        self.resources.dynamodb.put_item(
            TableName=self.table, Item={"id": {"S": "you may end"}}
        )
        assert self.under_way.result() == (None, False)
        self.resources.aws.clock.settle()
        self.resources.lambda_.delete_function_concurrency(FunctionName=self.name)


def refusal(resources: Resources, function: str) -> dict[str, Any]:
    with pytest.raises(ClientError) as refused:
        resources.invoke(function, {"name": "refused"})
    response: dict[str, Any] = dict(refused.value.response)
    assert response["Error"]["Code"] == "TooManyRequestsException"
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 429
    return response


def test_beyond_its_reserved_concurrency_a_function_is_refused_and_others_are_not(
    resources: Resources,
) -> None:
    other = resources.function("def handle(event, context): return 'done'")
    with ThreadPoolExecutor(1) as pool:
        waiting = Waiting(resources, pool, reserved=1)
        refused = refusal(resources, waiting.name)
        assert refused["Reason"] == "ReservedFunctionConcurrentInvocationLimitExceeded"
        assert resources.invoke(other, {}) == ("done", False)
        waiting.end()
    assert resources.invoke(waiting.name, {"name": "second"}) == (None, False)
    assert "refused" not in resources.items(waiting.table)


def test_what_functions_reserve_is_taken_from_the_accounts_limit(
    resources: Resources,
) -> None:
    reserving = resources.function("def handle(event, context): return 'done'")
    free = resources.function("def handle(event, context): return 'done'")
    resources.lambda_.put_function_concurrency(
        FunctionName=reserving, ReservedConcurrentExecutions=2
    )
    with ThreadPoolExecutor(1) as pool:
        waiting = Waiting(resources, pool, reserved=None)
        resources.aws.limit_concurrency(3)
        try:
            assert refusal(resources, free)["Reason"] == "ConcurrentInvocationLimitExceeded"
            assert resources.invoke(reserving, {}) == ("done", False)
            resources.aws.limit_concurrency(4)
            assert resources.invoke(free, {}) == ("done", False)
        finally:
            resources.aws.limit_concurrency(1_000)
        waiting.end()
    resources.lambda_.delete_function_concurrency(FunctionName=reserving)


def test_reservations_leave_a_hundred_to_all_others(resources: Resources) -> None:
    function = resources.function("def handle(event, context): pass")
    with pytest.raises(ClientError, match="below its minimum value of \\[100\\]"):
        resources.lambda_.put_function_concurrency(
            FunctionName=function, ReservedConcurrentExecutions=901
        )
    assert "ReservedConcurrentExecutions" not in resources.lambda_.get_function_concurrency(
        FunctionName=function
    )


def test_a_stack_reserves_what_its_template_says_or_fails(resources: Resources) -> None:
    cloudformation, name = resources.aws.client("cloudformation"), unique("reserving")
    properties = {
        "FunctionName": name,
        "Runtime": "python3.13",
        "Handler": "index.handle",
        "Code": {"ZipFile": "def handle(event, context): pass"},
        "Role": resources.role(),
    }

    def template(**reserved: int) -> str:
        kind = {"Type": "AWS::Lambda::Function", "Properties": {**properties, **reserved}}
        return json.dumps({"Resources": {"Function": kind}})

    def ends_in() -> str:
        def status() -> str:
            return str(
                cloudformation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
            )

        return str(
            until(
                lambda: found if not (found := status()).endswith("_IN_PROGRESS") else None
            )
        )

    def reserved() -> int | None:
        found: dict[str, int] = resources.lambda_.get_function_concurrency(
            FunctionName=name
        )
        return found.get("ReservedConcurrentExecutions")

    cloudformation.create_stack(
        StackName=name, TemplateBody=template(ReservedConcurrentExecutions=3)
    )
    assert (ends_in(), reserved()) == ("CREATE_COMPLETE", 3)
    cloudformation.update_stack(
        StackName=name, TemplateBody=template(ReservedConcurrentExecutions=901)
    )
    assert (ends_in(), reserved()) == ("UPDATE_ROLLBACK_COMPLETE", 3)
    cloudformation.update_stack(StackName=name, TemplateBody=template())
    assert (ends_in(), reserved()) == ("UPDATE_COMPLETE", None)


def test_a_throttled_event_is_tried_again_until_there_is_room(resources: Resources) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = Waiting(resources, pool, reserved=1)
        resources.lambda_.invoke(
            FunctionName=waiting.name,
            InvocationType="Event",
            Payload=json.dumps({"name": "an event"}),
        )
        waiting.end()
    resources.aws.clock.advance(timedelta(minutes=10))
    assert "an event" in resources.items(waiting.table)


def test_a_poller_waits_for_room_and_loses_no_message(resources: Resources) -> None:
    dead_url, dead_arn = resources.queue()
    url, arn = resources.queue(
        VisibilityTimeout=600,
        RedrivePolicy={"deadLetterTargetArn": dead_arn, "maxReceiveCount": 1},
    )
    with ThreadPoolExecutor(1) as pool:
        waiting = Waiting(resources, pool, reserved=1)
        resources.feed(waiting.name, arn, FunctionResponseTypes=[])
        resources.sqs.send_message(QueueUrl=url, MessageBody="a message")
        waiting.end()
    resources.aws.clock.settle()
    assert "a message" in resources.items(waiting.table)
    assert "Messages" not in resources.sqs.receive_message(QueueUrl=dead_url)


def test_a_function_without_any_concurrency_does_not_stop_time(
    resources: Resources,
) -> None:
    url, arn = resources.queue()
    function = resources.function("def handle(event, context): pass")
    resources.feed(function, arn)
    resources.lambda_.put_function_concurrency(
        FunctionName=function, ReservedConcurrentExecutions=0
    )
    resources.sqs.send_message(QueueUrl=url, MessageBody="nobody may take it")
    resources.lambda_.invoke(FunctionName=function, InvocationType="Event", Payload=b"{}")
    before = resources.aws.clock.now()
    assert resources.aws.clock.advance(timedelta(hours=1)) - before >= timedelta(hours=1)
    assert resources.aws.function_log(function) == ""
