"""Requests that make or change something are refused where they ask for more than AWS takes, with AWS's codes."""

import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any, Final

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.embedded.conftest import Resources, unique

pytestmark = pytest.mark.embedded

ALARM: Final[Mapping[str, Any]] = {
    "AlarmName": "alarm",
    "ComparisonOperator": "GreaterThanThreshold",
    "EvaluationPeriods": 1,
    "MetricName": "metric",
    "Namespace": "tests",
    "Period": 60,
    "Statistic": "Sum",
    "Threshold": 1,
}
QUEUE: Final = "arn:aws:sqs:us-east-1:123456789012:queue"
RULE: Final = {"Name": "rule", "ScheduleExpression": "rate(1 day)"}
SCHEDULE: Final[Mapping[str, Any]] = {
    "Name": "schedule",
    "ScheduleExpression": "at(2099-01-01T00:00:00)",
    "FlexibleTimeWindow": {"Mode": "OFF"},
    "Target": {"Arn": QUEUE, "RoleArn": "arn:aws:iam::123456789012:role/role"},
}
TAGS: Final = [{"Key": f"key-{number}", "Value": "value"} for number in range(51)]
TRUST: Final = {"Version": "2012-10-17", "Statement": []}
ROLE: Final[Mapping[str, Any]] = {
    "RoleName": "role",
    "AssumeRolePolicyDocument": json.dumps(TRUST),
}
TABLE: Final[Mapping[str, Any]] = {
    "TableName": "table",
    "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "a", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}
INDEXES: Final = [
    {
        "IndexName": f"index-{number}",
        "KeySchema": TABLE["KeySchema"],
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }
    for number in range(21)
]
WIDGET: Final = {
    "type": "text",
    "width": 1,
    "height": 1,
    "properties": {"markdown": "x"},
}


def archive() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as written:
        written.writestr("index.py", "def handler(event, context): return None")
    return content.getvalue()


FUNCTION: Final[Mapping[str, Any]] = {
    "FunctionName": "function",
    "Runtime": "python3.13",
    "Role": "arn:aws:iam::123456789012:role/role",
    "Handler": "index.handler",
    "Code": {"ZipFile": archive()},
}
TOO_LONG_TRUST: Final = json.dumps({**TRUST, "Id": "x" * 2_048})
BODY: Final = json.dumps({"widgets": [WIDGET] * 501})
IN_MODEL: Final = "Member must have length less than or equal to "

# service, operation, request that is too much, AWS's code, what it says
TOO_MUCH: Final = [
    (
        "events",
        "put_rule",
        {**RULE, "Name": "x" * 65},
        "ValidationException",
        IN_MODEL + "64",
    ),
    (
        "events",
        "put_rule",
        {**RULE, "Description": "x" * 513},
        "ValidationException",
        "512",
    ),
    (
        "events",
        "put_rule",
        {"Name": "rule", "EventPattern": json.dumps({"source": ["x" * 2_035]})},
        "InvalidEventPatternException",
        "too long",
    ),
    ("events", "create_event_bus", {"Name": "x" * 257}, "ValidationException", "256"),
    (
        "events",
        "put_targets",
        {"Rule": "rule", "Targets": [{"Id": "x" * 65, "Arn": QUEUE}]},
        "ValidationException",
        "targets.1.member.id",
    ),
    ("sqs", "create_queue", {"QueueName": "x" * 81}, "InvalidParameterValue", "1 to 80"),
    (
        "sqs",
        "create_queue",
        {"QueueName": "queue", "tags": {f"key-{n}": "value" for n in range(51)}},
        "InvalidParameterValue",
        "Too many tags",
    ),
    ("iam", "create_role", {**ROLE, "RoleName": "x" * 65}, "ValidationError", "64"),
    ("iam", "create_role", {**ROLE, "Tags": TAGS}, "ValidationError", "50"),
    (
        "iam",
        "create_role",
        {**ROLE, "AssumeRolePolicyDocument": TOO_LONG_TRUST},
        "LimitExceeded",
        "ACLSizePerRole: 2048",
    ),
    (
        "iam",
        "update_assume_role_policy",
        {"RoleName": "role", "PolicyDocument": TOO_LONG_TRUST},
        "LimitExceeded",
        "ACLSizePerRole: 2048",
    ),
    (
        "iam",
        "put_role_policy",
        {"RoleName": "role", "PolicyName": "x" * 129, "PolicyDocument": json.dumps(TRUST)},
        "ValidationError",
        "128",
    ),
    (
        "lambda",
        "create_function",
        {**FUNCTION, "FunctionName": "x" * 65},
        "InvalidParameterValueException",
        "64",
    ),
    (
        "lambda",
        "create_function",
        {**FUNCTION, "Description": "x" * 257},
        "InvalidParameterValueException",
        "256",
    ),
    (
        "lambda",
        "create_function",
        {**FUNCTION, "MemorySize": 10_241},
        "InvalidParameterValueException",
        "10240",
    ),
    (
        "lambda",
        "update_function_configuration",
        {"FunctionName": "function", "Timeout": 901},
        "InvalidParameterValueException",
        "900",
    ),
    (
        "ssm",
        "put_parameter",
        {"Name": "parameter", "Value": "x" * 4_097, "Type": "String"},
        "ValidationException",
        "4096 characters",
    ),
    (
        "cloudwatch",
        "put_metric_alarm",
        {**ALARM, "AlarmDescription": "x" * 1_025},
        "ValidationError",
        "1024",
    ),
    (
        "cloudwatch",
        "put_metric_alarm",
        {**ALARM, "AlarmActions": [f"arn:aws:sns:us-east-1:1:{n}" for n in range(6)]},
        "ValidationError",
        "5",
    ),
    (
        "cloudwatch",
        "put_dashboard",
        {"DashboardName": "dashboard", "DashboardBody": BODY},
        "InvalidParameterInput",
        "501 widgets",
    ),
    (
        "scheduler",
        "create_schedule",
        {**SCHEDULE, "Name": "x" * 65},
        "ValidationException",
        "64",
    ),
    ("scheduler", "create_schedule_group", {"Name": "x" * 65}, "ValidationException", "64"),
    (
        "dynamodb",
        "create_table",
        {**TABLE, "GlobalSecondaryIndexes": INDEXES},
        "ValidationException",
        "limit of 20",
    ),
    (
        "logs",
        "create_log_group",
        {"logGroupName": "x" * 513},
        "InvalidParameterException",
        "512",
    ),
]


@pytest.mark.parametrize(
    ("service", "operation", "request_", "code", "why"),
    TOO_MUCH,
    ids=[f"{service} {operation} {why}" for service, operation, _, _, why in TOO_MUCH],
)
def test_what_is_too_much_is_refused(
    resources: Resources,
    service: str,
    operation: str,
    request_: Mapping[str, Any],
    code: str,
    why: str,
) -> None:
    as_given = Config(parameter_validation=False)  # by the service, not by botocore
    client = resources.aws.client(service, config=as_given)
    with pytest.raises(ClientError) as refused:
        getattr(client, operation)(**request_)
    assert refused.value.response["Error"]["Code"] == code
    assert why in refused.value.response["Error"]["Message"]


def test_a_queue_takes_policies_of_50_principals_and_10_conditions(
    resources: Resources,
) -> None:
    url, _ = resources.queue()

    def put(principals: int, conditions: int) -> None:
        statement = {
            "Effect": "Allow",
            "Principal": {
                "AWS": [f"arn:aws:iam::123456789012:role/r{n}" for n in range(principals)]
            },
            "Action": "sqs:SendMessage",
            "Resource": "*",
            "Condition": {
                "StringEquals": {f"aws:PrincipalTag/k{n}": "v" for n in range(conditions)}
            },
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        resources.sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})

    put(50, 10)
    for principals, conditions in ((51, 10), (50, 11)):
        with pytest.raises(ClientError, match="OverLimit"):
            put(principals, conditions)


def test_a_function_takes_20480_bytes_of_permissions(resources: Resources) -> None:
    iam, client = resources.aws.client("iam"), resources.aws.client("lambda")
    role = iam.create_role(**{**ROLE, "RoleName": unique("role")})["Role"]["Arn"]
    name = unique("function")
    client.create_function(**{**FUNCTION, "FunctionName": name, "Role": role})

    def allow(number: int) -> None:
        client.add_permission(
            FunctionName=name,
            StatementId=f"{number:0100}",
            Action="lambda:InvokeFunction",
            Principal="events.amazonaws.com",
            SourceArn=f"arn:aws:events:us-east-1:123456789012:rule/{number:064}",
        )

    def size() -> int:
        policy = json.loads(client.get_policy(FunctionName=name)["Policy"])
        return len(json.dumps(policy, separators=(",", ":")))

    allow(0)
    one = size()
    allow(1)
    fit = 1 + (20_480 - one) // (size() - one)
    for number in range(2, fit):
        allow(number)
    with pytest.raises(
        client.exceptions.PolicyLengthExceededException,
        match=r"The final policy size \(\d+\) is bigger than the limit \(20480\)",
    ):
        allow(fit)
    assert size() <= 20_480


@pytest.mark.parametrize(
    ("part", "most", "one"),
    [
        ("Resources", 500, {"Type": "AWS::SQS::Queue"}),
        ("Outputs", 200, {"Value": "x"}),
        ("Parameters", 200, {"Type": "String", "Default": "x"}),
        ("Mappings", 200, {"a": {"b": "c"}}),
    ],
)
def test_a_template_takes_so_many_parts(
    resources: Resources, part: str, most: int, one: Mapping[str, Any]
) -> None:
    cloudformation = resources.aws.client("cloudformation")

    def look(count: int) -> None:
        template: dict[str, Any] = {"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}}}
        template[part] = {f"P{number}": dict(one) for number in range(count)}
        cloudformation.validate_template(TemplateBody=json.dumps(template))

    look(most)
    with pytest.raises(ClientError, match=f"greater than maximum allowed, {most}"):
        look(most + 1)


def test_a_template_is_given_with_51200_bytes_and_put_into_a_bucket_with_a_megabyte(
    resources: Resources,
) -> None:
    cloudformation = resources.aws.client("cloudformation")
    s3, bucket = resources.aws.client("s3"), unique("templates")
    s3.create_bucket(Bucket=bucket)

    def template(length: int) -> str:
        parts = {"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}}, "Description": ""}
        return f"{json.dumps(parts):<{length}}"

    def stored(length: int) -> str:
        s3.put_object(Bucket=bucket, Key="template", Body=template(length).encode())
        return f"https://s3.us-east-1.amazonaws.com/{bucket}/template"

    cloudformation.validate_template(TemplateBody=template(51_200))
    with pytest.raises(ClientError, match="ValidationError"):
        cloudformation.validate_template(TemplateBody=template(51_201))
    cloudformation.validate_template(TemplateURL=stored(1_000_000))
    with pytest.raises(ClientError, match="ValidationError"):
        cloudformation.validate_template(TemplateURL=stored(1_000_001))
