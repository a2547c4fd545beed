"""What no plan for Karpenter's mix on its ladder undercuts: column generation, priced exactly.

Totals alone let nodes be cut into fractions: on the ladder each has whole vCPUs and holds whole replicas, of those that
are anti-affine to each other one. The linear program over all such nodes (Gilmore and Gomory 1961) sees that. The best
node at its prices is found by a program in which the node's size is a variable, so that one is enough for all types; at
any prices, what the demand is worth over the most that a node is worth for its cost is a bound (Farley 1990).

It stays a lower bound whatever is simplified here: large nodes may hold fractions, so they are worth no less than with
whole replicas; of a program that is not solved to the end its proven bound counts, not the best node found; spread and
affinity are left out, so the cheapest plan may still cost more.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import highspy
import numpy as np

from lab.bench.worlds.ladder import price_micro_usd
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.solver.column_generation.linear_program import INFINITY, LinearProgram

_MIB: Final = 2**20
_TYPES: Final = 400
# What a rung adds to a node, and what a node keeps for itself: milli-vCPU, MiB, pods.
_RUNG: Final = (1000, 2048, 10)
_KEPT: Final = (100, 10, 0)
# a type's price is no less than this for each of its rungs
_RUNG_USD: Final = price_micro_usd(1, 2**31) / 1e6
_NODE_USD: Final = SchedulingPolicy().node_overhead_micro_usd_per_hour / 1e6
_NEAR: Final = 1e-4
# Larger nodes hold any fractions: it takes too long to find out what whole replicas are worth there. With whole ones up
# to 16 vCPUs only, the bound of 500 of Karpenter's pods is 1.5 % lower.
_WHOLE_MAX: Final = 40

# milli-vCPU, MiB, pods; whether it shares no node with its like
_Item = tuple[int, int, int, bool]


def bound_usd_per_hour(snapshot: Snapshot) -> float:
    """Return what a plan for all pending replicas costs at least."""
    counts: Counter[_Item] = Counter()
    for demand in snapshot.demands:
        asked = demand.workload.requests
        is_single = bool(demand.workload.anti_affinity)
        counts[asked["cpu"], asked["memory"] // _MIB, asked["pods"], is_single] += (
            demand.pending_count
        )
    items = list(counts)
    master = LinearProgram([(float(count), INFINITY) for count in counts.values()])
    pricing = [
        _Pricing(counts, (1, _WHOLE_MAX), is_whole=True),
        _Pricing(counts, (_WHOLE_MAX + 1, _TYPES), is_whole=False),
    ]
    for index, item in enumerate(items):
        rungs = max(-(-(item[part] + _KEPT[part]) // _RUNG[part]) for part in range(3))
        master.add([(_cost(rungs), INFINITY, [(index, 1.0)])])
    bound = 0.0
    while master.solve():
        duals = [max(0.0, dual) for dual in master.duals()]
        found = [each.best(duals) for each in pricing]
        worth = sum(
            dual * count for dual, count in zip(duals, counts.values(), strict=True)
        )
        too_much = max(0.0, found[0][0] / _cost(1), found[1][0] / _cost(_WHOLE_MAX + 1))
        bound = max(bound, worth / (1 + too_much))
        if bound > (1 - _NEAR) * master.objective():
            break
        master.add([(_cost(size), INFINITY, pattern) for _, size, pattern in found])
    return bound


def _cost(rungs: float) -> float:
    return rungs * _RUNG_USD + _NODE_USD


class _Pricing:
    """The node that is worth most beyond its cost, as a program: replicas of each item, and rungs."""

    def __init__(
        self, counts: Mapping[_Item, int], rungs: tuple[int, int], *, is_whole: bool
    ) -> None:
        items = list(counts)
        make: Any = highspy.Highs  # has no type information
        self._highs = make()
        self._highs.setOptionValue("output_flag", False)
        self._highs.setOptionValue("threads", 1)
        kind = (
            highspy.HighsVarType.kInteger if is_whole else highspy.HighsVarType.kContinuous
        )
        bounds = [(0, count) for count in counts.values()] + [rungs]
        for column, (lower, upper) in enumerate(bounds):
            self._highs.addCol(_RUNG_USD, float(lower), float(upper), 0, [], [])
            self._highs.changeColIntegrality(column, kind)
        columns = np.arange(len(bounds), dtype=np.int32)
        for part in range(3):
            row = np.array([*(item[part] for item in items), -_RUNG[part]], dtype=float)
            self._highs.addRow(-INFINITY, -float(_KEPT[part]), len(columns), columns, row)
        singles = np.array(
            [index for index, item in enumerate(items) if item[3]], dtype=np.int32
        )
        self._highs.addRow(-INFINITY, 1.0, len(singles), singles, np.ones(len(singles)))
        self._is_whole = is_whole

    def best(self, duals: list[float]) -> tuple[float, float, list[tuple[int, float]]]:
        """Return what no such node is worth more beyond its cost, and the rungs and replicas of one that nearly is."""
        for column, dual in enumerate(duals):
            self._highs.changeColCost(column, -dual)
        self._highs.run()
        info, found = self._highs.getInfo(), list(self._highs.getSolution().col_value)
        proven = float(
            info.mip_dual_bound if self._is_whole else info.objective_function_value
        )
        if self._is_whole:
            found = [float(round(value)) for value in found]
        pattern = [
            (index, float(count)) for index, count in enumerate(found[:-1]) if count > 0
        ]
        return -proven - _NODE_USD, float(found[-1]), pattern
