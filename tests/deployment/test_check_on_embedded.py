"""The same checks against the embedded AWS, through its public API: no call of theirs is unknown to it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from infra.app import ROOT
from lab.embedded.client import EmbeddedAws
from lab.embedded.reservoir.network import NODE_ROLE, make_network
from lab.story.policies import one_type_pool
from reservoir.adapters.clients import is_served
from reservoir.adapters.ec2.network import Ec2LaunchEnvironment
from reservoir.cli.deployment.deployer import CDK_QUALIFIER
from reservoir.cli.examination.before import look
from reservoir.cli.examination.place import Place
from reservoir.deployment.deployment import read

pytestmark = pytest.mark.embedded

EXECUTION = ROOT / "examples" / "iam" / "execution.json"
ACCOUNT, REGION = "123456789012", "us-east-1"
BY_THIS_ACCOUNT = {
    "Effect": "Allow",
    "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
    "Action": "sts:AssumeRole",
}


@pytest.fixture(scope="module")
def account() -> Iterator[EmbeddedAws]:
    """An account of its own, in which nobody has made anything yet."""
    with EmbeddedAws() as aws:
        yield aws


def found(aws: EmbeddedAws, folder: Path, **settings: Any) -> list[tuple[str, str]]:
    """Return (check, severity) of what is found."""
    policy = folder / "policy"
    policy.mkdir(exist_ok=True)
    for manifest in one_type_pool("steady", "m7i.large", ["on-demand"]):
        (policy / f"{manifest['kind']}.json").write_text(json.dumps(manifest))
    path = folder / "production.yaml"
    path.write_text(
        json.dumps({"manifests": "policy", "instanceRole": NODE_ROLE, **settings})
    )
    environment = Ec2LaunchEnvironment(
        aws.client("ec2"), aws.client("ssm"), aws.client("iam"), aws.clock
    )
    place = Place(
        read(path),
        aws.client,
        lambda _region: aws.client("pricing"),
        REGION,
        environment,
        is_served,
    )
    return [
        (each.check, each.severity.value)
        for each in look(place, (BotoCoreError, ClientError))
    ]


def test_what_an_account_lacks_is_found_until_it_is_there(
    account: EmbeddedAws, tmp_path: Path
) -> None:
    missing = [check for check, _ in found(account, tmp_path)]
    assert missing == [
        "bootstrap",
        "classes",
        "classes",
        "classes",
        "instance-role",
        "cdk-roles",
        "spot-role",
        "trail",
    ]
    assert ("permissions-boundary", "error") in found(
        account, tmp_path, permissionsBoundary=f"arn:aws:iam::{ACCOUNT}:policy/bounds"
    )
    topic = f"arn:aws:sns:{REGION}:{ACCOUNT}:pages"
    assert ("alarm-topic", "error") in found(account, tmp_path, alarmTopic=topic)
    key = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/0123"
    assert ("keys", "error") in found(account, tmp_path, kmsKeys=[key])

    make_network(account)
    account.client("ssm").put_parameter(
        Name=f"/cdk-bootstrap/{CDK_QUALIFIER}/version", Value="21", Type="String"
    )
    account.client("s3").create_bucket(
        Bucket=f"cdk-{CDK_QUALIFIER}-assets-{ACCOUNT}-{REGION}"
    )
    iam = account.client("iam")
    iam.create_service_linked_role(AWSServiceName="spot.amazonaws.com")
    for name in ("deploy-role", "file-publishing-role"):
        trust = json.dumps({"Version": "2012-10-17", "Statement": [BY_THIS_ACCOUNT]})
        role = f"cdk-{CDK_QUALIFIER}-{name}-{ACCOUNT}-{REGION}"
        iam.create_role(RoleName=role, AssumeRolePolicyDocument=trust)
    assert found(account, tmp_path) == [("trail", "hint")]

    role = f"cdk-{CDK_QUALIFIER}-cfn-exec-role-{ACCOUNT}-{REGION}"
    trust = json.dumps({"Version": "2012-10-17", "Statement": [BY_THIS_ACCOUNT]})
    iam.create_role(RoleName=role, AssumeRolePolicyDocument=trust)
    least = EXECUTION.read_text()
    policy = {"RoleName": role, "PolicyName": "least"}
    iam.put_role_policy(**policy, PolicyDocument=least)
    assert found(account, tmp_path) == [("trail", "hint")]
    poor = least.replace('"dynamodb:CreateTable",', "")
    iam.put_role_policy(**policy, PolicyDocument=poor)
    assert found(account, tmp_path) == [("execution-role", "error"), ("trail", "hint")]
