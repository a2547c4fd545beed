"""The released template, deployed by CreateStack alone: no CDK, no bootstrap, no command of ours."""

import json
import time
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

BUCKET, PREFIX, STACK = "releases", "reservoir/", "Reservoir-west"
EXECUTION = ROOT / "examples" / "iam" / "execution.json"
# what the example names of an account
EXAMPLE_KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
EXAMPLE_ASSETS = "cdk-hnb659fds-assets-*"
# of the rights that an account's rules ask for
NEEDED = ("ec2:DescribeVpcs", "iam:PutRolePermissionsBoundary", "kms:CreateGrant")
PATIENCE_S = 300


def upload(aws: EmbeddedAws, release: Path) -> str:
    """Put the files of a release where the parameters say; return where the template is."""
    s3 = aws.client("s3")
    s3.create_bucket(Bucket=BUCKET)
    for path in [release / TEMPLATE, *(release / "assets").iterdir()]:
        s3.put_object(Bucket=BUCKET, Key=f"{PREFIX}{path.name}", Body=path.read_bytes())
    return f"https://s3.us-east-1.amazonaws.com/{BUCKET}/{PREFIX}{TEMPLATE}"


def execution_role(aws: EmbeddedAws, key: str, *, without: str = "") -> str:
    """Make a role for CloudFormation with the rights of the example, but for one action; return its ARN."""
    text = EXECUTION.read_text().replace(EXAMPLE_KEY, key).replace(EXAMPLE_ASSETS, BUCKET)
    iam = aws.client("iam")
    trust = {"Service": "cloudformation.amazonaws.com"}
    statement = {"Effect": "Allow", "Principal": trust, "Action": "sts:AssumeRole"}
    role = iam.create_role(
        RoleName=f"cloudformation-{without.partition(':')[2]}",
        AssumeRolePolicyDocument=json.dumps({"Statement": [statement]}),
    )["Role"]
    iam.put_role_policy(
        RoleName=role["RoleName"],
        PolicyName="least",
        PolicyDocument=text.replace(f'"{without}"', '"none:None"') if without else text,
    )
    arn: str = role["Arn"]
    return arn


def create(
    aws: EmbeddedAws, template_url: str, role: str | None = None, **more: str
) -> dict[str, Any]:
    """Create the stack, with more parameters, and wait; return it as CloudFormation describes it."""
    cloudformation = aws.client("cloudformation")
    given = {
        "AssetBucket": BUCKET,
        "AssetPrefix": PREFIX,
        "InstanceRole": NODE_ROLE,
        "SolveBudgetS": "7",
        **more,
    }
    as_whom = {} if role is None else {"RoleARN": role}
    cloudformation.create_stack(
        StackName=STACK,
        TemplateURL=template_url,
        Parameters=[
            {"ParameterKey": key, "ParameterValue": value} for key, value in given.items()
        ],
        Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"],
        **as_whom,
    )
    for _ in range(PATIENCE_S):
        (stack,) = cloudformation.describe_stacks(StackName=STACK)["Stacks"]
        if not stack["StackStatus"].endswith("_IN_PROGRESS"):
            break
        time.sleep(1)
    found: dict[str, Any] = stack
    return found


def refusals(aws: EmbeddedAws) -> list[str]:
    """Return why resources could not be made or deleted."""
    pages = aws.client("cloudformation").get_paginator("describe_stack_events")
    events = pages.paginate(StackName=STACK).search("StackEvents[]")
    return [
        f"{each['LogicalResourceId']}: {each.get('ResourceStatusReason')}"
        for each in events
        if each["ResourceStatus"].endswith("_FAILED")
    ]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a release for this machine."""
    folder = tmp_path_factory.mktemp("release") / "release"
    write_release(folder, embedded=True)
    return folder


def test_create_stack_alone_deploys_a_stack_that_works(release: Path) -> None:
    with EmbeddedAws() as aws:
        make_network(aws)
        stack = create(aws, upload(aws, release))
        assert refusals(aws) == []
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


def test_parameters_carry_the_rules_of_an_account_with_the_rights_that_are_documented(
    release: Path,
) -> None:
    with EmbeddedAws() as aws:
        make_network(aws)
        policy = (ROOT / "examples" / "iam" / "encryption-key.json").read_text()
        key = aws.client("kms").create_key(Policy=policy)["KeyMetadata"]["Arn"]
        allowed = {"Effect": "Allow", "Action": "*", "Resource": "*"}
        boundary = aws.client("iam").create_policy(
            PolicyName="bounds", PolicyDocument=json.dumps({"Statement": [allowed]})
        )["Policy"]["Arn"]
        network = make_way_out(aws)
        parameters = {
            "EncryptionKey": key,
            "FunctionSubnets": ",".join(network["subnets"]),
            "FunctionSecurityGroups": ",".join(network["securityGroups"]),
            "PermissionsBoundary": boundary,
            "LaunchTags": '{"team":"research"}',
        }
        template_url = upload(aws, release)
        for action in NEEDED:
            poor = execution_role(aws, key, without=action)
            stack = create(aws, template_url, poor, **parameters)
            assert stack["StackStatus"] == "ROLLBACK_COMPLETE", refusals(aws)
            refused = f"not authorized to perform: {action} on"
            assert any(refused in why for why in refusals(aws)), refusals(aws)
            aws.client("cloudformation").delete_stack(StackName=STACK)
        stack = create(aws, template_url, execution_role(aws, key), **parameters)
        assert stack["StackStatus"] == "CREATE_COMPLETE", refusals(aws)
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
