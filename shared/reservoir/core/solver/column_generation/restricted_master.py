"""The restricted master: a linear program that decides how often each known pattern is used, on units and bought nodes.

As in Gilmore and Gomory (1961), each item has a row that asks for its replicas, and each pattern is a column. Here the
units of a reservation and the limits of a pool have rows too.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from reservoir.core.scheduling_terms.resources import counted
from reservoir.core.solver.column_generation.linear_program import (
    INFINITY,
    Column,
    LinearProgram,
)
from reservoir.core.solver.packing.item_types import BinType
from reservoir.core.solver.packing.knapsack import Pattern
from reservoir.core.solver.packing.packing import Packing, PatternUse
from reservoir.core.solver.solution.residual_capacity import ResidualCapacity

# The name of the row that limits the money spent; no pool has an empty name.
_MONEY = ("", "money")
# Money, in USD an hour, that may be spent beyond the limit, as sums are rounded.
_SAME_MONEY = 1e-9
# The cost, in USD an hour, of a replica that is left over: so high that only a replica that no pattern can hold is.
UNPLACED = 1e6


class RestrictedMaster:
    """The program. Rows: demand by item, units by reservation, limits by pool and resource. Columns: patterns.

    With ``bought`` there is a row for money too: the program spends no more than these uses cost.
    """

    def __init__(self, base: Packing, bought: Sequence[PatternUse] | None = None) -> None:
        self._left = base.left
        self._items = len(base.left)
        self._limits = base.residual.limits
        most = _most(base.residual)
        if bought is not None:
            most[_MONEY] = _money(bought) + _SAME_MONEY
        self._row_of = {name: row for row, name in enumerate(most, self._items)}
        rows = [
            *((float(count), INFINITY) for count in base.left),
            *((-INFINITY, amount) for amount in most.values()),
        ]
        self.program = LinearProgram(rows, expired=base.expired)
        self.program.add(
            [(UNPLACED, INFINITY, [(index, 1.0)]) for index in range(self._items)]
        )
        self.patterns: list[tuple[BinType, Pattern]] = []
        # The least price by the entries of a column.
        self._least_price: dict[object, float] = {}

    def row_entries(self, bin_type: BinType) -> list[tuple[int, float]]:
        """Return the entries of a node of the bin type in rows of units, limits and money, as (row, amount)."""
        option = bin_type.option
        pool, capacity = option.entry.pool.name, option.instance_type.capacity
        entries = [
            (self._row_of[pool, name], float(counted(capacity, name)))
            for name in self._limits.get(pool, ())
        ]
        if option.reservation is not None:
            entries.append((self._row_of["", option.unit_key], 1.0))
        elif _MONEY in self._row_of:
            entries.append((self._row_of[_MONEY], bin_type.price))
        return entries

    def add(self, patterns: Iterable[tuple[BinType, Pattern]]) -> int:
        """Add the patterns except those known with the same entries at no higher price; return how many were added."""
        columns: list[Column] = []
        for bin_type, pattern in patterns:
            entries = (*pattern, *self.row_entries(bin_type))
            if bin_type.price < self._least_price.get(entries, INFINITY):
                self._least_price[entries] = bin_type.price
                columns.append((bin_type.price, INFINITY, entries))
                self.patterns.append((bin_type, pattern))
        self.program.add(columns)
        return len(columns)

    def reduced_cost(
        self, duals: Sequence[float], bin_type: BinType, pattern: Pattern
    ) -> float:
        """Return the price of a use of the pattern less its worth at these dual prices, in USD an hour."""
        return bin_type.price - sum(
            duals[row] * amount for row, amount in [*pattern, *self.row_entries(bin_type)]
        )

    def recost(self, costs: Sequence[float]) -> None:
        """Change the cost of one use of each of ``patterns``, in USD an hour."""
        self.program.recost(dict(enumerate(costs, self._items)))

    def solve_whole_from(
        self, known: Mapping[tuple[BinType, Pattern], int], nodes_max: int
    ) -> bool:
        """Search for whole numbers of uses that cost less than the ``known`` ones; False if there is no solution."""
        left = list(self._left)
        counts = Counter[object]()
        for (bin_type, pattern), count in known.items():
            counts[(*pattern, *self.row_entries(bin_type))] += count
            for index, copies in pattern:
                left[index] -= copies * count
        values = [float(max(0, each)) for each in left]
        for bin_type, pattern in self.patterns:
            entries = (*pattern, *self.row_entries(bin_type))
            values.append(float(counts.pop(entries, 0)))
        return self.program.solve_whole_from(values, nodes_max)

    def packed(self, base: Packing) -> Packing:
        """Return the base with the uses of the last solution, which must be of whole numbers.

        The solution may hold more replicas of an item than there are; the last uses then take those that are left.
        """
        packing = base.fork()
        for count, (bin_type, pattern) in zip(self.counts(), self.patterns, strict=True):
            whole = round(count)
            for _ in range(whole - packing.repeat(bin_type, pattern, whole)):
                packing.repeat_in_part(bin_type, pattern)
        return packing

    def counts(self) -> list[float]:
        """Return how often each of ``patterns`` is used in the last solution."""
        return self.program.values()[self._items :]

    def keep(self, packing: Packing) -> None:
        """Set the rows to the replicas, units and limits that the packing has left."""
        for index, left in enumerate(packing.left):
            self.program.rebound(index, float(left), INFINITY)
        for name, most in _most(packing.residual).items():
            self.program.rebound(self._row_of[name], -INFINITY, most)


def _money(bought: Sequence[PatternUse]) -> float:
    """Return the price of these uses, in USD an hour."""
    return sum(
        [use.bin_type.price * use.count for use in bought if use.bin_type is not None]
    )


def _most(residual: ResidualCapacity) -> dict[tuple[str, str], float]:
    """Return the units and limits that are left, by row name: pool and resource; units have an empty pool."""
    most: dict[tuple[str, str], float] = {}
    for unit_key, left in residual.units.items():
        most["", unit_key] = float(max(0, left))
    for pool, limits in residual.limits.items():
        for name, left in limits.items():
            most[pool, name] = float(max(0, left))
    return most
