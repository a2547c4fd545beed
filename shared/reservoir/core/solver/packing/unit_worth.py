"""What a reserved unit is worth to those who come later: units are spent as if they were money.

Nothing is paid for one more unit in use, so the price of a plan does not say which units to leave free. What a unit
would cost on demand does, and one with accelerators under work that asks for none is the last that should be used.
"""

from math import sqrt

from reservoir.core.scheduling_terms.resources import ACCELERATORS
from reservoir.core.solver.packing.item_types import BinType, ItemType
from reservoir.core.solver.packing.knapsack import Pattern
from reservoir.core.solver.packing.packing import Packing

# What a unit with accelerators is worth beside one without at the same price: more than any number of those.
ACCELERATED_FACTOR = 1_000.0


def has_accelerators(bin_type: BinType) -> bool:
    """Whether a node of the bin type has accelerators of any maker."""
    capacity = bin_type.option.instance_type.capacity
    return any(capacity[name] for name in ACCELERATORS)


def is_misused(packing: Packing, bin_type: BinType, pattern: Pattern) -> bool:
    """Whether the pattern leaves all accelerators of a node idle."""
    if not has_accelerators(bin_type):
        return False
    return not any(asks_for_accelerators(packing.item_types[index]) for index, _ in pattern)


def worth_of_unit(bin_type: BinType) -> float:
    """Return what one reserved unit weighs beside others: the root of what it costs on demand, in USD an hour.

    By the price itself, dozens of the smallest units would be taken before a large one; by their number, one that is
    worth a hundred others before eight of those. With the root a unit of four times the price weighs as much as two.
    """
    return sqrt(bin_type.slot_price)


def worth_in_use(packing: Packing, bin_type: BinType, pattern: Pattern) -> float:
    """Return what the unit under the pattern weighs; one whose accelerators idle weighs more."""
    factor = ACCELERATED_FACTOR if is_misused(packing, bin_type, pattern) else 1.0
    return factor * worth_of_unit(bin_type)


def asks_for_accelerators(item_type: ItemType) -> bool:
    """Whether a replica of the item needs accelerators of any maker."""
    workload = item_type.batches[0].relaxed.group.workload
    return any(workload.requests[name] for name in ACCELERATORS)
