import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App

from infra.config import StackConfig
from infra.manifests import MANIFESTS_LIMIT_BYTES, read_manifests
from infra.scheduling import SchedulingConfig
from shared import names
from tests.infra.reading import as_list, of_type
from tests.infra.synthesis import template_app


def config_of(context: Mapping[str, Any]) -> StackConfig:
    return StackConfig.from_context(App(context=dict(context)).node)


def synthesise(folder: Path, context: Mapping[str, Any]) -> dict[str, Any]:
    template_app(folder, context).synth()
    (template,) = folder.glob("*.template.json")
    result: dict[str, Any] = json.loads(template.read_text())
    return result


def test_nothing_given_is_the_default() -> None:
    assert config_of({}) == StackConfig()


def test_the_command_lines_text_is_understood() -> None:
    config = config_of({"stack": "Staging", "retain": "false", "embedded": "true", "instanceRole": "ml/node-*"})
    assert config == StackConfig(stack="Staging", retain=False, embedded=True, instance_role="ml/node-*")
    assert config.event_bus_name == "Staging-reservoir"
    assert StackConfig().event_bus_name == "reservoir"


@pytest.mark.parametrize(
    "context",
    [
        {"retain": "yes"},
        {"stack": "has space"},
        {"stack": "x" * 41},
        {"instanceRole": "*"},
        {"instanceRole": "a*"},
        {"instanceRole": "*-node"},
        {"imageParameters": "/*"},
        {"imageParameters": "images/*"},
        {"manifests": "no/such/folder"},
        {"rebalancePolicy": "drain"},
        {"instanceStatusPolicy": "off"},
        {"preferencePolicy": "respect"},
        {"minValuesPolicy": "Lax"},
        {"noDurationPolicy": "Refuse"},
        {"spotPoolSharePercent": "0"},
        {"spotPoolSharePercent": 50.5},
        {"reservedFloorPercent": "101"},
        {"nodeOverheadMicroUsdPerHour": "0.002"},
        {"solveBudgetS": "90"},
        {"solveBudgetS": True},
    ],
)
def test_a_wrong_choice_names_its_key(context: Mapping[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(context))):
        config_of(context)


def test_the_planners_functions_are_told_how_to_decide(tmp_path: Path) -> None:
    context = {"spotPoolSharePercent": "30", "minValuesPolicy": "BestEffort", "solveBudgetS": 20.0}
    assert config_of(context).scheduling == SchedulingConfig(
        spot_pool_share_percent=30, min_values_policy="BestEffort", solve_budget_s=20
    )
    functions = of_type(synthesise(tmp_path, {"embedded": True, **context})["Resources"], "AWS::Lambda::Function")
    planners = ("functions.provision.handler.handler", "functions.disrupt.handler.handler")
    told = [item["Environment"]["Variables"] for item in functions.values() if item["Handler"] in planners]
    assert [variables[names.SPOT_POOL_SHARE_PERCENT] for variables in told] == ["30", "30"]
    assert [variables[names.SOLVE_BUDGET_S] for variables in told] == ["20", "20"]


def test_another_stack_shares_no_name_with_the_default(tmp_path: Path) -> None:
    template = synthesise(tmp_path, {"stack": "Staging", "retain": False})
    resources = template["Resources"]
    chosen = {
        properties[key]
        for properties in (resource.get("Properties", {}) for resource in resources.values())
        for key in ("FunctionName", "LogGroupName", "Name")
        if isinstance(properties.get(key), str)
    }
    assert chosen
    assert all("Staging" in name for name in chosen)
    for table in of_type(resources, "AWS::DynamoDB::Table").values():
        assert table["DeletionProtectionEnabled"] is False


def test_rebalance_recommendations_are_asked_for_only_when_they_do_something(tmp_path: Path) -> None:
    def rules(context: Mapping[str, Any]) -> list[list[str]]:
        resources = synthesise(tmp_path / str(len(context)), {"embedded": True, **context})["Resources"]
        found = of_type(resources, "AWS::Events::Rule").values()
        return [kinds for rule in found for kinds in [rule.get("EventPattern", {}).get("detail-type")] if kinds]

    recommended = ["EC2 Instance Rebalance Recommendation"]
    assert recommended not in rules({})
    assert recommended in rules({"rebalancePolicy": "launch-before-drain"})


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
    function = template["Resources"][as_list(applied["ServiceToken"]["Fn::GetAtt"])[0]]["Properties"]
    assert function["Handler"] == "functions.apply.handler.handler"


def test_a_folder_without_manifests_or_with_too_much_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no file that ends in"):
        read_manifests(tmp_path)
    (tmp_path / "huge.yaml").write_text("#" * (MANIFESTS_LIMIT_BYTES + 1))
    with pytest.raises(ValueError, match="at most"):
        read_manifests(tmp_path)


def test_the_spot_role_is_made_on_request(tmp_path: Path) -> None:
    template = synthesise(tmp_path, {"spotServiceLinkedRole": True})
    ((_, role),) = of_type(template["Resources"], "AWS::IAM::ServiceLinkedRole").items()
    assert role["AWSServiceName"] == "spot.amazonaws.com"
