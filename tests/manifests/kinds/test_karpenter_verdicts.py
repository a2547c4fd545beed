"""Karpenter's API server and this product on one object each: a difference is one that the documentation explains.

The verdicts are those of the CRDs of Karpenter 1.14 (NodePool, EC2NodeClass) with Kubernetes' own validation; each case
is one change of a small object. What differs names a row of the tables in docs/manifests.md.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import BaseModel

from reservoir.manifests.kinds.node_pool import NodePoolManifest
from reservoir.manifests.parsing.errors import _models_in
from reservoir.manifests.parsing.fields import STORED
from reservoir.manifests.parsing.load import Document
from reservoir.manifests.parsing.model import IgnoredBecause
from reservoir.manifests.parsing.problems import Severity
from reservoir.manifests.validate import KINDS, read_document
from tests.manifests.kinds import valid

DOCUMENTED: Final = (Path(__file__).parents[3] / "docs" / "manifests.md").read_text(
    encoding="utf-8"
)
LEFT_OUT: Final = "(left out)"


def pool() -> dict[str, Any]:
    template = {
        "nodeClassRef": {
            "group": "karpenter.k8s.aws",
            "kind": "EC2NodeClass",
            "name": "web",
        },
        "requirements": [
            {
                "key": "karpenter.sh/capacity-type",
                "operator": "In",
                "values": ["spot", "on-demand"],
            }
        ],
        "taints": [{"key": "web", "value": "only", "effect": "NoSchedule"}],
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "web"},
        "spec": {
            "limits": {"cpu": "64"},
            "disruption": {"consolidateAfter": "5m", "budgets": [{"nodes": "20%"}]},
            "template": {"metadata": {"labels": {"tier": "web"}}, "spec": template},
        },
    }


def node_class() -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "web"},
        "spec": {
            "role": "web-node",
            "amiFamily": "AL2023",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"network": "web"}}],
            "securityGroupSelectorTerms": [{"name": "web"}],
            "blockDeviceMappings": [
                {
                    "deviceName": "/dev/xvda",
                    "ebs": {"volumeSize": "60Gi", "volumeType": "gp3"},
                }
            ],
            "tags": {"team": "web"},
        },
    }


TEMPLATE: Final = "spec.template.spec"
EBS: Final = "spec.blockDeviceMappings.0.ebs"
TAKEN, REFUSED = True, False

# kind, place, value, Karpenter's verdict, and the row that explains why ours is another
CASES: Final[tuple[tuple[str, str, Any, bool, str | None], ...]] = (
    # nothing given
    ("pool", "spec.limits", None, TAKEN, None),
    ("pool", "spec.limits.cpu", None, TAKEN, None),
    ("pool", "spec.disruption.budgets", None, TAKEN, None),
    ("pool", "spec.disruption.consolidateAfter", None, REFUSED, "defaults"),
    ("pool", f"{TEMPLATE}.taints.0.value", None, TAKEN, None),
    ("pool", f"{TEMPLATE}.taints.0", None, REFUSED, None),
    ("pool", f"{TEMPLATE}.requirements.0.values", None, REFUSED, None),
    ("pool", f"{TEMPLATE}.nodeClassRef", None, REFUSED, None),
    ("pool", f"{TEMPLATE}.nodeClassRef.kind", LEFT_OUT, REFUSED, "defaults"),
    ("class", "spec.tags", None, TAKEN, None),
    ("class", "spec.userData", None, TAKEN, None),
    ("class", f"{EBS}.volumeType", None, TAKEN, None),
    ("class", "spec.blockDeviceMappings.0.deviceName", None, TAKEN, "incomplete disks"),
    ("class", "spec.amiSelectorTerms", None, REFUSED, None),
    ("class", "spec.subnetSelectorTerms.0.tags.network", None, TAKEN, "empty terms"),
    ("class", "spec.role", None, REFUSED, "no role"),
    ("class", "spec", LEFT_OUT, TAKEN, "empty classes"),
    # what the server clears
    ("pool", "metadata.namespace", "web", TAKEN, None),
    ("pool", "metadata.generateName", "web-", TAKEN, None),
    ("pool", "metadata.bogus", "x", REFUSED, None),
    # sizes, times and counts
    ("class", f"{EBS}.volumeSize", 60, REFUSED, None),
    ("class", f"{EBS}.volumeSize", "60", REFUSED, None),
    ("class", f"{EBS}.volumeSize", "60000Mi", REFUSED, None),
    ("class", f"{EBS}.volumeSize", "059Gi", REFUSED, None),
    ("class", f"{EBS}.volumeSize", "59000Gi", TAKEN, None),
    ("class", f"{EBS}.volumeSize", "59001Gi", REFUSED, None),
    ("class", f"{EBS}.volumeSize", "2Ti", TAKEN, None),
    ("class", f"{EBS}.volumeSize", "T", TAKEN, "amounts"),
    ("class", f"{EBS}.iops", 1, TAKEN, "limits of EC2"),
    ("pool", f"{TEMPLATE}.expireAfter", "876000h", TAKEN, None),
    ("pool", f"{TEMPLATE}.expireAfter", "30d", REFUSED, None),
    ("pool", "spec.limits.cpu", "-4", TAKEN, "amounts"),
    ("pool", "spec.limits.nodes", "0.5", TAKEN, "amounts"),
    ("pool", "spec.limits.gpu", "4", TAKEN, "unknown resources"),
    ("pool", "spec.limits.cpu", 1.5, REFUSED, "other forms"),
    ("pool", "spec.disruption.budgets.0.nodes", 3, REFUSED, "other forms"),
    ("pool", "spec.weight", 0, REFUSED, None),
    ("pool", "spec.weight", 101, REFUSED, None),
    # names
    ("class", "spec.role", "arn:aws:iam::123456789012:role/teams/web-node", TAKEN, None),
    ("class", "spec.role", "/teams/web-node", TAKEN, None),
    ("class", "spec.role", "web node", TAKEN, "names"),
    ("class", "spec.securityGroupSelectorTerms.0", {"id": "xsg-1"}, TAKEN, "names"),
    ("class", "spec.tags", {"aws:web": "x"}, TAKEN, "limits of EC2"),
    ("class", "spec.tags", {"karpenter.sh/nodepool": "x"}, REFUSED, None),
    ("pool", f"{TEMPLATE}.nodeClassRef.group", "eks.amazonaws.com", TAKEN, "other classes"),
    # terms
    ("class", "spec.subnetSelectorTerms.0", {"tags": {}}, TAKEN, "empty terms"),
    ("class", "spec.subnetSelectorTerms.0", {"id": "subnet-1", "tags": {"a": "b"}}, REFUSED, None),
    ("class", "spec.amiSelectorTerms.0", {"ssmParameter": "/images/web", "name": "web"}, TAKEN, "fields beside an id"),
    ("class", "spec.amiSelectorTerms.0", {"alias": "ubuntu@latest"}, REFUSED, None),
    ("class", "spec.amiSelectorTerms.0", {"alias": "al2023@v20240703"}, TAKEN, "images for EKS"),
    ("class", "spec.amiFamily", "Bottlerocket", REFUSED, None),
    ("class", "spec.amiFamily", "Custom", TAKEN, None),
    ("class", "spec.amiFamily", "Ubuntu", REFUSED, None),
    ("class", "spec.capacityReservationSelectorTerms", [{"ownerID": "123456789012"}], REFUSED, None),
    ("class", "spec.capacityReservationSelectorTerms", [{"id": "cr-1"}], TAKEN, None),
    ("class", "spec", {**node_class()["spec"], "amiFamily": None, "amiSelectorTerms": [{"id": "ami-1"}]},
     REFUSED, "no family"),
    # requirements and taints
    ("pool", f"{TEMPLATE}.requirements.0.values.0", "Spot", TAKEN, "impossible values"),
    ("pool", f"{TEMPLATE}.requirements.0", {"key": "a", "operator": "Exists", "values": ["1"]}, TAKEN, "operators"),
    ("pool", f"{TEMPLATE}.requirements.0", {"key": "a", "operator": "In"}, REFUSED, None),
    ("pool", f"{TEMPLATE}.requirements.0", {"key": "a", "operator": "Gt", "values": [4]}, REFUSED, "other forms"),
    ("pool", f"{TEMPLATE}.requirements.0", {"key": "kubernetes.io/hostname", "operator": "Exists"}, REFUSED, None),
    ("pool", f"{TEMPLATE}.requirements.0", {"key": "karpenter.sh/nodepool", "operator": "Exists"}, REFUSED, None),
    ("pool", f"{TEMPLATE}.requirements.0",
     {"key": "karpenter.k8s.aws/nitro-sandbox", "operator": "Exists"}, TAKEN, None),
    ("pool", f"{TEMPLATE}.requirements.0",
     {"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]}, TAKEN, "Windows"),
    ("pool", f"{TEMPLATE}.requirements.0",
     {"key": "node.kubernetes.io/windows-build", "operator": "Exists"}, TAKEN, "Windows"),
    ("pool", f"{TEMPLATE}.requirements.0",
     {"key": "karpenter.k8s.aws/ec2nodeclass", "operator": "NotIn", "values": ["x"]}, TAKEN, "own labels"),
    ("pool", "spec.template.metadata.labels", {"karpenter.k8s.aws/ec2nodeclass": "web"}, TAKEN, "own labels"),
    ("pool", f"{TEMPLATE}.requirements.0",
     {"key": "eks.amazonaws.com/nodegroup", "operator": "Exists"}, TAKEN, "labels of EKS"),
    ("class", "spec.role", "KarpenterNodeRole-<cluster>", TAKEN, "variables"),
    ("pool", f"{TEMPLATE}.taints.0.effect", "noSchedule", REFUSED, None),
    # settings of nodes
    ("class", "spec.instanceStorePolicy", "RAID0", TAKEN, None),
    ("class", "spec.instanceStorePolicy", "RAID1", REFUSED, None),
    ("class", "spec.connectionTracking", {"udpTimeout": 45}, TAKEN, None),
    ("class", "spec.connectionTracking", {"tcpEstablishedTimeout": 59}, REFUSED, None),
    ("class", "spec.networkInterfaces", [{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}],
     TAKEN, None),
    ("class", "spec.networkInterfaces", [{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "efa-only"}],
     REFUSED, None),
    ("class", "spec.cpuOptions", {"coreCount": 2, "threadsPerCore": 1}, TAKEN, "fields not served"),
    ("pool", "spec.replicas", 3, REFUSED, None),  # beside a limit of anything but nodes
    ("pool", "spec", {**pool()["spec"], "limits": {"nodes": "5"}, "replicas": 3}, TAKEN, None),
    ("pool", "spec", {**pool()["spec"], "limits": None, "replicas": 0}, TAKEN, None),
    ("pool", "spec", {**pool()["spec"], "limits": None, "replicas": 3, "weight": 1}, REFUSED, None),
    ("pool", "spec", {**pool()["spec"], "limits": None, "replicas": -1}, REFUSED, None),
    ("class", "spec.kubelet", {"maxPods": 20}, TAKEN, None),
    ("class", "spec.kubelet", 7, REFUSED, None),
    ("class", "spec.kubelet", {"maxPods": "abc"}, TAKEN, "kubelet amounts"),
    # Karpenter's controller, not its API server, refuses the next two
    ("class", "spec.kubelet", {"maxPods": -1}, REFUSED, None),
    ("class", "spec.kubelet", {"systemReserved": {"gpu": "1"}}, REFUSED, None),
    ("class", "spec.context", 7, REFUSED, "ignored fields"),
    ("class", "spec.tenancy", "default", REFUSED, "own fields"),
    ("pool", f"{TEMPLATE}.requirements.0.minValues", 1.0, TAKEN, "whole numbers"),
    ("pool", "spec.disruption.budgets.0", {"nodes": "0", "schedule": "0 8 31 2 *", "duration": "1h"},
     TAKEN, "impossible times"),
    ("pool", "spec.disruption.budgets.0", {"nodes": "0", "schedule": "@daily", "duration": "90s"},
     REFUSED, "finer times"),
    ("pool", f"{TEMPLATE}.requirements.0", {"key": "notkarpenter.sh/x", "operator": "Exists"},
     REFUSED, "label domains"),
    ("class", "spec.amiFamily", None, TAKEN, None),
    ("class", "spec.capacityReservationSelectorTerms", [], REFUSED, "empty lists"),
    # forms of keys, amounts and times
    ("pool", "metadata.annotations", {f"{'a' * 253}/b": "x"}, TAKEN, None),
    ("pool", "metadata.annotations", {f"{'a' * 254}/b": "x"}, REFUSED, None),
    ("pool", "spec.template.metadata.labels", {f"{'a' * 254}/b": "x"}, REFUSED, None),
    ("pool", f"{TEMPLATE}.requirements.0", {"key": "karpenter.k8s.aws", "operator": "Exists"},
     REFUSED, "label domains"),
    ("pool", "spec.limits.cpu", "1e0003", TAKEN, None),
    ("pool", "spec.limits.cpu", "1e19", TAKEN, "amounts"),
    ("pool", "spec.limits.nodes", "9223372036854775808", TAKEN, "amounts"),
    ("pool", "spec.disruption.budgets.0.nodes", "2147483648", TAKEN, "amounts"),
    ("pool", "spec.limits.attachable-volumes-aws-ebs", "8", TAKEN, "unknown resources"),
    ("pool", f"{TEMPLATE}.requirements.0", {"key": "a", "operator": "NotIn", "values": []}, TAKEN, "operators"),
    ("pool", f"{TEMPLATE}.nodeClassRef.name", "Web_Class", TAKEN, "names"),
    ("pool", f"{TEMPLATE}.taints.0.value", "web.example.com/only", TAKEN, "names"),
    ("pool", f"{TEMPLATE}.taints.0.value", "", REFUSED, "other forms"),
    ("class", "spec.securityGroupSelectorTerms", [{"id": "sg-1", "name": "web"}, {"name": "web"}],
     TAKEN, "fields beside an id"),
    ("class", "spec.securityGroupSelectorTerms", [{"id": "sg-1", "name": "web"}], REFUSED, None),
    ("pool", "spec.disruption.budgets.0.reasons", [], TAKEN, "empty reasons"),
    ("pool", "spec.disruption.budgets.0.reasons", ["Reclaimed"], REFUSED, "own fields"),
    ("pool", "spec.disruption.budgets.0", {"nodes": "0", "schedule": "@daily", "duration": "1h1h"},
     REFUSED, "finer times"),
    # Karpenter's controller, not its API server, refuses the next two
    ("pool", "spec.disruption.budgets.0", {"nodes": "0", "schedule": "0 8 * * 6-7", "duration": "1h"},
     REFUSED, "other forms"),
    ("pool", "spec.template.metadata.labels", {"a" * 64: "x"}, REFUSED, None),
)  # fmt: skip


def changed(kind: str, place: str, value: Any) -> dict[str, Any]:
    manifest = pool() if kind == "pool" else node_class()
    target: Any = manifest
    *steps, last = [int(step) if step.isdigit() else step for step in place.split(".")]
    for step in steps:
        target = target[step]
    if value is LEFT_OUT:
        del target[last]
    else:
        target[last] = value
    return manifest


def is_taken(manifest: dict[str, Any]) -> bool:
    return read_document(Document(manifest))[0] is not None


def test_what_is_changed_is_taken_by_both() -> None:
    assert is_taken(pool())
    assert is_taken(node_class())


def test_a_pool_with_a_key_that_an_earlier_release_took_stays_readable() -> None:
    stored = changed("pool", "metadata.annotations", {f"{'a' * 254}/b": "x"})
    assert NodePoolManifest.model_validate(stored, context=STORED).metadata.name == "web"


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case[0]} {case[1]} {case[2]!r}"[:90]
)
def test_a_verdict_is_karpenters_or_the_difference_is_documented(
    case: tuple[str, str, Any, bool, str | None],
) -> None:
    kind, place, value, karpenter, difference = case
    ours = is_taken(changed(kind, place, value))
    assert (ours != karpenter) is (difference is not None)
    assert difference is None or f"| {difference} |" in DOCUMENTED


def test_every_documented_difference_has_a_case() -> None:
    section = DOCUMENTED.partition("### Where verdicts differ from Karpenter's")[2]
    tables = section.partition("These fields are read")[0]
    rows = {
        line.split("|")[1].strip() for line in tables.splitlines() if line.startswith("|")
    }
    assert rows - {"difference", "---"} == {
        case[4] for case in CASES if case[4] is not None
    }


IGNORED: Final = (
    ("EC2NodeClass", "spec.ipPrefixCount", 2),
    ("EC2NodeClass", "spec.context", "x"),
    (
        "EC2NodeClass",
        "spec.networkInterfaces",
        [{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}],
    ),
    ("NodePool", f"{TEMPLATE}.taints.0.timeAdded", "2026-01-01T00:00:00Z"),
    ("NodePool", f"{TEMPLATE}.startupTaints.0.timeAdded", "2026-01-01T00:00:00Z"),
    ("Workload", "spec.tolerations.0.tolerationSeconds", 60),
)


def with_field(kind: str, place: str, value: Any) -> Any:
    manifest = {
        "NodePool": valid.node_pool,
        "EC2NodeClass": valid.node_class,
        "Workload": valid.workload,
    }[kind]()
    if kind == "Workload":
        manifest["spec"]["tolerations"] = [{"key": "web", "operator": "Exists"}]
    target: Any = manifest
    *steps, last = [int(step) if step.isdigit() else step for step in place.split(".")]
    for step in steps:
        target = target[step]
    target.pop(last, None)
    if value is not LEFT_OUT:
        target[last] = value
    read, problems = read_document(Document(manifest))
    assert read is not None
    told = [problem.path for problem in problems if problem.severity is Severity.IGNORED]
    return read.to_core(), told


@pytest.mark.parametrize(("kind", "place", "value"), IGNORED)
def test_nothing_depends_on_an_ignored_field(kind: str, place: str, value: Any) -> None:
    with_it, told = with_field(kind, place, value)
    without_it, _ = with_field(kind, place, LEFT_OUT)
    assert with_it == without_it
    assert place.replace(".0.", "[0].") in told


def test_the_documentation_lists_every_ignored_field() -> None:
    marked = {
        (kind, path)
        for kind, (_, model) in KINDS.items()
        for path in ignored_paths(model, "")
    }  # fmt: skip
    assert marked == {(kind, place.replace(".0.", "[].")) for kind, place, _ in IGNORED}
    listed = DOCUMENTED.partition("and have no effect:")[2].partition("\n## ")[0]
    assert [
        place for _, place, _ in IGNORED if place.rpartition(".")[2] not in listed
    ] == []


def ignored_paths(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, info in model.model_fields.items():
        path = f"{prefix}{info.alias or name}"
        if any(isinstance(item, IgnoredBecause) for item in info.metadata):
            yield path
        for inner, is_list in _models_in(info.annotation):
            yield from ignored_paths(inner, f"{path}[]." if is_list else f"{path}.")
