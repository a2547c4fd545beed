"""Messages carry who sent them: nobody can write it themselves, and it reaches receivers and functions alike."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.embedded.conftest import Resources, allow, unique, until

pytestmark = pytest.mark.embedded

ACCOUNT_ID = "123456789012"
KEEP_SENDER = """
    import boto3, os
    def handle(event, context):
        for record in event["Records"]:
            item = {"id": {"S": record["body"]}, "sender": {"S": record["attributes"]["SenderId"]}}
            boto3.client("dynamodb").put_item(TableName=os.environ["TABLE"], Item=item)
"""
SEND = """
    import boto3
    def handle(event, context):
        boto3.client("sqs").send_message(QueueUrl=event["url"], MessageBody="by a function")
"""


def may_send() -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [allow("sqs:SendMessage")]})


def user(resources: Resources) -> tuple[str, Any]:
    """Return a user's id, and its client of SQS."""
    iam, name = resources.aws.client("iam"), unique("user")
    user_id = iam.create_user(UserName=name)["User"]["UserId"]
    iam.put_user_policy(UserName=name, PolicyName="send", PolicyDocument=may_send())
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return user_id, resources.aws.client(
        "sqs",
        aws_access_key_id=key["AccessKeyId"],
        aws_secret_access_key=key["SecretAccessKey"],
    )


def role(resources: Resources, session: str) -> tuple[str, Any]:
    """Return a role's id, and the client of SQS of a session that has assumed it."""
    iam, name = resources.aws.client("iam"), unique("sender")
    trust = {
        "Effect": "Allow",
        "Principal": {"AWS": ACCOUNT_ID},
        "Action": "sts:AssumeRole",
    }
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    made = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]
    iam.put_role_policy(RoleName=name, PolicyName="send", PolicyDocument=may_send())
    assumed = resources.aws.client("sts").assume_role(
        RoleArn=made["Arn"], RoleSessionName=session
    )
    key = assumed["Credentials"]
    return made["RoleId"], resources.aws.client(
        "sqs",
        aws_access_key_id=key["AccessKeyId"],
        aws_secret_access_key=key["SecretAccessKey"],
        aws_session_token=key["SessionToken"],
    )


def sender(resources: Resources, send: Callable[[str], Any]) -> str:
    """Return what a receiver is told of who sent a message."""
    url, _ = resources.queue()
    send(url)
    names: Any = ["SenderId"]
    (message,) = until(
        lambda: resources.sqs.receive_message(
            QueueUrl=url, MessageSystemAttributeNames=names
        ).get("Messages")
    )
    return str(message["Attributes"]["SenderId"])


def test_a_user_sends_as_its_id_and_root_as_the_account(resources: Resources) -> None:
    user_id, sqs = user(resources)
    assert (
        sender(resources, lambda url: sqs.send_message(QueueUrl=url, MessageBody="x"))
        == user_id
    )
    assert (
        sender(
            resources, lambda url: resources.sqs.send_message(QueueUrl=url, MessageBody="x")
        )
        == ACCOUNT_ID
    )


def test_a_role_sends_as_its_id_with_the_name_of_the_session(resources: Resources) -> None:
    role_id, sqs = role(resources, "research-front-end")
    entries: Any = [{"Id": "1", "MessageBody": "x"}]
    sent_as = sender(
        resources, lambda url: sqs.send_message_batch(QueueUrl=url, Entries=entries)
    )
    assert sent_as == f"{role_id}:research-front-end"


def test_a_function_sends_as_the_role_that_it_runs_with(resources: Resources) -> None:
    function = resources.function(SEND, allow("sqs:SendMessage"))
    arn = resources.lambda_.get_function_configuration(FunctionName=function)["Role"]
    name = arn.rpartition("/")[2]
    role_id = resources.aws.client("iam").get_role(RoleName=name)["Role"]["RoleId"]
    assert (
        sender(resources, lambda url: resources.invoke(function, {"url": url}))
        == f"{role_id}:{function}"
    )


def test_each_record_of_a_batch_names_its_own_sender(resources: Resources) -> None:
    table, (url, arn) = resources.table(), resources.queue()
    people = [user(resources), role(resources, "ci")]
    for number, (_, sqs) in enumerate(people):
        sqs.send_message(QueueUrl=url, MessageBody=str(number))
    resources.feed(
        resources.function(KEEP_SENDER, allow("dynamodb:PutItem"), TABLE=table),
        arn,
        BatchSize=10,
    )
    items = until(lambda: len(found := resources.items(table)) == 2 and found)
    assert {key: item["sender"]["S"] for key, item in items.items()} == {
        "0": people[0][0],
        "1": f"{people[1][0]}:ci",
    }
