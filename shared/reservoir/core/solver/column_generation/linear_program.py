"""A thin, typed wrapper over highspy: one linear program, columns added as they are found."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import highspy
import numpy as np

INFINITY = float(highspy.kHighsInf)

# From the basis of the last solve simplex may go in circles for ever, as in the mix of 1,000 replicas with seed 705.
# No other program of the benches took more than 1,500 iterations; this limit stops at the same place on every machine.
_ITERATIONS_MAX = 10_000


def _never() -> bool:
    return False


def _new_highs(expired: Callable[[], bool]) -> Any:
    """Return a solver of one thread that stops where ``expired`` says so; it is asked at each iteration and node."""

    def look(event: Any) -> None:
        if expired():
            event.interrupt()

    make: Any = highspy.Highs  # has no type information
    highs = make()
    highs.cbSimplexInterrupt.subscribe(look)
    highs.cbMipInterrupt.subscribe(look)
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("solver", "simplex")
    highs.setOptionValue("simplex_iteration_limit", _ITERATIONS_MAX)
    # Primal or dual as the last basis is feasible: half the time of always dual, after columns were added.
    highs.setOptionValue(
        "simplex_strategy",
        int(highspy.simplex_constants.SimplexStrategy.kSimplexStrategyChoose),
    )
    return highs


# its cost, its upper bound, and (row, value)
Column = tuple[float, float, Sequence[tuple[int, float]]]


class LinearProgram:
    """Minimise cost, in USD an hour, over n columns >= 0; each of m rows has bounds. One thread, so deterministic.

    ``expired`` ends a solve before its time: then there is no solution.
    """

    def __init__(
        self,
        rows: Sequence[tuple[float, float]],
        columns: Sequence[Column] = (),
        *,
        expired: Callable[[], bool] = _never,
    ) -> None:
        self._highs: Any = _new_highs(expired)
        if columns:
            # A large program that is given at once is solved two to four times as fast without presolve.
            self._highs.setOptionValue("presolve", "off")
        lower, upper = np.array(rows, dtype=float).T
        self._highs.addRows(
            len(rows), lower, upper, 0, np.zeros(0), np.zeros(0), np.zeros(0)
        )
        self.add(columns)

    def add(self, columns: Sequence[Column]) -> None:
        """Add columns; the next solve starts from the last solution."""
        if columns:
            costs, upper, entries = zip(*columns, strict=True)
            starts = np.cumsum([0, *map(len, entries[:-1])], dtype=np.int32)
            rows, values = zip(*chain.from_iterable(entries), strict=True)
            arrays = starts, np.array(rows, dtype=np.int32), np.array(values, dtype=float)
            self._highs.addCols(
                len(costs),
                np.array(costs),
                np.zeros(len(costs)),
                np.array(upper),
                len(rows),
                *arrays,
            )

    def rebound(self, row: int, lower: float, upper: float) -> None:
        """Change the bounds of a row; the next solve starts from the last solution."""
        self._highs.changeRowBounds(row, lower, upper)

    def solve(self) -> bool:
        """Solve to optimality; False when HiGHS could not, or not in time."""
        self._highs.run()
        if self._highs.getModelStatus() == highspy.HighsModelStatus.kIterationLimit:
            self._highs.clearSolver()
            self._highs.run()
        return bool(self._highs.getModelStatus() == highspy.HighsModelStatus.kOptimal)

    def recost(self, costs: Mapping[int, float]) -> None:
        """Change the costs of columns, in USD an hour."""
        for column, cost in costs.items():
            self._highs.changeColCost(column, cost)

    def solve_whole_from(self, values: Sequence[float], nodes_max: int) -> bool:
        """Look from a known solution in whole numbers for a better one, within the limit; False without any."""
        for name in ("mip_rel_gap", "mip_abs_gap"):
            self._highs.setOptionValue(name, 0.0)
        self._highs.setOptionValue("mip_max_nodes", nodes_max)
        self._highs.setOptionValue("solver", "choose")
        for column in range(self._highs.getNumCol()):
            self._highs.changeColIntegrality(column, highspy.HighsVarType.kInteger)
        known = highspy.HighsSolution()
        known.col_value = list(values)
        self._highs.setSolution(known)
        self._highs.run()
        return bool(self._highs.getInfo().primal_solution_status)

    def proven(self) -> float:
        """Return what the optimum is at least by the duals of the last solution; needs bounds on all rows and columns.

        A dual price times a row, or a reduced cost times a column, is no less than at one of its two bounds. The sum of
        these bounds the cost at any prices (weak duality): it does not rest on the solver's tolerance (Neumaier and
        Shcherbina 2004).
        """
        lp, duals = self._highs.getLp(), np.array(self.duals())
        starts, rows, values = map(
            np.array, (lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_)
        )
        column_of = np.repeat(np.arange(lp.num_col_), np.diff(starts))
        reduced_costs = lp.col_cost_ - np.bincount(
            column_of, values * duals[rows], lp.num_col_
        )
        prices = np.append(duals, reduced_costs)
        lower = np.append(lp.row_lower_, lp.col_lower_)
        upper = np.append(lp.row_upper_, lp.col_upper_)
        return float(np.minimum(prices * lower, prices * upper).sum())

    def bound_in_whole(self, integers: Sequence[int]) -> float:
        """Return what the optimum is at least where these columns are whole numbers; 0 without a proof."""
        for name, value in (
            ("solver", "choose"),
            ("presolve", "choose"),
            ("mip_rel_gap", 1e-3),
        ):
            self._highs.setOptionValue(name, value)
        # A node limit stops at the same place on every machine; a time limit would not.
        self._highs.setOptionValue("mip_max_nodes", 1)
        for column in integers:
            self._highs.changeColIntegrality(column, highspy.HighsVarType.kInteger)
        self._highs.run()
        bound = float(self._highs.getInfo().mip_dual_bound)
        return bound if 0 < bound < INFINITY else 0.0

    def objective(self) -> float:
        """Return the cost of the last solution, in USD an hour."""
        return float(self._highs.getInfo().objective_function_value)

    def values(self) -> list[float]:
        """Return the value of each column in the last solution: n of them."""
        return [float(value) for value in self._highs.getSolution().col_value]

    def duals(self) -> list[float]:
        """Return the dual of each row in the last solution: m of them, in USD an hour for one unit of the row."""
        return [float(value) for value in self._highs.getSolution().row_dual]
