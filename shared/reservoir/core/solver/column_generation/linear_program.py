"""A thin, typed wrapper over highspy: one linear or integer program, to which columns can be added between solves."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import highspy
import numpy as np

INFINITY = float(highspy.kHighsInf)

# Simplex that starts from the basis of the last solve may cycle for ever, as with the mix of 1,000 replicas and seed
# 705. No other program of the benches took more than 1,500 iterations. A limit of iterations, unlike one of time, stops
# at the same place on every machine.
_ITERATIONS_MAX = 10_000


def _never() -> bool:
    return False


def _new_highs(expired: Callable[[], bool]) -> Any:
    """Return a solver of one thread that asks ``expired`` at each iteration and node, and stops when it is true."""

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
    # Primal or dual simplex, whichever the last basis is feasible for. After columns were added this takes half the
    # time of dual simplex alone.
    highs.setOptionValue(
        "simplex_strategy",
        int(highspy.simplex_constants.SimplexStrategy.kSimplexStrategyChoose),
    )
    return highs


# The cost of a column, its upper bound, and its entries as (row, value).
Column = tuple[float, float, Sequence[tuple[int, float]]]


class LinearProgram:
    """Minimises cost, in USD an hour, over n columns >= 0; each of the m rows has bounds.

    One thread solves it, so the solution is the same every time. When ``expired`` becomes true, a solve ends without a
    solution.
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
            # A large program whose columns are all there from the start is solved two to four times faster without
            # presolve.
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
        """Solve to optimality; False if HiGHS could not, or not in time."""
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
        """Search ``nodes_max`` nodes, from a known solution, for the best in whole numbers; False without any."""
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
        """Return a lower bound of the optimum by the duals of the last solution; all rows and columns need bounds.

        The cost is the sum of each dual price times its row and each reduced cost times its column. Each of these
        products is at least as large as at one of the two bounds of the row or column, and the sum of these least
        values bounds the cost from below, whatever the prices are (weak duality). So the bound does not depend on the
        solver's tolerance (Neumaier and Shcherbina 2004).
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

    def bound_in_whole(self, integers: Sequence[int], *, nodes_max: int) -> float:
        """Return a lower bound of the optimum if these columns must be whole numbers; 0 if HiGHS proves none."""
        for name, value in (
            ("solver", "choose"),
            ("presolve", "choose"),
            ("mip_rel_gap", 1e-3),
        ):
            self._highs.setOptionValue(name, value)
        # The search is limited by nodes and not by time, so that it stops at the same place on every machine.
        self._highs.setOptionValue("mip_max_nodes", nodes_max)
        for column in integers:
            self._highs.changeColIntegrality(column, highspy.HighsVarType.kInteger)
        self._highs.run()
        bound = float(self._highs.getInfo().mip_dual_bound)
        return bound if 0 < bound < INFINITY else 0.0

    def objective(self) -> float:
        """Return the cost of the last solution, in USD an hour."""
        return float(self._highs.getInfo().objective_function_value)

    def values(self) -> list[float]:
        """Return the value of each of the n columns in the last solution."""
        return [float(value) for value in self._highs.getSolution().col_value]

    def duals(self) -> list[float]:
        """Return the dual price of each of the m rows in the last solution, in USD an hour for one unit of the row."""
        return [float(value) for value in self._highs.getSolution().row_dual]
