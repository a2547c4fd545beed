"""A packing: which patterns are used how often, and what is left to place and to use.

Other modules decide; this one keeps the books: replicas left by item, capacity left, the uses so far.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shared.core.solver.packing.item_types import BinType, ItemType
from shared.core.solver.packing.knapsack import GreedyKnapsack, Pattern
from shared.core.solver.solution.bins import Bin
from shared.core.solver.solution.residual_capacity import ResidualCapacity


@dataclass(slots=True)
class PatternUse:
    """A pattern used ``count`` times: on the nodes of an existing bin, or on nodes to be launched."""

    bin: Bin | None
    bin_type: BinType | None
    pattern: dict[int, int]
    count: int
    eligible: int
    room: list[int]

    def copy(self) -> "PatternUse":
        """Return an independent copy."""
        return PatternUse(self.bin, self.bin_type, dict(self.pattern), self.count, self.eligible, list(self.room))


@dataclass(frozen=True, slots=True)
class ItemFloor:
    """The policy's floor: ``buyable`` items (a mask) that use less than ``percent`` of a reserved slot stay off it."""

    percent: int = 0
    buyable: int = 0


class Packing:
    """Items being packed. What it is made from is not changed, so that ways to go on can be compared."""

    def __init__(
        self,
        item_types: Sequence[ItemType],
        values: Sequence[float],
        residual: ResidualCapacity,
        expired: Callable[[], bool],
        *,
        floor: ItemFloor = ItemFloor(),
        bought: Sequence[tuple[Bin, int]] = (),
        left: Sequence[int] | None = None,
    ) -> None:
        self.item_types = item_types
        self.knapsack = GreedyKnapsack(
            item_types, values, [item_type.count for item_type in item_types] if left is None else left
        )
        self.left: Sequence[int] = self.knapsack.left
        self.residual = residual.copy()
        self.uses: list[PatternUse] = []
        self.expired = expired
        self.floor = floor
        self.bought = bought  # nodes with room, and who may have it once units are in use

    def fork(self, values: Sequence[float]) -> "Packing":
        """Return a copy that goes on by itself, with other values."""
        other = Packing(
            self.item_types,
            values,
            self.residual,
            self.expired,
            floor=self.floor,
            bought=self.bought,
            left=self.left,
        )
        other.uses = [item.copy() for item in self.uses]
        return other

    def follow(self, other: "Packing", *, on_units: bool) -> None:
        """Do as another packing does on nodes that are being bought already and, if wanted, on reserved units."""
        bought = {bin_.uid for bin_, _ in self.bought}
        self.bought = ()
        for item in other.uses:
            option = None if item.bin_type is None else item.bin_type.option
            if option is not None and option.reservation is not None and on_units:
                self.residual.take(option, item.count)
            elif item.bin is None or item.bin.uid not in bought:
                continue
            self._take(tuple(item.pattern.items()), item.count)
            self.uses.append(item.copy())

    def repeats(self, pattern: Pattern) -> int:
        """How often the demand that is left allows the pattern."""
        return min([self.left[index] // count for index, count in pattern])

    def apply(self, bin_type: BinType, pattern: Pattern, count: int) -> None:
        """Plan ``count`` nodes with this pattern."""
        self.residual.take(bin_type.option, count)
        room = self.room_beside(pattern, bin_type.option.allocatable)
        self._take(pattern, count)
        self.uses.append(PatternUse(None, bin_type, dict(pattern), count, bin_type.eligible, room))

    def apply_on(self, bin_: Bin, eligible: int, pattern: Pattern, count: int) -> None:
        """Put the pattern on ``count`` of a bin's nodes."""
        room = self.room_beside(pattern, bin_.free)
        self._take(pattern, count)
        self.uses.append(PatternUse(bin_, None, dict(pattern), count, eligible, room))

    def replace(self, use: PatternUse, bin_type: BinType, other: BinType) -> bool:
        """Use another bin type for a pattern, if limits leave enough nodes of it; return whether they did."""
        self.residual.take(bin_type.option, -use.count)
        is_possible = self.residual.nodes_left(other.option) >= use.count
        use.bin_type = other if is_possible else bin_type
        self.residual.take(use.bin_type.option, use.count)
        return is_possible

    def extend(self, use: PatternUse, pattern: Pattern) -> None:
        """Put a further pattern on the nodes of a use, or on some of them if demand does not last for all."""
        count = min(use.count, self.repeats(pattern))
        if count < use.count:
            rest = use.copy()
            rest.count = use.count - count
            self.uses.append(rest)
            use.count = count
        self._take(pattern, count)
        for index, copies in pattern:
            use.pattern[index] = use.pattern.get(index, 0) + copies
        use.room = self.room_beside(pattern, use.room)

    def _take(self, pattern: Pattern, count: int) -> None:
        for index, copies in pattern:
            self.knapsack.take(index, copies * count)

    def room_beside(self, pattern: Pattern, size: Sequence[int]) -> list[int]:
        """Return what a pattern leaves of a node with so much room."""
        room = list(size)
        for index, copies in pattern:
            for dimension, asked in enumerate(self.item_types[index].request):
                room[dimension] -= asked * copies
        return room

    def repeat(self, bin_type: BinType, pattern: Pattern, wanted: int) -> int:
        """Plan a given pattern up to ``wanted`` times, as far as demand and supply last; return how often."""
        count = min(wanted, self.repeats(pattern), self.residual.nodes_left(bin_type.option))
        if count > 0:
            self.apply(bin_type, pattern, count)
        return count

    def repeat_in_part(self, bin_type: BinType, pattern: Pattern) -> None:
        """Plan a given pattern once with as much of it as is left."""
        part = tuple((index, min(count, self.left[index])) for index, count in pattern if self.left[index])
        if part and self.residual.nodes_left(bin_type.option):
            self.apply(bin_type, part, 1)

    @property
    def active(self) -> int:
        """Mask of items that have replicas left."""
        return self.knapsack.active

    def cost(self) -> float:
        """Price of what was launched, in USD an hour."""
        return sum(item.bin_type.price * item.count for item in self.uses if item.bin_type is not None)

    def quality(self) -> tuple[int, float]:
        """Sort packings: the least left over, then the cheapest."""
        return (sum(self.left), self.cost())
