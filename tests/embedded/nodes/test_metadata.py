"""An instance finds its metadata and credentials as on EC2, and policies know which instance is calling."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from botocore.utils import InstanceMetadataFetcher

from lab.embedded.client import EmbeddedAws
from lab.worlds.cloud import code_of
from tests.embedded.conftest import Resources, unique

pytestmark = pytest.mark.embedded
TRUST: dict[str, Any] = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "ec2.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ],
}
USER_DATA = "#!/bin/sh\necho hello\n"
TTL = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}


def node_role(
    aws: EmbeddedAws, *statements: Mapping[str, Any], trust: Mapping[str, Any] = TRUST
) -> str:
    """Make a role with an instance profile of the same name; return the name."""
    iam, name = aws.client("iam"), unique("node")
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))
    document = {"Version": "2012-10-17", "Statement": list(statements)}
    if statements:
        iam.put_role_policy(
            RoleName=name, PolicyName="own", PolicyDocument=json.dumps(document)
        )
    iam.create_instance_profile(InstanceProfileName=name)
    iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
    return name


def launch(aws: EmbeddedAws, role: str | None = None, **more: Any) -> str:
    """Launch an instance with the profile of a role; return its id."""
    ec2 = aws.client("ec2")
    if role is not None:
        more["IamInstanceProfile"] = {"Name": role}
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    launched = ec2.run_instances(
        ImageId=image, InstanceType="m5.large", MinCount=1, MaxCount=1, **more
    )
    return str(launched["Instances"][0]["InstanceId"])


def fetch(
    aws: EmbeddedAws, instance_id: str, path: str, method: str = "GET", **headers: str
) -> tuple[int, str]:
    request = urllib.request.Request(  # noqa: S310 - loopback HTTP
        aws.metadata_url(instance_id) + path,
        headers={name.replace("_", "-"): value for name, value in headers.items()},
        method=method,
    )
    try:
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - as above
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def token_of(aws: EmbeddedAws, instance_id: str) -> str:
    status, token = fetch(aws, instance_id, "latest/api/token", "PUT", **TTL)
    assert status == 200
    return token


def read(aws: EmbeddedAws, instance_id: str, path: str) -> str:
    status, text = fetch(
        aws, instance_id, path, **{"X-aws-ec2-metadata-token": token_of(aws, instance_id)}
    )
    assert status == 200, (path, status)
    return text


def on_instance(aws: EmbeddedAws, instance_id: str, service: str) -> Any:
    """Return a client with the credentials that AWS's own SDK finds in the metadata of an instance."""
    fetcher = InstanceMetadataFetcher(
        config={"ec2_metadata_service_endpoint": aws.metadata_url(instance_id)}
    )
    found = fetcher.retrieve_iam_role_credentials()
    return aws.client(
        service,
        aws_access_key_id=found["access_key"],
        aws_secret_access_key=found["secret_key"],
        aws_session_token=found["token"],
    )


def test_metadata_tell_what_an_instance_is(embedded_aws: EmbeddedAws) -> None:
    instance = launch(embedded_aws, UserData=USER_DATA)
    assert read(embedded_aws, instance, "latest/meta-data/instance-id") == instance
    assert read(embedded_aws, instance, "latest/meta-data/instance-type") == "m5.large"
    assert read(embedded_aws, instance, "latest/meta-data/placement/region") == "us-east-1"
    assert read(embedded_aws, instance, "latest/user-data") == USER_DATA
    document = json.loads(
        read(embedded_aws, instance, "latest/dynamic/instance-identity/document")
    )
    assert (document["instanceId"], document["accountId"]) == (instance, "123456789012")


def test_metadata_ask_for_a_token_of_the_same_instance_where_it_is_required(
    embedded_aws: EmbeddedAws,
) -> None:
    strict = launch(embedded_aws, MetadataOptions={"HttpTokens": "required"})
    lax = launch(embedded_aws, MetadataOptions={"HttpTokens": "optional"})
    path = "latest/meta-data/instance-id"
    assert fetch(embedded_aws, strict, path)[0] == 401
    assert fetch(embedded_aws, lax, path) == (200, lax)
    foreign = {"X-aws-ec2-metadata-token": token_of(embedded_aws, lax)}
    assert fetch(embedded_aws, strict, path, **foreign)[0] == 401
    assert fetch(embedded_aws, strict, "latest/api/token", "PUT")[0] == 400, (
        "a token needs a time to live"
    )
    own = {"X-aws-ec2-metadata-token": token_of(embedded_aws, strict)}
    embedded_aws.clock.advance(timedelta(seconds=60))
    assert fetch(embedded_aws, strict, path, **own)[0] == 401, "it is over"


def test_metadata_can_be_off_and_an_instance_that_is_gone_has_none(
    embedded_aws: EmbeddedAws,
) -> None:
    off = launch(embedded_aws, MetadataOptions={"HttpEndpoint": "disabled"})
    assert fetch(embedded_aws, off, "latest/api/token", "PUT", **TTL)[0] == 403
    gone = launch(embedded_aws)
    embedded_aws.client("ec2").terminate_instances(InstanceIds=[gone])
    embedded_aws.clock.advance(timedelta(minutes=1))
    assert fetch(embedded_aws, gone, "latest/api/token", "PUT", **TTL)[0] == 404
    assert fetch(embedded_aws, "i-unknown", "latest/meta-data/instance-id")[0] == 404


def test_tags_are_in_the_metadata_only_where_that_is_asked_for(
    embedded_aws: EmbeddedAws,
) -> None:
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "Team", "Value": "research"}]}]
    shown = launch(
        embedded_aws,
        TagSpecifications=tags,
        MetadataOptions={"InstanceMetadataTags": "enabled"},
    )
    hidden = launch(embedded_aws, TagSpecifications=tags)
    assert read(embedded_aws, shown, "latest/meta-data/tags/instance") == "Team"
    assert read(embedded_aws, shown, "latest/meta-data/tags/instance/Team") == "research"
    token = {"X-aws-ec2-metadata-token": token_of(embedded_aws, hidden)}
    assert fetch(embedded_aws, hidden, "latest/meta-data/tags/instance", **token)[0] == 404


def test_a_spot_instance_reads_when_it_is_interrupted(embedded_aws: EmbeddedAws) -> None:
    instance = launch(embedded_aws, InstanceMarketOptions={"MarketType": "spot"})
    path = "latest/meta-data/spot/instance-action"
    token = {"X-aws-ec2-metadata-token": token_of(embedded_aws, instance)}
    assert fetch(embedded_aws, instance, path, **token)[0] == 404
    embedded_aws.ec2("interrupt_spot", instance_id=instance)
    assert json.loads(read(embedded_aws, instance, path))["action"] == "terminate"


def test_the_sdk_finds_credentials_of_the_instances_own_session(
    embedded_aws: EmbeddedAws,
) -> None:
    role = node_role(embedded_aws)
    instance = launch(embedded_aws, role)
    caller = on_instance(embedded_aws, instance, "sts").get_caller_identity()
    assert caller["Arn"] == f"arn:aws:sts::123456789012:assumed-role/{role}/{instance}"
    assert (
        caller["UserId"]
        == f"{embedded_aws.client('iam').get_role(RoleName=role)['Role']['RoleId']}:{instance}"
    )
    other = {"X-aws-ec2-metadata-token": token_of(embedded_aws, instance)}
    assert (
        fetch(
            embedded_aws,
            instance,
            "latest/meta-data/iam/security-credentials/another",
            **other,
        )[0]
        == 404
    )


def own_row(table_arn: str, *actions: str) -> dict[str, Any]:
    return {
        "Effect": "Allow",
        "Action": list(actions),
        "Resource": [table_arn, f"{table_arn}/index/*"],
        "Condition": {
            "ForAllValues:StringEquals": {
                "dynamodb:LeadingKeys": ["${ec2:SourceInstanceARN}"]
            }
        },
    }


def refused(call: Any) -> None:
    assert code_of(call) == "AccessDeniedException"


def test_a_row_can_be_kept_for_one_instance(
    embedded_aws: EmbeddedAws, resources: Resources
) -> None:
    table = resources.table()
    table_arn = resources.dynamodb.describe_table(TableName=table)["Table"]["TableArn"]
    role = node_role(embedded_aws, own_row(table_arn, "dynamodb:GetItem"))
    instance, neighbour = launch(embedded_aws, role), launch(embedded_aws, role)
    rows = {
        each: f"arn:aws:ec2:us-east-1:123456789012:instance/{each}"
        for each in (instance, neighbour)
    }
    for arn in rows.values():
        resources.dynamodb.put_item(TableName=table, Item={"id": {"S": arn}})
    dynamodb = on_instance(embedded_aws, instance, "dynamodb")
    assert dynamodb.get_item(TableName=table, Key={"id": {"S": rows[instance]}})["Item"]
    refused(lambda: dynamodb.get_item(TableName=table, Key={"id": {"S": rows[neighbour]}}))
    refused(lambda: dynamodb.scan(TableName=table))
    refused(lambda: dynamodb.put_item(TableName=table, Item={"id": {"S": rows[instance]}}))


def test_a_session_of_the_same_name_is_not_the_instance(
    embedded_aws: EmbeddedAws, resources: Resources
) -> None:
    table = resources.table()
    table_arn = resources.dynamodb.describe_table(TableName=table)["Table"]["TableArn"]
    anybody = {**TRUST, "Statement": [{**TRUST["Statement"][0], "Principal": {"AWS": "*"}}]}
    role = node_role(embedded_aws, own_row(table_arn, "dynamodb:GetItem"), trust=anybody)
    instance = launch(embedded_aws, role)
    assumed = embedded_aws.client("sts").assume_role(
        RoleArn=f"arn:aws:iam::123456789012:role/{role}", RoleSessionName=instance
    )["Credentials"]
    impostor = embedded_aws.client(
        "dynamodb",
        aws_access_key_id=assumed["AccessKeyId"],
        aws_secret_access_key=assumed["SecretAccessKey"],
        aws_session_token=assumed["SessionToken"],
    )
    for key in (
        f"arn:aws:ec2:us-east-1:123456789012:instance/{instance}",
        "${ec2:SourceInstanceARN}",
    ):
        refused(lambda key=key: impostor.get_item(TableName=table, Key={"id": {"S": key}}))
