"""Buying nodes for what neither room nor reserved units held: by value for money, then each as small as may be."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter, gt

from shared.core.solver.packing.best_first import use_best_first
from shared.core.solver.packing.existing_room import fill_bought
from shared.core.solver.packing.item_types import BinType, BinTypes
from shared.core.solver.packing.knapsack import Pattern
from shared.core.solver.packing.one_per_node import open_one_per_node
from shared.core.solver.packing.packing import Packing


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

    def fill(bin_type: BinType) -> tuple[float, Pattern]:
        return knapsack.fill(bin_type.option.allocatable, bin_type.eligible & among)

    bounds = [knapsack.bound(it.option.allocatable, it.eligible & among) / it.price for it in bin_types.paid]
    use_best_first(packing, bin_types.paid, bounds, attrgetter("price"), fill, expired=packing.expired)


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
