"""Items that need a node each (host rules): one node for one replica, topped up with what may share it.

How many such nodes there must be is settled by the rules, so what counts is how small they can be, and how little of
them is lost.
"""

from collections.abc import Sequence
from math import inf

from reservoir.core.solver.packing.item_types import BinType, BinTypes, ItemType
from reservoir.core.solver.packing.knapsack import Pattern
from reservoir.core.solver.packing.packing import Packing
from reservoir.core.solver.problem.vectors import iter_bits

# So many sizes are tried for a node that one replica opens, each dearer by this factor.
_SIZES = 7
_STEP = 1.25
_SMALLER_FIRST = 0.05


# Branches: loops over slots, items and units.
def reserve_one_per_node(
    packing: Packing, reserved: Sequence[BinType], bin_types: BinTypes
) -> None:
    """Give a unit each to the replicas that are dearest elsewhere, and fill it with what may share it.

    Only if units are fewer than such replicas: a unit without one is then one more node.
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


# Branches: who comes in which order, then one loop over them until nothing is left or nothing holds it.
def open_one_per_node(packing: Packing, bin_types: BinTypes) -> None:
    """Buy nodes for replicas that need a node each, every one topped up with what may share it."""
    singles = [item_type for item_type in packing.item_types if item_type.is_single]
    loose = [item_type for item_type in packing.item_types if item_type.is_loose]
    singles.sort(key=_largest_first)
    loose.sort(key=_largest_first)
    for item_type in (*singles, *loose):
        if not packing.left[item_type.index]:
            continue
        families = _families(item_type, bin_types.holders)
        members = {eligible: list(iter_bits(eligible)) for eligible in families}
        # by share of inexact rules
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
    """Let no more carriers of inexact rules share a node than must, if so many nodes are opened; return how many."""
    carriers = sum(packing.left[item_type.index] for item_type in loose)
    share = max(1, -(-carriers // nodes)) if nodes else 1
    packing.knapsack.cap_carriers(
        [item_type.host for item_type in loose if item_type.host], share
    )
    return share


def _company(packing: Packing, members: Sequence[int]) -> float:
    """Return how much could share a node with these items, carriers of host rules counted more."""
    urgency, left = packing.knapsack.urgency, packing.left
    return sum([urgency[index] * left[index] for index in members])


def _best(
    packing: Packing,
    item_type: ItemType,
    sizes: Sequence[BinType],
    filled: dict[BinType, tuple[float, Pattern]],
) -> tuple[BinType, Pattern] | None:
    """Return the size that loses least with one replica of the item and what else it would hold, and that pattern.

    The node must be opened anyway, so its loss counts, not its value for money. There is less to choose from than when
    a size was ``filled`` last, so it is worth no more than then, and as much while demand lasts for the pattern.
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
    """Return a few sizes that hold the item, cheapest first, by who else may join it; only what is about as cheap."""
    families: dict[int, list[BinType]] = {}
    dearest, complete = inf, 0  # the dearest that opens a family
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
