"""The turn of discovery in memory."""

from shared.core.capacity.discovery_turn import DiscoveryTurn
from shared.ports.discovery_turns import StoredTurn
from shared.ports.state import ConflictError


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
