"""The pricing problem: patterns that are worth more, at the program's dual prices, than a node and what it uses up.

Many nodes are filled at once, by array arithmetic. The fill is the one of the greedy passes (the most value for what is
taken, each resource counted by its scarcity on the node at that moment, half of what fits at a time), done for all bin
types in step.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from shared.core.solver.column_generation.restricted_master import RestrictedMaster
from shared.core.solver.packing.item_types import BinType, ItemType
from shared.core.solver.packing.knapsack import Pattern
from shared.core.solver.packing.packing import Packing
from shared.core.solver.problem.vectors import UNLIMITED

# Shares of resources at which a pattern is bounded: any of them bounds, the least counts. CPU and memory in fine steps.
_STEPS = 8
_LEAST_SHARE = 0.02
_PROMISING_MAX = 4  # bin types for the same eligible items that are filled in each round
_PROMISING = 0.85  # less than this part of its price at the prices of fractions: a bin type is left out
_REDUCED_COST_RATIO = 1.0005  # a pattern must be worth this much more than it costs: less is rounding

Array = Any  # numpy's arrays; their generic types say no more here


class Knapsacks:
    """Nodes to be filled: one row a bin type, one column an item."""

    def __init__(self, item_types: Sequence[ItemType], bin_types: Sequence[BinType]) -> None:
        self.requests = np.array([item_type.request for item_type in item_types], dtype=np.int64)
        width = self.requests.shape[1]
        self.sizes = np.array([item.option.allocatable for item in bin_types], dtype=np.int64).reshape(-1, width)
        rules = list(dict.fromkeys([item_type.host for item_type in item_types]))
        self._rule = np.array([rules.index(item_type.host) for item_type in item_types])  # about hosts, by item
        # Who may join a carrier of an inexact rule is looked at node by node, elsewhere.
        self._caps = np.array([UNLIMITED if rule is None else rule.cap * rule.is_exact for rule in rules])
        octets = -(-len(item_types) // 8)
        masks = b"".join(item.eligible.to_bytes(octets, "little") for item in bin_types)
        bits = np.frombuffer(masks, dtype=np.uint8).reshape(len(bin_types), octets)
        self.eligible = np.unpackbits(bits, axis=1, count=len(item_types), bitorder="little").astype(bool)
        self.eligible &= _fitting(self.requests, self.sizes) & (self._caps[self._rule] > 0)
        self.parts = self.requests.T.astype(float)  # by resource, then item
        self.whole = np.maximum(self.sizes, 1).astype(float)
        self._directions = _directions(width)

    def bounds(self, values: Sequence[float]) -> tuple[Array, Array]:
        """Return, by bin type, a value that no pattern exceeds, and the shares of resources which show that."""
        item_values, bounds = np.array(values), []
        for direction in self._directions:
            taken = (direction / self.whole) @ self.parts
            ratios = np.where(self.eligible, item_values / np.maximum(taken, 1e-12), 0.0)
            bounds.append(ratios.max(axis=1, initial=0.0))
        return np.min(bounds, axis=0), self._directions[np.argmin(bounds, axis=0)]

    def fill(self, values: Sequence[float], costs: Sequence[float], left: Sequence[int]) -> list[tuple[int, Pattern]]:
        """Return (row, pattern) for the rows of which a pattern may be worth more than they cost.

        ``left`` bounds the replicas of an item.
        """
        bounds, shares = self.bounds(values)
        (rows,) = (bounds > np.array(costs)).nonzero()
        filled = self._filled(rows, np.array(values), np.array(left, dtype=np.int64), shares[rows])
        return [
            (int(row), tuple((int(index), int(held[index])) for index in held.nonzero()[0]))
            for row, held in zip(rows, filled, strict=True)
        ]

    def _filled(self, rows: Array, values: Array, most: Array, shares: Array) -> Array:
        """Return how many of each item (columns) go onto a node of each row; resources count by these shares."""
        # A resource that nobody is short of still counts a little, lest it run out unseen.
        weights = np.maximum(shares, _LEAST_SHARE)
        whole, room = self.whole[rows], self.sizes[rows]
        takers = self.eligible[rows] & (values > 0) & (most > 0)
        pattern = np.zeros((len(rows), len(values)), dtype=np.int64)
        places = np.tile(self._caps, (len(rows), 1))
        active = np.arange(len(rows))
        while len(active):
            free = room[active]
            fits = takers[active] & (pattern[active] < most) & _fitting(self.requests, free)
            fits &= places[active][:, self._rule] > 0
            scarcity = np.maximum(free, 1) / whole[active]
            taken = (weights[active] / (scarcity * whole[active])) @ self.parts
            score = np.where(fits, values / np.maximum(taken, 1e-12), -1.0)
            chosen = score.argmax(axis=1)
            going = score[np.arange(len(active)), chosen] > 0
            active, chosen, free = active[going], chosen[going], free[going]
            asked = self.requests[chosen]
            copies = np.where(asked > 0, free // np.maximum(asked, 1), most[chosen, None]).min(axis=1)
            rule = self._rule[chosen]
            copies = np.minimum(np.minimum(copies, most[chosen] - pattern[active, chosen]), places[active, rule])
            # Half of it at a time, so that the balance is looked at again.
            copies -= copies // 2
            pattern[active, chosen] += copies
            places[active, rule] -= copies
            room[active] -= asked * copies[:, None]
        return pattern


def _fitting(requests: Array, free: Array) -> Array:
    """Return which items (columns) fit into which rows of free resources; a comparison a resource, for its speed."""
    fits = np.ones((len(free), len(requests)), dtype=bool)
    for resource in range(requests.shape[1]):
        fits &= requests[:, resource] <= free[:, resource, None]
    return fits


def _directions(width: int) -> Array:
    """Return shares of resources that sum to one: between CPU and memory, and with a part for each other resource."""
    found = [(step / _STEPS, 1 - step / _STEPS, *[0.0] * (width - 2)) for step in range(_STEPS + 1)]
    for other in range(2, width):
        for part in (0.5, 0.9, 1.0) if other > 2 else (0.5,):
            rest = (1 - part) / 2
            found.append((rest, rest, *(part if resource == other else 0.0 for resource in range(2, width))))
    return np.array(found)


class PricingProblem:
    """Finds patterns that the restricted master's prices make worthwhile."""

    def __init__(self, master: RestrictedMaster, base: Packing, bin_types: Sequence[BinType]) -> None:
        self._master = master
        self._base = base
        self._bin_types = bin_types
        self._knapsacks = Knapsacks(base.item_types, bin_types)

    def add(self) -> int:
        """Add patterns that are worthwhile at the program's prices; return how many were new."""
        duals = self._master.program.duals()
        values = [max(0.0, dual) for dual in duals[: len(self._base.left)]]
        costs = [
            bin_type.price + sum([amount * max(0.0, -duals[row]) for row, amount in self._master.row_entries(bin_type)])
            for bin_type in self._bin_types
        ]
        found = [
            (costs[row] / value, row, pattern)
            for row, pattern in self._knapsacks.fill(values, costs, self._base.left)
            if (value := sum(values[index] * count for index, count in pattern)) > costs[row] * _REDUCED_COST_RATIO
            and not self._base.is_kept_off(self._bin_types[row], pattern)
        ]
        return self._master.add((self._bin_types[row], pattern) for _, row, pattern in sorted(found))


def promising(base: Packing, paid: Sequence[BinType]) -> list[BinType]:
    """Return the few bin types for the same items that can hold the most value for their price."""
    bounds, _ = Knapsacks(base.item_types, paid).bounds(base.knapsack.values)
    ratios = [(float(bound) / item.price, item) for item, bound in zip(paid, bounds, strict=True)]
    ratios.sort(key=lambda pair: (-pair[0], pair[1].option.index))
    kept: dict[tuple[int, str], list[BinType]] = {}
    for ratio, item in ratios:
        same = kept.setdefault((item.eligible, item.option.entry.pool.name), [])
        if ratio > _PROMISING and len(same) < _PROMISING_MAX:
            same.append(item)
    return [item for same in kept.values() for item in same]
