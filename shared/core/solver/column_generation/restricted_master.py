"""The restricted master: how often to use each known pattern, on reserved and bought nodes together.

Gilmore and Gomory (1961): a linear program with a row for what each item needs and a column for each pattern. Here
units of reservations and limits of pools are rows too.
"""

from collections.abc import Iterable, Sequence

from shared.core.solver.column_generation.linear_program import INFINITY, Column, LinearProgram
from shared.core.solver.packing.item_types import BinType
from shared.core.solver.packing.knapsack import Pattern
from shared.core.solver.packing.packing import Packing
from shared.core.solver.problem.catalogue import counted
from shared.core.solver.solution.residual_capacity import ResidualCapacity

_UNPLACED = 1e6  # USD an hour: a replica stays unplaced only where no pattern holds it


class RestrictedMaster:
    """The program. Rows: demand by item, units by reservation, limits by pool and resource. Columns: patterns."""

    def __init__(self, base: Packing) -> None:
        rows = [(float(count), INFINITY) for count in base.left]
        self._row_of: dict[tuple[str, str], int] = {}
        for name, most in _limits(base.residual):
            self._row_of[name] = len(rows)
            rows.append((-INFINITY, most))
        self.program = LinearProgram(rows)
        self.patterns: list[tuple[BinType, Pattern]] = []
        self._seen: set[tuple[int, Pattern]] = set()
        self._row_entries: dict[int, list[tuple[int, float]]] = {}  # by option
        self.program.add([(_UNPLACED, INFINITY, [(index, 1.0)]) for index in range(len(base.left))])
        self._first = len(base.left)

    def row_entries(self, bin_type: BinType) -> list[tuple[int, float]]:
        """Return the rows, beside demand, in which a node of the bin type counts, with how much."""
        option = bin_type.option
        known = self._row_entries.get(option.index)
        if known is None:
            known = self._row_entries[option.index] = []
            if option.reservation is not None:
                known.append((self._row_of["", option.unit_key], 1.0))
            for (pool, name), row in self._row_of.items():
                if pool == option.entry.pool.name and (needed := counted(option.instance_type.capacity, name)):
                    known.append((row, float(needed)))
        return known

    def add(self, patterns: Iterable[tuple[BinType, Pattern]]) -> int:
        """Add those patterns that are not known; return how many were new."""
        columns: list[Column] = []
        for bin_type, pattern in patterns:
            key = (bin_type.option.index, pattern)
            if key not in self._seen:
                self._seen.add(key)
                entries = [(index, float(count)) for index, count in pattern]
                columns.append((bin_type.price, INFINITY, [*entries, *self.row_entries(bin_type)]))
                self.patterns.append((bin_type, pattern))
        self.program.add(columns)
        return len(columns)

    def reduced_cost(self, duals: Sequence[float], bin_type: BinType, pattern: Pattern) -> float:
        """Return what a use of the pattern costs beyond what it is worth at these prices of the rows."""
        worth = sum(duals[index] * count for index, count in pattern)
        return bin_type.price - worth - sum(duals[row] * amount for row, amount in self.row_entries(bin_type))

    def counts(self) -> list[float]:
        """Return how often each pattern is used in the last solution."""
        return self.program.values()[self._first :]

    def keep(self, packing: Packing) -> None:
        """Go on with what the packing has left."""
        for index, left in enumerate(packing.left):
            self.program.rebound(index, float(left), INFINITY)
        for name, most in _limits(packing.residual):
            self.program.rebound(self._row_of[name], -INFINITY, most)


def _limits(residual: ResidualCapacity) -> Iterable[tuple[tuple[str, str], float]]:
    """Yield what bounds nodes: units (of no pool), then limits (by pool and resource)."""
    for identity, units in residual.units.items():
        yield ("", identity), float(max(0, units))
    for pool, limits in residual.limits.items():
        for name, left in limits.items():
            yield (pool, name), float(max(0, left))
