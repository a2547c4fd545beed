"""The turn of discovery in memory."""

from reservoir.core.capacity.discovery_turn import DiscoveryTurn
from reservoir.ports.discovery_turns import StoredTurn
from reservoir.ports.state import ConflictError


class MemoryDiscoveryTurns:
    """Implements ``DiscoveryTurnStore``."""

    def __init__(self) -> None:
        self.stored = StoredTurn(None, 0)

    def read(self) -> StoredTurn:
        return self.stored

    def write(self, turn: DiscoveryTurn, *, expected_revision: int) -> None:
        if self.stored.revision != expected_revision:
            raise ConflictError(["discovery-turn"])
        self.stored = StoredTurn(turn, expected_revision + 1)
