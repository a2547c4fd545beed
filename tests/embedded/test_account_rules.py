"""An account with rules denies on the embedded AWS what such accounts deny."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.embedded.client import EmbeddedAws
from tests.embedded.conftest import Resources, unique

pytestmark = pytest.mark.embedded

BOUNDARY = "arn:aws:iam::123456789012:policy/bounds"
TRUST = {
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "lambda.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ]
}
TAGS = [{"Key": "team", "Value": "research"}]


@pytest.fixture(autouse=True)
def no_rules_are_left(embedded_aws: EmbeddedAws) -> Iterator[None]:
    yield
    embedded_aws.set_account_rules()


def failure(aws: EmbeddedAws, kind: str, **properties: Any) -> str:
    """Return why a stack with one resource is not made; empty: it is."""
    cloudformation = aws.client("cloudformation")
    name = unique("stack")
    template = {"Resources": {"It": {"Type": kind, "Properties": properties}}}
    cloudformation.create_stack(
        StackName=name,
        TemplateBody=json.dumps(template),
        Capabilities=["CAPABILITY_IAM"],
    )
    aws.clock.settle()
    events = cloudformation.describe_stack_events(StackName=name)["StackEvents"]
    reasons = [
        each.get("ResourceStatusReason", "")
        for each in events
        if each["LogicalResourceId"] == "It" and each["ResourceStatus"] == "CREATE_FAILED"
    ]
    return reasons[0] if reasons else ""


@pytest.mark.parametrize(
    ("rules", "kind", "properties", "missing"),
    [
        (
            {"boundary": BOUNDARY},
            "AWS::IAM::Role",
            {"AssumeRolePolicyDocument": TRUST},
            "without the boundary",
        ),
        ({"tags": ["team"]}, "AWS::SQS::Queue", {}, "without the tag team"),
        ({"with_keys": True}, "AWS::SQS::Queue", {"Tags": TAGS}, "without a key"),
        ({"with_keys": True}, "AWS::Logs::LogGroup", {}, "without a key"),
        ({"in_vpc": True}, "AWS::Lambda::Function", {"Tags": TAGS}, "in no VPC"),
    ],
)
def test_what_a_stack_makes_against_the_rules_is_refused(
    embedded_aws: EmbeddedAws,
    rules: dict[str, Any],
    kind: str,
    properties: dict[str, Any],
    missing: str,
) -> None:
    embedded_aws.set_account_rules(**rules)
    assert missing in failure(embedded_aws, kind, **properties)


def test_what_keeps_the_rules_is_made(embedded_aws: EmbeddedAws) -> None:
    embedded_aws.set_account_rules(tags=["team"])
    assert failure(embedded_aws, "AWS::SQS::Queue", Tags=TAGS) == ""


def test_a_control_policy_denies_what_an_own_policy_allows(
    embedded_aws: EmbeddedAws, resources: Resources
) -> None:
    source = """
        import boto3
        def handle(event, context):
            return boto3.client("sqs").list_queues().get("QueueUrls", [])[:0]
    """
    allowed = {"Effect": "Allow", "Action": "sqs:*", "Resource": "*"}
    function = resources.function(source, allowed)
    assert resources.invoke(function, {}) == ([], False)
    embedded_aws.set_account_rules(denied=[{"Action": "sqs:ListQueues", "Resource": "*"}])
    told, failed = resources.invoke(function, {})
    assert failed
    assert "AccessDenied" in json.dumps(told)
    # the account's root is bound by none
    try:
        resources.sqs.list_queues()
    except ClientError as error:  # pragma: no cover - what the test is about
        pytest.fail(str(error))
