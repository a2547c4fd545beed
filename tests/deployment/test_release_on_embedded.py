"""The released template, deployed by CreateStack alone: no CDK, no bootstrap, no command of ours."""

import json
from pathlib import Path
from typing import Any

import pytest

from infra.app import ROOT
from infra.naming import function_name
from infra.release.write import TEMPLATE, write_release
from lab.embedded.client import EmbeddedAws
from lab.embedded.reservoir.network import NODE_ROLE, make_network, make_way_out
from lab.embedded.reservoir.stack import PATIENT
from reservoir.names import DEPLOYMENT, Function, output_name

pytestmark = pytest.mark.embedded

BUCKET, PREFIX, STACK = "releases", "reservoir/", "Plain-west"


def upload(aws: EmbeddedAws, release: Path) -> str:
    """Put the files of a release where the parameters say; return where the template is."""
    s3 = aws.client("s3")
    s3.create_bucket(Bucket=BUCKET)
    for path in [release / TEMPLATE, *(release / "assets").iterdir()]:
        s3.put_object(Bucket=BUCKET, Key=f"{PREFIX}{path.name}", Body=path.read_bytes())
    return f"https://s3.us-east-1.amazonaws.com/{BUCKET}/{PREFIX}{TEMPLATE}"


def created(aws: EmbeddedAws, template_url: str, **more: str) -> dict[str, Any]:
    """Create the stack and wait; return it as CloudFormation describes it."""
    cloudformation = aws.client("cloudformation")
    given = {
        "AssetBucket": BUCKET,
        "AssetPrefix": PREFIX,
        "InstanceRole": NODE_ROLE,
        "SolveBudgetS": "7",
        **more,
    }
    cloudformation.create_stack(
        StackName=STACK,
        TemplateURL=template_url,
        Parameters=[
            {"ParameterKey": key, "ParameterValue": value} for key, value in given.items()
        ],
        Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"],
    )
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName=STACK, WaiterConfig={"Delay": 1, "MaxAttempts": 300}
    )
    (stack,) = cloudformation.describe_stacks(StackName=STACK)["Stacks"]
    found: dict[str, Any] = stack
    return found


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a release for this machine."""
    folder = tmp_path_factory.mktemp("release") / "release"
    write_release(folder, embedded=True)
    return folder


def test_create_stack_alone_deploys_a_stack_that_works(release: Path) -> None:
    with EmbeddedAws() as aws:
        make_network(aws)
        stack = created(aws, upload(aws, release))
        outputs = {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}
        assert outputs[output_name(DEPLOYMENT)] == STACK
        assert outputs["SolveBudgetS"] == "7"
        client = aws.client("lambda", config=PATIENT)
        for function in (Function.DISCOVER_RESERVATIONS, Function.PROVISION):
            name = function_name(STACK, function)
            answer = client.invoke(FunctionName=name, Payload=json.dumps({}))
            assert "FunctionError" not in answer, aws.function_log(name)
        launcher = client.get_function_configuration(
            FunctionName=function_name(STACK, Function.LAUNCH)
        )
        assert launcher["Environment"]["Variables"]["SOLVE_BUDGET_S"] == "7"


def test_parameters_carry_the_rules_of_an_account(release: Path) -> None:
    with EmbeddedAws() as aws:
        make_network(aws)
        policy = (ROOT / "examples" / "iam" / "encryption-key.json").read_text()
        key = aws.client("kms").create_key(Policy=policy)["KeyMetadata"]["Arn"]
        allowed = {"Effect": "Allow", "Action": "*", "Resource": "*"}
        boundary = aws.client("iam").create_policy(
            PolicyName="bounds", PolicyDocument=json.dumps({"Statement": [allowed]})
        )["Policy"]["Arn"]
        network = make_way_out(aws)
        created(
            aws,
            upload(aws, release),
            EncryptionKey=key,
            FunctionSubnets=",".join(network["subnets"]),
            FunctionSecurityGroups=",".join(network["securityGroups"]),
            PermissionsBoundary=boundary,
            LaunchTags='{"team":"research"}',
        )
        client = aws.client("lambda", config=PATIENT)
        name = function_name(STACK, Function.LAUNCH)
        launcher = client.get_function_configuration(FunctionName=name)
        assert launcher["KMSKeyArn"] == key
        in_vpc = launcher["VpcConfig"]
        assert in_vpc["SubnetIds"] == network["subnets"]
        assert in_vpc["SecurityGroupIds"] == network["securityGroups"]
        assert launcher["Environment"]["Variables"]["LAUNCH_TAGS"] == '{"team":"research"}'
        role = launcher["Role"].rpartition("/")[2]
        found = aws.client("iam").get_role(RoleName=role)["Role"]
        assert found["PermissionsBoundary"]["PermissionsBoundaryArn"] == boundary
        name = function_name(STACK, Function.DISCOVER_RESERVATIONS)
        answer = client.invoke(FunctionName=name, Payload=json.dumps({}))
        assert "FunctionError" not in answer, aws.function_log(name)
