"""Who gets the reserved units.

When there is enough for everybody who could use them, the order of reservations decides which are used (and which stay
free for later work). When they are short, worth decides: units go to what is dearest elsewhere. Work that few
reservations accept is then preferred to work of equal worth that has more choice; how strongly depends on how short
units are, and so does which slots should choose first. So a few ways are tried, and the one that leaves the least to
pay for is kept.
"""

from collections.abc import Sequence
from operator import le

from shared.core.solver.packing.item_types import BinType, BinTypes, ItemType
from shared.core.solver.packing.one_per_node import has_one_per_node, reserve_one_per_node
from shared.core.solver.packing.packing import Packing, PriceBias
from shared.core.solver.problem.bits import iter_bits
from shared.core.solver.problem.option_order import OrderKey, reserved_key

_PRICE_BIASES = (PriceBias(0.2), PriceBias(0.8), PriceBias(0.1, by_size=True))


def with_reserved(packing: Packing, bin_types: BinTypes, values: Sequence[float]) -> list[Packing]:
    """Return packings with reserved units in use; which is the cheapest shows when the rest is bought."""
    found = [use_reserved(packing, bin_types.reserved, values, _PRICE_BIASES)]
    if has_one_per_node(packing):
        with_singles = packing.fork(values)
        reserve_one_per_node(with_singles, [item for item, _ in _ordered(with_singles, bin_types.reserved)], bin_types)
        found.append(use_reserved(with_singles, bin_types.reserved, values, _PRICE_BIASES))
    return found


def use_reserved(
    packing: Packing, reserved: Sequence[BinType], values: Sequence[float], biases: Sequence[PriceBias]
) -> Packing:
    """Return the packing with reserved units in use; the given one is left as it was."""
    everyone = (1 << len(packing.item_types)) - 1
    ordered = _ordered(packing, reserved)
    access = _access(packing.item_types, reserved)
    best = packing
    if _may_suffice(packing, reserved, access):
        best = packing.fork(values)
        best.use_reserved_in_order([item for item, _ in ordered], everyone)
        if not any(left and reach for left, reach in zip(best.left, access, strict=True)):
            return best
    assigned = []
    for bias in biases:
        assigned.append(_started(packing, values, access, bias))
        assigned[-1].use_reserved(ordered, everyone)
    best = min(assigned, key=lambda item: round(item.left_value(values), 9))
    best.knapsack.reprice(values)
    return best


def _started(packing: Packing, values: Sequence[float], access: Sequence[float], bias: PriceBias) -> Packing:
    started = packing.fork(_preferring(values, access, bias.exponent))
    started.bias = bias
    return started


def _may_suffice(packing: Packing, reserved: Sequence[BinType], access: Sequence[float]) -> bool:
    """Whether the free units have the CPU and memory of everybody who could use them."""
    units = {item.option.reservation.id: item.option for item in reserved if item.option.reservation is not None}
    for dimension in (0, 1):
        free = sum(packing.residual.units[name] * option.allocatable[dimension] for name, option in units.items())
        asked = sum(
            item_type.request[dimension] * left
            for item_type, left, reach in zip(packing.item_types, packing.left, access, strict=True)
            if reach
        )
        if asked > free:
            return False
    return True


def _ordered(packing: Packing, reserved: Sequence[BinType]) -> list[tuple[BinType, OrderKey]]:
    return sorted(((item, _order(item, packing)) for item in reserved), key=lambda pair: pair[1])


def _order(bin_type: BinType, packing: Packing) -> OrderKey:
    option = bin_type.option
    assert option.reservation is not None
    units = packing.residual.units[option.reservation.id]
    return reserved_key(option, bin_type.eligible.bit_count(), units, tiny=False)


def _access(item_types: Sequence[ItemType], reserved: Sequence[BinType]) -> list[float]:
    """Return, by item, how much reserved capacity it could run on, weighed by on-demand price."""
    access = [0.0] * len(item_types)
    for bin_type in reserved:
        option = bin_type.option
        assert option.reservation is not None
        capacity = float(option.reservation.free_units * max(1, option.on_demand_micro_usd))
        for index in iter_bits(bin_type.eligible):
            if all(map(le, item_types[index].request, option.allocatable)):
                access[index] += capacity
    return access


def _preferring(values: Sequence[float], access: Sequence[float], exponent: float) -> list[float]:
    most = max(access)
    return [value * (most / reach) ** exponent if reach else value for value, reach in zip(values, access, strict=True)]
