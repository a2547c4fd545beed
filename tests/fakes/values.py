"""Small valid values for tests; each test names only what it is about."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from shared.core.model.capacity_reservation import CapacityReservation, ReservationKind
from shared.core.model.instance_type import CapacityType, InstanceType, Offering
from shared.core.model.node_claim import ClaimState, Lease, NodeClaim
from shared.core.model.plan import OfferingKey
from shared.core.model.snapshot import PlacedReplicas
from shared.core.model.workload import Workload
from shared.core.scheduling_terms import labels
from shared.core.scheduling_terms.requirements import Requirements
from shared.core.scheduling_terms.resources import Resources
from shared.ports.state import WorkloadRecord
from tests.fakes.system import START

ZONE = "us-east-1a"
ZONE_ID = "use1-az1"
OWNER = "111122223333"


def sold(prices: Mapping[CapacityType, int], places: Iterable[tuple[str, str]]) -> tuple[Offering, ...]:
    """Sell at these prices (micro-USD an hour) in each place (zone, zone id)."""
    return tuple(Offering(zone, zone_id, market, price) for zone, zone_id in places for market, price in prices.items())


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
    on_demand = [each.price_micro_usd_per_hour for each in offered if each.capacity_type is CapacityType.ON_DEMAND]
    return InstanceType(
        name=name,
        requirements=Requirements.from_labels({labels.INSTANCE_TYPE: name, labels.ARCH: "amd64", labels.OS: "linux"}),
        capacity=Resources.of({"cpu": cpus * 1000, "memory": gib << 30, "pods": pods, **extra}),
        overhead=Resources.of({}),
        offerings=offered,
        on_demand_price_micro_usd_per_hour=on_demand[0] if on_demand else None,
    )


def reservation(reservation_id: str = "cr-1", **changes: Any) -> CapacityReservation:
    """An active ODCR for four p5.48xlarge."""
    base = CapacityReservation(
        id=reservation_id,
        owner_id=OWNER,
        instance_type="p5.48xlarge",
        zone=ZONE,
        zone_id=ZONE_ID,
        kind=ReservationKind.DEFAULT,
        state="active",
        total_count=4,
        available_count=4,
        free_units=4,
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


def node_claim(claim_id: str, **changes: Any) -> NodeClaim:
    """A planned claim on cr-1 with one replica of research/train."""
    base = NodeClaim(
        id=claim_id,
        state=ClaimState.PLANNED,
        revision=1,
        node_pool_name="gpu",
        node_class_name="default",
        batch_id="b-1",
        attempt=1,
        offering=OfferingKey("p5.48xlarge", ZONE, ZONE_ID, CapacityType.RESERVED, "cr-1"),
        price_atto_usd_per_hour=1,
        placements=(PlacedReplicas("research/train", 1),),
        allocatable=Resources.of({"cpu": 190_000}),
        created_at=START,
        lease=Lease("cr-1"),
    )
    return replace(base, **changes)
