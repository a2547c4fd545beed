"""What all bench snapshots share: the instant, pools, classes, and demand made of counted templates."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_class import MachineImage, NodeClass, NodeClassStatus, Subnet
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.workload import Demand, Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.scheduling_terms.taint import Taint

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
NAMESPACE: Final = "bench"
NODE_CLASS: Final = "default"
ALL_CAPACITY_TYPES: Final = (
    CapacityType.RESERVED,
    CapacityType.SPOT,
    CapacityType.ON_DEMAND,
)


def one_of(key: str, *values: str) -> Requirement:
    """Require one of the values."""
    return Requirement.new(key, Operator.IN, values)


def node_class(
    zones: Iterable[tuple[str, str]], reservation_ids: Iterable[str] = ()
) -> NodeClass:
    """Return a class that is ready in all zones and has selected the reservations."""
    status = NodeClassStatus(
        reservation_ids=tuple(sorted(reservation_ids)),
        subnets=tuple(
            Subnet(f"subnet-{zone}", zone, zone_id, 60_000) for zone, zone_id in zones
        ),
        security_group_ids=("sg-1",),
        machine_images=(
            MachineImage("ami-amd64", "amd64"),
            MachineImage("ami-arm64", "arm64"),
        ),
        instance_profile="bench",
    )
    return NodeClass(name=NODE_CLASS, role="bench", status=status)


def node_pool(
    name: str,
    *requirements: Requirement,
    capacity_types: Sequence[CapacityType] = ALL_CAPACITY_TYPES,
    weight: int = 0,
    taints: tuple[Taint, ...] = (),
    limits: Resources | None = None,
) -> NodePool:
    """Return a pool of class ``default`` with these requirements."""
    wanted = Requirements.of(
        one_of(labels.NODE_POOL, name),
        one_of(labels.CAPACITY_TYPE, *capacity_types),
        *requirements,
    )
    return NodePool(
        name=name,
        node_class_name=NODE_CLASS,
        requirements=wanted,
        weight=weight,
        taints=taints,
        limits=limits,
    )


def counted(templates: Iterable[Workload], prefix: str) -> tuple[Demand, ...]:
    """Turn equal templates (name "", one replica each) into workloads with replicas, in order of first appearance."""
    keyed = [(_template_key(template), template) for template in templates]
    first: Mapping[object, Workload] = dict(reversed(keyed))
    counts = Counter(key for key, _ in keyed)
    return tuple(
        Demand(
            replace(first[key], name=f"{prefix}-{index:05d}", replicas=count), count, NOW
        )
        for index, (key, count) in enumerate(counts.items())
    )


def single(templates: Iterable[Workload], prefix: str) -> tuple[Demand, ...]:
    """Turn each template into a workload of its own with one replica."""
    return tuple(
        Demand(replace(template, name=f"{prefix}-{index:05d}", replicas=1), 1, NOW)
        for index, template in enumerate(templates)
    )


def _template_key(template: Workload) -> tuple[object, ...]:
    """Tell templates apart by everything that the generators vary."""
    return (
        template.requests,
        tuple(sorted(template.labels.items())),
        template.topology_spread,
        template.affinity,
        template.anti_affinity,
        template.node_selector,
        template.preferred_node_terms,
    )
