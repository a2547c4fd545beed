"""Filling many nodes at once: the best pattern of every bin type at given values, by array arithmetic.

The fill is the one of the greedy passes (the most value for what is taken, each resource counted by its scarcity on the
node at that moment, a quarter at a time), done for all bin types in step. Then a part of each node is taken out and
filled again, which is kept where it gained. Deterministic: what is taken out follows from the number of the trial.
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
_NEAR = 0.97  # nodes filled with less than this part of their cost are not looked at twice

Array = Any  # numpy's arrays; their generic types say no more here


class Knapsacks:
    """Nodes to be filled: one row a bin type, one column an item. A rule about hosts is one more resource."""

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

    def fill(
        self, values: Sequence[float], costs: Sequence[float], left: Sequence[int], number: int, trials: int
    ) -> list[tuple[int, Pattern]]:
        """Return (row, pattern) for the rows that can be filled with about what they cost.

        ``left`` bounds the replicas of an item, ``trials`` is how often a part is taken out and filled again, and
        ``number`` says with which part to begin.
        """
        item_values, most = np.array(values), np.array(left, dtype=np.int64)
        bounds, shares = self.bounds(values)
        (rows,) = (bounds > np.array(costs) * _NEAR).nonzero()
        nodes = _Nodes(self, rows, item_values, most, shares[rows])
        nodes.fill()
        near = nodes.value() > np.array(costs)[rows] * _NEAR
        rows = rows[near]
        nodes = _Nodes(self, rows, item_values, most, shares[rows], nodes.pattern[near])
        found = [(int(row), _pattern(held)) for row, held in zip(rows, nodes.pattern, strict=True)]
        for trial in range(number, number + trials):
            other = nodes.copy()
            other.take_out(trial)
            other.fill()
            found.extend((int(rows[at]), _pattern(other.pattern[at])) for at in nodes.accept(other))
        return found

    def share(self, row: int, pattern: Pattern) -> float:
        """Return the part of a node that a pattern uses of the resource it uses most."""
        load = sum(self.requests[index] * count for index, count in pattern)
        return float((load / self.whole[row])[self.sizes[row] > 0].max())


class _Nodes:
    """Some rows, being filled."""

    def __init__(
        self,
        knapsacks: Knapsacks,
        rows: Array,
        values: Array,
        most: Array,
        shares: Array,
        pattern: Array | None = None,
    ) -> None:
        self._of = (knapsacks, rows, values, most, shares)
        # A resource that nobody is short of still counts a little, lest it run out unseen.
        self._weights = np.maximum(shares, _LEAST_SHARE)
        self._requests, self._parts = knapsacks.requests, knapsacks.parts
        self._whole = knapsacks.whole[rows]
        self._takers = knapsacks.eligible[rows] & (values > 0) & (most > 0)
        self._values, self._most = values, most
        self.pattern = np.zeros((len(rows), len(values)), dtype=np.int64) if pattern is None else pattern
        self._room = knapsacks.sizes[rows] - self.pattern @ self._requests

    def copy(self) -> "_Nodes":
        """Return the same nodes, to go on apart."""
        return _Nodes(*self._of, self.pattern.copy())

    def value(self) -> Array:
        """Return what each node's pattern is worth."""
        return self.pattern @ self._values

    def accept(self, other: "_Nodes") -> Array:
        """Take over what is better in the other; return where."""
        better = other.value() > self.value()
        self.pattern[better] = other.pattern[better]
        return better.nonzero()[0]

    def fill(self) -> None:
        """Fill up what is free."""
        pattern, room = self.pattern, self._room
        active = np.arange(len(pattern))
        while len(active):
            free = room[active]
            fits = self._takers[active] & (pattern[active] < self._most)
            for resource in range(free.shape[1]):
                fits &= self._requests[:, resource] <= free[:, resource, None]
            scarcity = np.maximum(free, 1) / self._whole[active]
            taken = (self._weights[active] / (scarcity * self._whole[active])) @ self._parts
            score = np.where(fits, self._values / np.maximum(taken, 1e-12), -1.0)
            chosen = score.argmax(axis=1)
            going = score[np.arange(len(active)), chosen] > 0
            active, chosen, free = active[going], chosen[going], free[going]
            asked = self._requests[chosen]
            copies = np.where(asked > 0, free // np.maximum(asked, 1), self._most[chosen, None]).min(axis=1)
            copies = np.minimum(copies, self._most[chosen] - pattern[active, chosen])
            # About a quarter at a time, so that the balance is looked at again.
            copies = np.where(copies < 4, copies, copies // 4)
            pattern[active, chosen] += copies
            room[active] -= asked * copies[:, None]

    def take_out(self, number: int) -> None:
        """Take one kind of replica out, half of it or all of it; which one goes round with ``number``."""
        held = self.pattern > 0
        kinds = held.sum(axis=1)
        wanted = np.where(kinds > 0, number // 2 % np.maximum(kinds, 1), 0) + 1
        chosen = (held.cumsum(axis=1) == wanted[:, None]).argmax(axis=1)
        rows = np.arange(len(self.pattern))
        copies = self.pattern[rows, chosen]
        copies = -(-copies // 2) if number % 2 else copies
        self.pattern[rows, chosen] -= copies
        self._room += self._requests[chosen] * copies[:, None]


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
