"""Manifests that use every field once; tests break them one by one."""

from typing import Any

from reservoir.manifests.parsing.load import Document
from reservoir.manifests.parsing.problems import Severity
from reservoir.manifests.validate import read_document

SELECTOR = {
    "matchLabels": {"app": "web"},
    "matchExpressions": [{"key": "tier", "operator": "Exists"}],
}
EXPRESSION = {
    "key": "topology.kubernetes.io/zone",
    "operator": "In",
    "values": ["us-west-2a"],
}


def with_spec(manifest: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The manifest with fields of its spec set, or removed for None."""
    spec = {
        name: value
        for name, value in {**manifest["spec"], **fields}.items()
        if value is not None
    }
    return {**manifest, "spec": spec}


def errors(manifest: dict[str, Any]) -> set[tuple[str, str]]:
    """Where a manifest is wrong, and which rules it breaks; it is read unless it is wrong somewhere."""
    read, problems = read_document(Document(manifest))
    wrong = {
        (problem.path, problem.rule)
        for problem in problems
        if problem.severity is Severity.ERROR
    }
    assert (read is None) == bool(wrong)
    return wrong


def node_pool() -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {
            "name": "pool",
            "labels": {"a": "b"},
            "annotations": {"example.com/note": "any text, ü"},
        },
        "spec": {
            "template": {
                "metadata": {
                    "labels": {"team": "red"},
                    "annotations": {"example.com/x": "y"},
                },
                "spec": {
                    "nodeClassRef": {
                        "group": "karpenter.k8s.aws",
                        "kind": "EC2NodeClass",
                        "name": "class",
                    },
                    "requirements": [
                        {
                            "key": "karpenter.sh/capacity-type",
                            "operator": "In",
                            "values": ["reserved", "spot"],
                        },
                        {
                            "key": "karpenter.k8s.aws/instance-cpu",
                            "operator": "Gt",
                            "values": ["4"],
                            "minValues": 3,
                        },
                        {"key": "example.com/pool", "operator": "Exists"},
                    ],
                    "taints": [
                        {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}
                    ],
                    "startupTaints": [{"key": "booting", "effect": "NoExecute"}],
                    "expireAfter": "720h",
                    "terminationGracePeriod": "1h30m",
                },
            },
            "disruption": {
                "consolidationPolicy": "Balanced",
                "consolidateAfter": "Never",
                "budgets": [
                    {"nodes": "10%"},
                    {
                        "nodes": "0",
                        "reasons": ["Drifted", "Empty"],
                        "schedule": "0 9 * * MON-FRI",
                        "duration": "8h",
                        "timeZone": "Europe/Berlin",
                    },
                ],
                "keepReserved": "30m",
                "moveReservedUnits": True,
            },
            "limits": {"cpu": "100", "nvidia.com/gpu": 16, "nodes": 5},
            "weight": 10,
        },
    }


def node_class() -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "class"},
        "spec": {
            "capacityReservationSelectorTerms": [
                {"id": "cr-12345749"},
                {
                    "ownerID": "123456789012",
                    "tags": {"purpose": "*"},
                    "instanceMatchCriteria": "targeted",
                },
                {
                    "reservationGroupARN": "arn:aws:resource-groups:us-west-2:123456789012:group/training"
                },
            ],
            "openReservationPreference": "open",
            "fleetTargetingMode": "reserved-capacity",
            "subnetSelectorTerms": [{"id": "subnet-1"}, {"tags": {"network": "private"}}],
            "securityGroupSelectorTerms": [
                {"id": "sg-1"},
                {"name": "nodes"},
                {"tags": {"network": "*"}},
            ],
            "amiSelectorTerms": [
                {"id": "ami-1"},
                {"name": "app-*", "owner": "self"},
                {"ssmParameter": "/images/app"},
                {"tags": {"os": "al2023"}},
            ],
            "role": "node",
            "userData": "#!/bin/sh\necho hello\n",
            "blockDeviceMappings": [
                {
                    "deviceName": "/dev/xvda",
                    "ebs": {
                        "volumeSize": "20Gi",
                        "volumeType": "gp3",
                        "encrypted": True,
                        "iops": 3000,
                    },
                    "rootVolume": True,
                }
            ],
            "metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 2},
            "tags": {"cost-center": "42"},
            "placementGroupSelector": {"name": "together"},
            "detailedMonitoring": True,
            "associatePublicIPAddress": False,
            "platform": "Linux/UNIX",
            "tenancy": "default",
            "kubelet": {"maxPods": 110, "clusterDNS": ["10.0.0.10"]},
            "amiFamily": "AL2023",
        },
    }


def team() -> dict[str, Any]:
    return {
        "apiVersion": "reservoir/v1",
        "kind": "Team",
        "metadata": {"name": "vision"},
        "spec": {
            "namespaces": ["vision", "vision-ci"],
            "principals": [
                "arn:aws:iam::123456789012:role/vision/front-end",
                "AROAEXAMPLE0123456789",
            ],
            "limits": {
                "priority": 100,
                "replicas": 64,
                "checkpointPeriod": "1h",
                "doNotDisrupt": False,
                "generationJump": 1000,
                "waitingWorkloads": 500,
                "waitingBytes": 33_554_432,
                "messagesPerMinute": 600,
                "newWorkloadsPerDay": 5000,
            },
            "quotas": [
                {
                    "capacityReservationSelectorTerms": [{"tags": {"purpose": "training"}}],
                    "nominalQuota": 4,
                    "borrowingLimit": 4,
                    "lendingLimit": 2,
                },
                {
                    "capacityTypes": ["spot", "on-demand"],
                    "resource": "nvidia.com/gpu",
                    "nominalQuota": 64,
                    "borrowingLimit": "32",
                    "lendingLimit": 16,
                },
            ],
            "cohort": "research",
            "fairSharing": {"weight": 2},
            "reclaimWithinCohort": "LowerPriority",
            "budget": {"usdPerHour": "40.50", "usdPerMonth": "12000"},
            "nodePools": ["gpu"],
            "loans": {"grace": "30m"},
            "affinityFrom": ["vision"],
        },
    }


def workload() -> dict[str, Any]:
    return {
        "apiVersion": "reservoir/v1",
        "kind": "Workload",
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "generation": 3,
            "labels": {"app": "web", "rev": "7"},
            "annotations": {"karpenter.sh/do-not-disrupt": "true"},
        },
        "spec": {
            "replicas": 4,
            "priority": -5,
            "resources": {
                "requests": {"cpu": 0.5, "memory": "1Gi"},
                "limits": {"cpu": "1", "nvidia.com/gpu": 1},
            },
            "nodeSelector": {"beta.kubernetes.io/arch": "amd64"},
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [EXPRESSION]},
                            {"matchExpressions": [EXPRESSION]},
                        ]
                    },
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 10, "preference": {"matchExpressions": [EXPRESSION]}}
                    ],
                },
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "labelSelector": SELECTOR,
                            "topologyKey": "topology.kubernetes.io/zone",
                            "namespaces": ["shop"],
                            "matchLabelKeys": ["rev", "absent"],
                        }
                    ]
                },
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 1,
                            "podAffinityTerm": {
                                "labelSelector": {},
                                "topologyKey": "kubernetes.io/hostname",
                            },
                        }
                    ]
                },
            },
            "tolerations": [
                {
                    "key": "nvidia.com/gpu",
                    "operator": "Exists",
                    "effect": "NoSchedule",
                    "tolerationSeconds": 5,
                },
                {"operator": "Exists"},
            ],
            "topologySpreadConstraints": [
                {
                    "topologyKey": "karpenter.sh/capacity-type",
                    "maxSkew": 2,
                    "minDomains": 2,
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": SELECTOR,
                    "nodeTaintsPolicy": "Honor",
                    "matchLabelKeys": ["rev"],
                }
            ],
            "gang": True,
            "gangTopologyKey": "topology.kubernetes.io/zone",
            "duration": "6h",
            "checkpointPeriod": "10m",
            "handover": False,
            "fallback": [
                {"capacityType": "reserved", "for": "2h"},
                {"capacityType": "on-demand"},
            ],
            "maxPricePerHour": "98.32",
        },
    }
