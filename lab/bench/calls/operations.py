"""The calls that are measured, what they need in the account, and who makes them.

The caller is a session of a role, as the deployed functions are, with a policy of as many statements. A stranger has
the same policy for other resources: what their calls cost is what a call costs before its service sees it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lab.embedded.client import EmbeddedAws

NAME: Final = "bench"
ITEMS: Final = 10
Parameters = Mapping[str, Any]


@dataclass(frozen=True)
class Operation:
    """A call of boto3: service, method, parameters of the nth call, and whether the same call does nothing again."""

    service: str
    method: str
    parameters: Callable[["Account", int], Parameters]
    idempotent: bool = False


@dataclass(frozen=True)
class Account:
    """What was made for the calls."""

    queue_url: str
    filled_queue_url: str
    template_id: str


def prepare(aws: EmbeddedAws) -> Account:
    """Make a table of ten items, queues, ten instances and ten reservations."""
    dynamodb, sqs, ec2 = aws.client("dynamodb"), aws.client("sqs"), aws.client("ec2")
    dynamodb.create_table(
        TableName=NAME,
        KeySchema=[
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    for number in range(ITEMS):
        dynamodb.put_item(TableName=NAME, Item=_item(number))
    queue = sqs.create_queue(QueueName=NAME)["QueueUrl"]
    # Its one message is visible again at once, so the queue stays as it is.
    filled = sqs.create_queue(
        QueueName=f"{NAME}-filled", Attributes={"VisibilityTimeout": "0"}
    )["QueueUrl"]
    sqs.send_message(QueueUrl=filled, MessageBody="x" * 400)
    image = ec2.describe_images()["Images"][0]["ImageId"]
    template = ec2.create_launch_template(
        LaunchTemplateName=NAME,
        LaunchTemplateData={"ImageId": image, "InstanceType": "m5.large"},
    )
    ec2.run_instances(
        ImageId=image, InstanceType="m5.large", MinCount=ITEMS, MaxCount=ITEMS
    )
    for _ in range(ITEMS):
        ec2.create_capacity_reservation(
            InstanceType="m5.xlarge",
            InstancePlatform="Linux/UNIX",
            AvailabilityZone="us-east-1a",
            InstanceCount=5,
        )
    return Account(queue, filled, template["LaunchTemplate"]["LaunchTemplateId"])


def session_of_a_role(aws: EmbeddedAws, *, allowed: bool) -> Parameters:
    """Return the credentials of a role that may make the calls, or of one that may make them elsewhere only."""
    role = NAME if allowed else "stranger"
    statements = [
        ("dynamodb:*Item*", f"arn:aws:dynamodb:*:*:table/{role}"),
        (
            ["dynamodb:Query", "dynamodb:ConditionCheckItem"],
            f"arn:aws:dynamodb:*:*:table/{role}",
        ),
        (
            ["sqs:SendMessage", "sqs:ReceiveMessage", "sqs:DeleteMessage"],
            f"arn:aws:sqs:*:*:{role}*",
        ),
        (
            "events:PutEvents",
            f"arn:aws:events:*:*:event-bus/{'default' if allowed else role}",
        ),
        (["ec2:Describe*"] if allowed else ["ec2:DescribeNothing"], "*"),
        (
            ["ec2:CreateFleet", "ec2:RunInstances", "ec2:CreateTags"]
            if allowed
            else ["ec2:DeleteFleets"],
            "*",
        ),
        (
            ["logs:CreateLogStream", "logs:PutLogEvents"],
            f"arn:aws:logs:*:*:log-group:{role}:*",
        ),
    ]
    iam = aws.client("iam")
    trust = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}
    arn = iam.create_role(RoleName=role, AssumeRolePolicyDocument=_document([trust]))[
        "Role"
    ]["Arn"]
    granted = [
        {"Effect": "Allow", "Action": action, "Resource": resource}
        for action, resource in statements
    ]
    iam.put_role_policy(RoleName=role, PolicyName=NAME, PolicyDocument=_document(granted))
    session = aws.client("sts").assume_role(RoleArn=arn, RoleSessionName=NAME)[
        "Credentials"
    ]
    return {
        "aws_access_key_id": session["AccessKeyId"],
        "aws_secret_access_key": session["SecretAccessKey"],
        "aws_session_token": session["SessionToken"],
    }


def _document(statements: list[dict[str, Any]]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def _item(number: int) -> dict[str, Any]:
    return {
        "pk": {"S": "a"},
        "sk": {"S": str(number)},
        "data": {"S": "x" * 400},
        "n": {"N": "5"},
        "parts": {"M": {"list": {"L": [{"S": "1"}, {"N": "2"}]}}},
    }


def _update(number: int) -> dict[str, Any]:
    return {
        "TableName": NAME,
        "Key": {"pk": {"S": "a"}, "sk": {"S": str(number % ITEMS)}},
        "UpdateExpression": "SET n = n + :one, #data = :data",
        "ConditionExpression": "n >= :zero",
        "ExpressionAttributeNames": {"#data": "data"},
        "ExpressionAttributeValues": {
            ":one": {"N": "1"},
            ":zero": {"N": "0"},
            ":data": {"S": "y" * 400},
        },
    }


def _transaction(number: int) -> dict[str, Any]:
    puts = [
        {"Put": {"TableName": NAME, "Item": _item((number + step) % ITEMS)}}
        for step in (1, 2)
    ]
    return {"TransactItems": [*puts, {"Update": _update(number)}]}


def _batch_of_deletions(account: Account) -> dict[str, Any]:
    """Return what deletes ten messages that have gone: the same work, and it can be repeated."""
    entries = [
        {"Id": str(number), "ReceiptHandle": f"gone-{number}-{'x' * 100}"}
        for number in range(ITEMS)
    ]
    return {"QueueUrl": account.queue_url, "Entries": entries}


def _events(number: int) -> dict[str, Any]:
    detail = json.dumps({"number": number, "data": "x" * 300})
    return {
        "Entries": [{"Source": NAME, "DetailType": "Node Launched", "Detail": detail}] * 3
    }


def _query() -> dict[str, Any]:
    return {
        "TableName": NAME,
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": {":pk": {"S": "a"}},
    }


def _fleet(account: Account, number: int) -> dict[str, Any]:
    override = {"InstanceType": "m5.large", "AvailabilityZone": "us-east-1a"}
    template = {"LaunchTemplateId": account.template_id, "Version": "1"}
    return {
        "Type": "instant",
        "ClientToken": f"bench-{number}",
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": 1,
            "DefaultTargetCapacityType": "on-demand",
        },
        "LaunchTemplateConfigs": [
            {"LaunchTemplateSpecification": template, "Overrides": [override]}
        ],
        "TagSpecifications": [
            {"ResourceType": "instance", "Tags": [{"Key": "claim", "Value": str(number)}]}
        ],
    }


_KEY: Final = {"TableName": NAME, "Key": {"pk": {"S": "a"}, "sk": {"S": "1"}}}
OPERATIONS: Final[Mapping[str, Operation]] = {
    "get-item": Operation(
        "dynamodb", "get_item", lambda _, __: {**_KEY, "ConsistentRead": True}
    ),
    "put-item": Operation(
        "dynamodb",
        "put_item",
        lambda _, number: {"TableName": NAME, "Item": _item(number % ITEMS)},
    ),
    "update-item": Operation("dynamodb", "update_item", lambda _, number: _update(number)),
    "transact-write-items": Operation(
        "dynamodb", "transact_write_items", lambda _, number: _transaction(number)
    ),
    "query": Operation("dynamodb", "query", lambda _, __: _query()),
    "send-message": Operation(
        "sqs",
        "send_message",
        lambda account, _: {"QueueUrl": account.queue_url, "MessageBody": "x" * 400},
    ),
    "receive-message": Operation(
        "sqs",
        "receive_message",
        lambda account, _: {"QueueUrl": account.filled_queue_url, "WaitTimeSeconds": 0},
    ),
    "delete-message-batch": Operation(
        "sqs", "delete_message_batch", lambda account, _: _batch_of_deletions(account)
    ),
    "put-events": Operation("events", "put_events", lambda _, number: _events(number)),
    "describe-instances": Operation("ec2", "describe_instances", lambda _, __: {}),
    "describe-capacity-reservations": Operation(
        "ec2", "describe_capacity_reservations", lambda _, __: {}
    ),
    "create-fleet": Operation("ec2", "create_fleet", _fleet, idempotent=True),
}
