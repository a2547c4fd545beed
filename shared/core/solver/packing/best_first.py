"""Bin types best first: the pattern that is worth most, as somebody measures it, is used as often as may be."""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush

from shared.core.solver.packing.item_types import BinType
from shared.core.solver.packing.knapsack import Pattern
from shared.core.solver.packing.packing import Packing


# Branches: one queue; each condition drops what is on top, puts it back or uses it.
def use_best_first(
    packing: Packing,
    bin_types: Sequence[BinType],
    bounds: Sequence[float],
    measure: Callable[[BinType], float],
    fill: Callable[[BinType], tuple[float, Pattern]],
    *,
    expired: Callable[[], bool] = lambda: False,
) -> None:
    """Use patterns, the most value for what ``measure`` says of the bin type first; equals in the given order.

    ``bounds``: what no pattern of each bin type exceeds by that measure, so that most are never filled.
    ``expired``: when to stop. Units that are paid for anyhow are given out even by a planner that is out of time.
    """
    patterns: list[Pattern] = [()] * len(bin_types)
    heap = [(-bound, position) for position, bound in enumerate(bounds) if bound > 0]
    heapify(heap)
    while heap and not expired():
        score, position = heappop(heap)
        bin_type = bin_types[position]
        units = packing.residual.nodes_left(bin_type.option)
        if units == 0:
            continue
        pattern = patterns[position]
        if not pattern or packing.repeats(pattern) == 0:
            value, pattern = fill(bin_type)
            patterns[position] = pattern
            if value <= 0.0:
                continue
            score = -round(value / measure(bin_type), 9)
            if heap and (score, position) > heap[0]:
                heappush(heap, (score, position))
                continue
        packing.apply(bin_type, pattern, min(units, packing.repeats(pattern)))
        heappush(heap, (score, position))
