"""Which items get the free reserved units, and which units are used first.

If there are enough units for all items that could use them, units are used in the order of reservations, which leaves
the others free for later work. If units are short, they go to the patterns of most value for the slot. Items that few
reservations accept are then preferred to items of equal value that have more choice. Column generation may improve the
result.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from math import inf
from operator import attrgetter

from reservoir.core.solver.packing.filling import use_best_first
from reservoir.core.solver.packing.item_types import BinType, BinTypes
from reservoir.core.solver.packing.knapsack import Pattern
from reservoir.core.solver.packing.one_per_node import reserve_one_per_node
from reservoir.core.solver.packing.packing import Packing
from reservoir.core.solver.problem.option_order import OrderKey, is_tiny, reserved_key
from reservoir.core.solver.problem.vectors import iter_bits

# The exponent by which items with little choice are preferred if units are short (catalogue-10000, seeds 700 to 723).
_PRICE_BIAS = 0.4


def use_reserved(packing: Packing, bin_types: BinTypes) -> Packing:
    """Return a copy of the packing in which replicas fill reserved units."""
    reserved = sorted(bin_types.reserved, key=partial(_order, packing))
    packing = packing.fork()
    reserve_one_per_node(packing, reserved, bin_types)
    in_order = packing.fork()
    _use_in_order(in_order, reserved)
    if not in_order.active & bin_types.reserved_for or packing.expired():
        return in_order
    # Units are short: they go to the patterns of most value for the slot's on-demand price, equals in order.
    biased, values = packing.fork(), packing.knapsack.values
    biased.knapsack.reprice(_preferring(values, bin_types))
    fill = partial(_filled, biased)
    use_best_first(
        biased,
        bin_types.reserved_for,
        reserved,
        lambda _: inf,
        attrgetter("slot_price"),
        fill,
    )
    biased.knapsack.reprice(values)
    return biased


def _order(packing: Packing, bin_type: BinType) -> OrderKey:
    option = bin_type.option
    assert option.reservation is not None
    units = packing.residual.units[option.unit_key]
    return reserved_key(option, bin_type.eligible.bit_count(), units, tiny=False)


def _preferring(values: Sequence[float], bin_types: BinTypes) -> list[float]:
    """Return the values, raised for items that can use little reserved capacity (weighed by its on-demand price)."""
    access = [0.0] * len(values)
    # Capacity by the mask of items that can use it: there are many reservations, but few different masks.
    reach_of = defaultdict[int, float](float)
    for bin_type in bin_types.reserved:
        option = bin_type.option
        assert option.reservation is not None
        holding = bin_type.eligible & bin_types.eligibility.fitting(option.allocatable)
        reach_of[holding] += option.reservation.free_units * bin_type.slot_price
    for holding, reach in reach_of.items():
        for index in iter_bits(holding):
            access[index] += reach
    most = max(access)
    pairs = zip(values, access, strict=True)
    return [
        value * (most / reach) ** _PRICE_BIAS if reach else value for value, reach in pairs
    ]


def _use_in_order(packing: Packing, reserved: Sequence[BinType]) -> None:
    """Use units in the order of the list, each for the pattern of most value on it.

    Patterns that are tiny for their slot wait until the end; they then take the smallest slot that accepts them.
    """
    smallest_first = sorted(reserved, key=lambda item: item.option.on_demand_micro_usd)
    for bin_types, takes_tiny in ((reserved, False), (smallest_first, True)):
        for bin_type in bin_types:
            while packing.residual.nodes_left(bin_type.option) and not packing.expired():
                value, pattern = _filled(packing, bin_type)
                if value <= 0.0 or (
                    is_tiny(packing.share(bin_type, pattern)) and not takes_tiny
                ):
                    break
                packing.repeat(bin_type, pattern)


def _filled(packing: Packing, bin_type: BinType) -> tuple[float, Pattern]:
    """Return the value and pattern that fill a reserved slot.

    If the policy's floor denies the best pattern the slot, only items that cannot be bought elsewhere fill it.
    """
    if not bin_type.eligible & packing.active:
        return 0.0, ()
    value, pattern = packing.knapsack.fill(bin_type.option.allocatable, bin_type.eligible)
    if packing.is_kept_off(bin_type, pattern):
        return packing.knapsack.fill(
            bin_type.option.allocatable, bin_type.eligible & ~packing.floor.buyable
        )
    return value, pattern
