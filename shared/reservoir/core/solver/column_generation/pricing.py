"""The pricing problem: finds patterns worth more, at the program's dual prices, than their node and what it uses up.

Many nodes are filled at once, by array arithmetic. Each step adds to every node the item with the most value for the
resources that it takes, half of the replicas that fit. As in greedy packing (``knapsack``), each resource is weighed by
how scarce it is on the node at that moment.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from reservoir.core.solver.column_generation.restricted_master import RestrictedMaster
from reservoir.core.solver.packing.item_types import BinType, ItemType
from reservoir.core.solver.packing.knapsack import Pattern
from reservoir.core.solver.packing.packing import Packing
from reservoir.core.solver.problem.vectors import UNLIMITED

# Each weighting of the resources bounds the value of a pattern; the least of the bounds counts. Weights pass from CPU
# to memory in so many steps.
_STEPS = 8
_LEAST_SHARE = 0.02  # the least weight of a resource while nodes are filled
# Bin types whose bounds are computed at once: the arrays of more would not fit into the processor's cache.
_AT_ONCE = 256
# Of bin types with the same pool and eligible items, so many are considered.
_PROMISING_MAX = 4
# A bin type is left out if the most value that it can hold is less than this part of its price.
_PROMISING = 0.85
# Bin types that are filled in a round, at most: partial pricing (catalogue-10000, seeds 3000 to 3023).
_FILLED_MAX = 90
_TINY = 1e-12  # prevents division by zero
# A pattern becomes a column only if it is worth this many times its cost: with less it may gain nothing but rounding.
_REDUCED_COST_RATIO = 1.0005

Array = Any  # numpy's arrays; their generic types say no more here


class Knapsacks:
    """Fills nodes of B bin types with I items of R resources; patterns are bounded by D weightings of the resources.

    ``requests`` (I, R) and ``sizes`` (B, R) are integers; ``eligible`` (B, I) is boolean; ``parts`` (R, I) has the
    requests as floats.
    """

    def __init__(
        self, item_types: Sequence[ItemType], bin_types: Sequence[BinType]
    ) -> None:
        self.requests = np.array(
            [item_type.request for item_type in item_types], dtype=np.int64
        )
        width = self.requests.shape[1]
        self.sizes = np.array(
            [item.option.allocatable for item in bin_types], dtype=np.int64
        ).reshape(-1, width)
        rules = list(dict.fromkeys([item_type.host for item_type in item_types]))
        # the position in ``rules`` of each item's host rule
        self._rule = np.array([rules.index(item_type.host) for item_type in item_types])
        # Carriers of inexact rules get no place here: each node must be checked before a replica joins one.
        self._caps = np.array(
            [UNLIMITED if rule is None else rule.cap * rule.is_exact for rule in rules]
        )
        octets = -(-len(item_types) // 8)
        masks = b"".join(item.eligible.to_bytes(octets, "little") for item in bin_types)
        bits = np.frombuffer(masks, dtype=np.uint8).reshape(len(bin_types), octets)
        self.eligible = np.unpackbits(
            bits, axis=1, count=len(item_types), bitorder="little"
        ).astype(bool)
        # For each resource: the distinct requests in ascending order, and for each number of the smallest the items
        # whose request is one of them.
        ranked = [np.unique(requests, return_inverse=True) for requests in self.requests.T]
        self._fitting_by_rank = [
            (asked, rank < np.arange(len(asked) + 1)[:, None]) for asked, rank in ranked
        ]
        self.eligible &= self._fitting(self.sizes) & (self._caps[self._rule] > 0)
        self.parts = self.requests.T.astype(float)
        self._directions, whole = _directions(width), np.maximum(self.sizes, 1)
        # (D, B, I): the weighted part of a node that one replica takes; infinity where the item is not eligible.
        taken = (self._directions[:, None] / whole) @ self.parts
        self._taken = np.where(self.eligible, np.maximum(taken, _TINY), np.inf)

    def bounds(self, values: Sequence[float]) -> tuple[Array, Array]:
        """Return upper bounds (B) of the value of a pattern, and the weights (B, R) that prove them.

        ``values`` (I) are those of one replica, in USD an hour.
        """
        bounds = [(np.array(values) / taken).max(axis=1) for taken in self._taken]
        return np.min(bounds, axis=0), self._directions[np.argmin(bounds, axis=0)]

    def _fitting(self, free: Array) -> Array:
        """Return which items fit (N, I) into free resources (N, R), by look-up, which is faster than comparison."""
        fits = np.ones((len(free), len(self.requests)), dtype=bool)
        for available, (asked, fitting) in zip(free.T, self._fitting_by_rank, strict=True):
            fits &= fitting[np.searchsorted(asked, available, side="right")]
        return fits

    def fill(
        self, values: Sequence[float], costs: Sequence[float], left: Sequence[int]
    ) -> list[tuple[int, Pattern]]:
        """Return (bin type's position, pattern) for the bin types whose patterns may gain the most for their cost.

        ``left`` is the number of replicas of each item.
        """
        bounds, shares = self.bounds(values)
        ratios = bounds / np.maximum(costs, _TINY)
        rows = np.argsort(-ratios, kind="stable")[
            : min(_FILLED_MAX, int((ratios > 1).sum()))
        ]
        filled = self._filled(
            rows, np.array(values), np.array(left, dtype=np.int64), shares[rows]
        )
        patterns: list[tuple[int, Pattern]] = []
        for row, held in zip(rows.tolist(), filled, strict=True):
            items = held.nonzero()[0]
            pattern = zip(items.tolist(), held[items].tolist(), strict=True)
            patterns.append((row, tuple(pattern)))
        return patterns

    def _filled(self, rows: Array, values: Array, most: Array, shares: Array) -> Array:
        """Return how many replicas of each item go onto a node of each row (N, I).

        ``rows`` (N) are positions of bin types, ``most`` (I) the replicas there are of each item, and ``shares`` (N, R)
        the weights of the resources.
        """
        pattern = np.zeros((len(rows), len(values)), dtype=np.int64)
        # the resources that an item takes for each dollar of its value
        parts = self.parts / np.where(values > 0, values, 1.0)
        # Full nodes are dropped from these arrays, so that they shrink. ``active`` are the rows left, and for each of
        # them there is ``room`` (R), ``weights`` (R), ``places`` by host rule and ``fitting`` (I).
        active, room = np.arange(len(rows)), self.sizes[rows]
        # A resource without weight in the bound still counts a little, so that it does not run out unnoticed.
        weights = np.maximum(shares, _LEAST_SHARE)
        places = np.tile(self._caps, (len(rows), 1))
        fitting = self.eligible[rows] & (values > 0) & (most > 0)
        while True:
            fitting &= self._fitting(room)
            # The item with the most value for the resources that it takes, each weighed by its scarcity on the node
            # now.
            chosen = (fitting / ((weights / np.maximum(room, 1)) @ parts)).argmax(axis=1)
            going = fitting[np.arange(len(active)), chosen]
            if not going.all():
                active, room, weights = active[going], room[going], weights[going]
                places, fitting, chosen = places[going], fitting[going], chosen[going]
            if not len(active):
                return pattern
            each = np.arange(len(active))
            asked, rule = self.requests[chosen], self._rule[chosen]
            copies = np.where(
                asked > 0, room // np.maximum(asked, 1), most[chosen, None]
            ).min(axis=1)
            copies = np.minimum(copies, most[chosen] - pattern[active, chosen])
            copies = np.minimum(copies, places[each, rule])
            # Add half of the replicas at a time, so that scarcity is looked at again in between.
            copies -= copies // 2
            pattern[active, chosen] += copies
            places[each, rule] -= copies
            room -= asked * copies[:, None]
            fitting[each, chosen] = pattern[active, chosen] < most[chosen]
            (full,) = (places[each, rule] == 0).nonzero()
            fitting[full] &= self._rule != rule[full, None]


def _directions(width: int) -> Array:
    """Return weights of the resources (D, R), which sum to one in each row.

    Some rows weigh CPU and memory alone; others give a part of the weight to one other resource.
    """
    found = [
        (step / _STEPS, 1 - step / _STEPS, *[0.0] * (width - 2))
        for step in range(_STEPS + 1)
    ]
    for other in range(2, width):
        for part in (0.5, 0.9, 1.0) if other > 2 else (0.5,):
            shares = [0.0] * width
            shares[0] = shares[1] = (1 - part) / 2
            shares[other] = part
            found.append(tuple(shares))
    return np.array(found)


class PricingProblem:
    """Finds patterns that are worthwhile at the restricted master's dual prices, and adds them to it."""

    def __init__(
        self, master: RestrictedMaster, base: Packing, bin_types: Sequence[BinType]
    ) -> None:
        self._master = master
        self._base = base
        self._bin_types = bin_types
        self._row_entries = [master.row_entries(bin_type) for bin_type in bin_types]
        self._knapsacks = Knapsacks(base.item_types, bin_types)

    def add(self) -> int:
        """Add patterns that are worthwhile at the program's prices; return how many were new."""
        duals = self._master.program.duals()
        values = [max(0.0, dual) for dual in duals[: len(self._base.left)]]
        costs = self._costs(duals)
        # (cost for each dollar of value, position of the bin type, pattern)
        found: list[tuple[float, int, Pattern]] = []
        for row, pattern in self._knapsacks.fill(values, costs, self._base.left):
            value = sum(values[index] * count for index, count in pattern)
            is_worthwhile = value > costs[row] * _REDUCED_COST_RATIO
            if is_worthwhile and not self._base.is_kept_off(self._bin_types[row], pattern):
                found.append((costs[row] / value, row, pattern))
        return self._master.add(
            (self._bin_types[row], pattern) for _, row, pattern in sorted(found)
        )

    def _costs(self, duals: Sequence[float]) -> list[float]:
        """Return the cost of a node of each bin type: its price, plus the units and limits it takes at dual prices."""
        costs: list[float] = []
        for bin_type, entries in zip(self._bin_types, self._row_entries, strict=True):
            used_up = [amount * max(0.0, -duals[row]) for row, amount in entries]
            costs.append(bin_type.price + sum(used_up))
        return costs


def promising(base: Packing, paid: Sequence[BinType]) -> list[BinType]:
    """Return, for each pool and mask of eligible items, the few bin types that hold the most value for their price."""
    ratios: list[tuple[float, BinType]] = []
    for at in range(0, len(paid), _AT_ONCE):
        part = paid[at : at + _AT_ONCE]
        bounds, _ = Knapsacks(base.item_types, part).bounds(base.knapsack.values)
        for item, bound in zip(part, bounds, strict=True):
            ratios.append((float(bound) / item.price, item))
    ratios.sort(key=lambda pair: (-pair[0], pair[1].option.index))
    kept: dict[tuple[int, str], list[BinType]] = {}
    for ratio, item in ratios:
        same = kept.setdefault((item.eligible, item.option.entry.pool.name), [])
        if ratio > _PROMISING and len(same) < _PROMISING_MAX:
            same.append(item)
    return list(chain.from_iterable(kept.values()))
