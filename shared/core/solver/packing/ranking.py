"""Items in order of attraction, and sets of them as masks in that order: the first that fits is the lowest bit."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter, or_

from shared.core.solver.packing.item_types import ItemType


@dataclass(frozen=True, slots=True)
class Sizes:
    """What one replica of each item takes, and the distinct amounts of CPU and memory, ascending."""

    cpu: list[int]
    memory: list[int]
    pods: list[int]
    cpu_steps: list[int]
    memory_steps: list[int]

    @classmethod
    def of(cls, item_types: Sequence[ItemType]) -> "Sizes":
        """Read the requests. A replica without requests still takes a pod; a tiny amount keeps densities finite."""
        cpu = [max(1, item_type.request[0]) for item_type in item_types]
        memory = [max(1, item_type.request[1]) for item_type in item_types]
        return cls(
            cpu, memory, [item_type.request[2] for item_type in item_types], sorted(set(cpu)), sorted(set(memory))
        )


class Ranking:
    """Some items in one order. Bit r of its masks stands for the item of rank r.

    ``by_cpu`` has, per number of distinct amounts that fit, who asks for no more; so has ``by_memory``.
    """

    __slots__ = ("_digits", "_item_type_count", "_known", "_live", "_rank", "by_cpu", "by_memory", "order")

    def __init__(self, order: Sequence[int], sizes: Sizes, active: int) -> None:
        self.order = order
        self._item_type_count = len(sizes.cpu)
        self._rank = {index: rank for rank, index in enumerate(order)}
        # Which digit of a mask over items, written in binary, belongs to each rank, the last rank first.
        self._digits = itemgetter(*(self._item_type_count - 1 - index for index in reversed(order))) if order else None
        self._known: dict[int, int] = {}
        self.by_cpu = _upto(order, sizes.cpu, sizes.cpu_steps)
        self.by_memory = _upto(order, sizes.memory, sizes.memory_steps)
        self._live = self._ranked(active)

    def _ranked(self, mask: int) -> int:
        """Return a mask over items in this order."""
        digits = "" if self._digits is None else "".join(self._digits(f"{mask:0{self._item_type_count}b}"))
        self._known[mask] = ranked = int(digits or "0", 2)
        return ranked

    def alive(self, mask: int) -> int:
        """Return who of a mask over items is left, in this order."""
        known = self._known.get(mask)
        return (self._ranked(mask) if known is None else known) & self._live

    def drop(self, index: int) -> None:
        """Do without an item of which nothing is left."""
        rank = self._rank.get(index)
        if rank is not None:
            self._live &= ~(1 << rank)


def _upto(order: Sequence[int], amounts: Sequence[int], steps: Sequence[int]) -> list[int]:
    """Return, for each number of steps, the ranks whose amount is among the first so many."""
    position = {amount: number for number, amount in enumerate(steps, 1)}
    at = [0] * (len(steps) + 1)
    for rank, index in enumerate(order):
        at[position[amounts[index]]] |= 1 << rank
    return list(accumulate(at, or_))
