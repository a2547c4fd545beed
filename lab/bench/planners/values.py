"""The claims and facts of the ledger's benches."""

from datetime import UTC, datetime
from typing import Final

from reservoir.core.model.capacity_reservation import CapacityReservation, ReservationKind
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState, Lease, NodeClaim
from reservoir.core.model.plan import OfferingKey
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.ports.state import (
    NodeClaimStore,
    ReservationStore,
    WorkloadRecord,
    WorkloadStore,
)

START: Final = datetime(2026, 1, 15, tzinfo=UTC)
KEY: Final = "bench/demand"

Stores = tuple[WorkloadStore, ReservationStore, NodeClaimStore]


def demand() -> WorkloadRecord:
    """Return a workload that wants more than there will ever be."""
    workload = Workload("bench", "demand", 1, 10**9, Resources.of({"cpu": 1000}))
    return WorkloadRecord(KEY, 1, 0, workload, submitted_at=START, pending_since=START)


def planned_claim(
    number: int, reservation: CapacityReservation, now: datetime
) -> NodeClaim:
    """Return a claim on one unit of the reservation, with one replica."""
    key = OfferingKey(
        reservation.instance_type,
        reservation.zone,
        reservation.zone_id,
        CapacityType.RESERVED,
        reservation.id,
    )
    return NodeClaim(
        id=f"nc-{number:07}",
        state=ClaimState.PLANNED,
        revision=1,
        node_pool_name="pool",
        node_class_name="class",
        batch_id=f"b-{number:07}",
        attempt=1,
        offering=key,
        price_atto_usd_per_hour=1,
        placements=(PlacedReplicas(KEY, 1),),
        allocatable=Resources.of({"cpu": 1000}),
        created_at=now,
        lease=Lease(reservation.id),
    )


def facts(
    reservation_id: str, total: int, available: int, *, is_block: bool = False
) -> CapacityReservation:
    """Return what EC2 says of a reservation."""
    return CapacityReservation(
        id=reservation_id,
        owner_id="111122223333",
        instance_type="p5.48xlarge",
        zone="us-east-1a",
        zone_id="use1-az1",
        kind=ReservationKind.CAPACITY_BLOCK if is_block else ReservationKind.DEFAULT,
        state="active",
        total_count=total,
        available_count=max(0, available),
        free_units=0,
    )
