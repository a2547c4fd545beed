"""Finds the filling of one node that is worth most: an exact answer to the pricing problem where item types are few.

This is a bounded knapsack of several resources, solved by branch and bound (Martello and Toth 1990). For the bound, all
resources are replaced by one: the mean of the parts of the node that a replica takes of each (a surrogate relaxation,
Glover 1968). Filling that resource in fractions gives the bound.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from operator import sub

from reservoir.core.solver.packing.item_types import ItemType
from reservoir.core.solver.packing.knapsack import Pattern
from reservoir.core.solver.problem.vectors import Vector, copies_that_fit

# Steps of a search; after so many it returns what it has found.
_STEPS_MAX = 3_000
_TINY = 1e-9


@dataclass(frozen=True, slots=True)
class _Item:
    """An item that may run on the node.

    ``part`` is the part of the node that one replica takes, in the mean of the node's resources. ``most`` is the number
    of replicas there are.
    """

    index: int
    request: Vector
    value: float
    part: float
    most: int


@dataclass(frozen=True, slots=True)
class FilledNode:
    """The best pattern found for a node and its value; ``at_most`` is an upper bound of the value of any pattern."""

    value: float
    pattern: Pattern
    at_most: float


@dataclass(frozen=True, slots=True)
class ListedFillings:
    """Fillings of a node, found in so many steps; ``is_complete`` unless the search ran out of these."""

    patterns: Sequence[Pattern]
    steps: int
    is_complete: bool


class BestFilling:
    """The search for the best filling of a node of this size.

    ``values`` are those of one replica, by index of the items that may run on the node; ``left`` is the number of
    replicas of each item.
    """

    def __init__(
        self,
        item_types: Sequence[ItemType],
        values: Mapping[int, float],
        left: Sequence[int],
        size: Vector,
    ) -> None:
        self._size = size
        items = []
        for index, value in values.items():
            request = item_types[index].request
            items.append(_Item(index, request, value, self._part(request), left[index]))
        # The items of most value for their part come first: then the first fillings are good, and the bound cuts off
        # most of the others.
        self._items = sorted(
            items, key=lambda it: (-it.value / max(it.part, _TINY), it.index)
        )

    def found(self) -> FilledNode:
        """Return the best filling found; an empty one if no item fits."""
        best_value = 0.0
        best: Pattern = ()
        steps_left = _STEPS_MAX
        stack: list[tuple[int, Vector, float, Pattern]] = [(0, self._size, 0.0, ())]
        while stack and steps_left:
            steps_left -= 1
            position, room, value, pattern = stack.pop()
            if value > best_value + _TINY:
                best_value, best = value, pattern
            if value + self._bound(position, room) <= best_value + _TINY:
                continue
            # The branch with the most replicas is pushed last, so that it is searched first.
            stack.extend(self._branches(position, room, value, pattern))
        bounds = [value + self._bound(at, room) for at, room, value, _ in stack]
        at_most = max([best_value + _TINY, *bounds])
        return FilledNode(best_value, tuple(sorted(best)), at_most)

    def above(
        self, least: float, steps_max: int, fewer: Set[int] = frozenset()
    ) -> ListedFillings:
        """Return the fillings worth more than ``least`` beside which no further replica fits.

        Of the items ``fewer``, by index, further replicas may fit.
        """
        found: list[Pattern] = []
        steps = 0
        stack: list[tuple[int, Vector, float, Pattern]] = [(0, self._size, 0.0, ())]
        while stack and steps < steps_max:
            steps += 1
            position, room, value, pattern = stack.pop()
            if value + self._bound(position, room) <= least:
                continue
            if position < len(self._items):
                stack.extend(self._branches(position, room, value, pattern))
            elif pattern and self._is_maximal(room, pattern, fewer):
                found.append(tuple(sorted(pattern)))
        return ListedFillings(found, steps, is_complete=not stack)

    def _branches(
        self, position: int, room: Vector, value: float, pattern: Pattern
    ) -> Iterator[tuple[int, Vector, float, Pattern]]:
        """Yield the states of the search after an item, one for each number of its replicas, in ascending order."""
        item = self._items[position]
        most = min(item.most, copies_that_fit(item.request, room))
        rest = room
        with_items = pattern
        for count in range(most + 1):
            if count:
                rest = tuple(map(sub, rest, item.request))
                with_items = (*pattern, (item.index, count))
            yield position + 1, rest, value + item.value * count, with_items

    def _is_maximal(self, room: Vector, pattern: Pattern, fewer: Set[int]) -> bool:
        used = dict(pattern)
        return not any(
            used.get(item.index, 0) < item.most and copies_that_fit(item.request, room)
            for item in self._items
            if item.index not in fewer
        )

    def bound(self) -> float:
        """Return an upper bound of the value of any filling."""
        return self._bound(0, self._size)

    def _bound(self, position: int, room: Vector) -> float:
        """Return an upper bound of the value that the items from this position on can add in the room left."""
        left = self._part(room)
        value = 0.0
        for item in self._items[position:]:
            if item.value < 0:
                break
            copies = min(float(item.most), left / max(item.part, _TINY))
            value += copies * item.value
            left -= copies * item.part
            if left <= 0:
                break
        return value

    def _part(self, amounts: Vector) -> float:
        """Return the part of the node that these amounts are, in the mean of its resources."""
        parts = [
            amount / size for amount, size in zip(amounts, self._size, strict=True) if size
        ]
        return sum(parts) / len(parts)
