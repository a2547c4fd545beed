"""Capacity Blocks as EC2 describes them beside their reservations: the state of the machines, and UltraServers."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reservoir.adapters.aws_errors import map_client_errors
from reservoir.ports.capacity_blocks import BlockOffering, BlockStatus

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client


class Ec2CapacityBlocks:
    """Implements ``reservoir.ports.capacity_blocks.CapacityBlocks``."""

    def __init__(self, client: "EC2Client") -> None:
        self._client = client

    def block_status(self, capacity_block_id: str) -> BlockStatus | None:
        """Return the status of a block."""
        with map_client_errors():
            answer = self._client.describe_capacity_block_status(
                CapacityBlockIds=[capacity_block_id]
            )
        for shown in answer["CapacityBlockStatuses"]:
            if shown.get("CapacityBlockId") == capacity_block_id:
                return BlockStatus(
                    interconnect=shown.get("InterconnectStatus", "insufficient-data"),
                    total_count=shown.get("TotalCapacity", 0),
                    available_count=shown.get("TotalAvailableCapacity", 0),
                    unavailable_count=shown.get("TotalUnavailableCapacity", 0),
                )
        return None

    def offerings(
        self, instance_type: str, *, count: int, hours: int
    ) -> Sequence[BlockOffering]:
        """Return the offerings, the soonest first."""
        with map_client_errors():
            pages = self._client.get_paginator(
                "describe_capacity_block_offerings"
            ).paginate(
                InstanceType=instance_type, InstanceCount=count, CapacityDurationHours=hours
            )
            shown = list(pages.search("CapacityBlockOfferings[]"))
        found = [
            _offering(each, "CapacityBlockOfferingId", "StartDate", "EndDate")
            for each in shown
        ]
        return sorted(
            found, key=lambda offering: (offering.start_at, offering.zone, offering.id)
        )

    def extensions(self, reservation_id: str, *, hours: int) -> Sequence[BlockOffering]:
        """Return what would make a block longer."""
        with map_client_errors():
            pages = self._client.get_paginator(
                "describe_capacity_block_extension_offerings"
            ).paginate(
                CapacityReservationId=reservation_id,
                CapacityBlockExtensionDurationHours=hours,
            )
            shown = list(pages.search("CapacityBlockExtensionOfferings[]"))
        dates = ("CapacityBlockExtensionStartDate", "CapacityBlockExtensionEndDate")
        found = [
            _offering(each, "CapacityBlockExtensionOfferingId", *dates) for each in shown
        ]
        return sorted(found, key=lambda offering: (offering.end_at, offering.id))


def _offering(
    shown: Mapping[str, Any], id_name: str, start_name: str, end_name: str
) -> BlockOffering:
    """Read an offering of a block or of an extension: EC2 gives the same facts under other names."""
    return BlockOffering(
        id=shown[id_name],
        instance_type=shown["InstanceType"],
        zone=shown["AvailabilityZone"],
        count=shown["InstanceCount"],
        start_at=shown[start_name],
        end_at=shown[end_name],
        fee=shown["UpfrontFee"],
        currency=shown["CurrencyCode"],
        ultra_server_type=shown.get("UltraserverType"),
    )
