"""Small valid values for tests; each test names only what it is about."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from lab.fakes.system import START
from reservoir.core.model.capacity_reservation import (
    CapacityReservation,
    ObservedReservation,
    ReservationKind,
)
from reservoir.core.model.instance_type import CapacityType, InstanceType, Offering
from reservoir.core.model.node_claim import ClaimState, Lease, NodeClaim
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import OfferingKey
from reservoir.core.model.snapshot import Node, PlacedReplicas
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.ports.state import WorkloadRecord

ZONE = "us-east-1a"
ZONE_ID = "use1-az1"
OWNER = "111122223333"


def one_of(key: str, *values: str) -> Requirement:
    return Requirement.new(key, Operator.IN, values)


def sold(
    prices: Mapping[CapacityType, int], places: Iterable[tuple[str, str]]
) -> tuple[Offering, ...]:
    """Sell at these prices (micro-USD an hour) in each place (zone, zone id)."""
    return tuple(
        Offering(zone, zone_id, market, price)
        for zone, zone_id in places
        for market, price in prices.items()
    )


def instance_type(
    name: str,
    cpus: int,
    gib: int,
    offerings: Iterable[Offering] = (),
    *,
    pods: int = 110,
    extra: Mapping[str, int] = MappingProxyType({}),
) -> InstanceType:
    """An amd64 type for Linux without overhead, with ``extra`` resources; on demand it costs what is offered first."""
    offered = tuple(offerings)
    on_demand = [
        each.price_micro_usd_per_hour
        for each in offered
        if each.capacity_type is CapacityType.ON_DEMAND
    ]
    return InstanceType(
        name=name,
        requirements=Requirements.from_labels(
            {labels.INSTANCE_TYPE: name, labels.ARCH: "amd64", labels.OS: "linux"}
        ),
        capacity=Resources.of(
            {"cpu": cpus * 1000, "memory": gib << 30, "pods": pods, **extra}
        ),
        overhead=Resources.of({}),
        offerings=offered,
        on_demand_price_micro_usd_per_hour=on_demand[0] if on_demand else None,
    )


def reservation(
    reservation_id: str = "cr-1", units: int = 4, free: int | None = None, /, **changes: Any
) -> CapacityReservation:
    """An active ODCR for p5.48xlarge, all of it free unless said otherwise."""
    free_units = units if free is None else free
    base = CapacityReservation(
        id=reservation_id,
        owner_id=OWNER,
        instance_type="p5.48xlarge",
        zone=ZONE,
        zone_id=ZONE_ID,
        kind=ReservationKind.DEFAULT,
        state="active",
        total_count=units,
        available_count=free_units,
        free_units=free_units,
    )
    return replace(base, **changes)


def workload(name: str = "train", **changes: Any) -> Workload:
    """Four replicas that need a whole p5.48xlarge each."""
    base = Workload(
        namespace="research",
        name=name,
        generation=1,
        replicas=4,
        requests=Resources.of({"cpu": 90_000, "memory": 1 << 40, "nvidia.com/gpu": 8}),
    )
    return replace(base, **changes)


def workload_record(name: str = "train", **changes: Any) -> WorkloadRecord:
    """The record of a workload that was just submitted."""
    wanted = workload(name, **changes)
    return WorkloadRecord(
        key=wanted.key,
        generation=wanted.generation,
        revision=0,
        workload=wanted,
        submitted_at=START,
        pending_since=START,
    )


def node_pool(
    name: str = "default", *wanted: Requirement, class_name: str = "default", **changes: Any
) -> NodePool:
    """A pool without limits, whose nodes have its name as a label."""
    return replace(
        NodePool(
            name, class_name, Requirements.of(one_of(labels.NODE_POOL, name), *wanted)
        ),
        **changes,
    )


def placed(holds: Mapping[str, int]) -> tuple[PlacedReplicas, ...]:
    """So many replicas of each workload of the namespace ns."""
    return tuple(PlacedReplicas(f"ns/{name}", count) for name, count in holds.items())


def node(
    claim_id: str, at: OfferingKey, own_labels: Mapping[str, str], **changes: Any
) -> Node:
    """An empty node of the pool default, with ``own_labels`` beside those of where it is."""
    where = {
        labels.ZONE: at.zone,
        labels.ZONE_ID: at.zone_id,
        labels.CAPACITY_TYPE: str(at.capacity_type),
    }
    base = Node(
        claim_id=claim_id,
        node_pool_name="default",
        node_class_name="default",
        instance_type=at.instance_type,
        zone=at.zone,
        zone_id=at.zone_id,
        capacity_type=at.capacity_type,
        labels={labels.NODE_POOL: "default", **where, **own_labels},
        allocatable=Resources.of({}),
        used=Resources.of({}),
        placements=(),
    )
    return replace(base, **changes)


def node_claim(claim_id: str, **changes: Any) -> NodeClaim:
    """A planned claim on cr-1 with one replica of research/train; a reserved offering is leased."""
    offering = changes.get(
        "offering", OfferingKey("p5.48xlarge", ZONE, ZONE_ID, CapacityType.RESERVED, "cr-1")
    )
    base = NodeClaim(
        id=claim_id,
        state=ClaimState.PLANNED,
        revision=1,
        node_pool_name="gpu",
        node_class_name="default",
        batch_id="b-1",
        attempt=1,
        offering=offering,
        price_atto_usd_per_hour=1,
        placements=(PlacedReplicas("research/train", 1),),
        allocatable=Resources.of({"cpu": 190_000}),
        created_at=START,
        lease=None if offering.reservation_id is None else Lease(offering.reservation_id),
    )
    return replace(base, **changes)


def observed_block(reservation_id: str, count: int, **changes: Any) -> ObservedReservation:
    """Return a Capacity Block as EC2 shows it: active, with all of its units free."""
    block = ObservedReservation(
        reservation_id,
        "111122223333",
        "p5.48xlarge",
        "us-east-1c",
        "use1-az4",
        ReservationKind.CAPACITY_BLOCK,
        "active",
        count,
        count,
    )
    return replace(block, **changes)
