"""What a self-test applies and submits: a class, a pool and a workload that nothing else uses."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_class import NodeClass
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.resources import Resources

NAME: Final = "reservoir-self-test"  # of the class and the pool
TAINT: Final = "reservoir/self-test"
# What one replica asks for; the smallest instance has room for it.
REQUESTS: Final[Mapping[str, str]] = {"cpu": "100m", "memory": "64Mi"}
_NEEDED: Final = Resources.parse(REQUESTS)


def cheapest(
    instance_types: Iterable[InstanceType],
    node_class: NodeClass,
    most_micro_usd_per_hour: int,
) -> InstanceType | None:
    """Return the cheapest type that the class has an image and a subnet for; None when all cost more than the cap."""
    architectures = {image.architecture for image in node_class.status.machine_images}
    zone_ids = {subnet.zone_id for subnet in node_class.status.subnets}
    found: list[tuple[int, str, InstanceType]] = []
    for each in instance_types:
        has_image = any(map(each.requirements[labels.ARCH].has, architectures))
        price = _on_demand_price(each, zone_ids)
        if not has_image or price is None or price > most_micro_usd_per_hour:
            continue
        if _NEEDED.fits_in(each.allocatable):
            found.append((price, each.name, each))
    return min(found)[2] if found else None


def _on_demand_price(instance_type: InstanceType, zone_ids: set[str]) -> int | None:
    prices = [
        offering.price_micro_usd_per_hour
        for offering in instance_type.offerings
        if offering.capacity_type is CapacityType.ON_DEMAND and offering.zone_id in zone_ids
    ]
    return min(prices, default=None)


def policy(
    node_class: Mapping[str, Any],
    instance_type: str,
    market: CapacityType,
    reservation_ids: Sequence[str] = (),
) -> tuple[str, str]:
    """Return a file with a copy of a stored class, which selects these reservations alone, and a pool of one node."""
    spec = dict(node_class["spec"])
    spec["capacityReservationSelectorTerms"] = [{"id": key} for key in reservation_ids]
    documents = [
        {**node_class, "metadata": {"name": NAME}, "spec": spec},
        _pool(instance_type, market),
    ]
    return "self-test", "\n---\n".join(map(json.dumps, documents))


def _pool(instance_type: str, market: CapacityType) -> dict[str, Any]:
    requirements = {
        labels.INSTANCE_TYPE: instance_type,
        labels.CAPACITY_TYPE: market.value,
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": NAME},
        "spec": {
            "limits": {"nodes": 1},
            "disruption": {"consolidateAfter": "Never"},
            "template": {
                "spec": {
                    "nodeClassRef": {
                        "group": "karpenter.k8s.aws",
                        "kind": "EC2NodeClass",
                        "name": NAME,
                    },
                    "taints": [{"key": TAINT, "effect": "NoSchedule"}],
                    "requirements": [
                        {"key": key, "operator": "In", "values": [value]}
                        for key, value in requirements.items()
                    ],
                }
            },
        },
    }


def workload(namespace: str, market: CapacityType) -> dict[str, Any]:
    """Return a workload of one replica for the nodes of the self-test's pool."""
    return {
        "apiVersion": "reservoir/v1",
        "kind": "Workload",
        "metadata": {"namespace": namespace, "name": f"{NAME}-{market.value}"},
        "spec": {
            "replicas": 1,
            "resources": {"requests": dict(REQUESTS)},
            "nodeSelector": {labels.NODE_POOL: NAME},
            "tolerations": [{"key": TAINT, "operator": "Exists"}],
        },
    }
