"""A thin, typed wrapper over highspy: one linear program, columns added as they are found."""

from collections.abc import Sequence
from typing import Any

import highspy
import numpy as np

INFINITY = float(highspy.kHighsInf)


def _new_highs() -> Any:
    make: Any = highspy.Highs  # has no type information
    highs = make()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    # Primal or dual as the last basis is feasible: half the time of always dual, after columns were added.
    highs.setOptionValue("simplex_strategy", int(highspy.simplex_constants.SimplexStrategy.kSimplexStrategyChoose))
    return highs


class LinearProgram:
    """Minimise cost over columns >= 0; rows have lower and upper bounds. Single-threaded, so deterministic."""

    def __init__(self, rows: Sequence[tuple[float, float]]) -> None:
        self._highs: Any = _new_highs()
        self._highs.setOptionValue("solver", "simplex")
        nothing: tuple[Any, Any] = (np.array([], dtype=np.int32), np.array([], dtype=float))
        for lower, upper in rows:
            self._highs.addRow(lower, upper, 0, *nothing)

    def add(self, cost: float, entries: Sequence[tuple[int, float]]) -> None:
        """Add one column with its entries (row, value)."""
        rows = np.array([row for row, _ in entries], dtype=np.int32)
        values = np.array([value for _, value in entries], dtype=float)
        self._highs.addCol(cost, 0.0, INFINITY, len(entries), rows, values)

    def rebound(self, row: int, lower: float, upper: float) -> None:
        """Change the bounds of a row; the next solve starts from the last solution."""
        self._highs.changeRowBounds(row, lower, upper)

    def solve(self) -> bool:
        """Solve to optimality; False when HiGHS could not."""
        self._highs.run()
        return bool(self._highs.getModelStatus() == highspy.HighsModelStatus.kOptimal)

    def objective(self) -> float:
        """Value of the last solution."""
        return float(self._highs.getInfo().objective_function_value)

    def values(self) -> list[float]:
        """Return the value of each column in the last solution."""
        return [float(value) for value in self._highs.getSolution().col_value]

    def duals(self) -> list[float]:
        """Return the dual of each row in the last solution."""
        return [float(value) for value in self._highs.getSolution().row_dual]


def solve_matrix(
    costs: Sequence[float],
    uppers: Sequence[float],
    rows: Sequence[tuple[float, float]],
    columns: Sequence[Sequence[tuple[int, float]]],
    integers: Sequence[int] = (),
) -> tuple[float, list[float]] | None:
    """Solve a program given at once; with ``integers`` (columns) return the proven bound instead of the optimum.

    Returns (bound, row duals; none with integers), or None when HiGHS could not solve it.
    """
    program = _program(costs, uppers, rows, columns)
    highs = _new_highs()
    if integers:
        kinds = [highspy.HighsVarType.kContinuous] * len(columns)
        for column in integers:
            kinds[column] = highspy.HighsVarType.kInteger
        program.integrality_ = kinds
        highs.setOptionValue("mip_rel_gap", 1e-3)
        # A node limit stops at the same place on every machine; a time limit would not.
        highs.setOptionValue("mip_max_nodes", 1)
    else:
        # Two to four times as fast as with the interior point method, or with presolve.
        highs.setOptionValue("solver", "simplex")
        highs.setOptionValue("presolve", "off")
    highs.passModel(program)
    highs.run()
    if integers:
        bound = float(highs.getInfo().mip_dual_bound)
        return (bound, []) if 0 < bound < INFINITY else None
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    duals = [float(value) for value in highs.getSolution().row_dual]
    return float(highs.getInfo().objective_function_value), duals


def _program(
    costs: Sequence[float],
    uppers: Sequence[float],
    rows: Sequence[tuple[float, float]],
    columns: Sequence[Sequence[tuple[int, float]]],
) -> Any:
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = len(columns), len(rows)
    program.col_cost_ = np.array(costs, dtype=float)
    program.col_lower_ = np.zeros(len(columns))
    program.col_upper_ = np.array(uppers, dtype=float)
    program.row_lower_ = np.array([lower for lower, _ in rows], dtype=float)
    program.row_upper_ = np.array([upper for _, upper in rows], dtype=float)
    matrix = program.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kColwise
    matrix.start_ = np.cumsum([0, *(len(column) for column in columns)]).astype(np.int32)
    matrix.index_ = np.array([row for column in columns for row, _ in column], dtype=np.int32)
    matrix.value_ = np.array([value for column in columns for _, value in column], dtype=float)
    return program
