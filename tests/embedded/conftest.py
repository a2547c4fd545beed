"""Small AWS resources for the tests of the embedded AWS."""

import io
import itertools
import json
import textwrap
import time
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from lab.embedded.client import EmbeddedAws
from tests.embedded_fixture import embedded_aws

__all__ = ["embedded_aws"]

NUMBERS = itertools.count(1)
FROM_EVENTBRIDGE = {
    "Effect": "Allow",
    "Principal": {"Service": "events.amazonaws.com"},
    "Action": "sqs:SendMessage",
    "Resource": "*",
}


def unique(prefix: str) -> str:
    return f"{prefix}-{next(NUMBERS)}"


def zipped(source: str, name: str = "handler.py") -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        # the same bytes whenever it is made
        archive.writestr(zipfile.ZipInfo(name), textwrap.dedent(source))
    return content.getvalue()


def until(condition: Callable[[], Any], limit_s: float = 600.0) -> Any:
    """Return the condition's first true value: the only way to wait for another process.

    The limit only keeps a test that fails from waiting for ever; how long anything takes is no matter of any test.
    """
    deadline = time.monotonic() + limit_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"still {value!r} after {limit_s} s")
        time.sleep(0.02)
    return value


class Resources:
    """Makes resources with names of their own, so that tests do not meet."""

    def __init__(self, aws: EmbeddedAws) -> None:
        self.aws = aws
        self.sqs = aws.client("sqs")
        self.lambda_ = aws.client("lambda")
        self.dynamodb = aws.client("dynamodb")
        self.events = aws.client("events")
        self.scheduler = aws.client("scheduler")
        self._iam = aws.client("iam")

    def queue(self, **attributes: Any) -> tuple[str, str]:
        """Make a queue that EventBridge may send to, unless its policy says otherwise; return its URL and ARN."""
        name = unique("queue") + (".fifo" if attributes.get("FifoQueue") else "")
        attributes.setdefault(
            "Policy", {"Version": "2012-10-17", "Statement": [FROM_EVENTBRIDGE]}
        )
        values = {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in attributes.items()
        }
        url = self.sqs.create_queue(QueueName=name, Attributes=values)["QueueUrl"]
        found = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return url, found["Attributes"]["QueueArn"]

    def table(self) -> str:
        name = unique("table")
        self.dynamodb.create_table(
            TableName=name,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        return name

    def items(self, table: str) -> dict[str, Any]:
        return {
            item["id"]["S"]: item for item in self.dynamodb.scan(TableName=table)["Items"]
        }

    def role(self, *allowed: dict[str, Any]) -> str:
        name = unique("role")
        trust = {
            "Effect": "Allow",
            "Principal": {"Service": "lambda.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
        role = self._iam.create_role(RoleName=name, AssumeRolePolicyDocument=_policy(trust))
        if allowed:
            self._iam.put_role_policy(
                RoleName=name, PolicyName="allowed", PolicyDocument=_policy(*allowed)
            )
        return str(role["Role"]["Arn"])

    def function(
        self,
        source: str,
        *allowed: dict[str, Any],
        timeout_s: int = 300,
        **environment: str,
    ) -> str:
        """Make a function of ``source`` (its ``handle``) that may do what is ``allowed``; return its name.

        Its timeout counts real time, and is long enough for any machine.
        """
        name = unique("function")
        self.lambda_.create_function(
            FunctionName=name,
            Runtime="python3.13",
            Handler="handler.handle",
            Role=self.role(*allowed),
            Code={"ZipFile": zipped(source)},
            Timeout=timeout_s,
            Environment={"Variables": environment},
        )
        return name

    def invoke(self, function: str, event: Any) -> tuple[Any, bool]:
        """Return what the function answered, and whether it failed."""
        answer = self.lambda_.invoke(FunctionName=function, Payload=json.dumps(event))
        return json.loads(answer["Payload"].read()), "FunctionError" in answer

    def feed(self, function: str, queue_arn: str, **settings: Any) -> str:
        mapping = {"FunctionResponseTypes": ["ReportBatchItemFailures"], **settings}
        made = self.lambda_.create_event_source_mapping(
            FunctionName=function, EventSourceArn=queue_arn, **mapping
        )
        return str(made["UUID"])

    def bodies(self, queue_url: str, count: int) -> list[str]:
        """Return the bodies of the next ``count`` messages."""
        found: list[str] = []

        def receive() -> bool:
            answer = self.sqs.receive_message(QueueUrl=queue_url, MaxNumberOfMessages=10)
            for message in answer.get("Messages", ()):
                found.append(message["Body"])
                self.sqs.delete_message(
                    QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"]
                )
            return len(found) >= count

        until(receive)
        return found


def _policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def allow(
    *actions: str, resource: str | list[str] = "*", **condition: Any
) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": resource}
    return {**statement, "Condition": condition} if condition else statement


@pytest.fixture(scope="session")
def resources(embedded_aws: EmbeddedAws) -> Resources:
    return Resources(embedded_aws)


@pytest.fixture(autouse=True)
def _no_orders_are_left(request: pytest.FixtureRequest) -> Any:
    yield
    if "embedded_aws" in request.fixturenames:
        request.getfixturevalue("embedded_aws").clear_faults()
