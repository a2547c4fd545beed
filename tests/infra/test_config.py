import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from infra.app import build_app
from infra.config import FUNCTIONS
from infra.naming import DEPLOYMENT_CONTEXT
from lab.embedded.reservoir import LEAVE_ASSETS
from reservoir import names
from reservoir.adapters.clients import ONE_LONG_WAIT
from reservoir.deployment.settings import DeploymentSettings
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.names import DEFAULT_STACK, Function
from reservoir.usecases.launching.launch import CALLS_END_AFTER
from tests.infra.reading import Resources, as_list, of_type, statements
from tests.infra.synthesis import template_app


def synthesise(folder: Path, settings: Mapping[str, Any], **context: Any) -> dict[str, Any]:
    template_app(folder, settings, **context).synth()
    (template,) = folder.glob("*.template.json")
    result: dict[str, Any] = json.loads(template.read_text())
    return result


def test_the_planners_functions_are_told_how_to_decide(tmp_path: Path) -> None:
    settings = {
        "spotPoolSharePercent": 30,
        "minValuesPolicy": "BestEffort",
        "solveBudgetS": 20,
    }
    functions = of_type(
        synthesise(tmp_path, settings, embedded=True)["Resources"], "AWS::Lambda::Function"
    )
    planners = ("functions.provision.handler.handler", "functions.disrupt.handler.handler")
    told = [
        item["Environment"]["Variables"]
        for item in functions.values()
        if item["Handler"] in planners
    ]
    assert [variables[names.SPOT_POOL_SHARE_PERCENT] for variables in told] == ["30", "30"]
    assert [variables[names.SOLVE_BUDGET_S] for variables in told] == ["20", "20"]


def test_functions_are_traced_only_if_the_settings_say_so(tmp_path: Path) -> None:
    resources = synthesise(tmp_path, {"tracing": True}, embedded=True)["Resources"]
    traced = [
        it.get("TracingConfig")
        for it in of_type(resources, "AWS::Lambda::Function").values()
    ]
    assert traced.count({"Mode": "Active"}) == len(Function)
    holders = {it.policy for it in statements(resources) if it.sid == "SendTraces"}
    assert len(holders) == len(Function)


def test_nothing_is_traced_otherwise(resources: Resources) -> None:
    assert not any(
        "TracingConfig" in it for it in of_type(resources, "AWS::Lambda::Function").values()
    )
    assert not any(
        action.startswith("xray:") for it in statements(resources) for action in it.actions
    )


def test_a_setting_that_is_given_as_context_is_refused(tmp_path: Path) -> None:
    """It would hold for one deployment, and the next would undo it."""
    with pytest.raises(
        ManifestError, match="stack: is a setting of the deployment, not context"
    ):
        template_app(tmp_path, stack="Staging")


def test_another_stack_shares_no_name_with_the_default(tmp_path: Path) -> None:
    template = synthesise(tmp_path, {"stack": "Staging", "retain": False})
    resources = template["Resources"]
    chosen = {
        properties[key]
        for properties in (
            resource.get("Properties", {}) for resource in resources.values()
        )
        for key in ("FunctionName", "LogGroupName", "Name")
        if isinstance(properties.get(key), str)
    }
    assert chosen
    assert all("Staging" in name for name in chosen)
    for table in of_type(resources, "AWS::DynamoDB::Table").values():
        assert table["DeletionProtectionEnabled"] is False


def test_a_stack_is_protected_from_deletion_unless_the_settings_say_otherwise(
    tmp_path: Path,
) -> None:
    def is_protected(settings: Mapping[str, Any]) -> bool:
        folder = tmp_path / str(len(settings))
        synthesise(folder, settings)
        artifact = json.loads((folder / "manifest.json").read_text())["artifacts"][
            DEFAULT_STACK
        ]
        return bool(artifact["properties"].get("terminationProtection", False))

    assert is_protected({})
    assert not is_protected({"terminationProtection": False})


def test_rebalance_recommendations_are_asked_for_only_when_they_do_something(
    tmp_path: Path,
) -> None:
    def rules(settings: Mapping[str, Any]) -> list[list[str]]:
        resources = synthesise(tmp_path / str(len(settings)), settings, embedded=True)[
            "Resources"
        ]
        found = of_type(resources, "AWS::Events::Rule").values()
        return [
            kinds
            for rule in found
            for kinds in [rule.get("EventPattern", {}).get("detail-type")]
            if kinds
        ]

    recommended = ["EC2 Instance Rebalance Recommendation"]
    assert recommended not in rules({})
    assert recommended in rules({"rebalancePolicy": "launch-before-drain"})


def test_removal_alone_reaches_the_apply_function_too(tmp_path: Path) -> None:
    template = synthesise(tmp_path, {"removed": ["NodePool/old"]})
    ((_, applied),) = of_type(template["Resources"], "Custom::ReservoirManifests").items()
    assert (applied[names.MANIFESTS_PROPERTY], applied[names.REMOVED_PROPERTY]) == (
        [],
        ["NodePool/old"],
    )


def test_staging_cannot_pass_a_role_of_production(tmp_path: Path) -> None:
    """Nor can production pass one of production-eu: no deployment's pattern matches the default role of another."""
    names_of_deployments = ("production", "production-eu", "production-node", "staging")
    for name in names_of_deployments:
        path = tmp_path / f"{name}.yaml"
        path.write_text("{}")
        context = {**LEAVE_ASSETS, DEPLOYMENT_CONTEXT: str(path)}
        build_app(outdir=tmp_path / name, context=context, is_validated=False).synth()
        (template,) = (tmp_path / name).glob("*.template.json")
        (passed,) = (
            arn
            for statement in statements(json.loads(template.read_text())["Resources"])
            if statement.sid == "HandRoleToInstances"
            for arn in statement.resources
        )
        role = passed.rpartition(":role/")[2]
        matched = [
            other
            for other in names_of_deployments
            if fnmatchcase(f"reservoir-{other}-node", role)
        ]
        assert matched == [name]


def test_manifests_reach_the_apply_function(tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    (folder / "gpu").mkdir(parents=True)
    (folder / "a.yaml").write_text("kind: NodePool\n")
    (folder / "gpu" / "b.yml").write_text("kind: EC2NodeClass\n")
    (folder / "gpu" / "c.json").write_text('{"kind": "NodePool"}')
    (folder / "notes.txt").write_text("not a manifest")
    template = synthesise(tmp_path / "out", {"manifests": str(folder)})
    ((_, applied),) = of_type(template["Resources"], "Custom::ReservoirManifests").items()
    assert applied[names.MANIFESTS_PROPERTY] == [
        {names.MANIFEST_NAME: "a.yaml", names.MANIFEST_TEXT: "kind: NodePool\n"},
        {names.MANIFEST_NAME: "gpu/b.yml", names.MANIFEST_TEXT: "kind: EC2NodeClass\n"},
        {names.MANIFEST_NAME: "gpu/c.json", names.MANIFEST_TEXT: '{"kind": "NodePool"}'},
    ]
    function = template["Resources"][as_list(applied["ServiceToken"]["Fn::GetAtt"])[0]][
        "Properties"
    ]
    assert function["Handler"] == "functions.apply.handler.handler"


def test_the_role_of_spot_never_comes_and_goes_with_a_stack(tmp_path: Path) -> None:
    template = synthesise(tmp_path, {"spotServiceLinkedRole": True})
    assert of_type(template["Resources"], "AWS::IAM::ServiceLinkedRole") == {}


def test_cloudformation_waits_minutes_for_the_apply_function_and_not_an_hour(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "a.yaml").write_text("kind: NodePool\n")
    template = synthesise(tmp_path / "out", {"manifests": str(folder)})
    ((_, applied),) = of_type(template["Resources"], "Custom::ReservoirManifests").items()
    assert FUNCTIONS[Function.APPLY].timeout_s < int(applied["ServiceTimeout"]) <= 300


def test_the_function_that_launches_has_ended_when_its_unanswered_calls_count_as_over() -> (
    None
):
    assert FUNCTIONS[Function.LAUNCH].timeout_s < CALLS_END_AFTER.total_seconds()
    assert FUNCTIONS[Function.LAUNCH].timeout_s > ONE_LONG_WAIT.read_timeout_s


def test_lambda_takes_no_function_that_feeds_another_for_a_loop(tmp_path: Path) -> None:
    functions = of_type(synthesise(tmp_path, {})["Resources"], "AWS::Lambda::Function")
    assert {function["RecursiveLoop"] for function in functions.values()} == {"Allow"}


TOPIC = "arn:aws:sns:us-east-1:123456789012:pages"
UNRESERVED_LEAST = 100  # Lambda refuses to leave less for everybody else


def test_every_alarm_tells_the_topic_when_it_goes_off_and_when_it_is_over(
    tmp_path: Path,
) -> None:
    template = synthesise(tmp_path, {"alarmTopic": TOPIC}, embedded=True)
    alarms = of_type(template["Resources"], "AWS::CloudWatch::Alarm").values()
    assert alarms
    assert all(alarm["AlarmActions"] == alarm["OKActions"] == [TOPIC] for alarm in alarms)


def test_concurrency_is_kept_for_the_sweeps_and_reactions_on_request(
    tmp_path: Path,
) -> None:
    def reserved(settings: Mapping[str, Any]) -> dict[str, int]:
        resources = synthesise(tmp_path / str(len(settings)), settings, embedded=True)[
            "Resources"
        ]
        return {
            function["FunctionName"]: function["ReservedConcurrentExecutions"]
            for function in of_type(resources, "AWS::Lambda::Function").values()
            if "ReservedConcurrentExecutions" in function
        }

    assert reserved({}) == {}
    kept = reserved({"reserveConcurrency": True})
    assert kept == {
        "Reservoir-discover-reservations": 2,
        "Reservoir-react": 5,
        "Reservoir-expire": 3,
        "Reservoir-disrupt": 2,
        "Reservoir-collect": 1,
    }
    told = DeploymentSettings.model_fields["reserve_concurrency"].description or ""
    assert f"Keep {sum(kept.values())} of" in told
    assert f"limit of at least {sum(kept.values()) + UNRESERVED_LEAST} " in told


def test_what_is_kept_is_enough_for_what_the_queues_poller_starts() -> None:
    for settings in FUNCTIONS.values():
        if settings.reserved_concurrency is not None and settings.queue is not None:
            assert settings.reserved_concurrency >= settings.max_concurrency
