"""Policy for stories: a pool of one instance type with a class of its own, so that one story cannot touch another."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lab.embedded.reservoir import IMAGE_PARAMETER, NETWORK_TAG, NODE_ROLE
from lab.fakes.manifests import workload_manifest


def one_type_pool(
    name: str, instance_type: str, capacity_types: Iterable[str], **of_class: Any
) -> list[dict[str, Any]]:
    """Return a class that selects reservations with ``purpose: name``, and a pool whose nodes carry ``story: name``.

    Nothing consolidates the pool. ``of_class`` goes into the class's spec.
    """
    network = [{"tags": {NETWORK_TAG["Key"]: NETWORK_TAG["Value"]}}]
    requirements = {
        "karpenter.sh/capacity-type": list(capacity_types),
        "node.kubernetes.io/instance-type": [instance_type],
    }
    return [
        {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": name},
            "spec": {
                "role": NODE_ROLE,
                "capacityReservationSelectorTerms": [{"tags": {"purpose": name}}],
                "subnetSelectorTerms": network,
                "securityGroupSelectorTerms": network,
                "amiSelectorTerms": [{"ssmParameter": IMAGE_PARAMETER.format("x86_64")}],
                **of_class,
            },
        },
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": name},
            "spec": {
                "disruption": {
                    "consolidationPolicy": "WhenEmpty",
                    "consolidateAfter": "Never",
                },
                "template": {
                    "metadata": {"labels": {"story": name}},
                    "spec": {
                        "nodeClassRef": {
                            "group": "karpenter.k8s.aws",
                            "kind": "EC2NodeClass",
                            "name": name,
                        },
                        "requirements": [
                            {"key": key, "operator": "In", "values": values}
                            for key, values in requirements.items()
                        ],
                    },
                },
            },
        },
    ]


def story_workload(name: str, replicas: int, cpu: str, **spec: Any) -> dict[str, Any]:
    """Return a workload for the nodes of the pool of that name."""
    where = {"nodeSelector": {"story": name}, **spec}
    return workload_manifest(f"story/{name}", replicas, {"cpu": cpu}, generation=1, **where)


def write_manifests(folder: Path, manifests: Iterable[Any]) -> Path:
    """Write manifests into a file that the command line can apply (JSON is YAML); return it."""
    file = folder / "policy.yaml"
    file.write_text("\n---\n".join(json.dumps(manifest) for manifest in manifests))
    return file
