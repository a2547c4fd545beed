"""The settings file of a deployment: what it says, and what is said to one that is wrong."""

import typing
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from infra.safety import safety_environment
from reservoir import names
from reservoir.core.model.policy import MinValuesPolicy, NoDurationPolicy, PreferencePolicy
from reservoir.core.node_life.drain import InstanceStatusPolicy, RebalancePolicy
from reservoir.core.safety.endings import DEFAULT_BOUNDS, EndingKind
from reservoir.deployment.deployment import Deployment, find, read
from reservoir.deployment.ending_bounds import EndingBounds
from reservoir.deployment.manifests_folder import MANIFESTS_LIMIT_BYTES
from reservoir.deployment.settings import DeploymentSettings
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.runtime.ending_bounds import ending_bounds

EXAMPLES = Path(__file__).parents[2] / "examples" / "deployments"


def deployment(folder: Path, text: str, name: str = "staging") -> Deployment:
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return read(path)


def said(folder: Path, text: str, name: str = "staging") -> str:
    """What is said to settings that are refused."""
    with pytest.raises(ManifestError) as refused:
        deployment(folder, text, name)
    return str(refused.value)


def test_an_empty_mapping_is_a_deployment_with_every_default(tmp_path: Path) -> None:
    staging = deployment(tmp_path, "{}")
    assert staging.settings == DeploymentSettings()
    assert (staging.name, staging.stack, staging.event_bus_name) == (
        "staging",
        "Reservoir-staging",
        "Reservoir-staging-reservoir",
    )
    assert (staging.instance_role, staging.manifests) == ("reservoir-staging-node", None)


def test_the_default_stack_has_the_plain_bus(tmp_path: Path) -> None:
    assert deployment(tmp_path, "stack: Reservoir").event_bus_name == "reservoir"


def test_the_folder_of_manifests_lies_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "policy").mkdir()
    (tmp_path / "policy" / "pool.yaml").touch()
    assert deployment(tmp_path, "manifests: policy").manifests == tmp_path / "policy"


@pytest.mark.parametrize(
    "path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem
)
def test_the_example_can_be_deployed(path: Path) -> None:
    assert read(path).manifests is not None


def test_a_folder_that_is_not_there_is_told_beside_everything_else(tmp_path: Path) -> None:
    told = said(tmp_path, "manifests: ../nowhere\ninstanceRole: 5")
    assert "'../nowhere' is not a folder beside this file" in told
    assert "instanceRole: must be a string" in told


def test_a_folder_without_manifests_or_with_too_much_is_told_with_its_line(
    tmp_path: Path,
) -> None:
    (tmp_path / "policy").mkdir()
    assert "staging.yaml:1: error: manifests: 'policy' holds no file that ends in" in said(
        tmp_path, "manifests: policy"
    )
    (tmp_path / "policy" / "huge.yaml").write_text("#" * (MANIFESTS_LIMIT_BYTES + 1))
    assert "at most 200000 can be deployed" in said(tmp_path, "manifests: policy")


def test_a_team_can_be_named_as_removed(tmp_path: Path) -> None:
    assert deployment(tmp_path, "removed: [Team/audio]").settings.removed == ["Team/audio"]


def test_everything_that_is_wrong_is_told_at_once_with_its_line_and_the_nearest_field(
    tmp_path: Path,
) -> None:
    text = "retian: false\nspotPoolSharePercent: 0\naccount: 123456789012\nrebalancePolicy: Launch-before-drain\n"
    lines = said(tmp_path, text).splitlines()
    source = tmp_path / "staging.yaml"
    assert lines == [
        f"{source}:1: error: retian: is not a known field (did you mean retain?) [unknown-field]",
        f"{source}:2: error: spotPoolSharePercent: input should be greater than or equal to 1 (did you mean 1?)"
        " [greater-than-equal]",
        f'{source}:3: error: account: must be a string; put it in quotes (did you mean "123456789012"?) [string-type]',
        f"{source}:4: error: rebalancePolicy: 'Launch-before-drain' is not one of 'ignore' or 'launch-before-drain'"
        " (did you mean launch-before-drain?) [literal-error]",
    ]


@pytest.mark.parametrize(
    ("region", "reason"),
    [
        ("cn-northwest-1", "prices in China are in CNY"),
        ("us-gov-east-1", "there is no price list there"),
        ("us-iso-east-1", "there is no price list there"),
        ("us-isob-east-1", "there is no price list there"),
        ("eu-isoe-west-1", "there is no price list there"),
        ("eusc-de-east-1", "its price list is another one"),
    ],
)
def test_a_partition_that_is_not_served_is_refused_with_the_reason(
    tmp_path: Path, region: str, reason: str
) -> None:
    assert f"region: is not supported: {reason}" in said(tmp_path, f"region: {region}")


@pytest.mark.parametrize(
    "region", ["us-east-1", "eu-central-1", "ap-southeast-2", "me-central-1"]
)
def test_every_region_with_prices_in_usd_is_served(tmp_path: Path, region: str) -> None:
    assert deployment(tmp_path, f"region: {region}").settings.region == region


@pytest.mark.parametrize(
    "text",
    [
        "retain: 'yes'",
        "kmsKeys: [arn:aws:kms:us-east-1:123456789012:alias/volumes]",
        "kmsKeys: arn:aws:kms:us-east-1:123456789012:key/1",
        "metadataHttpTokens: 'no'",
        "alarmTopic: alarms",
        "alarmTopic: arn:aws:sns:us-east-1:123456789012:alarms.fifo",
        "reserveConcurrency: some",
        "stack: has space",
        f"stack: {'x' * 41}",
        "account: '12345'",
        "region: Frankfurt",
        "instanceRole: '*'",
        "instanceRole: a*",
        "instanceRole: '*-node'",
        "imageParameters: /*",
        "imageParameters: images/*",
        "manifests: no/such/folder",
        "removed: [gpu-training]",
        "removed: [Workload/a]",
        "rebalancePolicy: drain",
        "instanceStatusPolicy: 'off'",
        "preferencePolicy: respect",
        "minValuesPolicy: Lax",
        "noDurationPolicy: Refuse",
        "spotToSpotConsolidation: Enabled",
        "spotPoolSharePercent: 50.5",
        "reservedFloorPercent: 101",
        "nodeOverheadMicroUsdPerHour: 0.002",
        "solveBudgetS: 90",
        "solveBudgetS: true",
        "endingBounds: 10%",
        "endingBounds: {everything: {sharePercent: 10}}",
        "endingBounds: {orphans: {share: 10}}",
        "endingBounds: {orphans: {sharePercent: 101}}",
        "endingBounds: {orphans: {leastCount: -1}}",
        "endingBounds: {orphans: {mostCount: 2.5}}",
        "permissionsBoundary: developers",
        "permissionsBoundary: arn:aws:iam::123456789012:role/developers",
        "tags: {reservoir:deployment: mine}",
        "tags: {'aws:cloudformation:stack-name': mine}",
        "tags: {karpenter.sh/nodepool: mine}",
        f"tags: {{team: {'x' * 257}}}",
        "tags: {" + ", ".join(f"t{number}: v" for number in range(11)) + "}",
        "tags: {" + ", ".join(f"t{number}: {'v' * 200}" for number in range(6)) + "}",
        "bootstrapQualifier: Acme",
        "bootstrapQualifier: elevenchars",
        "logRetentionDays: 31",
    ],
)
def test_a_wrong_choice_names_its_field(text: str, tmp_path: Path) -> None:
    field = text.partition(":")[0]
    assert f"staging.yaml:1: error: {field}" in said(tmp_path, text)


@pytest.mark.parametrize("text", ["", "- a", "a: 1\n---\nb: 2", "just text"])
def test_what_is_no_mapping_is_refused(text: str, tmp_path: Path) -> None:
    assert "must be one mapping of settings" in said(tmp_path, text)


def test_a_file_whose_name_cannot_name_a_deployment_is_refused(tmp_path: Path) -> None:
    assert "must be a letter" in said(tmp_path, "{}", name="My Staging")


def test_the_policies_are_those_that_the_functions_know() -> None:
    fields: Mapping[str, Any] = DeploymentSettings.model_fields
    known: Mapping[str, type[StrEnum]] = {
        "rebalance_policy": RebalancePolicy,
        "instance_status_policy": InstanceStatusPolicy,
        "preference_policy": PreferencePolicy,
        "min_values_policy": MinValuesPolicy,
        "no_duration_policy": NoDurationPolicy,
    }
    assert tuple(RebalancePolicy) == names.REBALANCE_POLICIES
    for name, kind in known.items():
        values = tuple(kind)
        assert typing.get_args(fields[name].annotation) == values
        assert fields[name].default == values[0]


# -- which file


def chosen(name: str | None, folder: Path) -> str:
    try:
        return find(name, folder).name
    except ManifestError as error:
        return str(error)


def test_the_only_settings_file_is_the_one_that_is_meant(tmp_path: Path) -> None:
    (tmp_path / "production.yaml").touch()
    assert chosen(None, tmp_path) == "production.yaml"


def test_of_several_one_must_be_named(tmp_path: Path) -> None:
    for name in ("production", "staging"):
        (tmp_path / f"{name}.yaml").touch()
    assert chosen("staging", tmp_path) == "staging.yaml"
    assert "which deployment? There are production, staging" in chosen(None, tmp_path)
    assert "there are production, staging (did you mean staging?)" in chosen(
        "stagign", tmp_path
    )


def test_without_any_it_is_said_how_to_begin(tmp_path: Path) -> None:
    for name in (None, "production"):
        assert "copy of examples/deployments/production.yaml" in chosen(
            name, tmp_path / "deployments"
        )


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    assert find(str(tmp_path / "x.yaml"), tmp_path) == tmp_path / "x.yaml"
    with pytest.raises(ManifestError, match="cannot be read: No such file"):
        read(tmp_path / "x.yaml")


def test_functions_read_the_bounds_of_endings_that_were_chosen(tmp_path: Path) -> None:
    chosen = deployment(
        tmp_path, "endingBounds: {deletedPools: {mostCount: 7}, expiry: {sharePercent: 30}}"
    )
    bounds = ending_bounds(safety_environment(chosen.settings))
    assert bounds.of(EndingKind.DELETED_POOLS) == replace(
        DEFAULT_BOUNDS[EndingKind.DELETED_POOLS], most_count=7
    )
    assert bounds.of(EndingKind.EXPIRY) == replace(
        DEFAULT_BOUNDS[EndingKind.EXPIRY], share_percent=30
    )
    assert bounds.of(EndingKind.SURPLUS) == DEFAULT_BOUNDS[EndingKind.SURPLUS]


def test_each_kind_of_ending_can_be_bounded_and_tells_its_default() -> None:
    fields = EndingBounds.model_fields
    assert {name.replace("_", "-") for name in fields} == {
        kind.value for kind in EndingKind
    }
    for name, field in fields.items():
        bound = DEFAULT_BOUNDS[EndingKind(name.replace("_", "-"))]
        told = f"{bound.share_percent} %, {bound.least_count}, {bound.most_count:,}."
        assert (field.description or "").endswith(told)
