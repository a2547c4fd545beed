"""A plain call gets the answer that it would get on MiniStack's way, whoever makes it and whatever becomes of it.

Each request is sent twice, the second time with a header that is not signed, means nothing here, and makes it a request
that is not plain.
"""

import http.client
import json
import re
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from lab.embedded.client import EmbeddedAws
from lab.embedded.settings import REGION
from tests.embedded.conftest import FROM_EVENTBRIDGE, Resources, allow, unique

pytestmark = pytest.mark.embedded
NOT_PLAIN = {"x-forwarded-proto": "https"}
ROOT = Credentials("test", "test")
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
OF_ONE_ANSWER = {"date", "x-amz-id-2"}
Answer = tuple[int, dict[str, str], str]


class Site:
    """A table, queues and buses; a caller who may use some of them; both ways to ask."""

    def __init__(self, aws: EmbeddedAws, resources: Resources) -> None:
        self.url = aws.endpoint_url
        self.table, self.closed_table = resources.table(), resources.table()
        aws.client("dynamodb").put_item(
            TableName=self.table, Item={"id": {"S": "a"}, "n": {"N": "1"}}
        )
        deny = {
            "Effect": "Deny",
            "Principal": "*",
            "Action": "sqs:ListQueueTags",
            "Resource": "*",
        }
        self.queue, _ = resources.queue()
        self.closed_queue, _ = resources.queue(
            Policy={"Version": "2012-10-17", "Statement": [FROM_EVENTBRIDGE, deny]}
        )
        self.caller = self._session(
            aws,
            allow("dynamodb:*", resource=f"arn:aws:dynamodb:*:*:table/{self.table}"),
            {"Effect": "Deny", "Action": "dynamodb:DeleteItem", "Resource": "*"},
            allow("sqs:*"),
            allow("events:PutEvents", resource="arn:aws:events:*:*:event-bus/default"),
            allow("ec2:Describe*"),
        )
        where = urlsplit(self.url)
        trust = ssl.create_default_context(cafile=str(aws.ca_bundle))
        self._connection = http.client.HTTPSConnection(
            str(where.hostname), where.port, context=trust
        )

    def _session(self, aws: EmbeddedAws, *statements: dict[str, Any]) -> Credentials:
        iam, role = aws.client("iam"), unique("role")
        trust = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}
        arn = iam.create_role(RoleName=role, AssumeRolePolicyDocument=document(trust))[
            "Role"
        ]["Arn"]
        iam.put_role_policy(
            RoleName=role, PolicyName="only", PolicyDocument=document(*statements)
        )
        made = aws.client("sts").assume_role(RoleArn=arn, RoleSessionName="caller")[
            "Credentials"
        ]
        return Credentials(
            made["AccessKeyId"], made["SecretAccessKey"], made["SessionToken"]
        )

    def close(self) -> None:
        self._connection.close()

    def ask(
        self, service: str, target: str, body: object, who: Credentials | None = None
    ) -> "Asked":
        """Sign a call of the JSON protocol."""
        text = body if isinstance(body, str) else json.dumps(body)
        kind = {"X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.0"}
        return Asked(self, *self._signed(service, kind, text, who))

    def ask_ec2(self, body: str, who: Credentials | None = None) -> "Asked":
        kind = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
        return Asked(self, *self._signed("ec2", kind, f"{body}&Version=2016-11-15", who))

    def _signed(
        self, service: str, kind: dict[str, str], body: str, who: Credentials | None
    ) -> tuple[dict[str, str], str]:
        request = AWSRequest("POST", f"{self.url}/", data=body, headers=kind)
        SigV4Auth(who or self.caller, service, REGION).add_auth(request)
        return dict(request.prepare().headers), body

    def answer(self, headers: dict[str, str], body: str) -> Answer:
        """Send a request; return its answer without what differs from answer to answer."""
        self._connection.request("POST", "/", body, headers)
        response = self._connection.getresponse()
        text = UUID.sub("uuid", response.read().decode())
        found = {
            name.lower(): UUID.sub("uuid", value) for name, value in response.getheaders()
        }
        assert "date" in found
        return (
            response.status,
            {name: found[name] for name in found.keys() - OF_ONE_ANSWER},
            text,
        )


class Asked:
    """A signed request."""

    def __init__(self, site: Site, headers: dict[str, str], body: str) -> None:
        self._site = site
        self.headers = headers
        self.body = body

    def both_ways(self) -> tuple[Answer, Answer]:
        return self._site.answer(self.headers, self.body), self._site.answer(
            self.headers | NOT_PLAIN, self.body
        )


def document(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def changed(
    credentials: Credentials,
    access_key: str | None = None,
    secret_key: str | None = None,
    token: str | None = None,
) -> Credentials:
    return Credentials(
        access_key or credentials.access_key,
        secret_key or credentials.secret_key,
        credentials.token if token is None else token,
    )


@pytest.fixture(scope="module")
def site(embedded_aws: EmbeddedAws) -> Iterator[Site]:
    made = Site(embedded_aws, Resources(embedded_aws))
    yield made
    made.close()


def assert_alike(asked: Asked, status: int, said: str) -> None:
    plain, other = asked.both_ways()
    assert plain == other
    assert plain[0] == status, plain
    assert said in plain[2]


KEY = {"id": {"S": "a"}}


@pytest.mark.parametrize(
    ("action", "body", "status", "said"),
    [
        ("GetItem", {"TableName": "open", "Key": KEY}, 200, '"N": "1"'),
        (
            "GetItem",
            {"TableName": "closed", "Key": KEY},
            403,
            "no identity-based policy allows the dynamodb:GetItem",
        ),
        ("GetItem", {"TableName": "missing", "Key": KEY}, 403, "AccessDenied"),
        ("GetItem", {"TableName": "open", "Key": {}}, 400, "ValidationException"),
        ("DeleteItem", {"TableName": "open", "Key": KEY}, 403, "explicit deny"),
        ("BatchGetItem", {"RequestItems": {"open": {"Keys": [KEY]}}}, 200, '"N": "1"'),
        (
            "BatchGetItem",
            {"RequestItems": {"open": {"Keys": [KEY]}, "closed": {"Keys": [KEY]}}},
            403,
            "AccessDenied",
        ),
        (
            "TransactGetItems",
            {"TransactItems": [{"Get": {"TableName": "open", "Key": KEY}}]},
            200,
            '"N": "1"',
        ),
        (
            "TransactGetItems",
            {
                "TransactItems": [
                    {"Get": {"TableName": name, "Key": KEY}} for name in ("open", "closed")
                ]
            },
            403,
            "dynamodb:GetItem",
        ),
        (
            "Query",
            {
                "TableName": "open",
                "KeyConditionExpression": "id = :id",
                "FilterExpression": "n < :n",
                "ExpressionAttributeValues": {":id": {"S": "a"}, ":n": {"N": "5"}},
            },
            200,
            '"Count": 1',
        ),
        ("Levitate", {"TableName": "open"}, 400, "UnknownOperationException"),
        ("GetItem", "{not json", 403, "AccessDenied"),
    ],
)
def test_calls_of_dynamodb(
    site: Site, action: str, body: object, status: int, said: str
) -> None:
    named = json.dumps(body) if not isinstance(body, str) else body
    named = named.replace('"open"', f'"{site.table}"').replace(
        '"closed"', f'"{site.closed_table}"'
    )
    assert_alike(site.ask("dynamodb", f"DynamoDB_20120810.{action}", named), status, said)


def test_calls_of_sqs(site: Site) -> None:
    def tags(url: str) -> Asked:
        return site.ask("sqs", "AmazonSQS.ListQueueTags", {"QueueUrl": url})

    assert_alike(tags(site.queue), 200, "{")
    assert_alike(tags(site.closed_queue), 403, "AccessDenied")
    assert_alike(tags(f"{site.url}/123456789012/nowhere"), 400, "QueueDoesNotExist")
    batch = {"QueueUrl": site.queue, "Entries": [{"Id": "1", "ReceiptHandle": "gone"}]}
    assert_alike(site.ask("sqs", "AmazonSQS.DeleteMessageBatch", batch), 200, "Failed")


def test_calls_of_eventbridge(site: Site) -> None:
    def put(*buses: str) -> Asked:
        entries = [
            {"Source": "test", "DetailType": "x", "Detail": "{}", "EventBusName": bus}
            for bus in buses
        ]
        return site.ask("events", "AWSEvents.PutEvents", {"Entries": entries})

    assert_alike(put("default"), 200, '"FailedEntryCount": 0')
    assert_alike(put("default", "other"), 403, "events:PutEvents")


def test_calls_of_ec2(site: Site) -> None:
    assert_alike(site.ask_ec2("Action=DescribeAvailabilityZones"), 200, "us-east-1a")
    assert_alike(
        site.ask_ec2("Action=DescribeInstances&MaxResults=1"), 400, "InvalidParameterValue"
    )
    assert_alike(
        site.ask_ec2("Action=DeleteFleets&FleetId.1=fleet-1&TerminateInstances=true"),
        403,
        "Unauthorized",
    )
    assert_alike(site.ask_ec2("Action=Levitate"), 400, "InvalidAction")
    assert_alike(
        site.ask_ec2("MaxResults=5&Action=DescribeInstances"),
        200,
        "DescribeInstancesResponse",
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"secret_key": "wrong"}, "InvalidSignatureException"),
        ({"token": "wrong"}, "UnrecognizedClientException"),
        ({"token": ""}, "UnrecognizedClientException"),
        ({"access_key": "AKIAUNKNOWN"}, "UnrecognizedClientException"),
    ],
)
def test_credentials_that_are_wrong(site: Site, changes: dict[str, str], said: str) -> None:
    body = {"TableName": site.table, "Key": KEY}
    wrong = changed(site.caller, **changes)
    assert_alike(site.ask("dynamodb", "DynamoDB_20120810.GetItem", body, wrong), 400, said)
    assert_alike(site.ask_ec2("Action=DescribeInstances", wrong), 401, "AuthFailure")


def test_the_root_may_do_everything(site: Site) -> None:
    body = {"TableName": site.closed_table, "Key": KEY}
    assert_alike(site.ask("dynamodb", "DynamoDB_20120810.GetItem", body, ROOT), 200, "{}")


@pytest.mark.parametrize("change", ["body", "target", "date"])
def test_what_was_signed_otherwise(site: Site, change: str) -> None:
    asked = site.ask(
        "dynamodb", "DynamoDB_20120810.GetItem", {"TableName": site.table, "Key": KEY}
    )
    if change == "body":
        asked.body = asked.body.replace(" ", "")
        asked.headers["Content-Length"] = str(len(asked.body))
    elif change == "target":
        asked.headers["X-Amz-Target"] = "DynamoDB_20120810.DescribeTable"
    else:
        asked.headers["X-Amz-Date"] = "20200101T000000Z"
    assert_alike(asked, 400, "InvalidSignatureException")
