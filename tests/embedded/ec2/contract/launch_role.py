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
_POLICIES: Final = (
    "Resources LaunchRoleEc2Permissions",
    "Resources LaunchRoleDefaultPolicy",
)
# of the template on file
_STACK: Final = "Reservoir"
_NODE_ROLE: Final = "reservoir-production-node"
_TRUST_EC2: Final = {
    "Effect": "Allow",
    "Principal": {"Service": "ec2.amazonaws.com"},
    "Action": "sts:AssumeRole",
}


def node_role(site: Site, client: Callable[..., Any]) -> str:
    """Make a role for instances, with an instance profile of its name; return the name, once EC2 knows it."""
    iam = client("iam")
    name = f"reservoir-contract-node-{secrets.token_hex(8)}"
    policy = {"Version": "2012-10-17", "Statement": _TRUST_EC2}
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(policy), Tags=[TAG])
    site.undo.append(lambda: iam.delete_role(RoleName=name))
    iam.create_instance_profile(InstanceProfileName=name)
    site.undo.append(lambda: iam.delete_instance_profile(InstanceProfileName=name))
    both = {"InstanceProfileName": name, "RoleName": name}
    iam.add_role_to_instance_profile(**both)
    site.undo.append(lambda: iam.remove_role_from_instance_profile(**both))

    def is_known() -> bool:
        try:
            site.ec2.run_instances(
                DryRun=True,
                ImageId=site.image(),
                InstanceType=site.small,
                IamInstanceProfile={"Name": name},
                MinCount=1,
                MaxCount=1,
            )
        except ClientError as error:
            return str(error.response["Error"]["Code"]) == "DryRunOperation"
        return False

    site.until(is_known)
    return name


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
        PolicyDocument=json.dumps(_resolved(_permissions(), place)).replace(
            _NODE_ROLE, site.node_role
        ),
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
    """Return what the role may do in EC2, and which roles it may hand to instances."""
    found = []
    for line in _TEMPLATE.read_text(encoding="utf-8").splitlines():
        if line.startswith(_POLICIES):
            resource = json.loads(line.split(" ", 2)[2])
            found += resource["Properties"]["PolicyDocument"]["Statement"]
    statements = [each for each in found if _launches(each)]
    return {"Version": "2012-10-17", "Statement": statements}


def _launches(statement: Mapping[str, Any]) -> bool:
    if statement["Action"] == "iam:PassRole":
        passed_to: str = statement["Condition"]["StringEquals"]["iam:PassedToService"]
        return passed_to == "ec2.amazonaws.com"
    actions = statement["Action"]
    return all(
        each.startswith("ec2:")
        for each in ([actions] if isinstance(actions, str) else actions)
    )


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
