"""DescribeCapacityBlocks and DescribeCapacityBlockStatus."""

from typing import Any

from lab.embedded.ec2.account.state import CapacityReservation, ReservationKind
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.api.errors import Ec2Error
from lab.embedded.ec2.api.filters import Readers, page, select, without_empty

Parameters = dict[str, Any]


def describe_capacity_blocks(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer DescribeCapacityBlocks; each block here has one reservation.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityBlockId.NotFound``, ``InvalidParameterCombination``, ``InvalidParameterValue``.
    """
    readers: Readers[CapacityReservation] = {
        "capacity-block-id": lambda r: r.block_id,
        "ultraserver-type": lambda r: r.ultraserver_type,
        "availability-zone": lambda r: r.zone.name,
        "availability-zone-id": lambda r: r.zone.zone_id,
        "start-date": lambda r: r.start_at,
        "end-date": lambda r: r.end_at,
        "create-date": lambda r: r.created_at,
        "state": lambda r: r.state,
    }
    ids = parameters.get("CapacityBlockIds", [])
    found = select(
        _blocks(world, ids),
        parameters.get("Filters"),
        readers,
        lambda r: world.tags.of(r.block_id or ""),
    )
    blocks, token = page(found, parameters, default=1000, maximum=1000)
    return without_empty(
        {"CapacityBlocks": [block_of(world, r) for r in blocks], "NextToken": token}
    )


def describe_capacity_block_status(world: World, parameters: Parameters) -> dict[str, Any]:
    """Answer DescribeCapacityBlockStatus; unavailable is what is being scrubbed, and what is admitted to be broken.

    Raises
    ------
    Ec2Error
        ``InvalidCapacityBlockId.NotFound``, ``InvalidParameterCombination``, ``InvalidParameterValue``.
    """
    readers: Readers[CapacityReservation] = {
        "interconnect-status": lambda r: r.interconnect_status
    }
    ids = parameters.get("CapacityBlockIds", [])
    found = select(_blocks(world, ids), parameters.get("Filters"), readers, lambda _: {})
    blocks, token = page(found, parameters, default=1000, maximum=1000)
    return without_empty(
        {"CapacityBlockStatuses": [_status(r) for r in blocks], "NextToken": token}
    )


def block_of(world: World, block: CapacityReservation) -> dict[str, Any]:
    """Return one block as EC2 shows it; it has one reservation."""
    return without_empty(
        {
            "CapacityBlockId": block.block_id,
            "UltraserverType": block.ultraserver_type,
            "AvailabilityZone": block.zone.name,
            "AvailabilityZoneId": block.zone.zone_id,
            "CapacityReservationIds": [block.reservation_id],
            "StartDate": block.start_at,
            "EndDate": block.end_at,
            "CreateDate": block.created_at,
            "State": block.state,
            "Tags": world.tags.rendered(block.block_id or ""),
        }
    )


def _blocks(world: World, ids: list[str]) -> list[CapacityReservation]:
    blocks = [
        r for r in world.visible_reservations() if r.kind is ReservationKind.CAPACITY_BLOCK
    ]
    unknown = set(ids) - {r.block_id for r in blocks}
    if unknown:
        raise Ec2Error(
            "InvalidCapacityBlockId.NotFound",
            f"The capacity block '{min(unknown)}' does not exist",
        )
    return [r for r in blocks if not ids or r.block_id in ids]


def _status(block: CapacityReservation) -> dict[str, Any]:
    unavailable = min(block.total_count, len(block.scrubbing) + block.admitted_count)
    counts = {
        "TotalCapacity": block.total_count,
        "TotalAvailableCapacity": block.total_count - unavailable,
        "TotalUnavailableCapacity": unavailable,
    }
    return {
        "CapacityBlockId": block.block_id,
        "InterconnectStatus": block.interconnect_status,
        **counts,
        "CapacityReservationStatuses": [
            {"CapacityReservationId": block.reservation_id, **counts}
        ],
    }
