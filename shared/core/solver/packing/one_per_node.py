"""Items that need a node each (host rules): one node for one replica, topped up with what may share it.

How many such nodes there must be is settled by the rules, so what counts is which of them are reserved, how small the
others can be, and how little of them is lost.
"""

from collections.abc import Sequence
from math import inf
from operator import mul

from shared.core.solver.packing.item_types import BinType, BinTypes, ItemType, price_alone
from shared.core.solver.packing.knapsack import Pattern
from shared.core.solver.packing.packing import Packing

# So many prices are tried for a node that one replica opens.
_SIZES = 7
_STEP = 1.25
_SMALLER_FIRST = 0.05


_Holder = tuple[BinType, int]
_Filled = dict[tuple[int, int], tuple[float, Pattern]]  # value and pattern by option and share of inexact rules


def has_one_per_node(packing: Packing) -> bool:
    """Whether some replicas that are left need a node each."""
    return any(_is_exact(item_type) and packing.left[item_type.index] for item_type in packing.item_types)


def _is_exact(item_type: ItemType) -> bool:
    return item_type.host is not None and item_type.host.is_exact and item_type.host.cap == 1


def _is_one_per_node(item_type: ItemType) -> bool:
    return item_type.host is not None and (item_type.host.cap == 1 or not item_type.host.is_exact)


class _Waiting:
    """Who is left, as far as it decides which nodes are opened."""

    def __init__(self, packing: Packing) -> None:
        self._packing = packing
        hosts = [(item_type.index, item_type.host) for item_type in packing.item_types if item_type.host is not None]
        self._exact = [index for index, host in hosts if host.is_exact and host.cap == 1]
        self._inexact = {index: host.number for index, host in hosts if not host.is_exact}
        self._weights: dict[int, list[float]] = {}

    @property
    def singles(self) -> int:
        """Nodes that anti-affine replicas need."""
        return sum([self._packing.left[index] for index in self._exact])

    def among(self, eligible: int) -> float:
        """How much could share a node with these eligible items, carriers of host rules counted more."""
        weights = self._weights.get(eligible)
        if weights is None:
            urgency = enumerate(self._packing.knapsack.urgency)
            weights = self._weights[eligible] = [each if eligible >> index & 1 else 0.0 for index, each in urgency]
        return float(sum(map(mul, weights, self._packing.left)))

    def share_out(self, nodes: int) -> int:
        """Set the caps of inexact rules, given how many nodes will be opened; return the share of each node.

        No more of their carriers than that share a node with each anti-affine replica.
        """
        carriers = sum([self._packing.left[index] for index in self._inexact])
        share = max(1, -(-carriers // nodes) if nodes else 1)
        self._packing.knapsack.host_caps.update(dict.fromkeys(self._inexact.values(), share))
        return share


# -- reserved


# Branches: comprehensions of a line each; two loops over slots and units.
def reserve_one_per_node(packing: Packing, reserved: Sequence[BinType], bin_types: BinTypes) -> None:
    """Give a reserved unit each to the replicas that are dearest elsewhere, and fill it with what may share it.

    For worlds in which units are fewer than nodes that there must be: a unit without such a replica is one more node.
    """
    units = {item.option.unit_key for item in reserved if item.option.reservation is not None}
    free = sum(packing.residual.units[name] for name in units)
    waiting = _Waiting(packing)
    waiting.share_out(min(free, waiting.singles))
    holders = bin_types.holders()
    prices = {
        item_type.index: price_alone(item_type, holders, inf)
        for item_type in packing.item_types
        if _is_exact(item_type)
    }
    dearest_first = sorted(prices, key=lambda index: (-prices[index], index))
    for bin_type in reserved:
        size = bin_type.option.allocatable
        eligible = bin_type.eligible & bin_types.eligibility.fitting(size)
        while units_left := packing.residual.nodes_left(bin_type.option):
            fitting = eligible & packing.active
            single = next((index for index in dearest_first if fitting >> index & 1), None)
            if single is None:
                break
            _, pattern = packing.knapsack.fill(size, bin_type.eligible, ((single, 1),))
            packing.apply(bin_type, pattern, min(units_left, packing.repeats(pattern)))


# -- paid


def open_one_per_node(packing: Packing, bin_types: BinTypes) -> None:
    """Buy nodes for replicas that need a node each, every one topped up with what may share it."""
    ordered = sorted(
        packing.item_types,
        key=lambda item: (item.host is None or not item.host.is_exact, [-amount for amount in item.request]),
    )
    holders, waiting = bin_types.holders(), _Waiting(packing)
    for item_type in ordered:
        if _is_one_per_node(item_type) and packing.left[item_type.index]:
            _open_for(packing, item_type, _families(item_type, holders), waiting)


def _open_for(packing: Packing, item_type: ItemType, families: list[list[BinType]], waiting: _Waiting) -> None:
    """Open nodes for every replica of one item. ``families``: bin type sizes by who else may run there."""
    filled: _Filled = {}
    while packing.left[item_type.index] > 0 and families and not packing.expired():
        share = waiting.share_out(waiting.singles)
        family = max(families, key=lambda sizes: waiting.among(sizes[0].eligible))
        best = _best(packing, item_type, family, filled, share)
        if best is None:
            families.remove(family)
            continue
        bin_type, pattern = best
        packing.repeat(bin_type, pattern, max(1, -(-packing.left[item_type.index] // 2)))


def _best(
    packing: Packing, item_type: ItemType, family: Sequence[BinType], filled: _Filled, share: int
) -> tuple[BinType, Pattern] | None:
    """Return the size that loses least with one replica of the item and what else it would hold, and that pattern.

    The node must be opened anyway, so its loss counts, not its value for money. What was ``filled`` before is as good
    as then while demand lasts for it: there is less to choose from since, and not more. For the same reason a size is
    filled anew only if it would be chosen as it was then.
    """
    open_sizes = [bin_type for bin_type in family if packing.residual.nodes_left(bin_type.option)]
    least = _SMALLER_FIRST * family[0].price
    while open_sizes:
        chosen, score = open_sizes[0], -inf
        for bin_type in open_sizes:
            about = (bin_type.option.index, share)
            if about not in filled:
                filled[about] = packing.knapsack.fill(
                    bin_type.option.allocatable, bin_type.eligible, ((item_type.index, 1),)
                )
            loss = filled[about][0] - bin_type.price
            if loss > score + least:
                chosen, score = bin_type, loss
        about = (chosen.option.index, share)
        if packing.repeats(filled[about][1]):
            return chosen, filled[about][1]
        del filled[about]
    return None


def _families(item_type: ItemType, holders: Sequence[_Holder]) -> list[list[BinType]]:
    """Return bin types that hold the item, a few sizes for the same company; only those that are about as cheap."""
    families: dict[int, list[BinType]] = {}
    own, dearest = 1 << item_type.index, inf  # the dearest that opens a family
    complete = 0
    for item, eligible in holders:
        if item.price > dearest and complete == len(families):
            break
        if not eligible & own:
            continue
        family = families.get(item.eligible)
        if family is None:
            if item.price <= dearest:
                dearest = min(dearest, item.price * _STEP)
                families[item.eligible] = [item]
        elif len(family) < 3 or (len(family) < _SIZES and item.price >= family[-1].price * _STEP):
            family.append(item)
            complete += len(family) == _SIZES
    return list(families.values())
