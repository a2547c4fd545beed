"""How DescribeCapacityReservations shows a reservation."""

from typing import Any, Final

from lab.embedded.ec2.account.slots import described_available
from lab.embedded.ec2.account.state import (
    CapacityReservation,
    DateChangeQuote,
    ReservationKind,
)
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.filters import without_empty

PLANNED_SIZE_TAG: Final = "aws:ec2capacityreservation:incrementalRequestedQuantity"


def reservation_of(world: World, reservation: CapacityReservation) -> dict[str, Any]:
    """Return one reservation as EC2 shows it to this account."""
    block = reservation.kind is ReservationKind.CAPACITY_BLOCK
    interruptible = reservation.kind is ReservationKind.INTERRUPTIBLE
    return without_empty(
        {
            "CapacityReservationId": reservation.reservation_id,
            "CapacityReservationArn": world.events.reservation_arn(reservation),
            "OwnerId": reservation.owner_id,
            "UnusedReservationBillingOwnerId": reservation.unused_billing_owner_id,
            "InstanceType": reservation.instance_type,
            "InstancePlatform": reservation.platform,
            "AvailabilityZone": reservation.zone.name,
            "AvailabilityZoneId": reservation.zone.zone_id,
            "Tenancy": reservation.tenancy,
            "TotalInstanceCount": reservation.total_count,
            "AvailableInstanceCount": described_available(world, reservation),
            "EbsOptimized": reservation.ebs_optimized,
            "EphemeralStorage": False,
            "State": reservation.state,
            "LaunchStatus": reservation.launch_status,
            "CreateDate": reservation.created_at,
            "StartDate": reservation.start_at,
            "EndDate": reservation.end_at,
            "EndDateType": "limited" if reservation.end_at else "unlimited",
            "InstanceMatchCriteria": reservation.match_criteria,
            "ReservationType": "capacity-block" if block else "default",
            "CapacityBlockId": reservation.block_id,
            "PlacementGroupArn": reservation.placement_group_arn,
            "DeliveryPreference": reservation.delivery_preference,
            "CommitmentInfo": _commitment(reservation),
            "OriginalStartDate": reservation.original_start_at,
            "AdjustmentStatus": reservation.adjustment_status,
            "AdjustmentDetails": _adjustment(reservation),
            "CapacityAllocations": [
                {"AllocationType": "used", "Count": len(reservation.occupants)}
            ],
            "Interruptible": True if interruptible else None,
            "InterruptionInfo": _interruption(reservation) if interruptible else None,
            "InterruptibleCapacityAllocation": _allocation(world, reservation),
            "ZeroSizePreference": zero_size_preference(reservation)
            if interruptible
            else None,
            "Tags": world.tags.rendered(reservation.reservation_id),
        }
    )


def _commitment(reservation: CapacityReservation) -> dict[str, Any] | None:
    if reservation.commitment_end_at is None:
        return None
    return {
        "CommittedInstanceCount": reservation.committed_count,
        "CommitmentEndDate": reservation.commitment_end_at,
        "CommitmentDuration": reservation.commitment_s,
    }


def _adjustment(reservation: CapacityReservation) -> dict[str, Any] | None:
    quote = reservation.adjustment
    return adjustment_details(reservation, quote) if quote else None


def adjustment_details(
    reservation: CapacityReservation, quote: DateChangeQuote
) -> dict[str, Any]:
    """Return what a reservation will be once its start is put off by the quote."""
    return without_empty(
        {
            "StartDate": quote.new_start_at,
            "EndDate": reservation.end_at,
            "EndDateType": "limited" if reservation.end_at else "unlimited",
            "CommitmentEndDate": quote.new_commitment_end_at,
            "CommitmentDuration": quote.new_commitment_s,
        }
    )


def _interruption(reservation: CapacityReservation) -> dict[str, Any]:
    source = reservation.source_reservation_id
    return without_empty(
        {"SourceCapacityReservationId": source, "InterruptionType": "adhoc"}
    )


def _allocation(world: World, source: CapacityReservation) -> dict[str, Any] | None:
    allocation = allocation_of(world, source)
    if allocation is None or source.owner_id != world.account_id:
        return None
    return {
        "InstanceCount": allocation.total_count,
        "TargetInstanceCount": allocation.planned_count,
        "Status": allocation_status(allocation),
        "ZeroSizePreference": zero_size_preference(allocation),
        "InterruptibleCapacityReservationId": allocation.reservation_id,
        "InterruptionType": "adhoc",
    }


def allocation_of(world: World, source: CapacityReservation) -> CapacityReservation | None:
    """Return the interruptible reservation that was last made of a source, ended or not."""
    made = [
        r
        for r in world.reservations.values()
        if r.source_reservation_id == source.reservation_id
    ]
    return made[-1] if made else None


def allocation_status(allocation: CapacityReservation) -> str:
    """Return EC2's word for what becomes of an allocation: "updating during reclamation, active when complete"."""
    if allocation.state == "cancelled":
        return "canceled"
    if allocation.total_count == allocation.planned_count:
        return allocation.state
    is_ending = allocation.planned_count == 0 and not allocation.is_retained
    return "canceling" if is_ending else "updating"


def zero_size_preference(allocation: CapacityReservation) -> str:
    """Return what becomes of an interruptible reservation of which all was reclaimed."""
    return "retain" if allocation.is_retained else "default"
