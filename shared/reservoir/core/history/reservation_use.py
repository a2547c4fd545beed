"""Demand that was placed in a reservation recently, and would be without a place if it ended."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

from reservoir.core.history.past_event import PastEvent

LOOKED_BACK: Final = timedelta(days=14)


def placed_in(reservation_id: str, events: Iterable[PastEvent]) -> Mapping[str, int]:
    """Return how many replicas of each workload were placed in a reservation, by the workload's key."""
    counts: dict[str, int] = {}
    for event in events:
        ref = event.detail.get("workload")
        if event.detail_type != "Workload Placed" or not isinstance(ref, dict):
            continue
        key = f"{ref.get('namespace')}/{ref.get('name')}"
        for node in event.detail.get("nodes", []):
            if node.get("capacityReservationId") == reservation_id:
                counts[key] = counts.get(key, 0) + int(node.get("replicas", 0))
    return counts
