"""What EC2 says about the machines of Capacity Blocks, and what we remember about those that did not boot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from reservoir.core.capacity.boot_failure import BootFailures


@dataclass(frozen=True, slots=True)
class BlockStatus:
    """DescribeCapacityBlockStatus of one block, in units. ``interconnect``: ok, impaired or insufficient-data."""

    interconnect: str
    total_count: int
    available_count: int
    unavailable_count: int


class BlockStatusReader(Protocol):
    """DescribeCapacityBlockStatus."""

    def block_status(self, capacity_block_id: str) -> BlockStatus | None:
        """Return the status of a block, None when EC2 leaves it out. Raises AwsError, for an unknown block too."""
        ...


@dataclass(frozen=True, slots=True)
class BlockOffering:
    """A Capacity Block that EC2 would sell; ``fee`` is the price of all of it, a decimal number of ``currency``."""

    id: str
    instance_type: str
    zone: str
    count: int
    start_at: datetime
    end_at: datetime
    fee: str
    currency: str
    ultra_server_type: str | None = None


class BlockOfferingReader(Protocol):
    """DescribeCapacityBlockOfferings."""

    def offerings(self, instance_type: str, *, count: int, hours: int) -> Sequence[BlockOffering]:
        """Return what is on sale for so many units and hours, the soonest first; EC2 chooses which it shows.

        Raises AwsError, for types, counts and durations too that EC2 sells no blocks of.
        """
        ...


class BootFailureStore(Protocol):
    """Boot failures by reservation, for as long as a later one could follow from them."""

    def get(self, reservation_id: str) -> BootFailures | None:
        """Return what is remembered about the reservation (consistent read)."""
        ...

    def put(self, reservation_id: str, failures: BootFailures) -> None:
        """Remember; the last writer wins, and losing one failure only delays the suspicion."""
        ...

    def list_remembered(self) -> Mapping[str, BootFailures]:
        """Return everything that is remembered, by reservation id; may lag a write by moments."""
        ...


class CapacityBlocks(BlockStatusReader, BlockOfferingReader, Protocol):
    """What EC2 says about blocks, those of the account and those for sale."""
