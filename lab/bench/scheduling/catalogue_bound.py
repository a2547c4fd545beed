"""What no plan for a mix on EC2's catalogue undercuts: column generation, priced as exactly as a proof needs.

The certificate cuts nodes into fractions. Here they are whole and hold whole replicas, in a linear program over all
such nodes (Gilmore and Gomory 1961). At any prices of the replicas, what the demand is worth, less what units of the
reservations are worth beyond their cost, is a bound, once no node that can be bought is worth more than it costs:
prices are scaled down until that is so (Farley 1990). What a node is worth is an integer knapsack of several resources.

It stays a lower bound whatever is simplified here: of a knapsack that is not solved to the end, or not looked at again,
what is proven counts, not what was found; how often a node is used is a fraction, limits, weights and topology are left
out, and all pools that offer units of a reservation count as one.
"""

from collections.abc import Iterable, Sequence
from operator import ge
from typing import Any, Final

import highspy
import numpy as np

from lab.bench.worlds.common import NOW
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.solver.column_generation.linear_program import INFINITY, LinearProgram
from reservoir.core.solver.column_generation.pricing import Array, Knapsacks
from reservoir.core.solver.packing.item_types import BinType, Eligibility, ItemType
from reservoir.core.solver.packing.knapsack import Pattern
from reservoir.core.solver.problem.catalogue import OptionCatalogue
from reservoir.core.solver.problem.groups import SchedulingProblem
from reservoir.core.solver.solution.residual_capacity import ResidualCapacity

# so near to the program's optimum, more rounds are not worth their time
_NEAR: Final = 2e-3
_ROUNDS_MAX: Final = 12  # of pricing all nodes: as much work on every machine
# a node that is worth no more than this beyond its cost is good enough
_TOLERANCE: Final = 1e-3
# a round among a few nodes that gained no more than this part is the last before all are priced
_SLOW: Final = 3e-4
_TREE_NODES_MAX: Final = 20  # of a knapsack; its bound hardly falls after the first
_SAFETY: Final = 1 - 1e-6  # rounding in the final sums
_MIB: Final = 2**20
# HiGHS looks for good patterns with more effort than its bound takes; those of the heuristics and its tree are enough.
_OPTIONS: Final = {
    "output_flag": False,
    "threads": 1,
    "mip_rel_gap": _TOLERANCE,
    "mip_max_nodes": _TREE_NODES_MAX,
    "mip_heuristic_effort": 0.0,
    "mip_heuristic_run_feasibility_jump": False,
}


def bound_usd_per_hour(snapshot: Snapshot) -> float:
    """Return what a plan for all pending replicas costs at least; no nodes run yet."""
    assert not snapshot.nodes, "room on running nodes has no price"
    policy = SchedulingPolicy()
    problem = SchedulingProblem.of(snapshot, NOW, policy)
    catalogue = problem.catalogue
    item_types = [
        # The loosest level: giving up preferences can only make a plan cheaper.
        ItemType(index, group.request, group.requirement_sets[-1], None, None, group.count)
        for index, group in enumerate(problem.groups)
    ]
    reserved, bought = _bin_types(catalogue, item_types)
    units = ResidualCapacity.of(catalogue).units
    return _Program(
        item_types, reserved, [units[item.option.unit_key] for item in reserved], bought
    ).bound()


def _bin_types(
    catalogue: OptionCatalogue, item_types: Sequence[ItemType]
) -> tuple[list[BinType], list[BinType]]:
    """Return one bin type a reservation, and those that can be bought, with the items of which one replica fits."""
    eligibility = Eligibility(item_types)
    overhead = catalogue.policy.overhead_atto_usd
    reserved: dict[str, BinType] = {}
    bought: list[BinType] = []
    for option in catalogue.options:
        eligible = eligibility.accepting(option.requirement_sets, {}) & eligibility.fitting(
            option.allocatable
        )
        price = (option.price + overhead) / 1e18
        if option.reservation is not None and eligible:
            known = reserved.get(option.unit_key)
            reserved[option.unit_key] = BinType(
                option, eligible | (known.eligible if known else 0), price
            )
        elif eligible:
            bought.append(BinType(option, eligible, price))
    return list(reserved.values()), _undominated(bought)


def _undominated(bin_types: Iterable[BinType]) -> list[BinType]:
    """Leave out types that another one can replace: it holds the same items, as much of them, and costs no more."""
    kept: list[BinType] = []
    # The larger first, so that no type can be replaced by a later one.
    for item in sorted(
        bin_types,
        key=lambda item: (item.price, [-size for size in item.option.allocatable]),
    ):
        if not any(_holds_as_much(other, item) for other in kept):
            kept.append(item)
    return kept


def _holds_as_much(one: BinType, other: BinType) -> bool:
    """Whether one holds every item that the other holds, and as much of it."""
    if other.eligible & ~one.eligible:
        return False
    return all(map(ge, one.option.allocatable, other.option.allocatable))


class _Program:
    """Rows: demand by item, units by reservation. Columns: patterns of nodes, reserved ones first."""

    def __init__(
        self,
        item_types: Sequence[ItemType],
        reserved: Sequence[BinType],
        units: Sequence[int],
        bought: Sequence[BinType],
    ) -> None:
        self._counts = np.array([item_type.count for item_type in item_types])
        self._units = np.array(units, dtype=float)
        self._prices = np.array([bin_type.price for bin_type in (*reserved, *bought)])
        self._knapsacks = Knapsacks(item_types, [*reserved, *bought])
        rows = [(float(count), INFINITY) for count in self._counts] + [
            (-INFINITY, count) for count in self._units
        ]
        self._program = LinearProgram(rows)
        self._known: set[tuple[int, Pattern]] = set()
        for index in range(len(item_types)):
            self._add_alone(index)
        # What replicas are worth, what each node costs with the unit that it takes, and no pattern of it is worth more.
        self._values, self._costs = np.zeros(len(item_types)), self._prices
        self._most = np.zeros(len(self._prices))
        self._optimum = 0.0

    def bound(self) -> float:
        """Add columns until what is proven is near to the program's optimum, or is as near as the effort allows."""
        best = 0.0
        everything = np.arange(len(self._prices))
        for _ in range(_ROUNDS_MAX):
            self._solve()
            new = self._price(everything)
            best = max(best, self._proven())
            if best > (1 - _NEAR) * self._optimum:
                break
            # Where something was missing, more is: those nodes are priced until nothing is.
            before = INFINITY
            while new and self._optimum < (1 - _SLOW) * before:
                before = self._optimum
                self._solve()
                new = self._price(new)
        return best * _SAFETY

    def _add_alone(self, index: int) -> None:
        """Add the node on which a replica costs least among its like."""
        fills = self._knapsacks
        asked = fills.requests[index]
        copies = (
            (fills.sizes[:, asked > 0] // asked[asked > 0])
            .min(axis=1)
            .clip(max=self._counts[index])
        )
        copies[: len(self._units)] = 0  # there may be no unit
        row = int(np.where(fills.eligible[:, index], copies / self._prices, 0.0).argmax())
        assert copies[row] > 0, "nothing that can be bought holds a replica"
        self._add(row, ((index, int(copies[row])),))

    def _add(self, row: int, pattern: Pattern) -> bool:
        if (row, pattern) in self._known:
            return False
        self._known.add((row, pattern))
        unit = [(len(self._counts) + row, 1.0)] if row < len(self._units) else []
        entries = [*((index, float(count)) for index, count in pattern), *unit]
        self._program.add([(float(self._prices[row]), INFINITY, entries)])
        return True

    def _is_worthwhile(self, row: int, pattern: Pattern) -> bool:
        worth = sum(self._values[index] * count for index, count in pattern)
        return bool(worth > self._costs[row] * (1 + _TOLERANCE))

    def _solve(self) -> None:
        """Solve the program, with all the columns that the product's own heuristics find."""
        before, new = self._values, 1
        while new:
            assert self._program.solve()
            self._optimum = self._program.objective()
            duals = np.array(self._program.duals())
            self._values = np.maximum(0.0, duals[: len(self._counts)])
            self._costs = self._prices.copy()
            self._costs[: len(self._units)] += np.maximum(0.0, -duals[len(self._counts) :])
            found = self._knapsacks.fill(
                self._values.tolist(), self._costs.tolist(), self._counts.tolist()
            )
            new = sum(self._add(*each) for each in found if self._is_worthwhile(*each))
        # A pattern is worth no more than it was, and what it gained.
        gained = self._knapsacks.bounds(np.maximum(0.0, self._values - before).tolist())[0]
        self._most = np.minimum(
            self._knapsacks.bounds(self._values.tolist())[0], self._most + gained
        )

    def _price(self, rows: Iterable[int]) -> list[int]:
        """Price what may be worth more than it costs, add what is, and return where."""
        new = []
        solved: dict[tuple[bytes, bytes], tuple[float, Pattern]] = {}
        for row in rows:
            if self._most[row] <= self._costs[row] * (1 + _TOLERANCE):
                continue
            holds = self._knapsacks.eligible[row] & (self._values > 0)
            same = self._knapsacks.sizes[row].tobytes(), holds.tobytes()
            if same not in solved:
                solved[same] = self._best(row, holds.nonzero()[0])
            proven, pattern = solved[same]
            self._most[row] = min(self._most[row], proven)
            if self._is_worthwhile(row, pattern) and self._add(row, pattern):
                new.append(row)
        return new

    def _best(self, row: int, items: Array) -> tuple[float, Pattern]:
        """Return what no pattern of these items on such a node is worth more than, and one that nearly is."""
        size, asked = self._knapsacks.sizes[row], self._knapsacks.requests[items]
        make: Any = highspy.Highs  # has no type information
        highs = make()
        for name, value in _OPTIONS.items():
            highs.setOptionValue(name, value)
        for column, index in enumerate(items):
            highs.addCol(
                -self._values[index] / self._costs[row],
                0.0,
                float(self._counts[index]),
                0,
                [],
                [],
            )
            highs.changeColIntegrality(column, highspy.HighsVarType.kInteger)
        for resource in size.nonzero()[0]:
            (takers,) = asked[:, resource].nonzero()
            unit = _MIB if resource == 1 else 1
            amounts = asked[takers, resource] / unit
            highs.addRow(
                -INFINITY,
                size[resource] / unit,
                len(takers),
                takers.astype(np.int32),
                amounts,
            )
        highs.run()
        found = np.rint(highs.getSolution().col_value).astype(int)
        pattern = tuple(
            (int(index), int(count))
            for index, count in zip(items, found, strict=True)
            if count
        )
        return -float(highs.getInfo().mip_dual_bound) * self._costs[row], pattern

    def _proven(self) -> float:
        """Return what the last prices prove, scaled so that no node that is bought is worth more than it costs."""
        reserved = len(self._units)
        scale = 1 / max(
            1.0, (self._most[reserved:] / self._prices[reserved:]).max(initial=0.0)
        )
        beyond = np.maximum(0.0, self._most[:reserved] * scale - self._prices[:reserved])
        return float(scale * (self._values @ self._counts) - self._units @ beyond)
