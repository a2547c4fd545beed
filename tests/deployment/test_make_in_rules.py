"""``make deploy`` where an account has rules, with the CDK's own command line.

A pipeline that may only take the CDK's roles deploys, CloudFormation has no rights but those of the example, within a
boundary that makes no role without itself, and an organization denies what is beside the rules.
"""

import json
from collections.abc import Iterator
from typing import Final

import pytest

from infra.app import ROOT
from infra.assets.bundle import THIS_MACHINE, layer_asset
from lab.embedded.client import EmbeddedAws
from lab.embedded.reservoir import make_network
from lab.embedded.reservoir.network import make_way_out
from tests.deployed.accounts.test_rules import NOTHING_ELSEWHERE, NOTHING_UNTAGGED
from tests.deployment.machine import Machine
from tests.deployment.test_make import EXECUTION, EXECUTION_ROLE, make_pipeline

pytestmark = pytest.mark.embedded

KEY_OF_EXAMPLE: Final = (
    "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
)
BOUNDARY: Final = "arn:aws:iam::123456789012:policy/bounds"
ALL: Final = {"Effect": "Allow", "Action": "*", "Resource": "*"}
ONLY_WITH_BOUNDARY: Final = {
    "Effect": "Deny",
    "Action": [
        "iam:AttachRolePolicy",
        "iam:CreateRole",
        "iam:PutRolePermissionsBoundary",
        "iam:PutRolePolicy",
    ],
    "Resource": "*",
    "Condition": {"StringNotEquals": {"iam:PermissionsBoundary": BOUNDARY}},
}
TAGS: Final = {"team": "research"}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    layer_asset(THIS_MACHINE)
    with EmbeddedAws() as aws:
        yield Machine(aws, tmp_path_factory.mktemp("home"))
        print(aws.log())  # noqa: T201 - pytest shows it beside a failure


def document(*statements: object) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


@pytest.fixture(scope="module", autouse=True)
def rules(machine: Machine) -> None:
    """Bootstrap as an administrator, with the settings that keep the rules, and put these in force."""
    aws = machine.aws
    make_network(aws)
    of_key = (ROOT / "examples" / "iam" / "encryption-key.json").read_text()
    key = aws.client("kms").create_key(Policy=of_key)["KeyMetadata"]["Arn"]
    iam = aws.client("iam")
    iam.create_policy(PolicyName="bounds", PolicyDocument=document(ALL, ONLY_WITH_BOUNDARY))
    least = iam.create_policy(
        PolicyName="cloudformation",
        PolicyDocument=EXECUTION.read_text().replace(KEY_OF_EXAMPLE, key),
    )["Policy"]["Arn"]
    machine.settings(
        encryptionKey=key,
        instanceRole="reservoir-node",
        logRetentionDays=90,
        permissionsBoundary=BOUNDARY,
        tags=TAGS,
        vpc=make_way_out(aws),
    )
    bootstrapped = machine.make("bootstrap", f"--cloudformation-execution-policies {least}")
    assert bootstrapped.returncode == 0, bootstrapped.stdout
    aws.set_account_rules(
        boundary=BOUNDARY,
        tags=sorted(TAGS),
        with_keys=True,
        in_vpc=True,
        denied=[NOTHING_UNTAGGED, NOTHING_ELSEWHERE],
    )
    machine.credentials = make_pipeline(machine)


def test_it_is_deployed_and_everything_is_as_the_rules_want_it(machine: Machine) -> None:
    deployed = machine.make("deploy")
    assert deployed.returncode == 0, deployed.stdout
    assert machine.stack()["EnableTerminationProtection"] is True
    roles = machine.aws.client("iam").list_roles()["Roles"]
    ours = [each for each in roles if each["RoleName"].startswith("Reservoir-")]
    assert ours
    bound = machine.aws.client("iam").get_role(RoleName=EXECUTION_ROLE)["Role"]
    assert bound["PermissionsBoundary"]["PermissionsBoundaryArn"] == BOUNDARY


def test_what_becomes_of_policy_cannot_be_told_without_the_key_which_is_said(
    machine: Machine,
) -> None:
    again = machine.make("deploy")
    assert again.returncode == 0, again.stdout
    assert "(no changes)" in again.stdout
    said = " ".join(again.stdout.split())
    assert "warning: the changes of policy could not be determined: " in said


def test_an_update_that_the_organization_denies_is_repeated_once_it_is_allowed(
    machine: Machine,
) -> None:
    settings = json.loads(machine.path.read_text())
    machine.settings(**{**settings, "logRetentionDays": 30})
    machine.aws.set_account_rules(
        denied=[{"Action": "logs:PutRetentionPolicy", "Resource": "*"}]
    )
    denied = machine.make("deploy")
    assert denied.returncode != 0
    assert "is not authorized to perform: logs:PutRetentionPolicy" in " ".join(
        denied.stdout.split()
    )
    assert machine.stack()["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    machine.aws.set_account_rules()
    deployed = machine.make("deploy")
    assert deployed.returncode == 0, deployed.stdout
    assert machine.stack()["StackStatus"] == "UPDATE_COMPLETE"
