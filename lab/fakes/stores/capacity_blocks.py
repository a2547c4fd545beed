"""What is known about the machines of Capacity Blocks, in memory."""

from collections.abc import Mapping

from reservoir.core.capacity.boot_failure import BootFailures, forgotten_at
from reservoir.ports.capacity_blocks import BlockStatus
from reservoir.ports.errors import AwsError
from reservoir.ports.system import Clock


class MemoryBootFailures:
    """Implements ``BootFailureStore``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rows: dict[str, BootFailures] = {}

    def get(self, reservation_id: str) -> BootFailures | None:
        return self.list_remembered().get(reservation_id)

    def put(self, reservation_id: str, failures: BootFailures) -> None:
        self._rows[reservation_id] = failures

    def list_remembered(self) -> Mapping[str, BootFailures]:
        now = self._clock.now()
        return {
            key: self._rows[key]
            for key in sorted(self._rows)
            if now <= forgotten_at(self._rows[key])
        }


class MemoryBlocks:
    """Implements ``BlockStatusReader``; ``error`` is raised instead of an answer."""

    def __init__(self) -> None:
        self.statuses: dict[str, BlockStatus] = {}
        self.error: AwsError | None = None

    def block_status(self, capacity_block_id: str) -> BlockStatus | None:
        if self.error is not None:
            raise self.error
        return self.statuses.get(capacity_block_id)
