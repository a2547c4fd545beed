"""Buying nodes for what neither room nor reserved units held: by worth for money, then each as small as may be."""

from bisect import bisect_left
from heapq import heapify, heappop, heappush
from operator import gt

from shared.core.solver.packing.item_types import Candidates
from shared.core.solver.packing.knapsack import Contents
from shared.core.solver.packing.one_per_node import open_anchored
from shared.core.solver.packing.packing import Packing

_NEAR_ENOUGH = 0.001


def buy_rest(packing: Packing, candidates: Candidates) -> None:
    """Fill what is being bought already, then buy nodes for everything that is left."""
    packing.fill_bought()
    if packing.active:
        open_anchored(packing, candidates)
        _buy(packing, candidates)
    _fit_sizes(packing, candidates)


def _buy(packing: Packing, candidates: Candidates) -> None:
    """Buy nodes by worth for money until nothing is left that anything could hold."""
    filler = packing.filler
    # Large nodes and inexact host rules do not go together: those carriers were anchors, the rest is left over.
    among = ~sum(1 << item.index for item in packing.shapes if item.host is not None and not item.host.is_exact)
    heap: list[tuple[float, int]] = []
    contents: list[Contents] = [()] * len(candidates.paid)
    for position, candidate in enumerate(candidates.paid):
        bound = filler.bound(candidate.option.allocatable, candidate.mask & among)
        if bound > 0:
            heap.append((-bound / candidate.price, position))
    heapify(heap)
    while heap and not packing.expired():
        score, position = heappop(heap)
        candidate = candidates.paid[position]
        units = packing.supply.nodes_left(candidate.option)
        if units == 0:
            continue
        content = contents[position]
        if not content or packing.repeats(content) == 0:
            worth, content = filler.fill(candidate.option.allocatable, candidate.mask & among)
            contents[position] = content
            if worth <= 0.0:
                continue
            score = -worth / candidate.price
            # A bound is rarely reached, so what comes this near to the best bound is taken at once.
            if heap and score > heap[0][0] * (1 - _NEAR_ENOUGH):
                heappush(heap, (score, position))
                continue
        packing.apply(candidate, content, min(units, packing.repeats(content)))
        heappush(heap, (score, position))


def _fit_sizes(packing: Packing, candidates: Candidates) -> None:
    """Move each bought pattern to the cheapest candidate that holds it."""
    supply = packing.supply
    prices = [item.price for item in candidates.unthinned]
    # The cheap questions first: most that cost less are too small.
    sizes = [(item.option.allocatable, item.mask, item) for item in candidates.unthinned]
    for pattern in packing.patterns:
        candidate = pattern.candidate
        if candidate is None or candidate.option.reservation is not None:
            continue
        size = candidate.option.allocatable
        load = [whole - free for whole, free in zip(size, pattern.room, strict=True)]
        content = sum(1 << index for index in pattern.content)
        cpu, memory = load[:2]
        for room, mask, other in sizes[: bisect_left(prices, candidate.price)]:
            if room[0] < cpu or room[1] < memory or content & ~mask or any(map(gt, load, room)):
                continue
            supply.take(candidate.option, -pattern.count)
            if supply.nodes_left(other.option) < pattern.count:
                supply.take(candidate.option, pattern.count)
                continue
            supply.take(other.option, pattern.count)
            pattern.candidate = other
            pattern.room = [whole - used for whole, used in zip(other.option.allocatable, load, strict=True)]
            break
