"""Capacity Blocks as EC2 describes them beside their reservations: the state of the machines, and UltraServers."""

from typing import TYPE_CHECKING

from shared.adapters.aws_errors import map_client_errors
from shared.ports.capacity_blocks import BlockStatus

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client


class Ec2CapacityBlocks:
    """Implements ``shared.ports.capacity_blocks.BlockStatusReader``."""

    def __init__(self, client: "EC2Client") -> None:
        self._client = client

    def block_status(self, capacity_block_id: str) -> BlockStatus | None:
        """Return the status of a block."""
        with map_client_errors():
            answer = self._client.describe_capacity_block_status(CapacityBlockIds=[capacity_block_id])
        for shown in answer["CapacityBlockStatuses"]:
            if shown.get("CapacityBlockId") == capacity_block_id:
                return BlockStatus(
                    interconnect=shown.get("InterconnectStatus", "insufficient-data"),
                    total_count=shown.get("TotalCapacity", 0),
                    available_count=shown.get("TotalAvailableCapacity", 0),
                    unavailable_count=shown.get("TotalUnavailableCapacity", 0),
                )
        return None
