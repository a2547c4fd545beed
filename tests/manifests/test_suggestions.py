"""Whatever is written almost right is answered with what is nearest to it and valid."""

from typing import Any

import pytest

from reservoir.manifests.parsing import nearest
from reservoir.manifests.parsing.fields import check_duration
from reservoir.manifests.parsing.load import Document
from reservoir.manifests.parsing.problems import Problem
from reservoir.manifests.validate import read_document
from tests.manifests.kinds import valid

KINDS = {"pool": valid.node_pool, "class": valid.node_class, "workload": valid.workload}
POOL_SPEC = "spec.template.spec"


def broken(kind: str, path: str, value: Any) -> list[Problem]:
    """The problems of a valid manifest with one field set; the place ``a[0].b`` is written ``a.0.b``."""
    manifest = KINDS[kind]()
    target: Any = manifest
    steps = path.split(".")
    for step in steps[:-1]:
        target = target[int(step)] if step.isdigit() else target.setdefault(step, {})
    target[steps[-1]] = value
    _, problems = read_document(Document(manifest))
    return problems


@pytest.mark.parametrize(
    ("kind", "path", "value", "suggestion"),
    [
        # names of fields, kinds, versions, operators, effects, reasons, policies
        ("pool", "apiVersion", "karpenter.sh/v1beta1", "karpenter.sh/v1"),
        ("pool", "kind", "Nodepool", "NodePool"),
        ("pool", "spec.wieght", 1, "weight"),
        ("pool", "spec.requirements", [], "spec.template.spec.requirements"),
        ("pool", f"{POOL_SPEC}.nodeClassRef.kind", "EC2NodeClas", "EC2NodeClass"),
        (
            "pool",
            f"{POOL_SPEC}.nodeClassRef.group",
            "karpenter.sh.aws",
            "karpenter.k8s.aws",
        ),
        ("pool", f"{POOL_SPEC}.requirements.0.operator", "in", "In"),
        ("pool", f"{POOL_SPEC}.requirements.0.operator", "GreaterThanOrEqual", None),
        (
            "pool",
            f"{POOL_SPEC}.requirements.0.key",
            "karpenter.sh/capacity-typ",
            "karpenter.sh/capacity-type",
        ),
        ("pool", f"{POOL_SPEC}.requirements.0.values", ["ondemand"], "on-demand"),
        ("pool", f"{POOL_SPEC}.taints.0.effect", "NoShedule", "NoSchedule"),
        ("pool", "spec.template.metadata.labels", {"karpenter.sh/nodepoll": "x"}, None),
        (
            "pool",
            "spec.disruption.consolidationPolicy",
            "WhenUnderutilized",
            "WhenEmptyOrUnderutilized",
        ),
        ("pool", "spec.disruption.budgets.1.reasons", ["Drift"], "Drifted"),
        ("pool", "spec.disruption.budgets.1.timeZone", "Europe/Berlim", "Europe/Berlin"),
        ("pool", "spec.disruption.budgets.1.schedule", "@dayly", "@daily"),
        (
            "pool",
            "spec.disruption.keepReserved",
            "whileReservationLast",
            "WhileReservationLasts",
        ),
        ("pool", "spec.limits", {"memroy": "1Gi"}, "memory"),
        ("pool", "spec.limits", {"gpu": 8}, None),
        ("class", "spec.amiSelectorTerms", [{"alias": "al2032@latest"}], "al2023@latest"),
        ("class", "spec.amiSelectorTerms", [{"alias": "AL2023"}], "al2023@latest"),
        ("class", "spec.metadataOptions.httpTokens", "require", "required"),
        ("class", "spec.fleetTargetingMode", "reserved_capacity", "reserved-capacity"),
        (
            "class",
            "spec.capacityReservationSelectorTerms",
            [{"reservationGroupArn": "x"}],
            "reservationGroupARN",
        ),
        (
            "workload",
            "spec.gangTopologyKey",
            "topology.kubernetes.io/zones",
            "topology.kubernetes.io/zone",
        ),
        (
            "workload",
            "spec.topologySpreadConstraints.0.topologyKey",
            "kubernetes.io/host",
            "kubernetes.io/hostname",
        ),
        (
            "workload",
            "spec.topologySpreadConstraints.0.whenUnsatisfiable",
            "DoNotSchedul",
            "DoNotSchedule",
        ),
        ("workload", "spec.fallback.0.capacityType", "ondemand", "on-demand"),
        ("workload", "spec.nodeSelector", {"kubernetes.io/arch": "amd"}, "amd64"),
        # forms of values
        ("pool", "metadata.name", "GPU_Training", "gpu-training"),
        ("pool", "metadata.labels", {"a": "b c"}, "b-c"),
        ("pool", "metadata.labels", {"my team/x!": "b"}, "my-team/x"),
        ("pool", f"{POOL_SPEC}.expireAfter", "30d", "720h"),
        ("pool", "spec.disruption.budgets.0.nodes", "110%", "100%"),
        ("pool", "spec.weight", 101, "100"),
        ("pool", "spec.weight", 0, "1"),
        ("pool", "spec.weight", "10", "10"),
        ("pool", "spec.template.metadata.labels", {"x": True}, '"true"'),
        (
            "class",
            "spec.instanceProfile",
            "arn:aws:iam::123456789012:instance-profile/nodes",
            "nodes",
        ),
        ("class", "spec.detailedMonitoring", "yes", "true"),
        ("workload", "metadata.namespace", "Team_A", "team-a"),
        ("workload", "spec.duration", "6 hours", "6h"),
        ("workload", "spec.resources.requests", {"memory": "80GB"}, "80G"),
        ("workload", "spec.resources.requests", {"memory": "lots"}, None),
        ("workload", "spec.maxPricePerHour", "$98,32", "98.32"),
        ("workload", "spec.gang", "false", "false"),
    ],
)
def test_the_nearest_valid_form_is_named(
    kind: str, path: str, value: Any, suggestion: str | None
) -> None:
    errors = [
        problem for problem in broken(kind, path, value) if str(problem.severity) == "error"
    ]
    assert suggestion in {problem.suggestion for problem in errors}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1h 30min", "1h30m"),
        ("90 Seconds", "1m30s"),
        ("2w", "336h"),
        ("0d", "0s"),
        ("1d, 2h", "26h"),
        ("a day", None),
        ("1 fortnight", None),
        ("h1", None),
        ("", None),
        ("9" * 500 + "d", None),
    ],
)
def test_durations_in_other_units(text: str, written: str | None) -> None:
    assert nearest.duration(text) == written
    assert written is None or check_duration(written)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1000 gib", "1000Gi"),
        ("8K", "8k"),
        ("1.5TB", "1.5T"),
        ("16gi", "16Gi"),
        ("..", None),
        ("8 cores", None),
    ],
)
def test_quantities_in_other_units(text: str, written: str | None) -> None:
    assert nearest.quantity(text) == written


def test_what_cannot_be_repaired_gets_no_suggestion() -> None:
    (problem,) = broken("pool", "metadata.name", "\u202e!!!")
    assert problem.suggestion is None


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (
            f"{POOL_SPEC}.nodeClassRef.apiVersion",
            "karpenter.k8s.aws/v1beta1",
            "v1 names the group alone",
        ),
        (f"{POOL_SPEC}.kubelet", {"maxPods": 10}, "v1 moved it to EC2NodeClass"),
        (f"{POOL_SPEC}.taints.0.operator", "Exists", "is not a known field"),
        (f"{POOL_SPEC}.nodeClassRef.group", "eks.amazonaws.com", "is of EKS Auto Mode"),
        (f"{POOL_SPEC}.nodeClassRef.kind", "NodeClass", "is of EKS Auto Mode"),
        (f"{POOL_SPEC}.nodeClassRef.kind", "AKSNodeClass", "is of Karpenter for Azure"),
        (f"{POOL_SPEC}.nodeClassRef.kind", "HyperpodNodeClass", "is of SageMaker HyperPod"),
    ],
)
def test_a_hint_never_names_what_was_refused_or_is_elsewhere(
    path: str, value: Any, told: str
) -> None:
    (error,) = [
        problem
        for problem in broken("pool", path, value)
        if str(problem.severity) == "error"
    ]
    assert told in error.message
    assert error.suggestion is None


def test_a_field_of_an_older_version_is_found_at_its_new_place() -> None:
    (error,) = [
        each
        for each in broken("pool", "spec.disruption.expireAfter", "720h")
        if str(each.severity) == "error"
    ]
    assert error.suggestion == "spec.template.spec.expireAfter"
