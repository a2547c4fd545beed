"""The pricing problem: patterns that are worth more, at the program's dual prices, than a node and what it uses up."""

from collections.abc import Sequence

from shared.core.solver.column_generation.pricing import Knapsacks
from shared.core.solver.column_generation.restricted_master import RestrictedMaster
from shared.core.solver.packing.item_types import BinType
from shared.core.solver.packing.knapsack import Pattern
from shared.core.solver.packing.packing import Packing

_PROMISING_MAX = 4  # bin types for the same eligible items that are filled in each round
_PROMISING = 0.85  # less than this part of its price at the prices of fractions: a bin type is left out
_REDUCED_COST_RATIO = 1.0005  # a pattern must be worth this much more than it costs: less is rounding


class PricingProblem:
    """Finds patterns that a program's prices make worthwhile."""

    def __init__(self, master: RestrictedMaster, base: Packing, bin_types: Sequence[BinType]) -> None:
        self._master = master
        self._floor = base.floor
        self._bin_types = bin_types
        self._knapsacks = Knapsacks(base.item_types, self._bin_types)

    def add(self, duals: Sequence[float], left: Sequence[int]) -> int:
        """Add patterns that are worthwhile at the program's prices; return how many were new.

        None is larger than what is left.
        """
        costs, values = self._costs(duals), [max(0.0, dual) for dual in duals[: len(left)]]
        found = [
            (costs[row] / value, row, pattern)
            for row, pattern in self._knapsacks.fill(values, costs, left)
            if (value := sum(values[index] * count for index, count in pattern)) > costs[row] * _REDUCED_COST_RATIO
            and self._is_allowed(row, pattern)
        ]
        found.sort()
        return self._master.add((self._bin_types[row], pattern) for _, row, pattern in found)

    def _costs(self, duals: Sequence[float]) -> list[float]:
        """Return what a node of each bin type costs, with the dual price of what it uses up."""
        return [
            bin_type.price + sum([amount * max(0.0, -duals[row]) for row, amount in self._master.row_entries(bin_type)])
            for bin_type in self._bin_types
        ]

    def _is_allowed(self, row: int, pattern: Pattern) -> bool:
        """Whether the policy's floor lets the pattern have a reserved slot."""
        bin_type = self._bin_types[row]
        if not self._floor.percent or bin_type.option.reservation is None:
            return True
        if not any(self._floor.buyable >> index & 1 for index, _ in pattern):
            return True
        return self._knapsacks.share(row, pattern) * 100 >= self._floor.percent


def promising(base: Packing, paid: Sequence[BinType]) -> list[BinType]:
    """Return the few bin types for the same items that can hold the most value for their price."""
    bounds = Knapsacks(base.item_types, paid).bounds(base.knapsack.values)[0] if paid else ()
    ratios = [(float(bound) / item.price, item) for item, bound in zip(paid, bounds, strict=True)]
    ratios.sort(key=lambda pair: (-pair[0], pair[1].option.index))
    kept: dict[tuple[int, str], list[BinType]] = {}
    for ratio, item in ratios:
        same = kept.setdefault((item.eligible, item.option.entry.pool.name), [])
        if ratio > _PROMISING and len(same) < _PROMISING_MAX:
            same.append(item)
    return [item for same in kept.values() for item in same]
