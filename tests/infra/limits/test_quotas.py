"""The template stays below what AWS allows, wherever and under whatever name it is deployed, with every option on."""

import importlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final

import botocore.session
import pytest

from infra.app import ROOT, refuse_too_much
from infra.operations import quotas
from infra.operations.quotas import Place, Quota, Use, exceeded, uses
from reservoir import names
from reservoir.cli.deployment.restore import named_after
from reservoir.cli.examination import before_stack
from reservoir.deployment.deployment import table_field
from reservoir.deployment.ending_bounds import EndingBounds
from reservoir.deployment.settings import DeploymentSettings
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.names import Function, Table
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
    "account": "123456789012",
    "alarmTopic": "arn:aws-us-gov:sns:us-gov-west-1:123456789012:"
    + "alarms-of-reservoir" * 4,
    "bootstrapQualifier": "tencharact",
    "ceilingUsdPerHour": "99999999.999999",
    "ceilingUsdPerMonth": "99999999.999999",
    "encryptionKey": KEYS[0],
    "endingBounds": {
        kind.alias: {"sharePercent": 100, "leastCount": 4_999, "mostCount": 4_999}
        for kind in EndingBounds.model_fields.values()
    },
    "historyDays": 400,
    "imageParameters": "/images/of/the/team/that/builds/them/*",
    "instanceRole": "the-role-of-nodes-that-run-the-work-of-all-teams-*",
    "kmsKeys": KEYS,
    "logRetentionDays": 3653,
    "longestNoticeS": 604_800,
    "metadataHttpTokens": "optional",
    "minValuesPolicy": "BestEffort",
    "noDurationPolicy": "Avoid",
    "nodeOverheadMicroUsdPerHour": 999_999_999,
    "permissionsBoundary": "arn:aws-us-gov:iam::123456789012:policy/"
    + "boundary-of-every-role/" * 4
    + "developers",
    "preferencePolicy": "Respect",
    "otlpEndpoint": f"https://{'o' * 80}:65535/{'p' * 20}",
    "publishMetrics": True,
    "purchaseCeilingUsd": "99999999.999999",
    "purchaseCeilingUsdPerMonth": "99999999.999999",
    "rebalancePolicy": "launch-before-drain",
    "reservedFloorPercent": 100,
    "reserveConcurrency": True,
    "solveBudgetS": 45,
    "spotPoolSharePercent": 100,
    "spotServiceLinkedRole": True,
    "spotToSpotConsolidation": True,
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
    "aws-iso-e": "eu-isoe-west-1",
    "aws-iso-f": "us-isof-south-1",
}


# Of no size that a quota counts, or of none but the text's own: which policy is applied, and whether anything is kept;
# of the tables that a stack adopts more is said below.
WITHOUT_SIZE: Final = frozenset(
    {"instanceStatusPolicy", "manifests", "region", "removed", "retain", "tables"}
    | {"terminationProtection"}
)


def test_every_setting_is_on() -> None:
    known = {field.alias for field in DeploymentSettings.model_fields.values()}
    assert known - EVERYTHING.keys() == WITHOUT_SIZE


def test_the_regions_are_those_with_the_longest_names_that_aws_has_named() -> None:
    data = botocore.session.get_session()
    longest = {
        partition: max(map(len, data.get_available_regions("ec2", partition)))
        for partition in data.get_available_partitions()
    }
    assert {partition: len(region) for partition, region in PLACES.items()} == longest


COMPOSITION: Final = ROOT / "shared" / "reservoir" / "runtime" / "composition"


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


def test_a_deployment_takes_no_more_room_of_an_account_than_is_looked_for(
    whole: Mapping[str, Any],
) -> None:
    made = Counter(resource["Type"] for resource in whole["Resources"].values())
    assert made["AWS::IAM::Role"] <= before_stack.ROLES
    assert made["AWS::IAM::ManagedPolicy"] <= before_stack.POLICIES
    assert made["AWS::Events::Rule"] <= before_stack.RULES
    assert made["AWS::DynamoDB::Table"] == before_stack.TABLES
    # what docs/aws-limits.md says of what is not looked for, because accounts have so much more of it
    assert made["AWS::Logs::LogGroup"] < 25
    assert made["AWS::S3::Bucket"] == 1
    networks = {
        json.dumps(resource["Properties"].get("VpcConfig"))
        for resource in whole["Resources"].values()
        if resource["Type"] == "AWS::Lambda::Function"
    }
    assert len(networks) == 1


def test_the_boundary_of_the_examples_has_all_that_roles_may_do_and_nothing_else(
    whole: Mapping[str, Any],
) -> None:
    of_roles: set[str] = set()
    for resource in whole["Resources"].values():
        if resource["Properties"].get("Roles"):
            for statement in resource["Properties"]["PolicyDocument"]["Statement"]:
                actions = statement["Action"]
                of_roles |= {actions} if isinstance(actions, str) else set(actions)
    bounds = json.loads((ROOT / "examples" / "iam" / "boundary.json").read_text())
    allowed = chain.from_iterable(each["Action"] for each in bounds["Statement"])
    assert of_roles == set(allowed)


def said(found: list[Use]) -> list[str]:
    return [str(use) for use in found]


@pytest.mark.parametrize(("partition", "region"), PLACES.items())
def test_everything_on_under_the_longest_name_is_within_every_quota(
    whole: Mapping[str, Any], partition: str, region: str
) -> None:
    assert len(LONGEST_NAME) == 40
    assert said(exceeded(whole, Place(LONGEST_NAME, region, partition))) == []


def test_with_tables_that_were_restored_twice_everything_on_is_within_every_quota(
    tmp_path: Path,
) -> None:
    made = {
        table: f"{LONGEST_NAME}-State{table.name}D9752103-ABCDEFGHIJKL" for table in Table
    }
    once = named_after(made, "20261128T195401")
    twice = named_after(once, "20261129T195401")
    tables = {table_field(table): name for table, name in twice.items()}
    settings = {**EVERYTHING, "tables": tables}
    assembly = template_app(tmp_path, settings, olderIndexes=True).synth()
    for partition, region in PLACES.items():
        place = Place(LONGEST_NAME, region, partition)
        (stack,) = assembly.stacks
        assert said(exceeded(stack.template, place)) == []


def test_settings_that_are_too_much_together_are_refused_with_what_is_too_much(
    tmp_path: Path,
) -> None:
    tables = {table_field(table): f"{table.name.lower():x<255}" for table in Table}
    settings = {**EVERYTHING, "tables": tables}
    assembly = template_app(tmp_path, settings).synth()
    with pytest.raises(ManifestError) as refused:
        refuse_too_much(assembly, "eu-central-1")
    assert "environment variables of a function has" in str(refused.value)
    assert "AWS allows 4096: shorten names in the settings" in str(refused.value)
    assert len(refused.value.problems) == 3


def test_every_quota_of_the_table_is_measured(whole: Mapping[str, Any]) -> None:
    measured = {use.quota for use in uses(whole, Place(LONGEST_NAME))}
    assert measured == {
        quota for quota in vars(quotas).values() if isinstance(quota, Quota)
    }


def test_long_variables_are_told_to_whoever_needs_them(whole: Mapping[str, Any]) -> None:
    told: dict[str, set[Function]] = {names.ENDING_BOUNDS: set(), names.KMS_KEYS: set()}
    for resource in whole["Resources"].values():
        handler = str(resource.get("Properties", {}).get("Handler", ""))
        if handler.startswith("functions."):
            function = Function(handler.split(".")[1])
            variables = resource["Properties"]["Environment"]["Variables"]
            for name in told.keys() & variables.keys():
                told[name].add(function)
    assert told[names.KMS_KEYS] == {Function.APPLY, Function.CHANGE_POLICY}
    for function in Function:
        # The parts of a composition that take the bounds are named in its own module.
        text = (COMPOSITION / f"{function.value}.py").read_text(encoding="utf-8")
        ends = any(part in text for part in ("parts.draining", "parts.safety"))
        assert function in told[names.ENDING_BOUNDS] or not ends, function


def test_what_aws_would_refuse_is_found() -> None:
    statement = {
        "Effect": "Allow",
        "Action": "sqs:SendMessage",
        "Resource": {"Fn::GetAtt": ["Letters", "Arn"]},
    }
    tags = {f"aws:PrincipalTag/{number}": "v" for number in range(10)}
    source = {"ArnEquals": {"aws:SourceArn": "x" * 350}, "StringEquals": tags}
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
