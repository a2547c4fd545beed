"""Filling many nodes at once: the best content of every candidate at given worths, by array arithmetic.

The fill is the one of the greedy passes (the most worth for what is taken, each resource counted by its scarcity on the
node at that moment, a quarter at a time), done for all candidates in step. Then a part of each node is taken out and
filled again, which is kept where it gained. Deterministic: what is taken out follows from the number of the trial.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from shared.core.solver.packing.item_types import Candidate, Shape
from shared.core.solver.packing.knapsack import Contents

# Shares of resources at which content is bounded: any of them bounds, the least counts. CPU and memory in fine steps.
_STEPS = 8
_RULES_MAX = 24
_LEAST_SHARE = 0.02
_NEAR = 0.97  # nodes filled with less than this part of their cost are not looked at twice

Array = Any  # numpy's arrays; their generic types say no more here


class Knapsacks:
    """Nodes to be filled: one row a candidate, one column a shape. A rule about hosts is one more resource."""

    def __init__(self, shapes: Sequence[Shape], candidates: Sequence[Candidate]) -> None:
        rules = sorted({(item.host.number, item.host.cap) for item in shapes if item.host is not None})
        rules = rules[:_RULES_MAX]
        names = {number: position for position, (number, _) in enumerate(rules)}
        width = len(shapes[0].request)
        self.requests = np.zeros((len(shapes), width + len(rules)), dtype=np.int64)
        usable = np.ones(len(shapes), dtype=bool)
        for shape in shapes:
            self.requests[shape.index, :width] = shape.request
            if shape.host is not None:
                # Who may join a carrier of an inexact rule is looked at node by node, elsewhere.
                usable[shape.index] = shape.host.is_exact and shape.host.number in names
                if usable[shape.index]:
                    self.requests[shape.index, width + names[shape.host.number]] = 1
        caps = [cap for _, cap in rules]
        self.sizes = np.array([(*item.option.allocatable, *caps) for item in candidates], dtype=np.int64)
        self.sizes = self.sizes.reshape(len(candidates), width + len(rules))
        octets = -(-len(shapes) // 8)
        masks = b"".join(item.mask.to_bytes(octets, "little") for item in candidates)
        bits = np.frombuffer(masks, dtype=np.uint8).reshape(len(candidates), octets)
        self.takers = np.unpackbits(bits, axis=1, count=len(shapes), bitorder="little").astype(bool) & usable
        for resource in range(self.sizes.shape[1]):
            self.takers &= self.requests[:, resource] <= self.sizes[:, resource, None]
        self.parts = self.requests.T.astype(float)  # by resource, then shape
        self.whole = np.maximum(self.sizes, 1).astype(float)
        self._directions = _directions(width, len(rules))

    def bounds(self, worth: Sequence[float]) -> tuple[Array, Array]:
        """Return, by candidate, a worth that no content exceeds, and the shares of resources which show that."""
        worths = np.array(worth)
        least, which = np.full(len(self.sizes), np.inf), np.zeros(len(self.sizes), dtype=np.int64)
        for number, direction in enumerate(self._directions):
            taken = (direction / self.whole) @ self.parts
            bound = np.where(self.takers, worths / np.maximum(taken, 1e-12), 0.0).max(axis=1, initial=0.0)
            better = bound < least
            least[better], which[better] = bound[better], number
        return least, np.array(self._directions)[which]

    def fill(
        self, worth: Sequence[float], costs: Sequence[float], left: Sequence[int], number: int, trials: int
    ) -> list[tuple[int, Contents]]:
        """Return (row, content) for the rows that can be filled with about what they cost.

        ``left`` bounds the replicas of a shape, ``trials`` is how often a part is taken out and filled again, and
        ``number`` says with which part to begin.
        """
        worths, most = np.array(worth), np.array(left, dtype=np.int64)
        bounds, shares = self.bounds(worth)
        (rows,) = (bounds > np.array(costs) * _NEAR).nonzero()
        nodes = _Nodes(self, rows, worths, most, shares[rows])
        nodes.fill()
        near = nodes.value() > np.array(costs)[rows] * _NEAR
        rows = rows[near]
        nodes = _Nodes(self, rows, worths, most, shares[rows], nodes.content[near])
        found = [(int(row), _content(held)) for row, held in zip(rows, nodes.content, strict=True)]
        for trial in range(number, number + trials):
            other = nodes.copy()
            other.take_out(trial)
            other.fill()
            found.extend((int(rows[at]), _content(other.content[at])) for at in nodes.accept(other))
        return found

    def share(self, row: int, content: Contents) -> float:
        """Return the part of a node that a content uses of the resource it uses most."""
        load = sum(self.requests[index] * count for index, count in content)
        return float((load / self.whole[row])[self.sizes[row] > 0].max())


class _Nodes:
    """Some rows, being filled."""

    def __init__(
        self,
        knapsacks: Knapsacks,
        rows: Array,
        worth: Array,
        most: Array,
        shares: Array,
        content: Array | None = None,
    ) -> None:
        self._of = (knapsacks, rows, worth, most, shares)
        # A resource that nobody is short of still counts a little, lest it run out unseen.
        self._weights = np.maximum(shares, _LEAST_SHARE)
        self._requests, self._parts = knapsacks.requests, knapsacks.parts
        self._whole = knapsacks.whole[rows]
        self._takers = knapsacks.takers[rows] & (worth > 0) & (most > 0)
        self._worth, self._most = worth, most
        self.content = np.zeros((len(rows), len(worth)), dtype=np.int64) if content is None else content
        self._room = knapsacks.sizes[rows] - self.content @ self._requests

    def copy(self) -> "_Nodes":
        """Return the same nodes, to go on apart."""
        return _Nodes(*self._of, self.content.copy())

    def value(self) -> Array:
        """Return what each node's content is worth."""
        return self.content @ self._worth

    def accept(self, other: "_Nodes") -> Array:
        """Take over what is better in the other; return where."""
        better = other.value() > self.value()
        self.content[better] = other.content[better]
        return better.nonzero()[0]

    def fill(self) -> None:
        """Fill up what is free."""
        content, room = self.content, self._room
        active = np.arange(len(content))
        while len(active):
            free = room[active]
            fits = self._takers[active] & (content[active] < self._most)
            for resource in range(free.shape[1]):
                fits &= self._requests[:, resource] <= free[:, resource, None]
            scarcity = np.maximum(free, 1) / self._whole[active]
            taken = (self._weights[active] / (scarcity * self._whole[active])) @ self._parts
            score = np.where(fits, self._worth / np.maximum(taken, 1e-12), -1.0)
            chosen = score.argmax(axis=1)
            going = score[np.arange(len(active)), chosen] > 0
            active, chosen, free = active[going], chosen[going], free[going]
            asked = self._requests[chosen]
            copies = np.where(asked > 0, free // np.maximum(asked, 1), self._most[chosen, None]).min(axis=1)
            copies = np.minimum(copies, self._most[chosen] - content[active, chosen])
            # About a quarter at a time, so that the balance is looked at again.
            copies = np.where(copies < 4, copies, copies // 4)
            content[active, chosen] += copies
            room[active] -= asked * copies[:, None]

    def take_out(self, number: int) -> None:
        """Take one kind of replica out, half of it or all of it; which one goes round with ``number``."""
        held = self.content > 0
        kinds = held.sum(axis=1)
        wanted = np.where(kinds > 0, number // 2 % np.maximum(kinds, 1), 0) + 1
        chosen = (held.cumsum(axis=1) == wanted[:, None]).argmax(axis=1)
        rows = np.arange(len(self.content))
        copies = self.content[rows, chosen]
        copies = -(-copies // 2) if number % 2 else copies
        self.content[rows, chosen] -= copies
        self._room += self._requests[chosen] * copies[:, None]


def _content(row: Array) -> Contents:
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
