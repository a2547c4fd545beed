"""As whom an account is looked at before a deployment."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from reservoir.cli.deployment.deployer import clients_of_deployer

READER: Final = "arn:aws:iam::123456789012:role/cdk-acme-lookup-role-123456789012-eu-west-1"
DEPLOYER: Final = (
    "arn:aws:iam::123456789012:role/cdk-acme-deploy-role-123456789012-eu-west-1"
)


class Caller:
    """The caller's own credentials; its methods are the calls of all services."""

    meta = SimpleNamespace(region_name="eu-west-1")

    def __init__(self, *denied: str, code: str = "AccessDenied") -> None:
        self.denied = denied
        self.code = code

    def __call__(self, _service: str, _region: str | None = None) -> "Caller":
        return self

    def _ask(self, operation: str) -> None:
        if operation in self.denied:
            raise ClientError({"Error": {"Code": self.code, "Message": "no"}}, operation)

    def describe_stacks(self) -> None:
        self._ask("DescribeStacks")

    def list_tables(self, Limit: int) -> None:  # noqa: N803 - as botocore has it
        assert Limit == 1
        self._ask("ListTables")

    def get_caller_identity(self) -> dict[str, str]:
        return {"Arn": "arn:aws:iam::123456789012:user/pipeline"}

    def assume_role(self, *, RoleArn: str, RoleSessionName: str) -> Any:  # noqa: N803 - as botocore has it
        assert RoleSessionName
        self._ask("AssumeRole")
        return {"Credentials": {"AccessKeyId": RoleArn}}


def clients(caller: Caller) -> Any:
    """Return the clients of a deployer; one in a role is the role's ARN and the service."""

    def client_with(
        credentials: Mapping[str, str], service: str, _region: str | None
    ) -> tuple[str, str]:
        return credentials["AccessKeyId"], service

    return clients_of_deployer(caller, client_with, "acme")


def test_whoever_may_look_looks_with_credentials_of_their_own() -> None:
    caller = Caller("AssumeRole")
    assert clients(caller)("dynamodb") is caller


@pytest.mark.parametrize("denied", ["DescribeStacks", "ListTables"])
def test_whoever_may_not_looks_in_the_roles_of_the_cdk(denied: str) -> None:
    found = clients(Caller(denied))
    assert found("cloudformation") == (DEPLOYER, "cloudformation")
    assert found("dynamodb") == (READER, "dynamodb")


def test_who_somebody_is_is_asked_as_the_caller() -> None:
    caller = Caller("DescribeStacks")
    assert clients(caller)("sts") is caller


def test_without_the_roles_what_is_denied_is_said_by_aws() -> None:
    caller = Caller("DescribeStacks", "AssumeRole")
    assert clients(caller)("cloudformation") is caller


def test_without_credentials_the_check_says_so_in_a_sentence(tmp_path: Path) -> None:
    settings = tmp_path / "production.yaml"
    settings.write_text("stack: Reservoir")
    done = subprocess.run(  # noqa: S603 - our own command
        [
            *(sys.executable, "-m", "reservoir"),
            *("--deployment", str(settings), "deployment", "check"),
        ],
        env={
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "HOME": str(tmp_path),
            "PATH": os.defpath,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "Unable to locate credentials" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_throttle_is_no_denial() -> None:
    with pytest.raises(ClientError, match="Throttling"):
        clients(Caller("DescribeStacks", code="Throttling"))
