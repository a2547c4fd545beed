"""Capacity Blocks: their machines, offerings and purchases, and the machines that did not boot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from reservoir.core.capacity.boot_failure import BootFailures
from reservoir.core.purchasing.book import Book
from reservoir.core.purchasing.purchase import BlockOrder, Purchase


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

    def offerings(
        self, instance_type: str, *, count: int, hours: int
    ) -> Sequence[BlockOffering]:
        """Return the offerings for so many units and hours, the soonest first; EC2 chooses which it shows.

        Raises AwsError, for types, counts and durations too that EC2 sells no blocks of.
        """
        ...


class BlockExtensionReader(Protocol):
    """DescribeCapacityBlockExtensionOfferings."""

    def extensions(self, reservation_id: str, *, hours: int) -> Sequence[BlockOffering]:
        """Return what would make a block so much longer, from its end on. Raises AwsError."""
        ...


@dataclass(frozen=True, slots=True)
class StoredBook:
    """The book as it was read. ``revision`` None: nothing was ever bought."""

    book: Book
    revision: int | None


class PurchaseStore(Protocol):
    """Purchases by id, and the book; nothing of them is ever deleted. Reads of one are consistent."""

    def book(self) -> StoredBook:
        """Return the book, an empty one if there is none. Raises UnreadableRowError."""
        ...

    def get(self, purchase_id: str) -> Purchase | None:
        """Return a purchase, None when it was never intended. Raises UnreadableRowError."""
        ...

    def commit(
        self,
        purchase: Purchase,
        book: Book,
        *,
        over: Purchase | None,
        expected_revision: int | None,
    ) -> None:
        """Write a purchase and the book together, over the versions that were read.

        Raises ConflictError when another was written since.
        """
        ...

    def list_all(self) -> Sequence[Purchase]:
        """Return all purchases, the latest intent first; may lag a write by moments."""
        ...


class BlockSeller(Protocol):
    """EC2's sales, asked with the credentials of the buyer."""

    def buy(self, order: BlockOrder) -> tuple[str, ...]:
        """Buy, and return the ids of the reservations. Asked once: nothing here repeats a call.

        Raises UnknownOutcomeError when EC2 may have sold, and any other AwsError when it has not.
        """
        ...

    def try_to_buy(self, order: BlockOrder) -> None:
        """Ask whether the caller may buy, without buying. Raises AwsError."""
        ...

    def bought(self, order: BlockOrder) -> tuple[str, ...]:
        """Return the ids of the reservations that EC2 shows as bought by this order. Raises AwsError."""
        ...


class BootFailureStore(Protocol):
    """Boot failures by reservation, for as long as a later one could follow from them."""

    def get(self, reservation_id: str) -> BootFailures | None:
        """Return the boot failures of the reservation (consistent read)."""
        ...

    def put(self, reservation_id: str, failures: BootFailures) -> None:
        """Remember; the last writer wins, and losing one failure only delays the suspicion."""
        ...

    def list_remembered(self) -> Mapping[str, BootFailures]:
        """Return everything that is remembered, by reservation id; may lag a write by moments."""
        ...


class CapacityBlocks(
    BlockStatusReader, BlockOfferingReader, BlockExtensionReader, Protocol
):
    """EC2's answers about blocks, those of the account and those for sale."""
