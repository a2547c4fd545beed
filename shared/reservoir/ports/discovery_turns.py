"""Whose turn it is to read all reservations, as it is stored."""

from dataclasses import dataclass
from typing import Protocol

from reservoir.core.capacity.discovery_turn import DiscoveryTurn


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """The turn of discovery as stored; None at revision 0 before the first one."""

    turn: DiscoveryTurn | None
    revision: int


class DiscoveryTurnStore(Protocol):
    """Whose turn it is to read all reservations for the events of a moment."""

    def read(self) -> StoredTurn:
        """Return the turn (consistent read). Raises UnreadableRowsError."""
        ...

    def write(self, turn: DiscoveryTurn, *, expected_revision: int) -> None:
        """Write the turn; raises ConflictError when it is not at that revision any more."""
        ...
