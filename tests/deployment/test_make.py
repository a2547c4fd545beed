"""``make bootstrap``, ``diff``, ``deploy`` and ``destroy`` as people type them, with the CDK's own command line.

The account is an embedded AWS. The tests tell one story in their order: an administrator bootstraps, a pipeline that
may do nothing but take the CDK's roles deploys, and the administrator destroys. CloudFormation has no rights but those
of the example.
"""

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

from infra.app import ROOT
from infra.assets.bundle import THIS_MACHINE, layer_asset
from lab.embedded.client import EmbeddedAws
from reservoir.names import DEPLOYMENT_NAME_OUTPUT, OWNER_TAG, Table, output_name
from tests.deployment.machine import Machine

pytestmark = pytest.mark.embedded

DEPLOYER = ROOT / "examples" / "iam" / "deployer.json"
EXECUTION_ROLE = "cdk-hnb659fds-cfn-exec-role-123456789012-us-east-1"
EXECUTION = ROOT / "examples" / "iam" / "execution.json"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    # built here if need be: a home of the test's own says nothing of package indexes
    layer_asset(THIS_MACHINE)
    with EmbeddedAws() as aws:
        yield Machine(aws, tmp_path_factory.mktemp("home"))
        print(aws.log())  # noqa: T201 - pytest shows it beside a failure


def make_pipeline(machine: Machine) -> dict[str, str]:
    """Make a user with the rights of the example; return the variables that make commands its own."""
    iam = machine.aws.client("iam")
    iam.create_user(UserName="pipeline")
    iam.put_user_policy(
        UserName="pipeline", PolicyName="deploys", PolicyDocument=DEPLOYER.read_text()
    )
    key = iam.create_access_key(UserName="pipeline")["AccessKey"]
    return {
        "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
    }


def test_a_first_deployment_that_fails_is_not_in_the_way_of_the_next(
    machine: Machine,
) -> None:
    iam = machine.aws.client("iam")
    least = iam.create_policy(
        PolicyName="cloudformation", PolicyDocument=EXECUTION.read_text()
    )["Policy"]["Arn"]
    bootstrapped = machine.make("bootstrap", f"--cloudformation-execution-policies {least}")
    assert bootstrapped.returncode == 0, bootstrapped.stdout
    machine.credentials = make_pipeline(machine)
    policy = machine.home / "policy"
    policy.mkdir()
    wrong = "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: wrong}, spec: {wieght: 1}}"
    (policy / "wrong.yaml").write_text(wrong)
    machine.settings(manifests="policy")
    failed = machine.make("deploy")
    assert failed.returncode != 0, failed.stdout
    assert machine.stack()["StackStatus"] == "ROLLBACK_COMPLETE"
    # As a `cdk deploy` without `make deploy` leaves it.
    machine.aws.client("cloudformation").update_termination_protection(
        StackName="Reservoir", EnableTerminationProtection=True
    )
    machine.settings()


def deny(machine: Machine, *actions: str) -> None:
    """Have nobody but the account's root allow CloudFormation the actions."""
    statement = {"Effect": "Deny", "Action": actions, "Resource": "*"}
    machine.aws.client("iam").put_role_policy(
        RoleName=EXECUTION_ROLE,
        PolicyName="denied",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [statement]}),
    )


def test_one_that_was_denied_something_is_repeated_by_the_same_command_until_it_is_allowed(
    machine: Machine,
) -> None:
    """Also where what was made could not be deleted again, each time, and nothing is retained."""
    machine.settings(retain=False)
    deny(machine, "events:PutRule", "dynamodb:DeleteTable", "logs:DeleteLogGroup")
    denied = machine.make("deploy")
    assert denied.returncode != 0
    assert "is not authorized to perform: events:PutRule" in denied.stdout
    assert machine.stack()["StackStatus"] == "ROLLBACK_FAILED"
    assert machine.make("deploy").returncode != 0
    assert machine.stack()["StackStatus"] == "DELETE_FAILED"
    stuck = machine.make("deploy")
    assert stuck.returncode != 0
    assert "what there is of it cannot be deleted: " in " ".join(stuck.stdout.split())
    deny(machine, "events:PutRule")
    again = machine.make("deploy")
    assert again.returncode != 0
    assert machine.stack()["StackStatus"] == "ROLLBACK_COMPLETE"
    machine.aws.client("iam").delete_role_policy(
        RoleName=EXECUTION_ROLE, PolicyName="denied"
    )


def test_one_that_met_a_name_in_use_is_repeated_once_the_name_is_free(
    machine: Machine,
) -> None:
    machine.settings(terminationProtection=False)
    machine.aws.client("events").create_event_bus(Name="reservoir")
    met = machine.make("deploy")
    assert met.returncode != 0
    assert "already exists" in met.stdout
    assert machine.stack()["StackStatus"] == "ROLLBACK_COMPLETE"
    machine.aws.client("events").delete_event_bus(Name="reservoir")
    machine.settings()


def test_one_that_met_a_quota_is_repeated_once_the_quota_is_raised(
    machine: Machine,
) -> None:
    machine.aws.set_account_quotas({"AWS::DynamoDB::Table": 3})
    full = machine.make("deploy")
    assert full.returncode != 0
    assert "There is a limit of 3 tables" in " ".join(full.stdout.split())
    assert machine.stack()["StackStatus"] == "ROLLBACK_COMPLETE"
    machine.aws.set_account_quotas({})


def test_a_new_account_gets_a_protected_deployment(machine: Machine) -> None:
    deployed = machine.make("deploy")
    assert deployed.returncode == 0, deployed.stdout
    stack = machine.stack()
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
    assert outputs[DEPLOYMENT_NAME_OUTPUT] == "production"
    assert stack["EnableTerminationProtection"] is True
    dynamodb = machine.aws.client("dynamodb")
    for table in Table:
        described = dynamodb.describe_table(TableName=outputs[output_name(table)])["Table"]
        assert described["DeletionProtectionEnabled"] is True


def test_deploying_again_changes_nothing(machine: Machine) -> None:
    before = machine.stack()
    again = machine.make("deploy")
    assert again.returncode == 0, again.stdout
    assert "Reservoir (no changes)" in again.stdout
    assert machine.stack() == before


def test_diff_says_what_a_setting_would_change_and_changes_nothing(
    machine: Machine,
) -> None:
    before = machine.stack()
    machine.settings(spotPoolSharePercent=40, terminationProtection=False)
    diff = machine.make("diff")
    assert diff.returncode == 0, diff.stdout
    assert "SPOT_POOL_SHARE_PERCENT" in diff.stdout
    assert machine.stack() == before


def test_destroy_is_refused_while_protected_and_while_something_runs(
    machine: Machine,
) -> None:
    machine.credentials = {}
    machine.settings()
    protected = machine.make("destroy", typed="production\n")
    assert protected.returncode != 0
    assert "set terminationProtection: false" in " ".join(protected.stdout.split())
    machine.settings(terminationProtection=False)
    ec2 = machine.aws.client("ec2")
    owner = {"ResourceType": "instance", "Tags": [{"Key": OWNER_TAG, "Value": "Reservoir"}]}
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    launched = ec2.run_instances(
        ImageId=image,
        InstanceType="m5.large",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[owner],
    )
    instance_id = launched["Instances"][0]["InstanceId"]
    running = machine.make("destroy", typed="production\n")
    assert running.returncode != 0
    assert f"nothing would end them: {instance_id}" in " ".join(running.stdout.split())
    assert machine.stack()["StackStatus"].endswith("_COMPLETE")
    ec2.terminate_instances(InstanceIds=[instance_id])
    machine.aws.clock.advance(timedelta(minutes=2))


def test_destroy_asks_for_the_name_and_then_deletes_the_stack(machine: Machine) -> None:
    mistyped = machine.make("destroy", typed="staging\n")
    assert mistyped.returncode != 0
    assert "nothing was deleted" in mistyped.stdout
    stack_id = machine.stack()["StackId"]
    destroyed = machine.make("destroy", typed="production\n")
    assert destroyed.returncode == 0, destroyed.stdout
    (deleted,) = machine.aws.client("cloudformation").describe_stacks(StackName=stack_id)[
        "Stacks"
    ]
    assert deleted["StackStatus"] == "DELETE_COMPLETE"
    assert "nodeClaims: Reservoir-StateNodeClaims" in destroyed.stdout
