"""What is found in accounts in which a deployment, or its launches, would fail. The account is a fake of the calls."""

import json
from pathlib import Path
from typing import Any

import pytest

from reservoir.cli.deployment.account import SPOT_ROLE
from reservoir.cli.examination.before import CHECKS, Place, look
from reservoir.cli.examination.finding import Severity
from reservoir.deployment.deployment import read

TOPIC = "arn:aws:sns:us-east-1:123456789012:pages"
KEY = "arn:aws:kms:us-east-1:123456789012:key/volumes"
TRUST = {"Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}]}


class MissingError(Exception):
    """What the services say of what is not there."""


class DeniedError(Exception):
    """An SCP denies it."""


class AccountAsFound:
    """A good account but for what a test changes; its methods are the calls of all services."""

    class exceptions:  # noqa: N801 - as botocore's clients have it
        ParameterNotFound = NoSuchEntityException = NotFoundException = MissingError

    def __init__(self) -> None:
        self.parameters = {"/cdk-bootstrap/hnb659fds/version"}
        self.free = 1_000
        self.roles: dict[str, Any] = {SPOT_ROLE: {}, "reservoir-production-node": TRUST}
        self.profiles = ["reservoir-production-node"]
        self.volume_key: str | None = None
        self.topics: dict[str, dict[str, str]] = {TOPIC: {}}
        self.price_list = ["{}"]
        self.denied: set[str] = set()

    def __call__(self, _service: str) -> "AccountAsFound":
        return self

    def get_parameter(self, *, Name: str) -> None:  # noqa: N803 - AWS's names, here and below
        if Name not in self.parameters:
            raise MissingError

    def get_account_settings(self) -> dict[str, Any]:
        return {"AccountLimit": {"UnreservedConcurrentExecutions": self.free}}

    def get_role(self, *, RoleName: str) -> dict[str, Any]:  # noqa: N803
        if RoleName not in self.roles:
            raise MissingError
        return {"Role": {"AssumeRolePolicyDocument": self.roles[RoleName]}}

    def list_instance_profiles_for_role(self, *, RoleName: str) -> dict[str, Any]:  # noqa: N803
        return {"InstanceProfiles": [each for each in self.profiles if each == RoleName]}

    def get_ebs_encryption_by_default(self) -> dict[str, bool]:
        return {"EbsEncryptionByDefault": self.volume_key is not None}

    def get_ebs_default_kms_key_id(self) -> dict[str, str | None]:
        return {"KmsKeyId": self.volume_key}

    def get_topic_attributes(self, *, TopicArn: str) -> dict[str, Any]:  # noqa: N803
        if TopicArn not in self.topics:
            raise MissingError
        return {"Attributes": self.topics[TopicArn]}

    def get_products(self, **_asked: Any) -> dict[str, Any]:
        if "pricing" in self.denied:
            raise DeniedError("explicit deny in a service control policy")
        return {"PriceList": self.price_list}


def found(account: AccountAsFound, folder: Path, region: str = "us-east-1", **settings: Any) -> list[tuple[str, str]]:
    """Return (check, severity) of what is found."""
    path = folder / "production.yaml"
    path.write_text(json.dumps({"alarmTopic": TOPIC, **settings}))
    place = Place(read(path), account, account, region)
    findings = look(place, (DeniedError,))
    assert all(finding.message and finding.advice for finding in findings)
    return [(finding.check, finding.severity.value) for finding in findings]


def test_a_good_account_has_no_finding(tmp_path: Path) -> None:
    assert found(AccountAsFound(), tmp_path) == []
    encrypted = AccountAsFound()
    encrypted.volume_key = "alias/aws/ebs"
    assert found(encrypted, tmp_path) == []


BROKEN: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no bootstrap": ({"parameters": set()}, {}, "bootstrap"),
    "another qualifier": ({}, {"bootstrapQualifier": "platform"}, "bootstrap"),
    "a new account": ({"free": 10}, {}, "concurrency"),
    "too little to keep": ({"free": 112}, {"reserveConcurrency": True}, "concurrency"),
    "no role of nodes": ({"roles": {SPOT_ROLE: {}}}, {}, "instance-role"),
    "a role of somebody else": (
        {"roles": {SPOT_ROLE: {}, "reservoir-production-node": {"Statement": []}}},
        {},
        "instance-role",
    ),
    "no profile": ({"profiles": []}, {}, "instance-role"),
    "no role of spot": ({"roles": {"reservoir-production-node": TRUST}}, {}, "spot-role"),
    "a key of its own": ({"volume_key": KEY}, {}, "volume-key"),
    "no topic": ({"topics": {}}, {}, "alarm-topic"),
    "a topic under AWS's key": ({"topics": {TOPIC: {"KmsMasterKeyId": "alias/aws/sns"}}}, {}, "alarm-topic"),
    "no prices": ({"price_list": []}, {}, "prices"),
    "prices denied": ({"denied": {"pricing"}}, {}, "prices"),
}


@pytest.mark.parametrize(("changes", "settings", "check"), BROKEN.values(), ids=BROKEN)
def test_what_is_broken_is_found_and_nothing_else(
    tmp_path: Path, changes: dict[str, Any], settings: dict[str, Any], check: str
) -> None:
    account = AccountAsFound()
    for name, value in changes.items():
        setattr(account, name, value)
    assert [each for each, _ in found(account, tmp_path, **settings)] == [check]


def test_a_region_that_is_not_served_is_found(tmp_path: Path) -> None:
    assert found(AccountAsFound(), tmp_path, region="cn-north-1") == [("region", "error")]


def test_what_the_deployer_may_not_ask_is_said_and_is_no_error(tmp_path: Path) -> None:
    account = AccountAsFound()
    account.denied = {"pricing"}
    assert found(account, tmp_path) == [("prices", Severity.SKIPPED.value)]


def test_every_check_finds_something_here() -> None:
    assert {check for _, _, check in BROKEN.values()} | {"region"} == set(CHECKS)
