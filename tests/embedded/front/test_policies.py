"""A policy that changes counts for the next request, whatever was remembered of the one before."""

import json
from typing import Any

import pytest

from lab.embedded.client import EmbeddedAws
from lab.worlds.cloud import code_of
from tests.embedded.conftest import Resources, allow, unique

pytestmark = pytest.mark.embedded
NOBODY = allow("s3:ListAllMyBuckets")


class User:
    """A user whose one policy can be replaced."""

    def __init__(self, aws: EmbeddedAws, service: str) -> None:
        self._iam = aws.client("iam")
        self._name = unique("user")
        self.arn = self._iam.create_user(UserName=self._name)["User"]["Arn"]
        key = self._iam.create_access_key(UserName=self._name)["AccessKey"]
        credentials = {
            "aws_access_key_id": key["AccessKeyId"],
            "aws_secret_access_key": key["SecretAccessKey"],
        }
        self.client = aws.client(service, **credentials)

    def may(self, *statements: dict[str, Any]) -> None:
        document = json.dumps({"Version": "2012-10-17", "Statement": statements})
        self._iam.put_user_policy(
            UserName=self._name, PolicyName="only", PolicyDocument=document
        )

    def inactive_key(self) -> None:
        key = self._iam.list_access_keys(UserName=self._name)["AccessKeyMetadata"][0][
            "AccessKeyId"
        ]
        self._iam.update_access_key(UserName=self._name, AccessKeyId=key, Status="Inactive")


def test_a_replaced_policy_counts_at_once(
    embedded_aws: EmbeddedAws, resources: Resources
) -> None:
    user, table = User(embedded_aws, "dynamodb"), resources.table()

    def scan() -> None:
        user.client.scan(TableName=table)

    for _ in range(3):
        user.may(NOBODY)
        assert code_of(scan) == "AccessDeniedException"
        user.may(allow("dynamodb:Scan"))
        scan()
    user.may(
        allow("dynamodb:Scan"), {"Effect": "Deny", "Action": "dynamodb:*", "Resource": "*"}
    )
    assert code_of(scan) == "AccessDeniedException"


def test_a_replaced_policy_counts_at_once_for_ec2(embedded_aws: EmbeddedAws) -> None:
    user = User(embedded_aws, "ec2")
    for _ in range(3):
        user.may(NOBODY)
        assert code_of(user.client.describe_instances) == "UnauthorizedOperation"
        user.may(allow("ec2:DescribeInstances"))
        user.client.describe_instances()


def test_a_key_that_is_switched_off_is_refused_at_once(embedded_aws: EmbeddedAws) -> None:
    user = User(embedded_aws, "ec2")
    user.may(allow("ec2:DescribeInstances"))
    user.client.describe_instances()
    user.inactive_key()
    assert code_of(user.client.describe_instances) == "AuthFailure"


def test_a_policy_of_a_queue_knows_who_calls(
    embedded_aws: EmbeddedAws, resources: Resources
) -> None:
    user, other = User(embedded_aws, "sqs"), User(embedded_aws, "sqs")
    for caller in (user, other):
        caller.may(allow("sqs:SendMessage"))
    deny = {
        "Effect": "Deny",
        "Principal": {"AWS": user.arn},
        "Action": "sqs:SendMessage",
        "Resource": "*",
    }
    url, _ = resources.queue(Policy={"Version": "2012-10-17", "Statement": [deny]})
    other.client.send_message(QueueUrl=url, MessageBody="welcome")
    assert (
        code_of(lambda: user.client.send_message(QueueUrl=url, MessageBody="unwelcome"))
        == "AccessDenied"
    )
