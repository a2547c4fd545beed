"""What the simulated account may buy: three types in two zones, and the policy that says how."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from reservoir.core.capacity.catalogue import DiscoveredType
from reservoir.core.checking.residual.splitting import copies_that_fit
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.ports.discovery import ZoneOfferings

ZONES: Final = (("us-east-1a", "use1-az1"), ("us-east-1b", "use1-az2"))
TEAM: Final = {"team": "research"}
_GIB: Final = 1 << 30
_SIZES: Final = {
    "m5.large": (2, 8, 0),
    "m5.4xlarge": (16, 64, 0),
    "p5.48xlarge": (192, 2048, 8),
}
CPUS: Final = {name: cpu for name, (cpu, _, _) in _SIZES.items()}
ON_DEMAND: Final = {"m5.large": 96_000, "m5.4xlarge": 768_000, "p5.48xlarge": 55_040_000}
SPOT: Final = {
    (name, zone): price * 3 // 10 for name, price in ON_DEMAND.items() for zone, _ in ZONES
}
OFFERED: Final = ZoneOfferings(
    dict.fromkeys(_SIZES, tuple(zone_id for _, zone_id in ZONES)),
    {zone_id: zone for zone, zone_id in ZONES},
)


def _type(name: str, cpu: int, memory_gib: int, gpus: int) -> DiscoveredType:
    known = {
        labels.INSTANCE_TYPE: name,
        labels.ARCH: "amd64",
        labels.OS: "linux",
        labels.REGION: "us-east-1",
    }
    capacity = {"cpu": cpu * 1000, "memory": memory_gib * _GIB, "pods": 110}
    capacity |= {"nvidia.com/gpu": gpus} if gpus else {}
    return DiscoveredType(
        InstanceType(
            name, Requirements.from_labels(known), Resources.of(capacity), Resources.of({})
        ),
        frozenset({CapacityType.ON_DEMAND, CapacityType.SPOT}),
    )


TYPES: Final = tuple(_type(name, *_SIZES[name]) for name in sorted(_SIZES))
_ALLOCATABLE: Final = {
    found.instance_type.name: found.instance_type.allocatable for found in TYPES
}


def cheapest(requests: Mapping[str, Any], count: int, *, with_spot: bool) -> int:
    """Return for how many micro-USD an hour so many replicas surely get nodes; only one is sure to be had as spot."""
    costs = list[int]()
    for name in ON_DEMAND:
        copies = copies_that_fit(_ALLOCATABLE[name], Resources.parse(requests))
        if copies >= count and with_spot:
            costs.append(SPOT[name, ZONES[0][0]])
        elif copies:
            costs.append(-(-count // copies) * ON_DEMAND[name])
    return min(costs)


def node_class_manifest(
    name: str = "default", reserved: Mapping[str, str] = TEAM, **more: Any
) -> dict[str, Any]:
    """Return a class that selects the reservations with these tags, the team's; ``more`` is of its spec."""
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": name},
        "spec": {
            "role": "nodes",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": TEAM}],
            "securityGroupSelectorTerms": [{"tags": TEAM}],
            "capacityReservationSelectorTerms": [{"tags": dict(reserved)}],
            **more,
        },
    }


def node_pool_manifest(
    name: str,
    capacity_types: Sequence[str],
    disruption: Mapping[str, Any],
    limits: Mapping[str, str],
    **spec: Any,
) -> dict[str, Any]:
    """Return a pool that may use these capacity types; ``spec`` is of its template."""
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "disruption": dict(disruption),
            "limits": dict(limits),
            "template": {
                "spec": {
                    "nodeClassRef": {
                        "group": "karpenter.k8s.aws",
                        "kind": "EC2NodeClass",
                        "name": "default",
                    },
                    "requirements": [
                        {
                            "key": labels.CAPACITY_TYPE,
                            "operator": "In",
                            "values": list(capacity_types),
                        },
                    ],
                    **spec,
                }
            },
        },
    }
