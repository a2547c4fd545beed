"""What a class's kubelet keeps from replicas is read as Karpenter reads it; the rest is for kubelet alone."""

from typing import Any

import pytest

from reservoir.core.model.node_class import KubeletAmounts
from reservoir.manifests.kinds.node_class import NodeClassManifest
from reservoir.manifests.parsing.fields import STORED
from reservoir.manifests.parsing.load import Document
from reservoir.manifests.parsing.problems import Severity
from reservoir.manifests.validate import read_document
from tests.manifests.kinds import valid

MIB = 1 << 20


def manifest(kubelet: Any) -> dict[str, Any]:
    made = valid.node_class()
    made["spec"]["kubelet"] = kubelet
    return made


def amounts(kubelet: Any) -> KubeletAmounts | None:
    return NodeClassManifest.model_validate(manifest(kubelet)).to_core().kubelet


@pytest.mark.parametrize(
    ("kubelet", "expected"),
    [
        ({}, None),
        ({"clusterDNS": ["10.0.0.1"]}, None),
        ({"maxPods": 20, "podsPerCore": 2}, KubeletAmounts(max_pods=20, pods_per_core=2)),
        ({"maxPods": "110", "podsPerCore": 0}, KubeletAmounts(max_pods=110)),
        (
            {
                "kubeReserved": {"cpu": "200m", "memory": "100Mi", "pid": "100"},
                "systemReserved": {"cpu": "0.1", "memory": "28Mi"},
            },
            KubeletAmounts(reserved_cpu_millis=300, reserved_memory_bytes=128 * MIB),
        ),
        (
            {
                "evictionHard": {"memory.available": "5.5%", "nodefs.available": "10%"},
                "evictionSoft": {"memory.available": "200Mi"},
            },
            KubeletAmounts(evicted_memory_bytes=200 * MIB, evicted_memory_ppm=55_000),
        ),
        ({"evictionHard": {"memory.available": "100%"}}, None),  # kubelet's word for never
    ],
)
def test_amounts_are_kubelets(kubelet: Any, expected: KubeletAmounts | None) -> None:
    assert amounts(kubelet) == expected


@pytest.mark.parametrize(
    ("kubelet", "told"),
    [
        (7, "must be a mapping"),
        ({"maxPods": -1}, "maxPods: must be a whole number"),
        ({"maxPods": "min(110, vcpus * 4)"}, "no kubelet evaluates an expression"),
        ({"kubeReserved": {"cpu": 1}}, "kubeReserved.cpu: 1 is no amount"),
        ({"kubeReserved": {"gpu": "1"}}, "'gpu' is not one of cpu, memory"),
        ({"systemReserved": {"memory": "-1Gi"}}, "systemReserved.memory: '-1Gi'"),
        ({"systemReserved": "1Gi"}, "systemReserved: must be a mapping"),
        ({"evictionHard": {"memory.free": "5%"}}, "'memory.free' is not one of"),
        (
            {"evictionHard": {"memory.available": "105%"}},
            "is no amount, such as 100Mi or 5%",
        ),
    ],
)
def test_what_is_no_amount_is_refused_and_stays_readable_where_it_is_stored(
    kubelet: Any, told: str
) -> None:
    read, problems = read_document(Document(manifest(kubelet)))
    assert read is None
    assert [told in problem.message for problem in problems] == [True]
    stored = NodeClassManifest.model_validate(manifest(kubelet), context=STORED)
    assert stored.to_core().kubelet is None


def test_only_what_is_for_kubelet_alone_is_told_to_have_no_effect() -> None:
    def notes(kubelet: Any) -> list[str]:
        _, problems = read_document(Document(manifest(kubelet)))
        return [each.path for each in problems if each.severity is Severity.IGNORED]

    assert notes({"maxPods": 20}) == []
    assert notes({"maxPods": 20, "clusterDNS": ["10.0.0.1"]}) == ["spec.kubelet"]


def test_running_nodes_do_not_drift_by_it() -> None:
    hashes = {
        NodeClassManifest.model_validate(manifest(kubelet)).to_core().static_hash
        for kubelet in (None, {"maxPods": 20}, {"maxPods": 30})
    }
    assert len(hashes) == 1
