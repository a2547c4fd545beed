"""Filling the room that there is: on existing nodes, on nodes being bought, beside patterns that cost nothing."""

from collections.abc import Iterable, Sequence

from shared.core.solver.packing.item_types import ItemType
from shared.core.solver.packing.packing import Packing
from shared.core.solver.problem.vectors import Vector
from shared.core.solver.solution.bins import Bin


class _Smallest:
    """The least of each resource that any of some items asks for, while the items become fewer."""

    __slots__ = ("_orders", "request")

    def __init__(self, item_types: Sequence[ItemType]) -> None:
        dimensions = range(len(item_types[0].request) if item_types else 0)
        self._orders = [_largest_first(item_types, dimension) for dimension in dimensions]
        self.request: Vector = ()
        self.keep(-1)

    def keep(self, active: int) -> None:
        """Go on with the items of the mask only."""
        for order in self._orders:
            while order and not active >> order[-1].index & 1:
                order.pop()
        self.request = tuple(order[-1].request[d] for d, order in enumerate(self._orders) if order)


def fill_existing(packing: Packing, bins: Iterable[tuple[Bin, int]]) -> None:
    """Fill each bin once, in the given order; ``bins`` come with the items that they accept."""
    smallest = _Smallest([item for item in packing.item_types if packing.active >> item.index & 1])
    for bin_, eligible in bins:
        nodes = bin_.count
        while nodes and eligible & packing.active:
            if any(free < least for free, least in zip(bin_.free, smallest.request, strict=True)):
                break
            _, pattern = packing.knapsack.fill(bin_.free, eligible)
            if not pattern:
                break
            count = min(nodes, packing.repeats(pattern))
            packing.apply_on(bin_, eligible, pattern, count)
            nodes -= count
            smallest.keep(packing.active)
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


def _largest_first(item_types: Sequence[ItemType], dimension: int) -> list[ItemType]:
    return sorted(item_types, key=lambda item_type: -item_type.request[dimension])
