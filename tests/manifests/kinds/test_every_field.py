"""Every field that a manifest may have is used by a valid one, and arrives where it has its effect."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reservoir.core.model.node_class import SelectorTerm
from reservoir.core.model.node_pool import WarmReserved
from reservoir.core.model.workload import (
    AffinityTerm,
    LabelSelector,
    LabelSelectorExpression,
    LabelSelectorOperator,
)
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.taint import Taint, TaintEffect, Toleration
from reservoir.manifests.kinds.affinity import TOPOLOGY_KEYS
from reservoir.manifests.kinds.node_class import NodeClassManifest
from reservoir.manifests.kinds.node_pool import NodePoolManifest
from reservoir.manifests.kinds.workload import WorkloadManifest
from reservoir.manifests.parsing.load import Document
from reservoir.manifests.parsing.problems import Severity
from reservoir.manifests.validate import KINDS, read_document
from tests.manifests.kinds import valid

GENERATOR = Path(__file__).parents[3] / "docs" / "generate.py"
# What is told to whoever writes it, and serves nothing (ADR "Refuse the fields of Karpenter that would be half true").
NOT_SERVED = {"spec.cpuOptions", "spec.enclaveOptions"}
TERM = {
    "labelSelector": {
        "matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["test"]}],
    },
    "topologyKey": "failure-domain.beta.kubernetes.io/zone",
    "namespaces": ["shop", "ci"],
    "matchLabelKeys": ["rev"],
}
SELECTOR = LabelSelector(
    (("app", "web"), ("rev", "7")),
    (LabelSelectorExpression("tier", LabelSelectorOperator.NOT_IN, frozenset({"test"})),),
)


def node_pool() -> dict[str, Any]:
    """What `tests.manifests.kinds.valid` leaves out."""
    manifest = valid.node_pool()
    manifest["metadata"]["resourceVersion"] = "7"
    template = manifest["spec"]["template"]["spec"]
    template["taints"][0]["timeAdded"] = "2026-01-01T00:00:00Z"
    template["startupTaints"] = [{**template["taints"][0], "key": "a", "value": "b"}]
    return manifest


def static_pool() -> dict[str, Any]:
    """A pool that stands."""
    manifest = node_pool()
    manifest["spec"] |= {"replicas": 3, "limits": {"nodes": "4"}, "weight": None}
    return manifest


def warm_pool() -> dict[str, Any]:
    """A pool whose free units are booted ahead, on weekdays."""
    window = {"schedule": "0 7 * * MON-FRI", "duration": "11h", "timeZone": "Europe/Berlin"}
    return valid.with_spec(node_pool(), warmReserved="All", warmReservedDuring=window)


def node_class() -> dict[str, Any]:
    """The alternatives to what `tests.manifests.kinds.valid` uses."""
    manifest = valid.node_class()
    metadata = {
        "name": "class",
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "resourceVersion": "1",
    }
    spec = {
        key: value
        for key, value in manifest["spec"].items()
        if key.endswith("SelectorTerms")
    }
    del spec["capacityReservationSelectorTerms"]
    spec |= {
        "capacityReservationSpec": {
            "capacityReservationTarget": {"capacityReservationId": "cr-1"}
        },
        "amiSelectorTerms": [{"alias": "bottlerocket@latest"}],
        "instanceProfile": "nodes",
        "blockDeviceMappings": [
            {
                "deviceName": "/dev/sdb",
                "ebs": {
                    "deleteOnTermination": False,
                    "kmsKeyID": "alias/disks",
                    "snapshotID": "snap-1",
                    "throughput": 500,
                    "volumeInitializationRate": 200,
                },
            }
        ],
        "metadataOptions": {"httpEndpoint": "disabled", "httpProtocolIPv6": "enabled"},
        "placementGroupSelector": {"id": "pg-1"},
        "instanceStorePolicy": "RAID0",
        "ipPrefixCount": 1,
        "context": "x",
        "lending": {
            "keepFree": 1,
            "after": "15m",
            "windows": [
                {"schedule": "0 20 * * *", "duration": "10h", "timeZone": "Europe/Berlin"}
            ],
            "tags": {"lent": "overnight"},
        },
        "reclaimGroupARN": "arn:aws:resource-groups:us-west-2:123456789012:group/reservoir-class",
        "connectionTracking": {
            "tcpEstablishedTimeout": 350,
            "udpStreamTimeout": 90,
            "udpTimeout": 45,
        },
        "networkInterfaces": [
            {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
            {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"},
        ],
    }
    return {**manifest, "metadata": metadata, "spec": spec}


def team() -> dict[str, Any]:
    """What `tests.manifests.kinds.valid` leaves out."""
    manifest = valid.team()
    manifest["metadata"] |= {
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "resourceVersion": "1",
    }
    arn = "arn:aws:resource-groups:us-west-2:123456789012:group/training"
    terms = [
        {"id": "cr-12345749"},
        {"ownerID": "123456789012", "instanceMatchCriteria": "targeted"},
        {"reservationGroupARN": arn},
    ]
    manifest["spec"]["quotas"] = [
        {"capacityReservationSelectorTerms": terms, "nominalQuota": 0}
    ]
    return manifest


def workload() -> dict[str, Any]:
    """The alternatives to what `tests.manifests.kinds.valid` uses."""
    manifest = valid.workload()
    weighted = {"weight": 9, "podAffinityTerm": TERM}
    both = {
        "requiredDuringSchedulingIgnoredDuringExecution": [TERM],
        "preferredDuringSchedulingIgnoredDuringExecution": [weighted],
    }
    manifest["spec"]["affinity"] = {"podAffinity": both, "podAntiAffinity": both}
    manifest["spec"]["tolerations"] = [{"key": "a", "value": "b"}]
    spread = {
        "topologyKey": labels.ZONE_ID,
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
    }
    spread |= {"labelSelector": TERM["labelSelector"], "nodeAffinityPolicy": "Ignore"}
    manifest["spec"]["topologySpreadConstraints"] = [spread]
    return manifest


def rolling_workload() -> dict[str, Any]:
    """What is replaced node by node, which a gang cannot be."""
    bounds = {"maxSurge": 2, "maxUnavailable": "30%"}
    strategy = {"type": "RollingUpdate", "rollingUpdate": bounds}
    left_out = {"gang": False, "gangTopologyKey": None}
    return valid.with_spec(valid.workload(), strategy=strategy, **left_out)


def paths(value: Any, prefix: str = "") -> Iterator[str]:
    """Every place of a manifest, as the reference writes it."""
    for key, member in value.items() if isinstance(value, dict) else ():
        yield (path := f"{prefix}.{key}" if prefix else key)
        yield from paths(member, path)
    for member in value if isinstance(value, list) else ():
        yield from paths(member, f"{prefix}[]")


@pytest.mark.parametrize(
    ("kind", "manifests"),
    [
        ("NodePool", [valid.node_pool(), static_pool(), warm_pool()]),
        (
            "EC2NodeClass",
            [
                valid.node_class(),
                node_class(),
                # validated by tests of their own
                {
                    "spec": {
                        "capacityReservationSpec": {"capacityReservationPreference": "open"}
                    }
                },
                {
                    "spec": {
                        "capacityReservationSpec": {
                            "capacityReservationTarget": {
                                "capacityReservationResourceGroupArn": "arn"
                            }
                        }
                    }
                },
            ],
        ),
        ("Team", [valid.team(), team()]),
        ("Workload", [valid.workload(), workload(), rolling_workload()]),
    ],
)
def test_no_field_is_left_out(kind: str, manifests: list[dict[str, Any]]) -> None:
    spec = importlib.util.spec_from_file_location("generate", GENERATOR)
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    schema = KINDS[kind][1].model_json_schema()
    fields = {path for path, _, _ in generate._fields(schema, schema["$defs"], "", ())}
    used = {path for manifest in manifests for path in paths(manifest)}
    assert fields - used <= NOT_SERVED


@pytest.mark.parametrize(
    "manifest",
    [
        node_pool(),
        static_pool(),
        warm_pool(),
        node_class(),
        team(),
        workload(),
        rolling_workload(),
    ],
    ids=lambda manifest: manifest["kind"],
)
def test_the_alternatives_are_valid(manifest: dict[str, Any]) -> None:
    read, problems = read_document(Document(manifest))
    assert [
        str(problem) for problem in problems if problem.severity is Severity.ERROR
    ] == []
    assert read is not None


def test_the_alternatives_of_a_pool_arrive_in_the_core() -> None:
    pool = NodePoolManifest.model_validate(node_pool()).to_core()
    assert NodePoolManifest.model_validate(static_pool()).to_core().replicas == 3
    assert NodePoolManifest.model_validate(warm_pool()).to_core().warm_reserved == (
        WarmReserved(None, "0 7 * * MON-FRI", 11 * 3600, "Europe/Berlin")
    )
    assert pool.startup_taints == (Taint("a", "b", TaintEffect.NO_SCHEDULE),)


def test_the_alternatives_of_a_class_arrive_in_the_core() -> None:
    core = NodeClassManifest.model_validate(node_class()).to_core()
    assert core.ami_selector_terms == (SelectorTerm(alias="bottlerocket@latest"),)
    assert (core.role, core.instance_profile, core.placement_group) == (
        None,
        "nodes",
        "pg-1",
    )
    assert core.block_device_mappings == (
        {
            "DeviceName": "/dev/sdb",
            "Ebs": {
                "DeleteOnTermination": False,
                "KmsKeyId": "alias/disks",
                "SnapshotId": "snap-1",
                "Throughput": 500,
                "VolumeInitializationRate": 200,
            },
        },
    )
    assert core.connection_tracking == {
        "TcpEstablishedTimeout": 350,
        "UdpStreamTimeout": 90,
        "UdpTimeout": 45,
    }
    assert core.metadata_options["HttpEndpoint"] == "disabled"
    assert core.metadata_options["HttpProtocolIpv6"] == "enabled"


def test_what_is_ignored_of_the_alternatives_is_named() -> None:
    ignored = [
        read_document(Document(manifest))[1] for manifest in (node_pool(), node_class())
    ]
    assert {problem.path for problems in ignored for problem in problems} == {
        "spec.template.spec.taints[0].timeAdded",
        "spec.template.spec.startupTaints[0].timeAdded",
        "spec.instanceStorePolicy",
        "spec.ipPrefixCount",
        "spec.context",
        "spec.networkInterfaces",
        "spec.amiSelectorTerms",
    }


def test_the_alternatives_of_a_workload_arrive_in_the_core() -> None:
    core = WorkloadManifest.model_validate(workload()).to_core()
    both = tuple(
        AffinityTerm(labels.ZONE, SELECTOR, weight, frozenset({"shop", "ci"}))
        for weight in (None, 9)
    )
    assert (core.affinity, core.anti_affinity) == (both, both)
    assert core.tolerations == (Toleration("a", value="b"),)
    (spread,) = core.topology_spread
    assert (spread.topology_key, spread.node_affinity_policy_honor) == (
        labels.ZONE_ID,
        False,
    )


@pytest.mark.parametrize(
    "key", [labels.ZONE, labels.HOSTNAME, labels.CAPACITY_TYPE, labels.ZONE_ID]
)
def test_topology_keys(key: str) -> None:
    assert key in TOPOLOGY_KEYS
    manifest = workload()
    manifest["spec"]["topologySpreadConstraints"][0]["topologyKey"] = key
    assert (
        WorkloadManifest.model_validate(manifest).to_core().topology_spread[0].topology_key
        == key
    )
