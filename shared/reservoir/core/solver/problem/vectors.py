"""Amounts of resources as tuples of integers, and sets of small numbers as one integer."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from operator import or_
from typing import Final

from reservoir.core.scheduling_terms.resources import CPU, MEMORY, PODS, Resources

Vector = tuple[int, ...]  # an amount for each of ``Dimensions.names``: millicores, bytes, pods, then counts
PODS_INDEX: Final = 2  # of every vector
UNLIMITED: Final = 1 << 30  # replicas or nodes: more than there ever are


class Dimensions:
    """The resource names that any replica asks for, in one order: cpu, memory and pods first, the others sorted."""

    def __init__(self, requests: Iterable[Resources]) -> None:
        asked = {name for request in set(requests) for name, amount in request.items() if amount > 0}
        self.names: tuple[str, ...] = (CPU, MEMORY, PODS, *sorted(asked - {CPU, MEMORY, PODS}))
        self._vectors: dict[Resources, Vector] = {}

    def request(self, resources: Resources) -> Vector:
        """Return what one replica takes: its requests, and one pod even where they do not say so (R-54)."""
        asked = self.capacity(resources)
        return asked if asked[PODS_INDEX] > 0 else (*asked[:PODS_INDEX], 1, *asked[PODS_INDEX + 1 :])

    def capacity(self, resources: Resources) -> Vector:
        """Return what a node has; nothing of a resource that it does not name, pods included (R-54)."""
        if (known := self._vectors.get(resources)) is None:
            known = self._vectors[resources] = tuple(resources.amounts(self.names))
        return known


def largest_share(load: Iterable[int], size: Iterable[int]) -> float:
    """Return the part of a node that a load uses of the resource it uses most."""
    return max([used / whole for used, whole in zip(load, size, strict=True) if whole], default=0.0)


def copies_that_fit(request: Vector, free: Iterable[int]) -> int:
    """How many times ``request`` fits into ``free``; a resource that is not asked for never limits."""
    fitting = UNLIMITED
    for asked, available in zip(request, free, strict=True):
        if asked > 0:
            copies = available // asked
            if copies < fitting:
                fitting = copies
    return max(0, fitting)


def iter_bits(mask: int) -> Iterator[int]:
    """Yield the positions of set bits, ascending."""
    while mask:
        bit = mask & -mask
        yield bit.bit_length() - 1
        mask ^= bit


def mask_of(positions: Iterable[int]) -> int:
    """Return the integer in which the bits at these positions are set."""
    mask = 0
    for position in positions:
        mask |= 1 << position
    return mask


def prefix_masks(amounts: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the distinct amounts in ascending order, and for each number of the smallest who has one of them."""
    having = defaultdict[int, int](int)  # masks of positions; distinct amounts are few, and masks long
    for position, amount in enumerate(amounts):
        having[amount] |= 1 << position
    ascending = sorted(having)
    return ascending, list(accumulate(map(having.__getitem__, ascending), or_, initial=0))


class Sizes:
    """Many sizes, of which those that hold something are asked for again and again."""

    def __init__(self, sizes: Iterable[Vector]) -> None:
        self._prefixes = [prefix_masks(amounts) for amounts in zip(*sizes, strict=True)]

    def holding(self, load: Iterable[int]) -> int:
        """Return the mask, over positions, of those that have room for the load."""
        mask = -1
        for (amounts, masks), asked in zip(self._prefixes, load, strict=False):
            mask &= masks[-1] & ~masks[bisect_left(amounts, asked)]
        return mask
