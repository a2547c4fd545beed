"""Packing by counts: patterns (what goes onto one node) chosen by value for money and repeated while demand lasts.

Existing room first, then reserved units, which go to what is dearest elsewhere, then room on nodes that are bought
already, then what must be paid for.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import inf, sqrt
from typing import NamedTuple

from shared.core.solver.packing.item_types import BinType, ItemType
from shared.core.solver.packing.knapsack import MEMORY_UNIT, GreedyKnapsack, Pattern
from shared.core.solver.problem.option_order import WORTH_A_SLOT
from shared.core.solver.problem.vectors import Vector
from shared.core.solver.solution.bins import Bin
from shared.core.solver.solution.residual_capacity import ResidualCapacity

_NEAR_ENOUGH = 0.001


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


class PriceBias(NamedTuple):
    """A way to deal out short reserved units: how strongly work without choice is preferred, and who chooses first.

    ``by_size``: slots are compared by CPU and memory alike and not by their price. Those with much memory for their
    CPU then choose earlier, before work that needs memory is on slots that had little to spare.
    """

    exponent: float
    by_size: bool = False

    def measure(self, bin_type: BinType) -> float:
        """Return what the value of a pattern is divided by to compare slots."""
        if self.by_size:
            cpu, memory = bin_type.option.allocatable[:2]
            return max(1.0, sqrt(cpu * (memory / MEMORY_UNIT)))
        return max(1, bin_type.option.on_demand_micro_usd) / 1e6


class _Smallest:
    """The least of each resource that any of some items asks for, while the items become fewer."""

    __slots__ = ("_orders", "request")

    def __init__(self, item_types: Sequence[ItemType]) -> None:
        dimensions = range(len(item_types[0].request) if item_types else 0)
        self._orders = [_largest_first(item_types, dimension) for dimension in dimensions]
        self.request: Vector = ()
        self.keep(-1)

    def keep(self, active: int) -> None:
        """Go on with the items of the mask only."""
        for order in self._orders:
            while order and not active >> order[-1].index & 1:
                order.pop()
        self.request = tuple(order[-1].request[d] for d, order in enumerate(self._orders) if order)


class Packing:
    """One pass over all items. The input is not changed, so passes with other values can be compared."""

    def __init__(
        self,
        item_types: Sequence[ItemType],
        values: Sequence[float],
        residual: ResidualCapacity,
        expired: Callable[[], bool],
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
        self.floor_percent = 0
        self.buyable = 0  # mask of items that can be bought, for the floor
        self.bias = PriceBias(0.0)  # what served best on reserved units
        self.bought: Sequence[tuple[Bin, int]] = ()  # nodes with room, and who may have it once units are in use

    def fork(self, values: Sequence[float]) -> "Packing":
        """Return a copy that goes on by itself, with other values."""
        other = Packing(self.item_types, values, self.residual, self.expired, self.left)
        other.floor_percent, other.buyable = self.floor_percent, self.buyable
        other.bought = self.bought
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
            for index, copies in item.pattern.items():
                self.knapsack.take(index, copies * item.count)
            self.uses.append(item.copy())

    # -- bookkeeping

    def repeats(self, pattern: Pattern) -> int:
        """How often the demand that is left allows the pattern."""
        return min([self.left[index] // count for index, count in pattern])

    def apply(self, bin_type: BinType, pattern: Pattern, count: int) -> None:
        """Plan ``count`` nodes with this pattern."""
        self.residual.take(bin_type.option, count)
        room = list(bin_type.option.allocatable)
        self._use(room, pattern)
        for index, copies in pattern:
            self.knapsack.take(index, copies * count)
        self.uses.append(PatternUse(None, bin_type, dict(pattern), count, bin_type.eligible, room))

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

    def left_value(self, values: Sequence[float]) -> float:
        """About what it will cost to place the rest."""
        return sum(value * left for value, left in zip(values, self.left, strict=True))

    # -- phases

    def fill_existing(self, bins: Iterable[tuple[Bin, int]], among: int) -> None:
        """Fill each bin once, in the given order; ``bins`` come with the items that they accept."""
        active = self.active & among
        smallest = _Smallest([item_type for item_type in self.item_types if active >> item_type.index & 1])
        for bin_, mask in bins:
            nodes = bin_.count
            while nodes and mask & active:
                if any(free < least for free, least in zip(bin_.free, smallest.request, strict=True)):
                    break
                _, pattern = self.knapsack.fill(bin_.free, mask & among)
                if not pattern:
                    break
                count = min(nodes, self.repeats(pattern))
                room = list(bin_.free)
                self._use(room, pattern)
                self.uses.append(PatternUse(bin_, None, dict(pattern), count, mask, room))
                nodes -= count
                for index, copies in pattern:
                    self.knapsack.take(index, copies * count)
                active = self.active & among
                smallest.keep(active)
            if not active:
                return

    def fill_bought(self) -> None:
        """Fill the room on nodes that are being bought already."""
        bins, self.bought = self.bought, ()
        self.fill_existing(bins, (1 << len(self.item_types)) - 1)

    def _use(self, room: list[int], pattern: Pattern) -> None:
        for index, copies in pattern:
            for dimension, asked in enumerate(self.item_types[index].request):
                room[dimension] -= asked * copies

    def top_up(self, among: int) -> None:
        """Put replicas into the room that is left on nodes which cost nothing more: reserved and existing ones."""
        for use in list(self.uses):
            is_paid = use.bin_type is not None and use.bin_type.option.reservation is None
            eligible = use.eligible & among
            if is_paid or not eligible & self.active or any(self.item_types[i].host is not None for i in use.pattern):
                continue
            _, pattern = self.knapsack.fill(use.room, eligible)
            if not pattern:
                continue
            count = min(use.count, self.repeats(pattern))
            if count < use.count:
                rest = PatternUse(
                    use.bin,
                    use.bin_type,
                    dict(use.pattern),
                    use.count - count,
                    use.eligible,
                    list(use.room),
                )
                self.uses.append(rest)
                use.count = count
            for index, copies in pattern:
                self.knapsack.take(index, copies * count)
                use.pattern[index] = use.pattern.get(index, 0) + copies
            self._use(use.room, pattern)

    def use_reserved(self, reserved: Sequence[tuple[BinType, tuple[object, ...]]], among: int) -> None:
        """Give units to the patterns that are worth most for the slot; equals in the order of the keys given.

        How slots compare, :attr:`trial` says.
        """
        patterns: list[tuple[float, Pattern]] = [(0.0, ())] * len(reserved)
        ranks = {
            position: rank for rank, position in enumerate(sorted(range(len(reserved)), key=lambda p: reserved[p][1]))
        }
        heap = [(-inf, ranks[position], position) for position in range(len(reserved))]
        heapify(heap)
        while heap:
            score, rank, position = heappop(heap)
            bin_type = reserved[position][0]
            units = self.residual.nodes_left(bin_type.option)
            if units == 0:
                continue
            value, pattern = patterns[position]
            if not pattern or self.repeats(pattern) == 0:
                value, pattern = self._fill_reserved(bin_type, bin_type.eligible & among)
                patterns[position] = (value, pattern)
                if value <= 0.0:
                    continue
                score = -round(value / self.bias.measure(bin_type), 9)
                if heap and (score, rank) > heap[0][:2]:
                    heappush(heap, (score, rank, position))
                    continue
            self.apply(bin_type, pattern, min(units, self.repeats(pattern)))
            heappush(heap, (score, rank, position))

    def use_reserved_in_order(self, reserved: Sequence[BinType], among: int) -> None:
        """Give units in the order of the list, each to the pattern worth most to it; tiny patterns wait.

        What is tiny for every slot that it reaches goes to the smallest of them at the end.
        """
        smallest_first = sorted(reserved, key=lambda item: item.option.on_demand_micro_usd)
        for bin_types, takes_tiny in ((reserved, False), (smallest_first, True)):
            for bin_type in bin_types:
                while units := self.residual.nodes_left(bin_type.option):
                    value, pattern = self._fill_reserved(bin_type, bin_type.eligible & among)
                    if value <= 0.0 or not (takes_tiny or self._share(bin_type, pattern) * WORTH_A_SLOT >= 1):
                        break
                    self.apply(bin_type, pattern, min(units, self.repeats(pattern)))

    def _share(self, bin_type: BinType, pattern: Pattern) -> float:
        """Return the part of a node that a pattern uses of the resource it uses most."""
        room = list(bin_type.option.allocatable)
        self._use(room, pattern)
        return max(1 - free / whole for free, whole in zip(room, bin_type.option.allocatable, strict=True) if whole)

    def _fill_reserved(self, bin_type: BinType, eligible: int) -> tuple[float, Pattern]:
        """Fill a reserved slot; nothing if the policy's floor keeps it for larger work that has no other place."""
        if not eligible & self.active:
            return 0.0, ()
        value, pattern = self.knapsack.fill(bin_type.option.allocatable, eligible)
        if pattern and self.floor_percent and self._share(bin_type, pattern) * 100 < self.floor_percent:
            return self.knapsack.fill(bin_type.option.allocatable, eligible & ~self.buyable)
        return value, pattern


def _largest_first(item_types: Sequence[ItemType], dimension: int) -> list[ItemType]:
    return sorted(item_types, key=lambda item_type: -item_type.request[dimension])
