from typing import Any

import pytest
from pydantic import ValidationError

from reservoir.core.model.node_pool import (
    Budget,
    ConsolidationPolicy,
    Disruption,
    DisruptionReason,
)
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.scheduling_terms.taint import Taint, TaintEffect
from reservoir.manifests.kinds.node_pool import NodePoolManifest
from reservoir.manifests.parsing.load import Document
from reservoir.manifests.validate import read_document
from tests.manifests.kinds import valid


def changed(path: str, value: Any) -> dict[str, Any]:
    """The valid pool with one field set (or removed, for None)."""
    manifest = valid.node_pool()
    *parents, last = path.split(".")
    target: Any = manifest
    for step in parents:
        target = target[int(step)] if step.isdigit() else target.setdefault(step, {})
    if value is None:
        del target[last]
    else:
        target[last] = value
    return manifest


def rules(manifest: dict[str, Any]) -> set[tuple[str, str]]:
    _, problems = read_document(Document(manifest))
    return {(problem.path, problem.rule) for problem in problems}


def test_every_field_arrives_in_the_core() -> None:
    pool = NodePoolManifest.model_validate(valid.node_pool()).to_core()
    assert (pool.name, pool.node_class_name, pool.weight) == ("pool", "class", 10)
    assert pool.requirements[labels.CAPACITY_TYPE].values == {"reserved", "spot"}
    assert pool.requirements[labels.INSTANCE_CPU] == Requirement.new(
        labels.INSTANCE_CPU, Operator.GT, ["4"], 3
    )
    assert pool.requirements["team"].values == {"red"}
    assert pool.requirements[labels.NODE_POOL].values == {"pool"}
    assert pool.labels == {"team": "red"}
    assert pool.taints == (Taint("nvidia.com/gpu", "true", TaintEffect.NO_SCHEDULE),)
    assert pool.startup_taints == (Taint("booting", "", TaintEffect.NO_EXECUTE),)
    assert pool.limits == Resources.of({"cpu": 100_000, "nvidia.com/gpu": 16, "nodes": 5})
    assert (pool.expire_after_s, pool.termination_grace_period_s) == (720 * 3600, 5400)
    reasons = frozenset({DisruptionReason.DRIFTED, DisruptionReason.EMPTY})
    assert pool.disruption == Disruption(
        ConsolidationPolicy.BALANCED,
        None,
        (Budget("10%"), Budget("0", reasons, "0 9 * * MON-FRI", 8 * 3600, "Europe/Berlin")),
        1800,
        True,  # in the order of the fields
    )


def test_defaults_are_karpenters() -> None:
    manifest = valid.node_pool()
    manifest["spec"] = {
        "template": {"spec": {"nodeClassRef": {"name": "class"}, "requirements": []}}
    }
    pool = NodePoolManifest.model_validate(manifest).to_core()
    assert pool.disruption == Disruption()
    assert (pool.weight, pool.limits) == (0, None)
    assert (pool.expire_after_s, pool.termination_grace_period_s) == (720 * 3600, None)


@pytest.mark.parametrize(("text", "seconds"), [("WhileReservationLasts", 0), ("90m", 5400)])
def test_keep_reserved(text: str, seconds: int) -> None:
    manifest = changed("spec.disruption.keepReserved", text)
    assert (
        NodePoolManifest.model_validate(manifest).to_core().disruption.keep_reserved_s
        == seconds
    )


def test_units_move_only_where_that_is_asked_for() -> None:
    manifest = valid.node_pool()
    assert (
        NodePoolManifest.model_validate(manifest).to_core().disruption.move_reserved_units
    )
    del manifest["spec"]["disruption"]["moveReservedUnits"]
    assert (
        not NodePoolManifest.model_validate(manifest)
        .to_core()
        .disruption.move_reserved_units
    )


def test_a_limit_of_zero_stops_the_pool() -> None:
    pool = NodePoolManifest.model_validate(changed("spec.limits", {"cpu": 0})).to_core()
    assert pool.limits is not None
    assert "cpu" in pool.limits


REQUIREMENT = "spec.template.spec.requirements[0]"


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("apiVersion", "karpenter.sh/v1beta1", ("apiVersion", "apiVersion")),
        ("metadata.name", "Pool", ("metadata.name", "name")),
        ("metadata.name", "p" * 254, ("metadata.name", "string-too-long")),
        ("metadata.name", "a\n", ("metadata.name", "name")),
        ("metadata.name", "p\u0430yments", ("metadata.name", "name")),  # a Cyrillic letter
        ("metadata.labels", {"-a": "b"}, ("metadata.labels.-a", "label-key")),
        ("metadata.labels", {"a": "b c"}, ("metadata.labels.a", "label-value")),
        ("spec.weight", 0, ("spec.weight", "greater-than-equal")),
        ("spec.weight", 101, ("spec.weight", "less-than-equal")),
        ("spec.weight", "10", ("spec.weight", "int-type")),
        ("spec.weight", True, ("spec.weight", "int-type")),
        ("spec.wieght", 1, ("spec.wieght", "unknown-field")),
        ("spec.limits", {"nodes": "1.5"}, ("spec.limits", "quantity")),
        ("spec.limits", {"cpu": "-1"}, ("spec.limits.cpu", "quantity")),
        (
            "spec.template.spec.nodeClassRef.name",
            None,
            ("spec.template.spec.nodeClassRef.name", "missing"),
        ),
        (
            "spec.template.spec.expireAfter",
            "30d",
            ("spec.template.spec.expireAfter", "duration"),
        ),
        (
            "spec.template.spec.terminationGracePeriod",
            "Never",
            ("spec.template.spec.terminationGracePeriod", "duration"),
        ),
        (
            "spec.template.metadata.labels",
            {"karpenter.sh/nodepool": "x"},
            ("spec.template.metadata.labels['karpenter.sh/nodepool']", "label-restricted"),
        ),
        (
            "spec.template.metadata.labels",
            {"kubernetes.io/hostname": "x"},
            ("spec.template.metadata.labels['kubernetes.io/hostname']", "label-restricted"),
        ),
        (
            "spec.template.spec.requirements.0.operator",
            "in",
            (f"{REQUIREMENT}.operator", "enum"),
        ),
        (
            "spec.template.spec.requirements.0.values",
            [],
            (f"{REQUIREMENT}.values", "values"),
        ),
        (
            "spec.template.spec.requirements.0.values",
            ["ondemand"],
            (f"{REQUIREMENT}.values", "label-value-unknown"),
        ),
        (
            "spec.template.spec.requirements.0.minValues",
            3,
            (f"{REQUIREMENT}.minValues", "min-values"),
        ),
        (
            "spec.template.spec.requirements.0.minValues",
            51,
            (f"{REQUIREMENT}.minValues", "less-than-equal"),
        ),
        (
            "spec.template.spec.requirements.0.key",
            "kubernetes.io/hostname",
            (f"{REQUIREMENT}.key", "label-restricted"),
        ),
        (
            "spec.template.spec.requirements.0.key",
            "karpenter.sh/x",
            (f"{REQUIREMENT}.key", "label-restricted"),
        ),
        (
            "spec.template.spec.taints.0.effect",
            "Never",
            ("spec.template.spec.taints[0].effect", "enum"),
        ),
        (
            "spec.disruption.budgets.0.nodes",
            "110%",
            ("spec.disruption.budgets[0].nodes", "budget-nodes"),
        ),
        (
            "spec.disruption.budgets.0.duration",
            "1h",
            ("spec.disruption.budgets[0].schedule", "budget-window"),
        ),
        (
            "spec.disruption.budgets.1.schedule",
            "hourly",
            ("spec.disruption.budgets[1].schedule", "schedule"),
        ),
        (
            "spec.disruption.budgets.1.timeZone",
            "Mars/Base",
            ("spec.disruption.budgets[1].timeZone", "time-zone"),
        ),
        (
            "spec.disruption.budgets.1.reasons",
            ["Bored"],
            ("spec.disruption.budgets[1].reasons[0]", "enum"),
        ),
        ("spec.replicas", 3, ("spec.weight", "static")),
        ("spec.replicas", 3, ("spec.limits", "static")),
        ("spec.replicas", -1, ("spec.replicas", "replicas")),
        ("spec.replicas", 2.5, ("spec.replicas", "replicas")),
        ("spec.replicas", True, ("spec.replicas", "replicas")),
        ("spec.replicas", "AllReserved", ("spec.replicas", "replicas")),
        ("spec.warmReserved", "all", ("spec.warmReserved", "warm-reserved")),
        ("spec.warmReserved", -1, ("spec.warmReserved", "warm-reserved")),
        ("spec.warmReserved", True, ("spec.warmReserved", "warm-reserved")),
        (
            "spec.warmReservedDuring",
            {"schedule": "@daily", "duration": "8h"},
            ("spec.warmReservedDuring", "warm-window"),
        ),
        (
            "spec.warmReservedDuring",
            {"schedule": "at noon", "duration": "8h"},
            ("spec.warmReservedDuring.schedule", "schedule"),
        ),
        (
            "spec.warmReservedDuring",
            {"schedule": "@daily"},
            ("spec.warmReservedDuring.duration", "missing"),
        ),
    ],
)
def test_what_is_wrong_is_found_at_its_place(
    path: str, value: Any, problem: tuple[str, str]
) -> None:
    assert problem in rules(changed(path, value))


def test_everything_that_is_wrong_is_said_at_once() -> None:
    manifest = changed("spec.template.spec.requirements.1.values", ["many"])
    manifest["metadata"]["name"] = "X"
    manifest["spec"]["weight"] = "x"
    manifest["spec"]["disruption"]["budgets"][1]["duration"] = "1 hour"
    manifest["spec"]["template"]["spec"]["taints"][0] = {"key": "a", "value": "b c"}
    manifest["spec"]["replicas"] = -1
    manifest["status"] = {"anything": 1}
    assert rules(manifest) == {
        ("metadata.name", "name"),
        ("spec.weight", "int-type"),
        ("spec.replicas", "replicas"),
        ("spec.weight", "static"),
        ("spec.limits", "static"),
        ("spec.template.spec.requirements[1].values", "values"),
        ("spec.template.spec.taints[0].effect", "missing"),
        ("spec.template.spec.taints[0].value", "label-value"),
        ("spec.disruption.budgets[1].duration", "duration"),
    }


def test_a_static_pool_keeps_no_units_warm() -> None:
    manifest = changed("spec.warmReserved", 2)
    manifest["spec"]["replicas"] = 3
    assert ("spec.warmReserved", "static") in rules(manifest)


def test_a_field_at_the_wrong_place_is_sent_to_the_right_one() -> None:
    _, problems = read_document(Document(changed("spec.requirements", [])))
    assert [problem.suggestion for problem in problems] == [
        "spec.template.spec.requirements"
    ]


def test_the_hash_covers_what_running_nodes_cannot_change_and_nothing_else() -> None:
    def digest(path: str = "spec.weight", value: Any = 10) -> str:
        return NodePoolManifest.model_validate(changed(path, value)).to_core().static_hash

    same = digest()
    assert digest("spec.weight", 11) == same
    assert digest("spec.template.spec.requirements", []) == same
    assert digest("spec.template.spec.terminationGracePeriod", "90m") == same
    assert digest("spec.template.metadata.labels", {"team": "blue"}) != same
    assert digest("spec.template.spec.taints", []) != same
    assert digest("spec.template.spec.expireAfter", "Never") != same


def test_a_manifest_cannot_be_changed_by_its_reader() -> None:
    manifest = NodePoolManifest.model_validate(valid.node_pool())
    with pytest.raises(ValidationError):
        manifest.kind = "Other"  # type: ignore[assignment,misc] # the point of the test


# a hundred years, and the longest that Go can hold
@pytest.mark.parametrize("age", ["876000h", "2562047h"])
def test_an_age_that_was_written_for_never_is_taken(age: str) -> None:
    manifest = valid.node_pool()
    manifest["spec"]["template"]["spec"]["expireAfter"] = age
    assert not valid.errors(manifest)


def test_an_age_beyond_what_karpenter_can_hold_is_refused() -> None:
    manifest = valid.node_pool()
    manifest["spec"]["template"]["spec"]["expireAfter"] = "2562048h"
    assert valid.errors(manifest) == {("spec.template.spec.expireAfter", "duration")}


def test_a_pool_of_windows_nodes_is_refused_and_one_that_allows_windows_is_not() -> None:
    def errors(*values: str) -> set[tuple[str, str]]:
        manifest = valid.node_pool()
        requirement = {"key": "kubernetes.io/os", "operator": "In", "values": list(values)}
        manifest["spec"]["template"]["spec"]["requirements"] = [requirement]
        return valid.errors(manifest)

    assert errors("windows") == {("spec.template.spec.requirements[0].values", "windows")}
    assert not errors("linux", "windows")


FRACTION = "reservoir/gpu-fraction"


@pytest.mark.parametrize(
    ("requirements", "allows"),
    [
        ([], False),
        (
            [
                {
                    "key": "karpenter.k8s.aws/instance-category",
                    "operator": "In",
                    "values": ["g"],
                }
            ],
            False,
        ),
        (
            [
                {
                    "key": "karpenter.k8s.aws/instance-family",
                    "operator": "NotIn",
                    "values": ["g6"],
                }
            ],
            False,
        ),
        (
            [
                {
                    "key": "karpenter.k8s.aws/instance-family",
                    "operator": "In",
                    "values": ["g6f"],
                }
            ],
            True,
        ),
        (
            [
                {
                    "key": "node.kubernetes.io/instance-type",
                    "operator": "In",
                    "values": ["g6f.large"],
                }
            ],
            True,
        ),
        ([{"key": FRACTION, "operator": "Exists"}], True),
        (
            [
                {
                    "key": "karpenter.k8s.aws/instance-gpu-memory",
                    "operator": "Lt",
                    "values": ["9000"],
                }
            ],
            True,
        ),
        (
            [
                {
                    "key": "karpenter.sh/capacity-type",
                    "operator": "In",
                    "values": ["reserved"],
                }
            ],
            True,
        ),
    ],
)
def test_parts_of_gpus_are_for_pools_that_name_them(
    requirements: list[dict[str, Any]], allows: bool
) -> None:
    manifest = valid.node_pool()
    manifest["spec"]["template"]["spec"]["requirements"] = requirements
    pool = NodePoolManifest.model_validate(manifest).to_core()
    eighth = Requirements.from_labels({FRACTION: "0.125"})
    assert (
        pool.requirements[FRACTION].has("0.125")
        and pool.requirements.intersects(eighth) is None
    ) is allows
