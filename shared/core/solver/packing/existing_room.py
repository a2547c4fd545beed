"""Filling the room that there is: on existing nodes, on nodes being bought, beside patterns that cost nothing."""

from collections.abc import Iterable
from operator import lt

from shared.core.solver.packing.packing import Packing
from shared.core.solver.solution.bins import Bin


def fill_existing(packing: Packing, bins: Iterable[tuple[Bin, int]]) -> None:
    """Fill each bin once, in the given order; ``bins`` come with the items that they accept."""
    waiting = [item.request for item in packing.item_types if packing.active >> item.index & 1]
    least = [min(amounts) for amounts in zip(*waiting, strict=True)]
    for bin_, eligible in bins:
        if any(map(lt, bin_.free, least)):
            continue
        nodes = bin_.count
        while nodes and eligible & packing.active:
            _, pattern = packing.knapsack.fill(bin_.free, eligible)
            if not pattern:
                break
            count = min(nodes, packing.repeats(pattern))
            packing.apply_on(bin_, eligible, pattern, count)
            nodes -= count
        if not packing.active:
            return


def fill_bought(packing: Packing) -> None:
    """Fill the room on nodes that are being bought already."""
    bins, packing.bought = packing.bought, ()
    fill_existing(packing, bins)


def top_up(packing: Packing) -> None:
    """Put replicas into the room that is left on nodes which cost nothing more: reserved and existing ones."""
    for use in list(packing.uses):
        is_paid = use.bin_type is not None and use.bin_type.option.reservation is None
        has_rule = any(packing.item_types[index].host is not None for index in use.pattern)
        if is_paid or has_rule or not use.eligible & packing.active:
            continue
        _, pattern = packing.knapsack.fill(use.room, use.eligible)
        if pattern:
            packing.extend(use, pattern)
