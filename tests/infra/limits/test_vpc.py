"""Functions in a VPC: all of them, with what Lambda needs of their roles, and their code does not get."""

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest

from infra.iam.acknowledgements import as_reported
from reservoir.deployment.settings import DeploymentSettings
from tests.infra.reading import of_type
from tests.infra.synthesis import template_app
from tests.once import MakeOnce

NETWORK: Final = {
    "subnets": ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
    "securityGroups": ["sg-0123456789abcdef0"],
}


@pytest.fixture(scope="module")
def resources(make_once: MakeOnce) -> Mapping[str, Any]:
    folder = make_once(
        "vpc-cdk.out", lambda made: template_app(made, {"vpc": NETWORK}).synth()
    )
    (template,) = folder.glob("*.template.json")
    found: Mapping[str, Any] = json.loads(template.read_text())["Resources"]
    return found


def test_every_function_is_in_the_subnets(resources: Mapping[str, Any]) -> None:
    for function in of_type(resources, "AWS::Lambda::Function").values():
        assert function["VpcConfig"] == {
            "SubnetIds": NETWORK["subnets"],
            "SecurityGroupIds": NETWORK["securityGroups"],
        }


def test_each_role_may_attach_before_its_function_is_made_and_no_code_may(
    resources: Mapping[str, Any],
) -> None:
    ((name, policy),) = [
        (name, policy)
        for name, policy in of_type(resources, "AWS::IAM::ManagedPolicy").items()
        if name.startswith("Vpc")
    ]
    functions = {
        name: resource
        for name, resource in resources.items()
        if resource["Type"] == "AWS::Lambda::Function"
    }
    roles = [each["Properties"]["Role"]["Fn::GetAtt"][0] for each in functions.values()]
    assert sorted(role["Ref"] for role in policy["Roles"]) == sorted(roles)
    assert all(name in each["DependsOn"] for each in functions.values())
    change, read, refuse = policy["PolicyDocument"]["Statement"]
    assert (change["Effect"], read["Effect"], refuse["Effect"]) == (
        "Allow",
        "Allow",
        "Deny",
    )
    assert set(change["Action"]) <= set(refuse["Action"])
    by_code = refuse["Condition"]["ArnLike"]["lambda:SourceFunctionArn"]
    assert as_reported(by_code).endswith(":function:*")


@pytest.mark.parametrize(
    "network",
    [
        {**NETWORK, "subnets": []},
        {**NETWORK, "securityGroups": []},
        {**NETWORK, "subnets": ["10.0.0.0/24"]},
        {
            **NETWORK,
            "securityGroups": [f"sg-0123456789abcde{number:02}" for number in range(6)],
        },
        {"subnets": NETWORK["subnets"]},
    ],
)
def test_what_lambda_would_refuse_is_refused_when_settings_are_read(
    network: dict[str, Any],
) -> None:
    with pytest.raises(ValueError, match=r"subnets|securityGroups|security_groups"):
        DeploymentSettings.model_validate({"vpc": network})
