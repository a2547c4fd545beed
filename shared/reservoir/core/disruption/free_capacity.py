"""Free room on nodes, filled first fit while a proposal is put together; the last try can be taken back."""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import ge
from typing import Final

from reservoir.core.solver.problem.vectors import Vector, copies_that_fit

# nodes closed between two tidyings: neither many closed ones to pass over nor many copies
_TIDY_EVERY: Final = 32


@dataclass(slots=True, eq=False)
class Destination:
    """A node as a destination: the requirement sets that it meets, its free room, how many replicas were put there."""

    claim_id: str
    requirement_sets: int
    free: list[int]
    arrivals: int = 0
    is_open: bool = True

    def change(self, size: Vector, count: int) -> None:
        """Put replicas here (negative: take them off)."""
        for dimension, asked in enumerate(size):
            self.free[dimension] -= asked * count
        self.arrivals += count


class FreeCapacity:
    """The free room on nodes at one moment of a pass."""

    def __init__(self, places: Iterable[Destination], least: Vector) -> None:
        """``least``: what any replica takes of each resource; a node with less room is not looked at."""
        self._least = least
        self._by_id = {place.claim_id: place for place in places}
        self._places = [place for place in self._by_id.values() if self._has_room(place)]
        # Free room only shrinks, so nothing larger than this in some resource ever fits anywhere.
        rooms = [place.free for place in self._places]
        self._max_free = [max(amounts) for amounts in zip(*rooms, strict=True)]
        self._tried: list[tuple[Destination, Vector, int]] = []
        self._closed = 0

    def has_arrivals(self, claim_id: str) -> bool:
        """Whether replicas were put on the node."""
        place = self._by_id.get(claim_id)
        return place is not None and place.arrivals > 0

    def close(self, claim_id: str) -> None:
        """Keep the last attempt, and remove the node itself."""
        for place, _, _ in self._tried:
            place.is_open = self._has_room(place)
        self._tried.clear()
        own = self._by_id.pop(claim_id, None)
        if own is not None:
            own.is_open = False
        self._closed += 1
        if self._closed % _TIDY_EVERY == 0:
            self._places = [place for place in self._places if place.is_open]

    def _has_room(self, place: Destination) -> bool:
        return all(map(ge, place.free, self._least))

    def take_back(self) -> None:
        """Undo all moves since the last node was closed or undone."""
        for place, size, count in self._tried:
            place.change(size, -count)
        self._tried.clear()

    # Branches: asked for thousands of places: the cheap refusals first, in one loop.
    def put(
        self, size: Vector, requirement_sets: int, count: int, *, besides: str
    ) -> tuple[int, int]:
        """Put replicas of this size where they fit, but not on the node ``besides``.

        Return how many found no room, and how many nodes were looked at.
        """
        if any(asked > most for asked, most in zip(size, self._max_free, strict=False)):
            return count, 0
        cpu, memory = size[0], size[1]
        evaluations = 0
        for place in self._places:
            evaluations += 1
            free = place.free
            if (
                free[0] < cpu
                or free[1] < memory
                or not place.requirement_sets & requirement_sets
            ):
                continue
            if not place.is_open or place.claim_id == besides:
                continue
            fitting = min(count, copies_that_fit(size, free))
            if fitting:
                place.change(size, fitting)
                self._tried.append((place, size, fitting))
                count -= fitting
                if not count:
                    break
        return count, evaluations
