"""The template stays below what AWS allows, wherever and under whatever name it is deployed, with every option on."""

import importlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from infra.app import ROOT
from infra.operations import quotas
from infra.operations.quotas import Place, Quota, Use, exceeded, uses
from tests.infra.synthesis import template_app
from tests.once import MakeOnce

# the 40 characters that settings allow
LONGEST_NAME: Final = "Reservoir-production-training-eu-central"
KEYS: Final = [
    f"arn:aws-us-gov:kms:ap-southeast-2:123456789012:key/{n}1b2c3d4-5678-90ab-cdef-EXAMPLE11111"
    for n in range(5)
]
EVERYTHING: Final[Mapping[str, Any]] = {
    "stack": LONGEST_NAME,
    "alarmTopic": "arn:aws-us-gov:sns:us-gov-west-1:123456789012:"
    + "alarms-of-reservoir" * 4,
    "encryptionKey": KEYS[0],
    "imageParameters": "/images/of/the/team/that/builds/them/*",
    "instanceRole": "the-role-of-nodes-that-run-the-work-of-all-teams-*",
    "kmsKeys": KEYS,
    "permissionsBoundary": "arn:aws-us-gov:iam::123456789012:policy/"
    + "boundary-of-every-role/" * 4
    + "developers",
    "publishMetrics": True,
    "rebalancePolicy": "launch-before-drain",
    "reserveConcurrency": True,
    # 240 of the 250 characters allowed
    "tags": {f"key-of-tag-{number}": "value-of-tag" for number in range(10)},
    "tracing": True,
    "vpc": {
        "subnets": [f"subnet-0123456789abcde{number:02}" for number in range(16)],
        "securityGroups": [f"sg-0123456789abcde{number:02}" for number in range(5)],
    },
}
# The region with the longest name of each partition, of those that AWS has named.
PLACES: Final = {
    "aws": "ap-southeast-2",
    "aws-cn": "cn-northwest-1",
    "aws-us-gov": "us-gov-west-1",
    "aws-eusc": "eusc-de-east-1",
    "aws-iso": "us-iso-west-1",
    "aws-iso-b": "us-isob-east-1",
}


@pytest.fixture(scope="module")
def whole(make_once: MakeOnce) -> Mapping[str, Any]:
    """Return the template with everything on, under the longest name, also while the release before is replaced."""
    folder = make_once(
        "whole-cdk.out",
        lambda made: template_app(made, EVERYTHING, olderIndexes=True).synth(),
    )
    found: Mapping[str, Any] = json.loads(
        (folder / f"{LONGEST_NAME}.template.json").read_text()
    )
    return found


def said(found: list[Use]) -> list[str]:
    return [str(use) for use in found]


@pytest.mark.parametrize(("partition", "region"), PLACES.items())
def test_everything_on_under_the_longest_name_is_within_every_quota(
    whole: Mapping[str, Any], partition: str, region: str
) -> None:
    assert len(LONGEST_NAME) == 40
    assert said(exceeded(whole, Place(LONGEST_NAME, region, partition))) == []


def test_every_quota_of_the_table_is_measured(whole: Mapping[str, Any]) -> None:
    measured = {use.quota for use in uses(whole, Place(LONGEST_NAME))}
    assert measured == {
        quota for quota in vars(quotas).values() if isinstance(quota, Quota)
    }


def test_what_aws_would_refuse_is_found() -> None:
    statement = {
        "Effect": "Allow",
        "Action": "sqs:SendMessage",
        "Resource": {"Fn::GetAtt": ["Letters", "Arn"]},
    }
    source = {"ArnEquals": {"aws:SourceArn": "x" * 350}}
    document = {
        "Version": "2012-10-17",
        "Statement": [{**statement, "Condition": source}] * 21,
    }
    role: Mapping[str, Any] = {"AssumeRolePolicyDocument": {}}
    resources = {
        "Letters": {"Type": "AWS::SQS::Queue", "Properties": {}},
        "Policy": {
            "Type": "AWS::SQS::QueuePolicy",
            "Properties": {"PolicyDocument": document},
        },
        "Role": {"Type": "AWS::IAM::Role", "Properties": role},
        "Inline": {
            "Type": "AWS::IAM::Policy",
            "Properties": {"PolicyDocument": document, "Roles": [{"Ref": "Role"}]},
        },
        "Managed": {
            "Type": "AWS::IAM::ManagedPolicy",
            "Properties": {"PolicyDocument": document},
        },
    }
    found = {use.quota for use in exceeded({"Resources": resources}, Place("Reservoir"))}
    assert found == {
        quotas.QUEUE_POLICY_BYTES,
        quotas.QUEUE_POLICY_STATEMENTS,
        quotas.QUEUE_POLICY_CONDITIONS,
        quotas.INLINE_POLICIES,
        quotas.MANAGED_POLICY,
    }


PAGE: Final = (ROOT / "docs" / "aws-limits.md").read_text(encoding="utf-8")


def test_the_page_tells_every_quota_with_its_source() -> None:
    for quota in vars(quotas).values():
        if isinstance(quota, Quota):
            assert (
                f"| {quota.what} | {quota.limit:,} {quota.unit} | [AWS]({quota.source}) |"
                in PAGE
            )


def limits_of_requests() -> Iterator[tuple[str, int]]:
    """Yield (module:constant, what AWS allows) of the page's second table."""
    for line in PAGE.partition("## Of requests")[2].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and ":" in cells[2]:
            yield cells[2].split("`")[1], int(cells[1].replace(",", ""))


@pytest.mark.parametrize(("constant", "allowed"), list(limits_of_requests()))
def test_what_is_asked_for_at_once_is_within_what_aws_allows(
    constant: str, allowed: int
) -> None:
    module, name = constant.split(":")
    ours = getattr(importlib.import_module(module), name)
    assert 0 < ours <= allowed
