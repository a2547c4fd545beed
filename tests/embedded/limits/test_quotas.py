"""What AWS refuses for its size or number is refused, at the services' APIs and in templates, with AWS's codes."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.embedded.conftest import Resources, unique

pytestmark = pytest.mark.embedded

TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})


def document(length: int, statements: int = 1) -> str:
    """Return a policy of that many characters."""

    def written(padding: int) -> str:
        listed = [
            {
                "Effect": "Allow",
                "Action": "sqs:SendMessage",
                "Resource": f"arn:aws:sqs:us-east-1:123456789012:q{n}",
            }
            for n in range(statements)
        ]
        listed[0]["Resource"] += "x" * padding
        return json.dumps(
            {"Version": "2012-10-17", "Statement": listed}, separators=(",", ":")
        )

    return written(length - len(written(0)))


def refused(code: str) -> Any:
    return pytest.raises(ClientError, match=code)


def created(
    resources: Resources, stack_name: str = "", **parts: dict[str, Any]
) -> dict[str, Any]:
    """Create a stack of these resources, and return it when CloudFormation is done."""
    cloudformation = resources.aws.client("cloudformation")
    name = stack_name or unique("stack")
    template = {"Resources": parts}
    cloudformation.create_stack(
        StackName=name,
        TemplateBody=json.dumps(template),
        Capabilities=["CAPABILITY_NAMED_IAM"],
    )
    while True:
        (stack,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
        if not stack["StackStatus"].endswith("_IN_PROGRESS"):
            events = cloudformation.describe_stack_events(StackName=name)["StackEvents"]
            stack["reasons"] = " ".join(
                event.get("ResourceStatusReason", "") for event in events
            )
            return dict(stack)


def test_sqs_takes_policies_of_8192_bytes_and_20_statements(resources: Resources) -> None:
    url, _ = resources.queue()
    for fits in (document(8_192), document(5_000, 20)):
        resources.sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": fits})
    for too_much in (document(8_193), document(5_000, 21)):
        with refused("OverLimit"):
            resources.sqs.set_queue_attributes(
                QueueUrl=url, Attributes={"Policy": too_much}
            )


@pytest.mark.parametrize(
    ("policy", "status"),
    [(document(8_192), "CREATE_COMPLETE"), (document(8_193), "ROLLBACK_COMPLETE")],
)
def test_so_it_does_of_templates(resources: Resources, policy: str, status: str) -> None:
    stack = created(
        resources,
        Queue={"Type": "AWS::SQS::Queue", "Properties": {}},
        Policy={
            "Type": "AWS::SQS::QueuePolicy",
            "Properties": {
                "Queues": [{"Ref": "Queue"}],
                "PolicyDocument": json.loads(policy),
            },
        },
    )
    assert stack["StackStatus"] == status
    assert ("Submitted policy is over max allowed size" in stack["reasons"]) == (
        status == "ROLLBACK_COMPLETE"
    )


def test_a_role_takes_inline_policies_of_10240_characters_together(
    resources: Resources,
) -> None:
    iam, role = resources.aws.client("iam"), unique("role")
    iam.create_role(RoleName=role, AssumeRolePolicyDocument=TRUST)
    iam.put_role_policy(RoleName=role, PolicyName="a", PolicyDocument=document(6_000))
    spaced = json.dumps(json.loads(document(4_240)), indent=4)  # white space does not count
    iam.put_role_policy(RoleName=role, PolicyName="b", PolicyDocument=spaced)
    # in the other's place
    iam.put_role_policy(RoleName=role, PolicyName="b", PolicyDocument=document(4_240))
    with refused("LimitExceeded.*Maximum policy size of 10240 bytes exceeded"):
        iam.put_role_policy(RoleName=role, PolicyName="c", PolicyDocument=document(200))


@pytest.mark.parametrize(
    ("length", "status"), [(5_120, "CREATE_COMPLETE"), (5_121, "ROLLBACK_COMPLETE")]
)
def test_so_it_does_of_templates_with_two_policies(
    resources: Resources, length: int, status: str
) -> None:
    def inline(name: str, characters: int) -> dict[str, Any]:
        properties = {
            "PolicyName": name,
            "Roles": [{"Ref": "Role"}],
            "PolicyDocument": json.loads(document(characters)),
        }
        return {"Type": "AWS::IAM::Policy", "Properties": properties}

    role = {
        "Type": "AWS::IAM::Role",
        "Properties": {"AssumeRolePolicyDocument": json.loads(TRUST)},
    }
    stack = created(
        resources, Role=role, First=inline("first", 5_120), Second=inline("second", length)
    )
    assert stack["StackStatus"] == status
    assert ("Maximum policy size of 10240 bytes exceeded" in stack["reasons"]) == (
        status == "ROLLBACK_COMPLETE"
    )


def test_a_managed_policy_takes_6144_characters_and_a_role_10_of_them(
    resources: Resources,
) -> None:
    iam, role = resources.aws.client("iam"), unique("role")
    iam.create_role(RoleName=role, AssumeRolePolicyDocument=TRUST)
    with refused("LimitExceeded.*PolicySize: 6144"):
        iam.create_policy(PolicyName=unique("policy"), PolicyDocument=document(6_145))
    arns = [
        iam.create_policy(PolicyName=unique("policy"), PolicyDocument=document(6_144))[
            "Policy"
        ]["Arn"]
        for _ in range(11)
    ]
    for arn in arns[:10]:
        iam.attach_role_policy(RoleName=role, PolicyArn=arn)
    iam.attach_role_policy(RoleName=role, PolicyArn=arns[0])
    with refused("LimitExceeded.*PoliciesPerRole: 10"):
        iam.attach_role_policy(RoleName=role, PolicyArn=arns[10])


def test_a_rule_takes_five_targets(resources: Resources) -> None:
    _, arn = resources.queue()
    name = unique("rule")
    resources.events.put_rule(Name=name, ScheduleExpression="rate(1 day)")
    resources.events.put_targets(
        Rule=name, Targets=[{"Id": str(n), "Arn": arn} for n in range(5)]
    )
    resources.events.put_targets(Rule=name, Targets=[{"Id": "4", "Arn": arn}])
    with refused("LimitExceededException"):
        resources.events.put_targets(Rule=name, Targets=[{"Id": "5", "Arn": arn}])
    resources.events.remove_targets(Rule=name, Ids=[str(n) for n in range(5)])
    resources.events.delete_rule(Name=name)


def test_a_table_makes_one_index_at_a_time(resources: Resources) -> None:
    dynamodb, name = resources.aws.client("dynamodb"), unique("table")

    def definition(attribute: str) -> dict[str, Any]:
        return {"AttributeName": attribute, "AttributeType": "S"}

    def index(attribute: str) -> dict[str, Any]:
        key = [{"AttributeName": attribute, "KeyType": "HASH"}]
        return {
            "Create": {
                "IndexName": f"index-{attribute}",
                "KeySchema": key,
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
        }

    dynamodb.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "a", "KeyType": "HASH"}],
        AttributeDefinitions=[definition("a")],
        BillingMode="PAY_PER_REQUEST",
    )
    with refused("LimitExceededException.*Only 1 online index"):
        dynamodb.update_table(
            TableName=name,
            AttributeDefinitions=[definition(each) for each in "abc"],
            GlobalSecondaryIndexUpdates=[index("b"), index("c")],
        )
    dynamodb.update_table(
        TableName=name,
        AttributeDefinitions=[definition(each) for each in "ab"],
        GlobalSecondaryIndexUpdates=[index("b")],
    )


def test_a_function_takes_4096_bytes_of_variables(resources: Resources) -> None:
    role = {
        "Type": "AWS::IAM::Role",
        "Properties": {"AssumeRolePolicyDocument": json.loads(TRUST)},
    }
    properties = {
        "Runtime": "python3.13",
        "Handler": "index.handler",
        "Role": {"Fn::GetAtt": ["Role", "Arn"]},
        "Code": {"ZipFile": "def handler(event, context): return None"},
        "Environment": {"Variables": {"TEXT": "x" * (4_096 - len('{"TEXT":""}') + 1)}},
    }
    stack = created(
        resources,
        Role=role,
        Function={"Type": "AWS::Lambda::Function", "Properties": properties},
    )
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    assert "exceeded the 4KB limit" in stack["reasons"]


def role(**properties: Any) -> dict[str, Any]:
    trust = {"AssumeRolePolicyDocument": json.loads(TRUST)}
    return {"Type": "AWS::IAM::Role", "Properties": {**trust, **properties}}


def trusting(length: int) -> dict[str, Any]:
    document = {"Version": "2012-10-17", "Statement": [], "Id": ""}
    document["Id"] = "x" * (length - len(json.dumps(document, separators=(",", ":"))))
    return role(AssumeRolePolicyDocument=document)


def alarm(length: int) -> dict[str, Any]:
    properties = {
        "AlarmDescription": "x" * length,
        "ComparisonOperator": "GreaterThanThreshold",
        "EvaluationPeriods": 1,
        "MetricName": "metric",
        "Namespace": "tests",
        "Period": 60,
        "Statistic": "Sum",
        "Threshold": 1,
    }
    return {"Type": "AWS::CloudWatch::Alarm", "Properties": properties}


def rule(length: int) -> dict[str, Any]:
    pattern = {"source": [""]}
    pattern["source"] = ["x" * (length - len(json.dumps(pattern, separators=(",", ":"))))]
    return {"Type": "AWS::Events::Rule", "Properties": {"EventPattern": pattern}}


def group(length: int) -> dict[str, Any]:
    name = f"{unique('group'):x<{length}}"
    return {"Type": "AWS::Scheduler::ScheduleGroup", "Properties": {"Name": name}}


def dashboard(count: int) -> dict[str, Any]:
    widget = {"type": "text", "width": 1, "height": 1, "properties": {"markdown": "x"}}
    body = json.dumps({"widgets": [widget] * count})
    return {"Type": "AWS::CloudWatch::Dashboard", "Properties": {"DashboardBody": body}}


def table(count: int, included: int = 0) -> dict[str, Any]:
    projection: dict[str, Any] = {"ProjectionType": "KEYS_ONLY"}
    if included:
        names = [f"n{number}" for number in range(included)]
        projection = {"ProjectionType": "INCLUDE", "NonKeyAttributes": names}
    keys = [{"AttributeName": "a", "KeyType": "HASH"}]
    properties = {
        "AttributeDefinitions": [{"AttributeName": "a", "AttributeType": "S"}],
        "BillingMode": "PAY_PER_REQUEST",
        "GlobalSecondaryIndexes": [
            {"IndexName": f"index-{number}", "KeySchema": keys, "Projection": projection}
            for number in range(count)
        ],
        "KeySchema": keys,
    }
    return {"Type": "AWS::DynamoDB::Table", "Properties": properties}


@pytest.mark.parametrize(
    ("fits", "does_not", "why"),
    [
        (role(Description="x" * 1_000), role(Description="x" * 1_001), "maxLength: 1000"),
        (trusting(2_048), trusting(2_049), "ACLSizePerRole: 2048"),
        (alarm(1_024), alarm(1_025), "maxLength: 1024"),
        (rule(2_048), rule(2_049), "Event pattern is not valid"),
        (group(64), group(65), "maxLength: 64"),
        (dashboard(500), dashboard(501), "501 widgets"),
        (table(20), table(21), "per-table limit of 20"),
        (table(1, 100), table(1, 101), "limit of 100"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_template_has_too_much_of_is_not_made(
    resources: Resources, fits: dict[str, Any], does_not: dict[str, Any], why: str
) -> None:
    stack = created(resources, It=fits)
    assert stack["StackStatus"] == "CREATE_COMPLETE", stack["reasons"]
    stack = created(resources, It=does_not)
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    assert why in stack["reasons"]
