"""Filling nodes, one pattern after the other: the room that there is, and new nodes of many bin types best first."""

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from operator import lt

from reservoir.core.solver.packing.item_types import BinType
from reservoir.core.solver.packing.knapsack import Pattern
from reservoir.core.solver.packing.packing import Packing
from reservoir.core.solver.solution.bins import Bin


# Branches: one loop over nodes, which are too small, are filled or end it.
def fill_existing(packing: Packing, bins: Iterable[tuple[Bin, int]]) -> None:
    """Fill each bin once, in the given order; ``bins`` come with the items that they accept."""
    waiting = [
        item.request for item in packing.item_types if packing.active >> item.index & 1
    ]
    least = [min(amounts) for amounts in zip(*waiting, strict=True)]
    for bin_, eligible in bins:
        if packing.expired():
            return
        if any(map(lt, bin_.free, least)):
            continue
        nodes = bin_.count
        while nodes and eligible & packing.active:
            _, pattern = packing.knapsack.fill(bin_.free, eligible)
            if not pattern:
                break
            nodes -= packing.repeat_on(bin_, eligible, pattern, nodes)
        if not packing.active:
            return


def top_up(packing: Packing) -> None:
    """Put replicas into the room that is left on nodes which cost nothing more: reserved and existing ones."""
    for position, use in enumerate(list(packing.uses)):
        has_rule = any(packing.item_types[index].host is not None for index in use.pattern)
        if use.is_bought or has_rule or not use.eligible & packing.active:
            continue
        _, pattern = packing.knapsack.fill(
            packing.room_beside(use.pattern, use.size), use.eligible
        )
        if pattern:
            packing.extend(position, pattern)


# Branches: one loop over bin types, which are done with or have to wait.
def use_best_first(
    packing: Packing,
    items: int,
    bin_types: Sequence[BinType],
    bound: Callable[[BinType], float],
    measure: Callable[[BinType], float],
    fill: Callable[[BinType], tuple[float, Pattern]],
) -> None:
    """Use patterns, the most value for what ``measure`` says of the bin type first; equals in the given order.

    Until none of the ``items`` (a mask) is left. ``bound``: what no pattern of a bin type exceeds by that measure now,
    so that most are never filled.
    """
    if packing.expired():
        return  # the first bounds of many different replicas take long
    patterns: list[Pattern] = [()] * len(bin_types)
    heap = [(-bound(bin_type), position) for position, bin_type in enumerate(bin_types)]
    heapify(heap)
    while heap and packing.active & items and not packing.expired():
        score, position = heappop(heap)
        bin_type = bin_types[position]
        if packing.residual.nodes_left(bin_type.option) == 0:
            continue
        pattern = patterns[position]
        if not pattern or packing.repeats(pattern) == 0:
            if (
                (at_best := -bound(bin_type)) > score
                and heap
                and (at_best, position) > heap[0]
            ):
                heappush(heap, (at_best, position))
                continue
            value, pattern = fill(bin_type)
            patterns[position] = pattern
            if value <= 0.0:
                continue
            packing.filled.append((bin_type, pattern))
            score = -round(value / measure(bin_type), 9)
            if heap and (score, position) > heap[0]:
                heappush(heap, (score, position))
                continue
        packing.repeat(bin_type, pattern)
        heappush(heap, (score, position))
