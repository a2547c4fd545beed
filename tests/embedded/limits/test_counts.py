"""An account has room for so many of a kind, at APIs and in templates, and for more once its quota is raised."""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from tests.embedded.conftest import Resources, unique
from tests.embedded.limits.test_quotas import created
from tests.embedded.limits.test_requests import ALARM, ROLE, RULE, TABLE

pytestmark = pytest.mark.embedded

Make = Callable[[Resources], Any]

DOCUMENT: Final = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": "*"}],
}


def alarm(resources: Resources) -> None:
    asked = {**ALARM, "AlarmName": unique("alarm")}
    resources.aws.client("cloudwatch").put_metric_alarm(**asked)


def bucket(resources: Resources) -> None:
    resources.aws.client("s3").create_bucket(Bucket=unique("bucket"))


def bus(resources: Resources) -> None:
    resources.events.create_event_bus(Name=unique("bus"))


def group(resources: Resources) -> None:
    resources.aws.client("scheduler").create_schedule_group(Name=unique("group"))


def log_group(resources: Resources) -> None:
    resources.aws.client("logs").create_log_group(logGroupName=unique("log-group"))


def policy(resources: Resources) -> None:
    resources.aws.client("iam").create_policy(
        PolicyName=unique("policy"), PolicyDocument=json.dumps(DOCUMENT)
    )


def role(resources: Resources) -> None:
    resources.aws.client("iam").create_role(**{**ROLE, "RoleName": unique("role")})


def rule(resources: Resources) -> None:
    resources.events.put_rule(**{**RULE, "Name": unique("rule")})


def table(resources: Resources) -> None:
    asked = {**TABLE, "TableName": unique("table")}
    resources.aws.client("dynamodb").create_table(**asked)


KINDS: Final[dict[str, tuple[Make, dict[str, Any], str]]] = {
    "AWS::CloudWatch::Alarm": (alarm, dict(ALARM), "LimitExceeded"),
    "AWS::DynamoDB::Table": (table, dict(TABLE), "LimitExceededException"),
    "AWS::Events::EventBus": (bus, {"Name": "bus"}, "LimitExceededException"),
    "AWS::Events::Rule": (
        rule,
        {"ScheduleExpression": "rate(1 day)"},
        "LimitExceededException",
    ),
    "AWS::IAM::ManagedPolicy": (policy, {"PolicyDocument": DOCUMENT}, "LimitExceeded"),
    "AWS::IAM::Role": (
        role,
        {"AssumeRolePolicyDocument": json.loads(ROLE["AssumeRolePolicyDocument"])},
        "LimitExceeded",
    ),
    "AWS::Logs::LogGroup": (log_group, {}, "LimitExceededException"),
    "AWS::S3::Bucket": (bucket, {}, "TooManyBuckets"),
    "AWS::Scheduler::ScheduleGroup": (
        group,
        {"Name": "group"},
        "ServiceQuotaExceededException",
    ),
}


@pytest.fixture(autouse=True)
def _as_by_default(resources: Resources) -> Iterator[None]:
    yield
    resources.aws.set_account_quotas({})


def named(properties: dict[str, Any]) -> dict[str, Any]:
    """Give what has a name another one each time."""
    names = {"AlarmName", "Name", "TableName"} & properties.keys()
    return {**properties, **{field: unique("named") for field in names}}


@pytest.mark.parametrize("kind", KINDS)
def test_there_is_no_room_for_more_until_the_quota_is_raised(
    resources: Resources, kind: str
) -> None:
    make, properties, code = KINDS[kind]
    make(resources)  # so that there is one
    resources.aws.set_account_quotas({kind: 1})
    with pytest.raises(ClientError) as refused:
        make(resources)
    assert refused.value.response["Error"]["Code"] == code
    part = {"Type": kind, "Properties": named(properties)}
    stack = created(resources, It=part)
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    assert f"Error Code: {code}" in stack["reasons"]
    resources.aws.set_account_quotas({})
    make(resources)
    stack = created(resources, It={"Type": kind, "Properties": named(properties)})
    assert stack["StackStatus"] == "CREATE_COMPLETE", stack["reasons"]


def test_what_is_there_is_changed_without_room(resources: Resources) -> None:
    asked = {**ALARM, "AlarmName": unique("alarm")}
    cloudwatch = resources.aws.client("cloudwatch")
    cloudwatch.put_metric_alarm(**asked)
    resources.aws.set_account_quotas({"AWS::CloudWatch::Alarm": 1})
    cloudwatch.put_metric_alarm(**{**asked, "Threshold": 2})


def test_a_bus_has_room_for_its_own_rules(resources: Resources) -> None:
    rule(resources)
    resources.aws.set_account_quotas({"AWS::Events::Rule": 1})
    bus_name = unique("bus")
    resources.events.create_event_bus(Name=bus_name)
    asked = {"EventBusName": bus_name, "EventPattern": json.dumps({"source": ["tests"]})}
    resources.events.put_rule(Name="first", **asked)
    with pytest.raises(ClientError, match="LimitExceededException"):
        resources.events.put_rule(Name="second", **asked)
    resources.events.delete_rule(Name="first", EventBusName=bus_name)
    resources.events.delete_event_bus(Name=bus_name)
