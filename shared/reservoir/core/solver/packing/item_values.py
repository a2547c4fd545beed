"""What a replica of each item is worth: what its CPU and memory would cost if nodes could be bought in fractions.

A single replica would pay for the resource that it uses most and get the other for nothing; many replicas together use
both. So CPU and memory have prices of their own: the dual prices of a linear program that buys the whole demand, in any
fraction, from the bin types on which this item may run. A replica is worth its request at these prices.
"""

from collections.abc import Iterable, Sequence
from math import inf

from reservoir.core.solver.packing.item_types import BinTypes, Eligibility, ItemType
from reservoir.core.solver.packing.knapsack import MEMORY_UNIT
from reservoir.core.solver.problem.vectors import Vector, iter_bits, largest_share, mask_of

# A replica that can run on reserved units alone is worth this many times the on-demand price of what it uses of them,
# so that it is packed first.
_NO_OTHER_PLACE = 100.0
# The exchange rates that are tried: the price of a memory unit, in prices of a millicore.
_RATES = tuple(2.0 ** (step / 2) for step in range(-10, 11))
# Rates are averaged at which the whole demand costs at least this part of the most that it costs at any rate.
_NEARLY = 0.98
_TINY = 1e-12
# The part of a small node's price that is lost to its fixed costs, and to other replicas that fill it badly.
_SLOT = 0.3

# A size, the mask of the items that may run on it, and its price in USD an hour.
_PricedSize = tuple[Vector, int, float]


def item_values(item_types: Sequence[ItemType], bin_types: BinTypes) -> list[float]:
    """Return the value of one replica of each item, in USD an hour."""
    values = [inf] * len(item_types)
    bought = [
        (item.option.allocatable, item.eligible, item.price) for item in bin_types.paid
    ]
    _set_values(values, item_types, bought, bin_types.eligibility)
    only_reserved = [index for index, value in enumerate(values) if value is inf]
    if only_reserved:
        slots = [
            (item.option.allocatable, item.eligible, item.slot_price)
            for item in bin_types.reserved
        ]
        nominal = [inf] * len(item_types)
        _set_values(nominal, item_types, slots, bin_types.eligibility)
        for index in only_reserved:
            values[index] = _NO_OTHER_PLACE * (
                nominal[index] if nominal[index] < inf else 1.0
            )
    _add_slot_value(values, item_types, bin_types)
    return values


def _add_slot_value(
    values: list[float], item_types: Sequence[ItemType], bin_types: BinTypes
) -> None:
    """Raise the value of carriers of inexact host rules: a carrier that shares no node costs a small one of its own."""
    for item_type in item_types:
        if item_type.is_loose and bin_types.buyable >> item_type.index & 1:
            values[item_type.index] += _SLOT * bin_types.price_alone(item_type)


# Branches: sums over items, then scales of offers, then the value of each item, in short loops and comprehensions.
def _set_values(
    values: list[float],
    item_types: Sequence[ItemType],
    offers: Iterable[_PricedSize],
    eligibility: Eligibility,
) -> None:
    """Set the value of each item that one of these offers can hold."""
    plain = [item_type for item_type in item_types if not any(item_type.request[3:])]
    special = ~mask_of(item_type.index for item_type in plain)
    cpu = sum(item_type.request[0] * item_type.count for item_type in plain)
    memory_bytes = sum(item_type.request[1] * item_type.count for item_type in plain)
    memory = memory_bytes / MEMORY_UNIT
    by_eligible: dict[int, list[tuple[Vector, float]]] = {}
    for size, mask, price in offers:
        by_eligible.setdefault(mask & eligibility.fitting(size), []).append((size, price))
    scales: list[tuple[int, list[float]]] = []
    for eligible, found in by_eligible.items():
        scales.append((eligible, _scales(found)))
        for index in iter_bits(eligible & special):
            values[index] = min(
                values[index], _special_value(item_types[index].request, found)
            )
    cheapest: list[list[float]] = [[] for _ in item_types]  # by rate
    for rate in range(len(_RATES)):
        waiting = ~special
        for scale, eligible in sorted([(own[rate], eligible) for eligible, own in scales]):
            for index in iter_bits(eligible & waiting):
                cheapest[index].append(scale)
            waiting &= ~eligible
    for item_type, scale_by_rate in zip(item_types, cheapest, strict=True):
        if scale_by_rate:
            values[item_type.index] = max(
                _TINY, _at_best_rates(item_type.request, scale_by_rate, cpu, memory)
            )


def _at_best_rates(
    request: Vector, scale: Sequence[float], cpu: float, memory: float
) -> float:
    """Return the mean value of a replica over the rates at which the whole demand costs nearly the most.

    Where demand and nodes have the same ratio of memory to CPU, the demand costs the same at every rate. The mean then
    gives both resources a price; a resource that counted for nothing would be wasted until it runs short.
    """
    totals = [
        value * (cpu + rate * memory) for value, rate in zip(scale, _RATES, strict=True)
    ]
    enough = max(totals) * _NEARLY
    used = [
        value * (request[0] + rate * request[1] / MEMORY_UNIT)
        for value, rate, total in zip(scale, _RATES, totals, strict=True)
        if total >= enough
    ]
    return float(sum(used) / len(used))


def _scales(offers: Sequence[tuple[Vector, float]]) -> list[float]:
    """Return, for each rate, the largest price of a millicore at which no offer costs less than its CPU and memory."""
    points = [(size[0] / price, size[1] / MEMORY_UNIT / price) for size, price in offers]
    scales: list[float] = []
    for rate in _RATES:
        most_for_a_dollar = max([cpu + rate * memory for cpu, memory in points])
        scales.append(1.0 / most_for_a_dollar)
    return scales


def _special_value(request: Vector, offers: Sequence[tuple[Vector, float]]) -> float:
    """Return the value of a replica that asks for accelerators.

    It pays the largest share that it uses of any resource of a node, on the node where that costs the least.
    """
    return min(price * largest_share(request, size) for size, price in offers)
