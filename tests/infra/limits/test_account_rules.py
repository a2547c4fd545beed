"""Accounts with rules: a boundary on every role, tags on everything, a bootstrap and a retention of their own."""

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest

from reservoir import names
from reservoir.cli.deployment.cdk import bootstrap_arguments
from reservoir.deployment.settings import DeploymentSettings
from tests.infra.reading import of_type
from tests.infra.synthesis import template_app
from tests.once import MakeOnce

BOUNDARY: Final = "arn:aws:iam::123456789012:policy/platform/developers"
RULES: Final[Mapping[str, Any]] = {
    "permissionsBoundary": BOUNDARY,
    "tags": {"team": "ml-platform", "cost-center": "4711"},
    "bootstrapQualifier": "acme",
    "logRetentionDays": 90,
}
# What CloudFormation gives no tags to; the parts of a queue or a function carry their owner's.
UNTAGGED: Final = {
    "AWS::IAM::ManagedPolicy",
    "AWS::IAM::Policy",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::Lambda::LayerVersion",
    "AWS::Lambda::Permission",
    "AWS::S3::BucketPolicy",
    "AWS::SQS::QueuePolicy",
}


@pytest.fixture(scope="module")
def ruled(make_once: MakeOnce) -> Mapping[str, Any]:
    folder = make_once("ruled-cdk.out", lambda made: template_app(made, RULES).synth())
    (template,) = folder.glob("*.template.json")
    found: Mapping[str, Any] = json.loads(template.read_text())
    return found


def test_every_role_has_the_boundary(ruled: Mapping[str, Any]) -> None:
    boundaries = {
        it.get("PermissionsBoundary")
        for it in of_type(ruled["Resources"], "AWS::IAM::Role").values()
    }
    assert boundaries == {BOUNDARY}


def test_everything_that_takes_tags_has_them(ruled: Mapping[str, Any]) -> None:
    for name, resource in ruled["Resources"].items():
        if resource["Type"] in UNTAGGED:
            continue
        tags = resource["Properties"]["Tags"]
        pairs = (
            tags if isinstance(tags, dict) else {tag["Key"]: tag["Value"] for tag in tags}
        )
        assert pairs.items() >= RULES["tags"].items(), name


def test_the_function_that_launches_is_told_the_tags(ruled: Mapping[str, Any]) -> None:
    functions = of_type(ruled["Resources"], "AWS::Lambda::Function").values()
    told = {
        it["Handler"]: it["Environment"]["Variables"].get(names.LAUNCH_TAGS)
        for it in functions
    }
    assert json.loads(told.pop("functions.launch.handler.handler") or "{}") == RULES["tags"]
    assert set(told.values()) == {None}


def test_logs_are_kept_as_long_as_the_settings_say(ruled: Mapping[str, Any]) -> None:
    assert {
        it["RetentionInDays"]
        for it in of_type(ruled["Resources"], "AWS::Logs::LogGroup").values()
    } == {90}


def test_the_stack_asks_for_the_bootstrap_with_the_qualifier(
    ruled: Mapping[str, Any],
) -> None:
    assert (
        ruled["Parameters"]["BootstrapVersion"]["Default"] == "/cdk-bootstrap/acme/version"
    )


def test_the_bootstrap_itself_keeps_the_rules() -> None:
    """The CDK wants the boundary's name, and the qualifier alone would replace the account's other bootstrap."""
    assert bootstrap_arguments(DeploymentSettings.model_validate(RULES)) == [
        *("--qualifier", "acme", "--toolkit-stack-name", "CDKToolkit-acme"),
        *("--custom-permissions-boundary", "platform/developers"),
        *("--tags", "cost-center=4711", "--tags", "team=ml-platform"),
    ]
    assert bootstrap_arguments(DeploymentSettings()) == []
