"""Packing by counts: patterns (one node's content) chosen by worth for money and repeated while demand lasts.

Existing room first, then reserved units, which go to what is dearest elsewhere, then room on nodes that are bought
already, then what must be paid for.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import inf, sqrt
from typing import NamedTuple

from shared.core.solver.packing.item_types import Candidate, Shape
from shared.core.solver.packing.knapsack import MEMORY_UNIT, Contents, Filler
from shared.core.solver.problem.option_order import WORTH_A_SLOT
from shared.core.solver.problem.vectors import Vector
from shared.core.solver.solution.bins import Bin
from shared.core.solver.solution.residual_capacity import Supply

_NEAR_ENOUGH = 0.001


@dataclass(slots=True)
class Pattern:
    """``count`` nodes with equal content, by shape: on an existing bin, or to be launched."""

    bin: Bin | None
    candidate: Candidate | None
    content: dict[int, int]
    count: int
    mask: int
    room: list[int]

    def copy(self) -> "Pattern":
        """Return an independent copy."""
        return Pattern(self.bin, self.candidate, dict(self.content), self.count, self.mask, list(self.room))


class Trial(NamedTuple):
    """A way to deal out short reserved units: how strongly work without choice is preferred, and who chooses first.

    ``by_size``: slots are compared by CPU and memory alike and not by their price. Those with much memory for their
    CPU then choose earlier, before work that needs memory is on slots that had little to spare.
    """

    strength: float
    by_size: bool = False

    def measure(self, candidate: Candidate) -> float:
        """Return what the worth of a content is divided by to compare slots."""
        if self.by_size:
            cpu, memory = candidate.option.allocatable[:2]
            return max(1.0, sqrt(cpu * (memory / MEMORY_UNIT)))
        return max(1, candidate.option.on_demand_micro_usd) / 1e6


class _Smallest:
    """The least of each resource that any of some shapes asks for, while the shapes become fewer."""

    __slots__ = ("_orders", "request")

    def __init__(self, shapes: Sequence[Shape]) -> None:
        dimensions = range(len(shapes[0].request) if shapes else 0)
        self._orders = [_largest_first(shapes, dimension) for dimension in dimensions]
        self.request: Vector = ()
        self.keep(-1)

    def keep(self, active: int) -> None:
        """Go on with the shapes of the mask only."""
        for order in self._orders:
            while order and not active >> order[-1].index & 1:
                order.pop()
        self.request = tuple(order[-1].request[d] for d, order in enumerate(self._orders) if order)


class Packing:
    """One pass over all shapes. The input is not changed, so passes with other worths can be compared."""

    def __init__(
        self,
        shapes: Sequence[Shape],
        worth: Sequence[float],
        supply: Supply,
        expired: Callable[[], bool],
        left: Sequence[int] | None = None,
    ) -> None:
        self.shapes = shapes
        self.filler = Filler(shapes, worth, [shape.count for shape in shapes] if left is None else left)
        self.left: Sequence[int] = self.filler.left
        self.supply = supply.copy()
        self.patterns: list[Pattern] = []
        self.expired = expired
        self.floor_percent = 0
        self.buyable = 0  # mask of shapes that can be bought, for the floor
        self.trial = Trial(0.0)  # what served best on reserved units
        self.bought: Sequence[tuple[Bin, int]] = ()  # nodes with room, and who may have it once units are in use

    def fork(self, worth: Sequence[float]) -> "Packing":
        """Return a copy that goes on by itself, with other worths."""
        other = Packing(self.shapes, worth, self.supply, self.expired, self.left)
        other.floor_percent, other.buyable = self.floor_percent, self.buyable
        other.bought = self.bought
        other.patterns = [item.copy() for item in self.patterns]
        return other

    def follow(self, other: "Packing", *, on_units: bool) -> None:
        """Do as another packing does on nodes that are being bought already and, if wanted, on reserved units."""
        bought = {bin_.uid for bin_, _ in self.bought}
        self.bought = ()
        for item in other.patterns:
            option = None if item.candidate is None else item.candidate.option
            if option is not None and option.reservation is not None and on_units:
                self.supply.take(option, item.count)
            elif item.bin is None or item.bin.uid not in bought:
                continue
            for index, copies in item.content.items():
                self.filler.take(index, copies * item.count)
            self.patterns.append(item.copy())

    # -- bookkeeping

    def repeats(self, content: Contents) -> int:
        """How often the demand that is left allows the content."""
        return min([self.left[index] // count for index, count in content])

    def apply(self, candidate: Candidate, content: Contents, count: int) -> None:
        """Plan ``count`` nodes with this content."""
        self.supply.take(candidate.option, count)
        room = list(candidate.option.allocatable)
        self._use(room, content)
        for index, copies in content:
            self.filler.take(index, copies * count)
        self.patterns.append(Pattern(None, candidate, dict(content), count, candidate.mask, room))

    def repeat(self, candidate: Candidate, content: Contents, wanted: int) -> int:
        """Plan a given pattern up to ``wanted`` times, as far as demand and supply last; return how often."""
        count = min(wanted, self.repeats(content), self.supply.nodes_left(candidate.option))
        if count > 0:
            self.apply(candidate, content, count)
        return count

    def repeat_in_part(self, candidate: Candidate, content: Contents) -> None:
        """Plan a given pattern once with as much of its content as is left."""
        part = tuple((index, min(count, self.left[index])) for index, count in content if self.left[index])
        if part and self.supply.nodes_left(candidate.option):
            self.apply(candidate, part, 1)

    @property
    def active(self) -> int:
        """Mask of shapes that have replicas left."""
        return self.filler.active

    def cost(self) -> float:
        """Price of what was launched, in USD an hour."""
        return sum(item.candidate.price * item.count for item in self.patterns if item.candidate is not None)

    def left_worth(self, worth: Sequence[float]) -> float:
        """About what it will cost to place the rest."""
        return sum(value * left for value, left in zip(worth, self.left, strict=True))

    # -- phases

    def fill_existing(self, bins: Iterable[tuple[Bin, int]], among: int) -> None:
        """Fill each bin once, in the given order; ``bins`` come with the shapes that they accept."""
        active = self.active & among
        smallest = _Smallest([shape for shape in self.shapes if active >> shape.index & 1])
        for bin_, mask in bins:
            nodes = bin_.count
            while nodes and mask & active:
                if any(free < least for free, least in zip(bin_.free, smallest.request, strict=True)):
                    break
                _, content = self.filler.fill(bin_.free, mask & among)
                if not content:
                    break
                count = min(nodes, self.repeats(content))
                room = list(bin_.free)
                self._use(room, content)
                self.patterns.append(Pattern(bin_, None, dict(content), count, mask, room))
                nodes -= count
                for index, copies in content:
                    self.filler.take(index, copies * count)
                active = self.active & among
                smallest.keep(active)
            if not active:
                return

    def fill_bought(self) -> None:
        """Fill the room on nodes that are being bought already."""
        bins, self.bought = self.bought, ()
        self.fill_existing(bins, (1 << len(self.shapes)) - 1)

    def _use(self, room: list[int], content: Contents) -> None:
        for index, copies in content:
            for dimension, asked in enumerate(self.shapes[index].request):
                room[dimension] -= asked * copies

    def top_up(self, among: int) -> None:
        """Put replicas into the room that is left on nodes which cost nothing more: reserved and existing ones."""
        for pattern in list(self.patterns):
            is_paid = pattern.candidate is not None and pattern.candidate.option.reservation is None
            takers = pattern.mask & among
            if is_paid or not takers & self.active or any(self.shapes[i].host is not None for i in pattern.content):
                continue
            _, content = self.filler.fill(pattern.room, takers)
            if not content:
                continue
            count = min(pattern.count, self.repeats(content))
            if count < pattern.count:
                rest = Pattern(
                    pattern.bin,
                    pattern.candidate,
                    dict(pattern.content),
                    pattern.count - count,
                    pattern.mask,
                    list(pattern.room),
                )
                self.patterns.append(rest)
                pattern.count = count
            for index, copies in content:
                self.filler.take(index, copies * count)
                pattern.content[index] = pattern.content.get(index, 0) + copies
            self._use(pattern.room, content)

    def use_reserved(self, reserved: Sequence[tuple[Candidate, tuple[object, ...]]], among: int) -> None:
        """Give units to the contents that are worth most for the slot; equals in the order of the keys given.

        How slots compare, :attr:`trial` says.
        """
        contents: list[tuple[float, Contents]] = [(0.0, ())] * len(reserved)
        ranks = {
            position: rank for rank, position in enumerate(sorted(range(len(reserved)), key=lambda p: reserved[p][1]))
        }
        heap = [(-inf, ranks[position], position) for position in range(len(reserved))]
        heapify(heap)
        while heap:
            score, rank, position = heappop(heap)
            candidate = reserved[position][0]
            units = self.supply.nodes_left(candidate.option)
            if units == 0:
                continue
            worth, content = contents[position]
            if not content or self.repeats(content) == 0:
                worth, content = self._fill_reserved(candidate, candidate.mask & among)
                contents[position] = (worth, content)
                if worth <= 0.0:
                    continue
                score = -round(worth / self.trial.measure(candidate), 9)
                if heap and (score, rank) > heap[0][:2]:
                    heappush(heap, (score, rank, position))
                    continue
            self.apply(candidate, content, min(units, self.repeats(content)))
            heappush(heap, (score, rank, position))

    def use_reserved_in_order(self, reserved: Sequence[Candidate], among: int) -> None:
        """Give units in the order of the list, each to the content worth most to it; tiny contents wait.

        What is tiny for every slot that it reaches goes to the smallest of them at the end.
        """
        smallest_first = sorted(reserved, key=lambda item: item.option.on_demand_micro_usd)
        for candidates, takes_tiny in ((reserved, False), (smallest_first, True)):
            for candidate in candidates:
                while units := self.supply.nodes_left(candidate.option):
                    worth, content = self._fill_reserved(candidate, candidate.mask & among)
                    if worth <= 0.0 or not (takes_tiny or self._share(candidate, content) * WORTH_A_SLOT >= 1):
                        break
                    self.apply(candidate, content, min(units, self.repeats(content)))

    def _share(self, candidate: Candidate, content: Contents) -> float:
        """Return the part of a node that a content uses of the resource it uses most."""
        room = list(candidate.option.allocatable)
        self._use(room, content)
        return max(1 - free / whole for free, whole in zip(room, candidate.option.allocatable, strict=True) if whole)

    def _fill_reserved(self, candidate: Candidate, takers: int) -> tuple[float, Contents]:
        """Fill a reserved slot; nothing if the policy's floor keeps it for larger work that has no other place."""
        if not takers & self.active:
            return 0.0, ()
        worth, content = self.filler.fill(candidate.option.allocatable, takers)
        if content and self.floor_percent and self._share(candidate, content) * 100 < self.floor_percent:
            return self.filler.fill(candidate.option.allocatable, takers & ~self.buyable)
        return worth, content


def _largest_first(shapes: Sequence[Shape], dimension: int) -> list[Shape]:
    return sorted(shapes, key=lambda shape: -shape.request[dimension])
