"""A packing: which patterns are used how often, and what is left to place and to use.

Other modules decide; this one keeps the books: replicas left by item, capacity left, the uses so far.
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
    """A pattern used ``count`` times: on the nodes of an existing bin, or on nodes to be launched."""

    bin: Bin | None
    bin_type: BinType | None
    pattern: Mapping[int, int]
    count: int
    eligible: int

    @property
    def is_bought(self) -> bool:
        """Whether its nodes are launched, and on no reserved unit."""
        return self.bin_type is not None and self.bin_type.option.reservation is None

    @property
    def size(self) -> Sequence[int]:
        """What a node has for the pattern."""
        if self.bin is not None:
            return self.bin.free
        assert self.bin_type is not None
        return self.bin_type.option.allocatable


@dataclass(frozen=True, slots=True)
class ItemFloor:
    """The policy's floor: ``buyable`` items (a mask) that use less than ``percent`` of a reserved slot stay off it."""

    percent: int = 0
    buyable: int = 0


class Packing:
    """Items being packed. What it is made from is not changed, so that ways to go on can be compared."""

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
        # what nodes were filled with, used or not, in all forks
        self.filled: list[tuple[BinType, Pattern]] = []
        self.expired = expired
        self.floor = floor
        self.bought = bought  # nodes with room, and who may have it once units are in use

    def fork(self) -> "Packing":
        """Return a copy that goes on by itself."""
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
        """Repeat what another packing does on nodes already being bought and, if wanted, on reserved units."""
        bought = {bin_.uid for bin_, _ in self.take_bought()}
        for use in other.uses:
            is_followed = (
                on_units and not use.is_bought if use.bin is None else use.bin.uid in bought
            )
            if is_followed:
                self._add(use)

    def use_again(self, use: PatternUse) -> None:
        """Repeat what another packing of the same demand does."""
        self._add(use)

    def take_bought(self) -> Sequence[tuple[Bin, int]]:
        """Return the nodes that are being bought already, which are filled once."""
        bought, self.bought = self.bought, ()
        return bought

    def share(self, bin_type: BinType, pattern: Pattern) -> float:
        """Return the part of a node that the pattern uses of the resource it uses most."""
        size = bin_type.option.allocatable
        return largest_share(map(sub, size, self.room_beside(dict(pattern), size)), size)

    def is_kept_off(self, bin_type: BinType, pattern: Pattern) -> bool:
        """Whether the policy's floor keeps a pattern off a reserved slot, as some of it could be bought elsewhere."""
        if not self.floor.percent or bin_type.option.reservation is None:
            return False
        is_buyable = any(self.floor.buyable >> index & 1 for index, _ in pattern)
        return is_buyable and self.share(bin_type, pattern) * 100 < self.floor.percent

    def repeats(self, pattern: Pattern) -> int:
        """How often the demand that is left allows the pattern."""
        return min([self.left[index] // count for index, count in pattern])

    def repeat(self, bin_type: BinType, pattern: Pattern, wanted: int = UNLIMITED) -> int:
        """Plan a given pattern up to ``wanted`` times, as far as demand and supply last; return how often."""
        count = min(
            wanted, self.repeats(pattern), self.residual.nodes_left(bin_type.option)
        )
        if count > 0:
            self._add(PatternUse(None, bin_type, dict(pattern), count, bin_type.eligible))
        return count

    def repeat_on(self, bin_: Bin, eligible: int, pattern: Pattern, wanted: int) -> int:
        """Put the pattern on up to ``wanted`` of a bin's nodes, as far as demand lasts; return on how many."""
        count = min(wanted, self.repeats(pattern))
        self._add(PatternUse(bin_, None, dict(pattern), count, eligible))
        return count

    def repeat_in_part(self, bin_type: BinType, pattern: Pattern) -> None:
        """Plan a given pattern once with as much of it as is left, unless that is too little for the slot."""
        part = tuple(
            (index, min(count, self.left[index]))
            for index, count in pattern
            if self.left[index]
        )
        if part and not self.is_kept_off(bin_type, part):
            self.repeat(bin_type, part, 1)

    def extend(self, position: int, pattern: Pattern) -> None:
        """Put a further pattern on the nodes of a use, or on some of them if demand does not last for all."""
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
        """Return what a pattern leaves of a node with so much room."""
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
        """Sort packings: the least left over, then the cheapest."""
        return (sum(self.left), self.cost())
