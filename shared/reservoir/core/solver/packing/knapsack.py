"""Which replicas together are worth most on one node.

The node is filled greedily, item by item. Each item has a *value* in USD an hour (``item_values``). The next item is
the one with the most value for the resources that it takes, where each resource is weighed by how scarce it is on the
node at that moment. That keeps CPU and memory in balance, which no fixed order of items could. Items are sorted
beforehand for a few exchange rates of memory for CPU (``_Ranking``), so a step looks up a table, however many items
there are.
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

# Memory is counted in units of 4 MiB. The middle of EC2's families has one unit for each millicore (4 GiB a vCPU), so
# exchange rates lie around 1.
MEMORY_UNIT = 4 * 2**20
# The exchange rates of memory for CPU: how many millicores a memory unit counts for.
_RATES = tuple(2.0**step for step in range(-4, 5))
# A node is nearly full if less than 1/40 of its CPU and of its memory is left.
_NEARLY_FULL = 40
_URGENT = 2.0  # how many times its value an item with a host rule counts
_NO_RULE = -1  # the rule number of items without a host rule

# Item indices in ascending order, each with the number of its replicas on one node.
Pattern = tuple[tuple[int, int], ...]


class _Ranking:
    """Items in one order of preference, and masks in which bit r stands for the item of rank r.

    ``by_cpu`` has the requested amounts of CPU in ascending order and, for each number of the smallest amounts, the
    mask of the items that request one of them; ``by_memory`` has the same of memory. Where there are many different
    amounts, neighbours share a mask, which then has a few items too many.
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
        # For each rank, the last first: the position of its item among the binary digits of a mask over items.
        positions = [self._item_type_count - 1 - index for index in reversed(order)]
        self._digits = itemgetter(*positions) if positions else None
        self._known: dict[int, int] = {}
        self.by_cpu = prefix_masks([cpu[index] for index in order], STEPS_MAX)
        self.by_memory = prefix_masks([memory[index] for index in order], STEPS_MAX)
        self._live = -1

    def among(self, active: int) -> "_Ranking":
        """Return a copy for a packing in which only the items of this mask have replicas left."""
        other = copy(self)
        other._live = self._ranked(active)
        return other

    def _ranked(self, mask: int) -> int:
        """Translate a mask over item indices into one over ranks."""
        ranked = 0
        if self._digits is not None:
            of_items = f"{mask:0{self._item_type_count}b}"
            ranked = int("".join(self._digits(of_items)), 2)
        self._known[mask] = ranked
        return ranked

    def alive(self, mask: int) -> int:
        """Return, as a mask over ranks, the items of a mask over item indices that have replicas left."""
        known = self._known.get(mask)
        return (self._ranked(mask) if known is None else known) & self._live

    def drop(self, index: int) -> None:
        """Remove an item of which no replica is left."""
        rank = self._rank.get(index)
        if rank is not None:
            self._live &= ~(1 << rank)


class _ScoreWeights(NamedTuple):
    """How much an item's balance and size count in its score, beside its value for what it takes (found by trial).

    ``own_balance`` lowers the score of items that use one resource much more than the other, ``own_size`` raises the
    score of large items. ``exponents`` of the ratio of scarcity are tried one after the other until a node is nearly
    full.
    """

    own_balance: float
    own_size: float
    exponents: tuple[float, ...]


_MANY = _ScoreWeights(0.5, 0.1, (1.0,))  # for nodes that hold many replicas
# For nodes that are opened for one replica and hold few: the size of an item counts much, and of two fillings with
# widely different exponents the better is kept.
_FEW = _ScoreWeights(0.3, 0.7, (0.2, 5.0))
_DENSITY = _ScoreWeights(0.0, 0.0, ())  # value for what is taken alone, for bounds


def _edges(exponent: float) -> list[float]:
    """Return the ratios of free CPU to free memory at which filling passes from one rate to the next."""
    return [(low * high) ** (0.5 / exponent) for low, high in pairwise(_RATES)]


_EDGES = {exponent: _edges(exponent) for exponent in (*_MANY.exponents, *_FEW.exponents)}


def _score(
    knapsack: "GreedyKnapsack", rate: float, weights: _ScoreWeights
) -> Callable[[int], tuple[float, int]]:
    """Return the sort key of items at a rate: those with the most urgency for the resources that they take come first.

    Items that are balanced and large come before others of nearly the same score, as they fit only while there is room.
    """
    urgency, cpu, memory = knapsack.urgency, knapsack.cpu, knapsack.memory_units
    own_balance, own_size = weights.own_balance, weights.own_size

    def key(index: int) -> tuple[float, int]:
        first, second = cpu[index], rate * memory[index]
        taken = first + second
        balance = 1.0 - own_balance * abs(first - second) / taken
        return (-urgency[index] / taken * balance * taken**own_size, index)

    return key


class GreedyKnapsack:
    """Fills nodes from the replicas that are left of each item.

    Other modules read ``left``, the number of replicas left by item; only :meth:`take` changes it.
    """

    # Branches: one loop that sets the masks, then one line for each table.
    def __init__(self, item_types: Sequence[ItemType], values: Sequence[float]) -> None:
        self.item_types = item_types
        self.left: list[int] = [item_type.count for item_type in item_types]
        self.active = 0
        self.plain = 0  # the mask of items that request no accelerators
        # The mask of items by the number of their host rule.
        self._carriers = defaultdict[int, int](int)
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
        # A replica without requests takes a pod and nothing else; a tiny amount of each resource keeps scores finite.
        self.cpu = [max(1, request[0]) for request in self.requests]
        self.memory = [max(1, request[1]) for request in self.requests]
        self.pods = [max(1, request[2]) for request in self.requests]
        self._least = min(self.cpu, default=1), min(self.memory, default=1)
        self.memory_units = [memory / MEMORY_UNIT for memory in self.memory]
        self.hosts = [
            _NO_RULE if item_type.host is None else item_type.host.number
            for item_type in item_types
        ]
        # The accelerators that each item requests, as a share of the largest request of any item; 1 for no request.
        largest = [max(amounts) for amounts in list(zip(*self.requests, strict=True))[3:]]
        self._special_share = [
            largest_share(request[3:], largest) or 1.0 for request in self.requests
        ]
        # The orders of all items by values, weights and rate; all forks share them.
        self._orders: dict[object, _Ranking] = {}
        self.reprice(values)

    def reprice(self, values: Sequence[float]) -> None:
        """Replace the values of items, by which nodes are filled from now on."""
        self.values = tuple(values)
        # Replicas with host rules need many nodes. They are chosen early, while each node still has room for one.
        self.urgency = [
            value * (_URGENT if item_type.host is not None else 1.0)
            for value, item_type in zip(values, self.item_types, strict=True)
        ]
        self._rankings: dict[_ScoreWeights, list[_Ranking | None]] = {
            weights: [None] * len(_RATES) for weights in (_MANY, _FEW, _DENSITY)
        }
        # Prices of CPU and memory by mask of items, then by rate.
        self._prices: dict[int, list[tuple[float, float]]] = {}

    def fork(self) -> "GreedyKnapsack":
        """Return a copy; replicas taken from one are not taken from the other."""
        other = copy(self)
        other.left, other._host_caps = list(self.left), dict(self._places)
        other.reprice(self.values)
        return other

    def cap_carriers(self, rules: Iterable[HostRule], places: int) -> None:
        """Allow ``places`` carriers of each of these host rules on a node from now on."""
        self._host_caps.update({rule.number: places for rule in rules})

    def take(self, index: int, count: int) -> None:
        """Remove replicas of an item from those that are left."""
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
        """Return an upper bound of the value of a pattern of these items on a node of this size."""
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
        """Return prices of a millicore and a memory unit at which no item costs less than its value.

        They are what the item with the most urgency for its resources pays at this rate. The urgency is never below the
        value, so the bound is never too low.
        """
        if not mask & self.plain & self.active:
            return 0.0, 0.0
        ranking = self._ranking(_DENSITY, rate)
        alive = ranking.alive(mask)
        index = ranking.order[(alive & -alive).bit_length() - 1]
        price = self.urgency[index] / (
            self.cpu[index] + _RATES[rate] * self.memory_units[index]
        )
        return price, price * _RATES[rate]

    # Branches: the steps before and after the search for plain items, which _fill_plain does.
    def fill(
        self, size: Sequence[int], mask: int, base: Pattern = ()
    ) -> tuple[float, Pattern]:
        """Return the value of the best pattern found for a node of this size, and the pattern; it contains ``base``."""
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
        """Add items that request accelerators to ``pattern``, the most value for the share of accelerators first.

        The CPU and memory of such a node are worth little beside its accelerators, so they do not count here.
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

    # Branches: packing spends most of its time here; functions for parts would be called for each item of each node.
    def _fill_plain(
        self,
        mask: int,
        weights: _ScoreWeights,
        edges: Sequence[float],
        room: Sequence[int],
        caps: dict[int, int],
        pattern: dict[int, int],
    ) -> tuple[int, int]:
        """Add plain items of the mask to ``pattern`` as far as room and ``caps`` allow; return the CPU and memory left.

        The caller has removed items from the mask whose host rule has no place left on the node.
        """
        left, hosts, rankings = self.left, self.hosts, self._rankings[weights]
        cpu, memory, pods = self.cpu, self.memory, self.pods
        least_cpu, least_memory = self._least
        waiting_at: dict[int, int] = {}
        free_cpu, free_memory, free_pods = room[:3]
        while free_cpu >= least_cpu and free_memory >= least_memory and free_pods > 0:
            # The exchange rate of memory for CPU follows from the ratio in which they are left on the node.
            rate = bisect_right(edges, free_cpu * MEMORY_UNIT / free_memory)
            ranking = rankings[rate] or self._ranking(weights, rate)
            waiting = waiting_at[rate] if rate in waiting_at else ranking.alive(mask)
            amounts, masks = ranking.by_cpu
            waiting &= masks[bisect_right(amounts, free_cpu)]
            amounts, masks = ranking.by_memory
            waiting &= masks[bisect_right(amounts, free_memory)]
            # Packing spends most of its time in this loop. An item that does not fit now never will: room only shrinks.
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
            # Add half of the replicas at a time, so that the exchange rate is looked up again in between.
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
