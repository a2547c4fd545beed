"""A packing: which patterns are used on how many nodes, and which replicas and which capacity are left.

This module only counts: each use takes its replicas from what is left of each item, and its nodes from the residual
capacity. Other modules decide which patterns to use.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import sub

from reservoir.core.solver.packing.item_types import BinType
from reservoir.core.solver.packing.knapsack import GreedyKnapsack, Pattern
from reservoir.core.solver.problem.vectors import UNLIMITED, largest_share
from reservoir.core.solver.solution.bins import Bin
from reservoir.core.solver.solution.residual_capacity import ResidualCapacity


@dataclass(frozen=True, slots=True)
class PatternUse:
    """A pattern on ``count`` nodes: of an existing bin, or of a bin type that is to be launched.

    ``eligible`` is the mask of the items that may join the pattern on these nodes, whatever the room.
    """

    bin: Bin | None
    bin_type: BinType | None
    pattern: Mapping[int, int]
    count: int
    eligible: int

    @property
    def is_bought(self) -> bool:
        """Whether its nodes are launched and paid for: they take no reserved unit."""
        return self.bin_type is not None and self.bin_type.option.reservation is None

    @property
    def size(self) -> Sequence[int]:
        """The room that each node has for the pattern, by dimension."""
        if self.bin is not None:
            return self.bin.free
        assert self.bin_type is not None
        return self.bin_type.option.allocatable


@dataclass(frozen=True, slots=True)
class ItemFloor:
    """The policy's ``reservedFloorPercent``.

    A pattern that uses less than ``percent`` of a reserved slot may not have it if it contains one of the ``buyable``
    items (a mask).
    """

    percent: int = 0
    buyable: int = 0


class Packing:
    """Items being packed.

    A packing copies what it is made from, so that several ways to continue from one packing can be compared.
    """

    def __init__(
        self,
        knapsack: GreedyKnapsack,
        residual: ResidualCapacity,
        expired: Callable[[], bool],
        *,
        floor: ItemFloor = ItemFloor(),
        bought: Sequence[tuple[Bin, int]] = (),
    ) -> None:
        self.item_types = knapsack.item_types
        self.knapsack = knapsack
        self.left: Sequence[int] = knapsack.left
        self.residual = residual.copy()
        self.uses: list[PatternUse] = []
        # every pattern that was found for a bin type, used or not; all forks share the list
        self.filled: list[tuple[BinType, Pattern]] = []
        self.expired = expired
        self.floor = floor
        # nodes that the plan buys already, each with the items that may fill its room after the reserved units
        self.bought = bought

    def fork(self) -> "Packing":
        """Return a copy; later uses in one do not show in the other."""
        other = Packing(
            self.knapsack.fork(),
            self.residual,
            self.expired,
            floor=self.floor,
            bought=self.bought,
        )
        other.uses, other.filled = list(self.uses), self.filled
        return other

    def follow(self, other: "Packing", *, on_units: bool) -> None:
        """Repeat another packing's uses of nodes that the plan buys already and, if ``on_units``, of reserved units."""
        bought = {bin_.uid for bin_, _ in self.take_bought()}
        for use in other.uses:
            is_followed = (
                on_units and not use.is_bought if use.bin is None else use.bin.uid in bought
            )
            if is_followed:
                self._add(use)

    def use_again(self, use: PatternUse) -> None:
        """Repeat one use of another packing of the same demand."""
        self._add(use)

    def take_bought(self) -> Sequence[tuple[Bin, int]]:
        """Return the nodes that the plan buys already; later calls return none, so that they are filled once."""
        bought, self.bought = self.bought, ()
        return bought

    def share(self, bin_type: BinType, pattern: Pattern) -> float:
        """Return the largest part of any one resource of the node that the pattern uses."""
        size = bin_type.option.allocatable
        return largest_share(map(sub, size, self.room_beside(dict(pattern), size)), size)

    def is_kept_off(self, bin_type: BinType, pattern: Pattern) -> bool:
        """Whether the policy's floor denies the pattern this slot: it is small, and one of its items is buyable."""
        if not self.floor.percent or bin_type.option.reservation is None:
            return False
        is_buyable = any(self.floor.buyable >> index & 1 for index, _ in pattern)
        return is_buyable and self.share(bin_type, pattern) * 100 < self.floor.percent

    def repeats(self, pattern: Pattern) -> int:
        """On how many nodes the replicas that are left allow the pattern."""
        return min([self.left[index] // count for index, count in pattern])

    def repeat(self, bin_type: BinType, pattern: Pattern, wanted: int = UNLIMITED) -> int:
        """Launch up to ``wanted`` nodes with the pattern, as replicas and capacity allow; return how many."""
        count = min(
            wanted, self.repeats(pattern), self.residual.nodes_left(bin_type.option)
        )
        if count > 0:
            self._add(PatternUse(None, bin_type, dict(pattern), count, bin_type.eligible))
        return count

    def repeat_on(self, bin_: Bin, eligible: int, pattern: Pattern, wanted: int) -> int:
        """Put the pattern on up to ``wanted`` of a bin's nodes, as the replicas left allow; return on how many."""
        count = min(wanted, self.repeats(pattern))
        self._add(PatternUse(bin_, None, dict(pattern), count, eligible))
        return count

    def repeat_in_part(self, bin_type: BinType, pattern: Pattern) -> None:
        """Launch one node with those replicas of the pattern that are left, unless the floor denies them the slot."""
        part = tuple(
            (index, min(count, self.left[index]))
            for index, count in pattern
            if self.left[index]
        )
        if part and not self.is_kept_off(bin_type, part):
            self.repeat(bin_type, part, 1)

    def extend(self, position: int, pattern: Pattern) -> None:
        """Add a pattern to that of a use, on all its nodes or on as many as the replicas left allow.

        The use is split in two if some of its nodes keep the old pattern.
        """
        use = self.uses[position]
        count = min(use.count, self.repeats(pattern))
        if count < use.count:
            self.uses.append(replace(use, count=use.count - count))
        self._take(dict(pattern), count)
        self.uses[position] = replace(
            use, pattern=Counter(use.pattern) + Counter(dict(pattern)), count=count
        )

    def _add(self, use: PatternUse) -> None:
        if use.bin_type is not None:
            self.residual.take(use.bin_type.option, use.count)
        self._take(use.pattern, use.count)
        self.uses.append(use)

    def _take(self, pattern: Mapping[int, int], count: int) -> None:
        for index, copies in pattern.items():
            self.knapsack.take(index, copies * count)

    def room_beside(self, pattern: Mapping[int, int], size: Sequence[int]) -> list[int]:
        """Return the room that a pattern leaves on a node of this size."""
        room = list(size)
        for index, copies in pattern.items():
            for dimension, asked in enumerate(self.item_types[index].request):
                room[dimension] -= asked * copies
        return room

    @property
    def active(self) -> int:
        """Mask of items that have replicas left."""
        return self.knapsack.active

    def cost(self) -> float:
        """Price of what was launched, in USD an hour."""
        return sum(
            item.bin_type.price * item.count
            for item in self.uses
            if item.bin_type is not None
        )

    def quality(self) -> tuple[int, float]:
        """Sort key of packings: first the fewest replicas left over, then the lowest price."""
        return (sum(self.left), self.cost())
