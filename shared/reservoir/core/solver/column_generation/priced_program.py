"""An integer program that decides which patterns to use how often, where few item types leave time for exact pricing.

Column generation starts from the patterns of a known packing. When no further pattern is worth more than it costs, an
integer program over all patterns found looks for a packing that costs less than the known one.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from operator import itemgetter, sub

from reservoir.core.solver.column_generation.best_filling import BestFilling
from reservoir.core.solver.column_generation.restricted_master import (
    UNPLACED,
    RestrictedMaster,
)
from reservoir.core.solver.packing.item_types import BinType
from reservoir.core.solver.packing.knapsack import Pattern
from reservoir.core.solver.packing.packing import Packing, PatternUse
from reservoir.core.solver.packing.unit_worth import (
    asks_for_accelerators,
    has_accelerators,
)
from reservoir.core.solver.problem.vectors import iter_bits

_ROUNDS_MAX = 60
_FILLED_MAX = 40  # bin types that are filled in a round, at most
# USD an hour: a pattern that gains less than this may gain nothing but rounding.
_TINY = 1e-6


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """How far the integer program goes: how many patterns it gets beside those of column generation, and its nodes.

    The patterns are listed in so many ``steps``.
    """

    steps: int
    patterns: int
    nodes: int


# The search is limited by nodes and not by time, so that it stops at the same place on every machine.
QUICK = SearchLimits(steps=15_000, patterns=200, nodes=30)
THOROUGH = SearchLimits(steps=60_000, patterns=2_000, nodes=100)

# The cost of one use of a pattern on a node of the bin type.
Cost = Callable[[BinType, Pattern], float]


class PricedProgram:
    """The program that packs the replicas left in ``base`` onto these bin types at the least cost.

    ``known`` are the uses to start from, all of these bin types. With ``within_money`` the nodes bought may cost no
    more money than those of the known uses.
    """

    def __init__(
        self,
        base: Packing,
        known: Sequence[PatternUse],
        bin_types: Sequence[BinType],
        cost: Cost,
        *,
        within_money: bool,
    ) -> None:
        self._base = base
        self._bin_types = bin_types
        self._cost = cost
        self._asking = {
            index
            for index in iter_bits(base.active)
            if asks_for_accelerators(base.item_types[index].workload)
        }
        bought = [use for use in known if use.is_bought] if within_money else None
        self._master = RestrictedMaster(base, bought=bought)
        # The rows of other items ask for at least their replicas, and surplus ones are left out of the packing. The
        # rows of these ask for exactly as many: a replica on two nodes would seem to use the accelerators of both.
        for index in self._asking:
            count = float(base.left[index])
            self._master.program.rebound(index, count, count)
        by_option = {bin_type.option.index: bin_type for bin_type in bin_types}
        self._known = Counter[tuple[BinType, Pattern]]()
        for use in known:
            assert use.bin_type is not None
            bin_type = by_option[use.bin_type.option.index]
            self._known[bin_type, tuple(sorted(use.pattern.items()))] += use.count
        self._add(list(self._known))

    def solved(self, limits: SearchLimits) -> Packing | None:
        """Return the best packing found, starting from the known uses; None if time is over or HiGHS finds none."""
        for _ in range(_ROUNDS_MAX):
            if self._base.expired() or not self._master.program.solve():
                return None
            duals = self._master.program.duals()
            gap = self._known_cost() - self._master.program.objective()
            if not self._add(list(self._worthwhile(duals))):
                listed = self._within(gap, duals, limits.steps)
                self._add(listed[: limits.patterns])
                break
        if not self._master.solve_whole_from(self._known, limits.nodes):
            return None
        return self._master.packed(self._base)

    def _known_cost(self) -> float:
        left = sum(self._base.left)
        cost = 0.0
        for (bin_type, pattern), count in self._known.items():
            cost += self._cost(bin_type, pattern) * count
            left -= sum([copies for _, copies in pattern]) * count
        return cost + UNPLACED * left

    def _add(self, patterns: Sequence[tuple[BinType, Pattern]]) -> int:
        count = self._master.add(patterns)
        self._master.recost([self._cost(*each) for each in self._master.patterns])
        return count

    def _worthwhile(self, duals: Sequence[float]) -> Iterator[tuple[BinType, Pattern]]:
        """Yield patterns of negative reduced cost at the program's dual prices."""
        gains: list[tuple[float, BinType]] = []
        for bin_type in self._bin_types:
            bound = self._filling(bin_type, self._values(bin_type, duals)).bound()
            gain = bound - self._least_cost(bin_type) - self._taken(bin_type, duals)
            if gain > _TINY:
                gains.append((gain, bin_type))
        for _, bin_type in nlargest(_FILLED_MAX, gains, key=itemgetter(0)):
            if self._base.expired():
                return
            for pattern in self._fillings(bin_type, duals):
                if self._loss(bin_type, pattern, duals) < -_TINY:
                    yield bin_type, pattern

    def _within(
        self, gap: float, duals: Sequence[float], steps_max: int
    ) -> list[tuple[BinType, Pattern]]:
        """Return all patterns that a packing cheaper than the known one could use, the lowest reduced cost first.

        Such a packing costs the program's optimum plus the reduced costs of its patterns, so each of them is below the
        gap between the optimum and the cost of the known packing.
        """
        found: list[tuple[float, int, Pattern, BinType]] = []
        steps_left = steps_max
        for bin_type in self._bin_types:
            if self._base.expired():
                return []
            least = self._least_cost(bin_type) + self._taken(bin_type, duals) - gap
            # A packing may need items that are worth nothing, or less where exactly as many are asked for.
            eligible = iter_bits(bin_type.eligible & self._base.active)
            values = {index: duals[index] for index in eligible}
            filling = self._filling(bin_type, values)
            listed = filling.above(least, steps_left, self._asking)
            steps_left -= listed.steps
            for pattern in listed.patterns:
                loss = self._loss(bin_type, pattern, duals)
                if loss < gap:
                    found.append((loss, bin_type.option.index, pattern, bin_type))
        found.sort(key=itemgetter(0, 1, 2))
        return [(bin_type, pattern) for _, _, pattern, bin_type in found]

    def _loss(self, bin_type: BinType, pattern: Pattern, duals: Sequence[float]) -> float:
        """Return the reduced cost of a use at the program's dual prices."""
        value = sum([duals[index] * count for index, count in pattern])
        return self._cost(bin_type, pattern) + self._taken(bin_type, duals) - value

    def _taken(self, bin_type: BinType, duals: Sequence[float]) -> float:
        """Return what the units, limits and money that a node takes are worth at the program's dual prices."""
        entries = self._master.row_entries(bin_type)
        return sum([-duals[row] * amount for row, amount in entries])

    def _least_cost(self, bin_type: BinType) -> float:
        """Return a lower bound of the cost of a use, whatever its pattern."""
        is_unit = bin_type.option.reservation is not None
        return 0.0 if is_unit else self._cost(bin_type, ())

    def _filling(self, bin_type: BinType, values: Mapping[int, float]) -> BestFilling:
        size = bin_type.option.allocatable
        return BestFilling(self._base.item_types, values, self._base.left, size)

    def _values(self, bin_type: BinType, duals: Sequence[float]) -> dict[int, float]:
        """Return the dual prices above zero of the items that may run on the bin type, by item index."""
        eligible = iter_bits(bin_type.eligible & self._base.active)
        return {index: duals[index] for index in eligible if duals[index] > 0}

    def _fillings(self, bin_type: BinType, duals: Sequence[float]) -> Iterator[Pattern]:
        """Yield the best filling of a node; for a unit with accelerators also the best with each item that needs any.

        The cost of such a unit depends on whether its accelerators idle, which the best filling does not consider.
        """
        values = self._values(bin_type, duals)
        yield self._filling(bin_type, values).found().pattern
        option = bin_type.option
        if option.reservation is None or not has_accelerators(option):
            return
        item_types = self._base.item_types
        for index in sorted(self._asking.intersection(values)):
            room = tuple(map(sub, option.allocatable, item_types[index].request))
            if min(room) < 0:
                continue
            beside = list(self._base.left)
            beside[index] -= 1
            rest = BestFilling(item_types, values, beside, room).found().pattern
            yield tuple(sorted((Counter(dict(rest)) + Counter([index])).items()))
