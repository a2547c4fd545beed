"""Filling many nodes at once: the best pattern of every bin type at given values, by array arithmetic.

The fill is the one of the greedy passes (the most value for what is taken, each resource counted by its scarcity on the
node at that moment, half of what fits at a time), done for all bin types in step.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from shared.core.solver.packing.item_types import BinType, ItemType
from shared.core.solver.packing.knapsack import Pattern

# Shares of resources at which a pattern is bounded: any of them bounds, the least counts. CPU and memory in fine steps.
_STEPS = 8
_RULES_MAX = 24
_LEAST_SHARE = 0.02

Array = Any  # numpy's arrays; their generic types say no more here


class Knapsacks:
    """Nodes to be filled: one row a bin type, one column an item. A rule about hosts is one more resource."""

    # Branches: tables that every round needs, one loop each.
    def __init__(self, item_types: Sequence[ItemType], bin_types: Sequence[BinType]) -> None:
        rules = sorted({(item.host.number, item.host.cap) for item in item_types if item.host is not None})
        rules = rules[:_RULES_MAX]
        names = {number: position for position, (number, _) in enumerate(rules)}
        width = len(item_types[0].request)
        self.requests = np.zeros((len(item_types), width + len(rules)), dtype=np.int64)
        usable = np.ones(len(item_types), dtype=bool)
        for item_type in item_types:
            self.requests[item_type.index, :width] = item_type.request
            if item_type.host is not None:
                # Who may join a carrier of an inexact rule is looked at node by node, elsewhere.
                usable[item_type.index] = item_type.host.is_exact and item_type.host.number in names
                if usable[item_type.index]:
                    self.requests[item_type.index, width + names[item_type.host.number]] = 1
        caps = [cap for _, cap in rules]
        self.sizes = np.array([(*item.option.allocatable, *caps) for item in bin_types], dtype=np.int64)
        self.sizes = self.sizes.reshape(len(bin_types), width + len(rules))
        octets = -(-len(item_types) // 8)
        masks = b"".join(item.eligible.to_bytes(octets, "little") for item in bin_types)
        bits = np.frombuffer(masks, dtype=np.uint8).reshape(len(bin_types), octets)
        self.eligible = np.unpackbits(bits, axis=1, count=len(item_types), bitorder="little").astype(bool) & usable
        for resource in range(self.sizes.shape[1]):
            self.eligible &= self.requests[:, resource] <= self.sizes[:, resource, None]
        self.parts = self.requests.T.astype(float)  # by resource, then item
        self.whole = np.maximum(self.sizes, 1).astype(float)
        self._directions = _directions(width, len(rules))

    def bounds(self, values: Sequence[float]) -> tuple[Array, Array]:
        """Return, by bin type, a value that no pattern exceeds, and the shares of resources which show that."""
        item_values = np.array(values)
        least, which = np.full(len(self.sizes), np.inf), np.zeros(len(self.sizes), dtype=np.int64)
        for number, direction in enumerate(self._directions):
            taken = (direction / self.whole) @ self.parts
            bound = np.where(self.eligible, item_values / np.maximum(taken, 1e-12), 0.0).max(axis=1, initial=0.0)
            better = bound < least
            least[better], which[better] = bound[better], number
        return least, np.array(self._directions)[which]

    def fill(self, values: Sequence[float], costs: Sequence[float], left: Sequence[int]) -> list[tuple[int, Pattern]]:
        """Return (row, pattern) for the rows of which a pattern may be worth more than they cost.

        ``left`` bounds the replicas of an item.
        """
        bounds, shares = self.bounds(values)
        (rows,) = (bounds > np.array(costs)).nonzero()
        filled = self._filled(rows, np.array(values), np.array(left, dtype=np.int64), shares[rows])
        return [(int(row), _pattern(held)) for row, held in zip(rows, filled, strict=True)]

    def _filled(self, rows: Array, values: Array, most: Array, shares: Array) -> Array:
        """Return how many of each item (columns) go onto a node of each row; resources count by these shares."""
        # A resource that nobody is short of still counts a little, lest it run out unseen.
        weights = np.maximum(shares, _LEAST_SHARE)
        whole, room = self.whole[rows], self.sizes[rows]
        takers = self.eligible[rows] & (values > 0) & (most > 0)
        pattern = np.zeros((len(rows), len(values)), dtype=np.int64)
        active = np.arange(len(rows))
        while len(active):
            free = room[active]
            fits = takers[active] & (pattern[active] < most)
            for resource in range(free.shape[1]):
                fits &= self.requests[:, resource] <= free[:, resource, None]
            scarcity = np.maximum(free, 1) / whole[active]
            taken = (weights[active] / (scarcity * whole[active])) @ self.parts
            score = np.where(fits, values / np.maximum(taken, 1e-12), -1.0)
            chosen = score.argmax(axis=1)
            going = score[np.arange(len(active)), chosen] > 0
            active, chosen, free = active[going], chosen[going], free[going]
            asked = self.requests[chosen]
            copies = np.where(asked > 0, free // np.maximum(asked, 1), most[chosen, None]).min(axis=1)
            copies = np.minimum(copies, most[chosen] - pattern[active, chosen])
            # Half of it at a time, so that the balance is looked at again.
            copies -= copies // 2
            pattern[active, chosen] += copies
            room[active] -= asked * copies[:, None]
        return pattern

    def share(self, row: int, pattern: Pattern) -> float:
        """Return the part of a node that a pattern uses of the resource it uses most."""
        load = sum(self.requests[index] * count for index, count in pattern)
        return float((load / self.whole[row])[self.sizes[row] > 0].max())


def _pattern(row: Array) -> Pattern:
    (held,) = row.nonzero()
    return tuple((int(index), int(row[index])) for index in held)


def _directions(width: int, rules: int) -> list[Array]:
    """Return shares of resources that sum to one: between CPU and memory, and with a part for each other resource."""
    found = []
    for step in range(_STEPS + 1):
        found.append(np.zeros(width + rules))
        found[-1][:2] = step / _STEPS, 1 - step / _STEPS
    for other in range(2, width + rules):
        for part in (0.5, 0.9, 1.0) if 2 < other < width else (0.5,):
            found.append(np.zeros(width + rules))
            found[-1][:2], found[-1][other] = (1 - part) / 2, part
    return found
