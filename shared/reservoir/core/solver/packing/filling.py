"""Fills nodes with patterns, one after the other.

Nodes that exist are filled in their order, each from the replicas left. Of bin types to be launched, the one whose
pattern has the most value for a measure (such as its price) is used first.
"""

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from operator import lt

from reservoir.core.solver.packing.item_types import BinType
from reservoir.core.solver.packing.knapsack import Pattern
from reservoir.core.solver.packing.packing import Packing
from reservoir.core.solver.solution.bins import Bin


# Branches: one loop over bins; each is too small, is filled, or ends the loop.
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
    """Put replicas into the room beside patterns on reserved and existing nodes, where they cost nothing more."""
    for position, use in enumerate(list(packing.uses)):
        has_rule = any(packing.item_types[index].host is not None for index in use.pattern)
        if use.is_bought or has_rule or not use.eligible & packing.active:
            continue
        _, pattern = packing.knapsack.fill(
            packing.room_beside(use.pattern, use.size), use.eligible
        )
        if pattern:
            packing.extend(position, pattern)


# Branches: one loop over bin types; each is used up, put back with its new score, or used.
def use_best_first(
    packing: Packing,
    items: int,
    bin_types: Sequence[BinType],
    bound: Callable[[BinType], float],
    measure: Callable[[BinType], float],
    fill: Callable[[BinType], tuple[float, Pattern]],
) -> None:
    """Launch nodes until none of the ``items`` (a mask) is left, the bin type of the best score first.

    The score is the value of the bin type's pattern divided by its ``measure``; equals come in the given order.
    ``bound`` is an upper bound of the score now, so that most bin types need not be filled. ``fill`` finds the pattern.
    """
    if packing.expired():
        return  # computing the first bounds takes long if there are many different replicas
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
            # Fewer replicas are left than when this score was computed, so its bound may have fallen. If another bin
            # type may now be better, that one is looked at first.
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
            # The pattern's own score is no better than the bound. It is used only once it is the best of all.
            score = -round(value / measure(bin_type), 9)
            if heap and (score, position) > heap[0]:
                heappush(heap, (score, position))
                continue
        packing.repeat(bin_type, pattern)
        heappush(heap, (score, position))
