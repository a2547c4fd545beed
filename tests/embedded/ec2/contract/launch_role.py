"""A role with what the launch function may do in EC2, as the template on file has it; contract tests launch with it."""

import json
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from botocore.exceptions import ClientError

from reservoir import names
from tests.embedded.ec2.contract.sites import TAG, Site

DEPLOYMENT: Final = "Contract"
# ``tests/infra/test_snapshot.py`` holds it equal to what is deployed.
_TEMPLATE: Final = Path(__file__).parents[3] / "infra" / "template.snapshot.txt"
_POLICY: Final = "Resources LaunchRoleEc2Permissions"
_STACK: Final = "Reservoir"  # of the template on file


def launcher(site: Site, client: Callable[..., Any]) -> Any:
    """Make the role, which goes with the test; return an EC2 client with its credentials, once IAM knows them."""
    iam, sts = client("iam"), client("sts")
    caller = sts.get_caller_identity()
    partition, account_id = caller["Arn"].split(":")[1], caller["Account"]
    place = {
        "AWS::Partition": partition,
        "AWS::Region": site.ec2.meta.region_name,
        "AWS::AccountId": account_id,
    }
    trust = {
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:{partition}:iam::{account_id}:root"},
        "Action": "sts:AssumeRole",
    }
    name = f"reservoir-contract-{secrets.token_hex(8)}"
    role = iam.create_role(
        RoleName=name,
        AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": trust}),
        Tags=[TAG],
    )["Role"]
    site.undo.append(lambda: iam.delete_role(RoleName=name))
    iam.put_role_policy(
        RoleName=name,
        PolicyName="launch",
        PolicyDocument=json.dumps(_resolved(_permissions(), place)),
    )
    site.undo.append(lambda: iam.delete_role_policy(RoleName=name, PolicyName="launch"))
    made: list[Any] = []

    def works() -> bool:
        try:
            key = sts.assume_role(RoleArn=role["Arn"], RoleSessionName="contract")
        except ClientError:
            return False
        made.append(
            client(
                "ec2",
                aws_access_key_id=key["Credentials"]["AccessKeyId"],
                aws_secret_access_key=key["Credentials"]["SecretAccessKey"],
                aws_session_token=key["Credentials"]["SessionToken"],
            )
        )
        return dry_run(made[-1], {names.OWNER_TAG: DEPLOYMENT}) == "DryRunOperation"

    site.until(works)
    return made[-1]


def dry_run(ec2: Any, tags: Mapping[str, str]) -> str:
    """Return EC2's answer to whether a launch template with the tags may be made."""
    try:
        ec2.create_launch_template(
            DryRun=True,
            LaunchTemplateName=f"reservoir-contract-{secrets.token_hex(8)}",
            LaunchTemplateData={"InstanceType": Site.small},
            TagSpecifications=[
                {
                    "ResourceType": "launch-template",
                    "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
                }
            ],
        )
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


def _permissions() -> Any:
    lines = _TEMPLATE.read_text(encoding="utf-8").splitlines()
    (line,) = (line for line in lines if line.startswith(_POLICY))
    resource = json.loads(line.split(" ", 2)[2])
    return resource["Properties"]["PolicyDocument"]


def _resolved(value: Any, place: Mapping[str, str]) -> Any:
    """Return a part of the template for an account, with the tests' owner in the place of the stack's."""
    if value == _STACK:
        return DEPLOYMENT
    if isinstance(value, list):
        return [_resolved(each, place) for each in value]
    if not isinstance(value, dict):
        return value
    if "Ref" in value:
        return place[value["Ref"]]
    if "Fn::Join" in value:
        separator, parts = value["Fn::Join"]
        return separator.join(_resolved(each, place) for each in parts)
    return {key: _resolved(each, place) for key, each in value.items()}
