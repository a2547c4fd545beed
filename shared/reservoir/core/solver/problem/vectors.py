"""The numbers that the solver computes with: amounts of resources as tuples of integers, sets as bits of integers."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress, count
from typing import Final

from reservoir.core.scheduling_terms.resources import CPU, MEMORY, PODS, Resources

# One amount for each of ``Dimensions.names``: millicores, bytes, pods, then counts of other resources.
Vector = tuple[int, ...]
PODS_INDEX: Final = 2  # the position of pods in every vector
UNLIMITED: Final = 1 << 30  # more replicas or nodes than there ever are
# At most so many masks are kept for a list of amounts: one for each amount would take memory by the square of their
# number.
STEPS_MAX: Final = 256
# Masks with more bits set than this are not read or written bit by bit, as each step would copy the whole mask.
_MANY: Final = 16
_DIGITS: Final = bytes.maketrans(b"01", b"\0\1")


class Dimensions:
    """The names of the resources that replicas request, in order: cpu, memory and pods, then the others sorted."""

    def __init__(self, requests: Iterable[Resources]) -> None:
        asked: set[str] = set()
        for request in set(requests):
            for name, amount in request.items():
                if amount > 0:
                    asked.add(name)
        others = sorted(asked - {CPU, MEMORY, PODS})
        self.names: tuple[str, ...] = (CPU, MEMORY, PODS, *others)
        self._vectors: dict[Resources, Vector] = {}

    def request(self, resources: Resources) -> Vector:
        """Return the vector of one replica's requests; it takes at least one pod, requested or not (R-54)."""
        asked = self.capacity(resources)
        if asked[PODS_INDEX] > 0:
            return asked
        return (*asked[:PODS_INDEX], 1, *asked[PODS_INDEX + 1 :])

    def capacity(self, resources: Resources) -> Vector:
        """Return the vector of a node's resources: 0 for each that it does not name, pods included (R-54)."""
        if (known := self._vectors.get(resources)) is None:
            known = self._vectors[resources] = tuple(resources.amounts(self.names))
        return known


def largest_share(load: Iterable[int], size: Iterable[int]) -> float:
    """Return the largest part of any one resource of a node that a load uses."""
    return max(
        [used / whole for used, whole in zip(load, size, strict=True) if whole], default=0.0
    )


def copies_that_fit(request: Vector, free: Iterable[int]) -> int:
    """Return how many times ``request`` fits into ``free``; a resource that is not requested sets no limit."""
    fitting = UNLIMITED
    for asked, available in zip(request, free, strict=True):
        if asked > 0:
            copies = available // asked
            if copies < fitting:
                fitting = copies
    return max(0, fitting)


def iter_bits(mask: int) -> Iterator[int]:
    """Yield the positions of the set bits in ascending order."""
    if mask.bit_count() > _MANY + mask.bit_length() // 32:
        yield from compress(count(), f"{mask:b}"[::-1].encode().translate(_DIGITS))
        return
    while mask:
        bit = mask & -mask
        yield bit.bit_length() - 1
        mask ^= bit


def mask_of(positions: Iterable[int]) -> int:
    """Return the integer in which the bits at these positions are set."""
    found = list(positions)
    if len(found) > _MANY:
        return _growing([found], max(found) + 1)[-1]
    mask = 0
    for position in found:
        mask |= 1 << position
    return mask


def prefix_masks(
    amounts: Sequence[int], steps_max: int = UNLIMITED
) -> tuple[list[int], list[int]]:
    """Return the distinct amounts in ascending order, and the masks of the positions of the n smallest, for each n.

    If there are more than ``steps_max`` distinct amounts, each that is returned stands for itself and the next few
    above it.
    """
    having = defaultdict[int, list[int]](list)  # positions by amount
    for position, amount in enumerate(amounts):
        having[amount].append(position)
    ascending = sorted(having)
    width = -(-len(ascending) // steps_max) or 1
    steps = [ascending[at : at + width] for at in range(0, len(ascending), width)]
    having_step = [chain.from_iterable(map(having.__getitem__, step)) for step in steps]
    return ascending[::width], _growing(having_step, len(amounts))


def _growing(steps: Iterable[Iterable[int]], size: int) -> list[int]:
    """Return the mask of the positions in the first n steps, for each n from 0; all positions are below ``size``."""
    octets = bytearray(size // 8 + 1)
    masks = [0]
    for positions in steps:
        for position in positions:
            octets[position >> 3] |= 1 << (position & 7)
        masks.append(int.from_bytes(octets, "little"))
    return masks


class Ascending:
    """Amounts, indexed so that those up to a given one are found fast."""

    def __init__(self, amounts: Sequence[int]) -> None:
        self._amounts = sorted(amounts)
        self._positions = sorted(range(len(amounts)), key=amounts.__getitem__)
        self._width = len(amounts) // STEPS_MAX + 1
        steps = [
            self._positions[at : at + self._width]
            for at in range(0, len(amounts), self._width)
        ]
        self._masks = _growing(steps, len(amounts))

    def at_most(self, most: int) -> int:
        """Return the mask of the positions of the amounts up to this one."""
        count = bisect_right(self._amounts, most)
        steps, rest = divmod(count, self._width)
        return self._masks[steps] | mask_of(self._positions[count - rest : count])


class Sizes:
    """Sizes of nodes, indexed so that those that hold a given load are found fast."""

    def __init__(self, sizes: Iterable[Vector]) -> None:
        self._prefixes = [prefix_masks(amounts) for amounts in zip(*sizes, strict=True)]

    def holding(self, load: Iterable[int]) -> int:
        """Return the mask of the positions of the sizes that hold the load."""
        mask = -1
        for (amounts, masks), asked in zip(self._prefixes, load, strict=False):
            mask &= masks[-1] & ~masks[bisect_left(amounts, asked)]
        return mask
