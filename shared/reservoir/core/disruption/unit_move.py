"""One planned move of free units between two reservations."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UnitMove:
    """``count`` free units move from one reservation to another. ``for_nodes``: paid nodes that can move in then."""

    source_id: str
    destination_id: str
    count: int
    explanation: str
    for_nodes: tuple[str, ...] = ()
