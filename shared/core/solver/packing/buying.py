"""Buying nodes for what neither room nor reserved units held: by value for money, then each as small as may be."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from operator import gt

from shared.core.solver.packing.existing_room import fill_bought
from shared.core.solver.packing.item_types import BinType, BinTypes
from shared.core.solver.packing.knapsack import Pattern
from shared.core.solver.packing.one_per_node import open_one_per_node
from shared.core.solver.packing.packing import Packing

_NEAR_ENOUGH = 0.001


def buy_rest(packing: Packing, bin_types: BinTypes) -> None:
    """Fill what is being bought already, then buy nodes for everything that is left."""
    fill_bought(packing)
    if packing.active:
        open_one_per_node(packing, bin_types)
        _buy(packing, bin_types)
    _fit_sizes(packing, bin_types)


def _buy(packing: Packing, bin_types: BinTypes) -> None:
    """Buy nodes by value for money until nothing is left that anything could hold."""
    knapsack = packing.knapsack
    # Large nodes and inexact host rules do not go together: those carriers went one per node, the rest is left over.
    among = ~sum(1 << item.index for item in packing.item_types if item.host is not None and not item.host.is_exact)
    heap: list[tuple[float, int]] = []
    patterns: list[Pattern] = [()] * len(bin_types.paid)
    for position, bin_type in enumerate(bin_types.paid):
        bound = knapsack.bound(bin_type.option.allocatable, bin_type.eligible & among)
        if bound > 0:
            heap.append((-bound / bin_type.price, position))
    heapify(heap)
    while heap and not packing.expired():
        score, position = heappop(heap)
        bin_type = bin_types.paid[position]
        units = packing.residual.nodes_left(bin_type.option)
        if units == 0:
            continue
        pattern = patterns[position]
        if not pattern or packing.repeats(pattern) == 0:
            value, pattern = knapsack.fill(bin_type.option.allocatable, bin_type.eligible & among)
            patterns[position] = pattern
            if value <= 0.0:
                continue
            score = -value / bin_type.price
            # A bound is rarely reached, so what comes this near to the best bound is taken at once.
            if heap and score > heap[0][0] * (1 - _NEAR_ENOUGH):
                heappush(heap, (score, position))
                continue
        packing.apply(bin_type, pattern, min(units, packing.repeats(pattern)))
        heappush(heap, (score, position))


def _fit_sizes(packing: Packing, bin_types: BinTypes) -> None:
    """Move each bought pattern to the cheapest bin type that holds it."""
    prices = [item.price for item in bin_types.unthinned]
    for use in packing.uses:
        bin_type = use.bin_type
        if bin_type is None or bin_type.option.reservation is not None:
            continue
        cheaper = bin_types.unthinned[: bisect_left(prices, bin_type.price)]
        load = [whole - free for whole, free in zip(bin_type.option.allocatable, use.room, strict=True)]
        for other in _holding(cheaper, load, sum(1 << index for index in use.pattern)):
            if packing.replace(use, bin_type, other):
                use.room = [whole - used for whole, used in zip(other.option.allocatable, load, strict=True)]
                break


def _holding(bin_types: Iterable[BinType], load: Sequence[int], pattern: int) -> Iterator[BinType]:
    """Yield the bin types that have room for a load of these items (a mask)."""
    cpu, memory = load[:2]
    for bin_type in bin_types:
        room = bin_type.option.allocatable
        # The cheap questions first: most are too small.
        if room[0] >= cpu and room[1] >= memory and not pattern & ~bin_type.eligible and not any(map(gt, load, room)):
            yield bin_type
