"""Filling one node: which replicas together are worth most to it.

Every item has a *value* (USD an hour: its part of what capacity would cost, see ``item_values``). A node is filled item
by item; the next item is the one with the most value for what it takes, where a resource counts by its scarcity on the
node at that moment. That keeps CPU and memory in balance, which no fixed order of items can. Orders are presorted for a
few exchange rates of memory for CPU (``_Ranking``), so a step is a table look-up however many items there are.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from itertools import chain, pairwise
from operator import itemgetter
from typing import NamedTuple

from reservoir.core.solver.packing.item_types import HostRule, ItemType
from reservoir.core.solver.problem.vectors import (
    STEPS_MAX,
    UNLIMITED,
    Vector,
    copies_that_fit,
    iter_bits,
    largest_share,
    prefix_masks,
)

# Memory is weighed in units of 4 MiB a millicore (4 GiB a vCPU), the middle of EC2's families: rates lie around 1.
MEMORY_UNIT = 4 * 2**20
_RATES = tuple(2.0**step for step in range(-4, 5))
_NEARLY_FULL = 40  # less than 1/40 of both CPU and memory is left
_URGENT = 2.0
_NO_RULE = -1  # stands for the rule about hosts of items without one

Pattern = tuple[tuple[int, int], ...]


class _Ranking:
    """Some items in one order. Bit r of its masks stands for the item of rank r.

    ``by_cpu`` has the amounts asked for in ascending order, and who asks for the first so many; so has ``by_memory``.
    Where amounts are many, these are a few too many.
    """

    __slots__ = (
        "_digits",
        "_item_type_count",
        "_known",
        "_live",
        "_rank",
        "by_cpu",
        "by_memory",
        "order",
    )

    def __init__(
        self, order: Sequence[int], cpu: Sequence[int], memory: Sequence[int]
    ) -> None:
        self.order = order
        self._item_type_count = len(cpu)
        self._rank = {index: rank for rank, index in enumerate(order)}
        # Which digit of a mask over items, written in binary, belongs to each rank, the last rank first.
        positions = [self._item_type_count - 1 - index for index in reversed(order)]
        self._digits = itemgetter(*positions) if positions else None
        self._known: dict[int, int] = {}
        self.by_cpu = prefix_masks([cpu[index] for index in order], STEPS_MAX)
        self.by_memory = prefix_masks([memory[index] for index in order], STEPS_MAX)
        self._live = -1

    def among(self, active: int) -> "_Ranking":
        """Return the same order for a packing that has these items left."""
        other = copy(self)
        other._live = self._ranked(active)
        return other

    def _ranked(self, mask: int) -> int:
        """Return a mask over items in this order."""
        ranked = 0
        if self._digits is not None:
            of_items = f"{mask:0{self._item_type_count}b}"
            ranked = int("".join(self._digits(of_items)), 2)
        self._known[mask] = ranked
        return ranked

    def alive(self, mask: int) -> int:
        """Return who of a mask over items is left, in this order."""
        known = self._known.get(mask)
        return (self._ranked(mask) if known is None else known) & self._live

    def drop(self, index: int) -> None:
        """Do without an item of which nothing is left."""
        rank = self._rank.get(index)
        if rank is not None:
            self._live &= ~(1 << rank)


class _ScoreWeights(NamedTuple):
    """What counts beside an item's value for what it takes, and how hard scarcity does (all by trial).

    ``exponents`` of the scarcity ratio are tried, one after the other, until a node is nearly full.
    """

    own_balance: float
    own_size: float
    exponents: tuple[float, ...]


# For nodes that hold many replicas, and for those that are opened for one and hold few: there size counts much, and
# two ways that differ widely find more than one.
_MANY = _ScoreWeights(0.5, 0.1, (1.0,))
_FEW = _ScoreWeights(0.3, 0.7, (0.2, 5.0))
_DENSITY = _ScoreWeights(0.0, 0.0, ())  # for bounds


def _edges(exponent: float) -> list[float]:
    """Return how scarce memory is beside CPU where one of the rates gives way to the next."""
    return [(low * high) ** (0.5 / exponent) for low, high in pairwise(_RATES)]


_EDGES = {exponent: _edges(exponent) for exponent in (*_MANY.exponents, *_FEW.exponents)}


def _score(
    knapsack: "GreedyKnapsack", rate: float, weights: _ScoreWeights
) -> Callable[[int], tuple[float, int]]:
    """Sort by worth for what is taken; among near equals, what is balanced and large goes in while there is room."""
    urgency, cpu, memory = knapsack.urgency, knapsack.cpu, knapsack.memory_units
    own_balance, own_size = weights.own_balance, weights.own_size

    def key(index: int) -> tuple[float, int]:
        first, second = cpu[index], rate * memory[index]
        taken = first + second
        balance = 1.0 - own_balance * abs(first - second) / taken
        return (-urgency[index] / taken * balance * taken**own_size, index)

    return key


class GreedyKnapsack:
    """Fills nodes from what is left of each item. ``left`` is for everybody to read; only :meth:`take` changes it."""

    # Branches: one loop for what is kept as masks, then a table a line.
    def __init__(self, item_types: Sequence[ItemType], values: Sequence[float]) -> None:
        self.item_types = item_types
        self.left: list[int] = [item_type.count for item_type in item_types]
        self.active = 0
        self.plain = 0  # those that ask for no accelerators
        self._carriers = defaultdict[int, int](int)  # of rules about hosts
        self._places = {_NO_RULE: UNLIMITED}
        for item_type in item_types:
            bit = 1 << item_type.index
            if item_type.count:
                self.active |= bit
            if not any(item_type.request[3:]):
                self.plain |= bit
            rule = item_type.host
            self._carriers[_NO_RULE if rule is None else rule.number] |= bit
            if rule is not None:
                self._places[rule.number] = rule.cap
        self._host_caps = dict(self._places)
        self.requests = [item_type.request for item_type in item_types]
        # A replica without requests still takes a pod; a tiny amount keeps densities finite.
        self.cpu = [max(1, request[0]) for request in self.requests]
        self.memory = [max(1, request[1]) for request in self.requests]
        self.pods = [max(1, request[2]) for request in self.requests]
        self._least = min(self.cpu, default=1), min(self.memory, default=1)
        self.memory_units = [memory / MEMORY_UNIT for memory in self.memory]
        self.hosts = [
            _NO_RULE if item_type.host is None else item_type.host.number
            for item_type in item_types
        ]
        # How much of accelerators each asks for, as a part of what the largest asks for; 1 for none.
        largest = [max(amounts) for amounts in list(zip(*self.requests, strict=True))[3:]]
        self._special_share = [
            largest_share(request[3:], largest) or 1.0 for request in self.requests
        ]
        # of all items, by values, weights and rate: for all forks
        self._orders: dict[object, _Ranking] = {}
        self.reprice(values)

    def reprice(self, values: Sequence[float]) -> None:
        """Go on with other values."""
        self.values = tuple(values)
        # Replicas with rules about hosts need many nodes: they are chosen early, while every node has room for one.
        self.urgency = [
            value * (_URGENT if item_type.host is not None else 1.0)
            for value, item_type in zip(values, self.item_types, strict=True)
        ]
        self._rankings: dict[_ScoreWeights, list[_Ranking | None]] = {
            weights: [None] * len(_RATES) for weights in (_MANY, _FEW, _DENSITY)
        }
        # by mask of items, then rate
        self._prices: dict[int, list[tuple[float, float]]] = {}

    def fork(self) -> "GreedyKnapsack":
        """Return a copy that goes on by itself."""
        other = copy(self)
        other.left, other._host_caps = list(self.left), dict(self._places)
        other.reprice(self.values)
        return other

    def cap_carriers(self, rules: Iterable[HostRule], places: int) -> None:
        """Let a node have so many carriers of each of these rules about hosts from now on."""
        self._host_caps.update({rule.number: places for rule in rules})

    def take(self, index: int, count: int) -> None:
        """Take replicas of an item from what is left."""
        self.left[index] -= count
        if self.left[index] == 0:
            self.active &= ~(1 << index)
            self._prices.clear()
            for ranking in chain(*self._rankings.values()):
                if ranking is not None:
                    ranking.drop(index)

    def _ranking(self, weights: _ScoreWeights, rate: int) -> _Ranking:
        known = self._rankings[weights][rate]
        if known is None:
            key = self.values, weights, rate
            if key not in self._orders:
                plain = sorted(
                    iter_bits(self.plain), key=_score(self, _RATES[rate], weights)
                )
                self._orders[key] = _Ranking(plain, self.cpu, self.memory)
            known = self._rankings[weights][rate] = self._orders[key].among(self.active)
        return known

    def bound(self, size: Vector, mask: int) -> float:
        """Return a value that no pattern of these items exceeds on a node of this size."""
        if (prices := self._prices.get(mask)) is None:
            prices = self._prices[mask] = [
                self._price(mask, rate) for rate in range(len(_RATES))
            ]
        cpu, memory = size[0], size[1] / MEMORY_UNIT
        total = min([of_cpu * cpu + of_memory * memory for of_cpu, of_memory in prices])
        special = mask & self.active & ~self.plain
        if special:
            for dimension, amount in enumerate(size[3:], 3):
                if not amount:
                    continue
                most_for_one = 0.0
                for index in iter_bits(special):
                    if asked := self.requests[index][dimension]:
                        most_for_one = max(most_for_one, self.values[index] / asked)
                total += amount * most_for_one
        return total

    def _price(self, mask: int, rate: int) -> tuple[float, float]:
        """Return what the item that pays most at a rate pays for CPU and memory, by its urgency: never too little."""
        if not mask & self.plain & self.active:
            return 0.0, 0.0
        ranking = self._ranking(_DENSITY, rate)
        alive = ranking.alive(mask)
        index = ranking.order[(alive & -alive).bit_length() - 1]
        price = self.urgency[index] / (
            self.cpu[index] + _RATES[rate] * self.memory_units[index]
        )
        return price, price * _RATES[rate]

    # Branches: set-up of a node in lines of their own; the search itself is elsewhere.
    def fill(
        self, size: Sequence[int], mask: int, base: Pattern = ()
    ) -> tuple[float, Pattern]:
        """Return the best pattern found for a node with this much room, and its value; ``base`` is on it already."""
        room, caps, pattern = list(size), dict(self._host_caps), dict[int, int]()
        for index, count in base:
            self._put(index, count, room, caps, pattern)
        if any(size[3:]):
            self._put_specials(mask, room, caps, pattern)
        best_value = 0.0
        best: dict[int, int] = {}
        weights, values = _FEW if base else _MANY, self.values
        mask &= self.plain
        for number, cap in caps.items():
            if cap <= 0:
                mask &= ~self._carriers[number]
        for exponent in weights.exponents:
            found = dict(pattern)
            cpu, memory = self._fill_plain(
                mask, weights, _EDGES[exponent], room, dict(caps), found
            )
            total = sum([values[index] * count for index, count in found.items()])
            if total > best_value:
                best_value, best = total, found
            if cpu * _NEARLY_FULL < size[0] and memory * _NEARLY_FULL < size[1]:
                break
        return best_value, tuple(sorted(best.items()))

    def _put_specials(
        self, mask: int, room: list[int], caps: dict[int, int], pattern: dict[int, int]
    ) -> None:
        """Put what asks for accelerators on the node, that first which is worth most for its share of them.

        Whatever else the node has is worth little beside them.
        """
        special = iter_bits(mask & self.active & ~self.plain)
        worth_most = sorted(
            special, key=lambda i: (-self.values[i] / self._special_share[i], i)
        )
        for index in worth_most:
            most = min(self.left[index] - pattern.get(index, 0), caps[self.hosts[index]])
            if (count := min(most, copies_that_fit(self.requests[index], room))) > 0:
                self._put(index, count, room, caps, pattern)

    def _put(
        self,
        index: int,
        count: int,
        room: list[int],
        caps: dict[int, int],
        pattern: dict[int, int],
    ) -> None:
        for dimension, asked in enumerate(self.requests[index]):
            room[dimension] -= asked * count
        pattern[index] = pattern.get(index, 0) + count
        caps[self.hosts[index]] -= count

    # Branches: this is where the time goes, and a call would be made for each item of each node.
    def _fill_plain(
        self,
        mask: int,
        weights: _ScoreWeights,
        edges: Sequence[float],
        room: Sequence[int],
        caps: dict[int, int],
        pattern: dict[int, int],
    ) -> tuple[int, int]:
        """Add plain items of the mask to ``pattern``, as far as ``caps`` let them; return the CPU and memory left.

        No item of the mask carries a rule of which no place is left.
        """
        left, hosts, rankings = self.left, self.hosts, self._rankings[weights]
        cpu, memory, pods = self.cpu, self.memory, self.pods
        least_cpu, least_memory = self._least
        waiting_at: dict[int, int] = {}
        free_cpu, free_memory, free_pods = room[:3]
        while free_cpu >= least_cpu and free_memory >= least_memory and free_pods > 0:
            # Memory's exchange rate is how scarce it is beside CPU on what is left of the node.
            rate = bisect_right(edges, free_cpu * MEMORY_UNIT / free_memory)
            ranking = rankings[rate] or self._ranking(weights, rate)
            waiting = waiting_at[rate] if rate in waiting_at else ranking.alive(mask)
            amounts, masks = ranking.by_cpu
            waiting &= masks[bisect_right(amounts, free_cpu)]
            amounts, masks = ranking.by_memory
            waiting &= masks[bisect_right(amounts, free_memory)]
            # This loop is where the time goes; what is refused once is refused for good, as room only shrinks.
            index, count = 0, 0
            while waiting:
                first = waiting & -waiting
                index = ranking.order[first.bit_length() - 1]
                count = left[index]
                if index in pattern:
                    count -= pattern[index]
                if count * pods[index] > free_pods:
                    count = free_pods // pods[index]
                if count > 0 and cpu[index] <= free_cpu and memory[index] <= free_memory:
                    break
                waiting ^= first
            waiting_at[rate] = waiting
            if not waiting:
                break
            host = hosts[index]
            count = min(
                count, free_cpu // cpu[index], free_memory // memory[index], caps[host]
            )
            # Half of it at a time, so that the balance is looked at again.
            count -= count // 2
            caps[host] -= count
            if caps[host] == 0:
                mask &= ~self._carriers[host]
                for known in waiting_at:
                    waiting_at[known] &= self._ranking(weights, known).alive(mask)
            pattern[index] = pattern.get(index, 0) + count
            free_cpu -= cpu[index] * count
            free_memory -= memory[index] * count
            free_pods -= pods[index] * count
        return free_cpu, free_memory
