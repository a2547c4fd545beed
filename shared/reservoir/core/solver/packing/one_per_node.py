"""Packs items whose host rules want a node for each replica: the node is opened for one and filled with other items.

The rules fix how many such nodes there are. So of the sizes that hold the replica, the one is chosen that loses the
least: its price minus the value of its pattern.
"""

from collections.abc import Sequence
from math import inf

from reservoir.core.solver.packing.item_types import BinType, BinTypes, ItemType
from reservoir.core.solver.packing.knapsack import Pattern
from reservoir.core.solver.packing.packing import Packing
from reservoir.core.solver.problem.vectors import iter_bits

# Sizes that are tried, for each mask of eligible items, for a node that one replica opens.
_SIZES = 7
# From the fourth size on, each costs at least this many times as much as the one before.
_STEP = 1.25
# A size is chosen over a cheaper one if it loses less by more than this part of the cheapest size's price.
_SMALLER_FIRST = 0.05


# Branches: loops over slots, items and units.
def reserve_one_per_node(
    packing: Packing, reserved: Sequence[BinType], bin_types: BinTypes
) -> None:
    """Use a reserved unit for each one-per-node replica, the dearest to buy first, and fill it with other items.

    This is done only if there are no more units than such replicas. Each of them needs a node of its own anyway, so a
    unit that other items used alone would be one more node.
    """
    singles = [item_type for item_type in packing.item_types if item_type.is_single]
    loose = [item_type for item_type in packing.item_types if item_type.is_loose]
    unit_keys = {bin_type.option.unit_key for bin_type in reserved}
    free = sum(packing.residual.units[unit_key] for unit_key in unit_keys)
    if free > sum(packing.left[item_type.index] for item_type in singles):
        return
    _share_out(packing, loose, free)
    singles.sort(key=lambda item_type: -bin_types.price_alone(item_type))
    for bin_type in reserved:
        size = bin_type.option.allocatable
        holding = bin_type.eligible & bin_types.eligibility.fitting(size)
        for index in (item_type.index for item_type in singles):
            if not holding >> index & 1:
                continue
            while packing.left[index] and packing.residual.nodes_left(bin_type.option):
                _, pattern = packing.knapsack.fill(size, bin_type.eligible, ((index, 1),))
                if packing.is_kept_off(bin_type, pattern):
                    break
                packing.repeat(bin_type, pattern)


# Branches: the order of items, then a loop over each item's replicas until none is left or no size holds one.
def open_one_per_node(packing: Packing, bin_types: BinTypes) -> None:
    """Buy a node for each replica that needs one of its own, and fill each node with other items."""
    singles = [item_type for item_type in packing.item_types if item_type.is_single]
    loose = [item_type for item_type in packing.item_types if item_type.is_loose]
    singles.sort(key=_largest_first)
    loose.sort(key=_largest_first)
    for item_type in (*singles, *loose):
        if not packing.left[item_type.index]:
            continue
        families = _families(item_type, bin_types.holders)
        members = {eligible: list(iter_bits(eligible)) for eligible in families}
        # the last filling of each size, by the number of carriers of inexact rules that may share a node
        filled: dict[int, dict[BinType, tuple[float, Pattern]]] = {}
        while packing.left[item_type.index] and families and not packing.expired():
            single_count = sum([packing.left[single.index] for single in singles])
            share = _share_out(packing, loose, single_count)
            eligible = max(
                families, key=lambda eligible: _company(packing, members[eligible])
            )
            best = _best(
                packing, item_type, families[eligible], filled.setdefault(share, {})
            )
            if best is None:
                del families[eligible]
            else:
                packing.repeat(*best, max(1, -(-packing.left[item_type.index] // 2)))


def _largest_first(item_type: ItemType) -> list[int]:
    return [-amount for amount in item_type.request]


def _share_out(packing: Packing, loose: Sequence[ItemType], nodes: int) -> int:
    """Cap carriers of inexact host rules on a node so that they just fit onto so many nodes; return the cap."""
    carriers = sum(packing.left[item_type.index] for item_type in loose)
    share = max(1, -(-carriers // nodes)) if nodes else 1
    packing.knapsack.cap_carriers(
        [item_type.host for item_type in loose if item_type.host], share
    )
    return share


def _company(packing: Packing, members: Sequence[int]) -> float:
    """Return the total urgency of the replicas left of these items, all of which could share a node."""
    urgency, left = packing.knapsack.urgency, packing.left
    return sum([urgency[index] * left[index] for index in members])


def _best(
    packing: Packing,
    item_type: ItemType,
    sizes: Sequence[BinType],
    filled: dict[BinType, tuple[float, Pattern]],
) -> tuple[BinType, Pattern] | None:
    """Return the size that loses the least with one replica of the item and the best items beside it, and the pattern.

    The node must be opened anyway, so the difference of price and value counts and not their ratio. Fewer replicas are
    left than when a size was ``filled`` last: its value cannot have grown since, and is the same as long as enough
    replicas are left for that pattern.
    """
    best, score = None, -inf
    for bin_type in sizes:
        least = score + _SMALLER_FIRST * sizes[0].price
        value, pattern = filled.get(bin_type, (inf, ()))
        if value - bin_type.price <= least or not packing.residual.nodes_left(
            bin_type.option
        ):
            continue
        if not pattern or not packing.repeats(pattern):
            size, base = bin_type.option.allocatable, ((item_type.index, 1),)
            value, pattern = filled[bin_type] = packing.knapsack.fill(
                size, bin_type.eligible, base
            )
        if value - bin_type.price > least:
            best, score = (bin_type, pattern), value - bin_type.price
    return best


def _families(
    item_type: ItemType, holders: Sequence[tuple[BinType, int]]
) -> dict[int, list[BinType]]:
    """Return a few sizes that hold the item, cheapest first, by the mask of items that may join it.

    A mask has sizes only if its cheapest size costs no more than ``_STEP`` times the cheapest size of all.
    """
    families: dict[int, list[BinType]] = {}
    dearest = inf  # the highest price of a size that may open a family
    complete = 0  # families with as many sizes as are tried
    for item, eligible in holders:
        if item.price > dearest and complete == len(families):
            break
        if not eligible >> item_type.index & 1:
            continue
        sizes = families.get(item.eligible)
        if sizes is None:
            if item.price <= dearest:
                dearest = min(dearest, item.price * _STEP)
                families[item.eligible] = [item]
        elif len(sizes) < 3 or (
            len(sizes) < _SIZES and item.price >= sizes[-1].price * _STEP
        ):
            sizes.append(item)
            complete += len(sizes) == _SIZES
    return families
