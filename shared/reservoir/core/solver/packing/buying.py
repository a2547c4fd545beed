"""Completes a packing greedily: the replicas left fill room beside patterns, then reserved units, then bought nodes.

Of bin types that are bought, the one with the most value for its price comes first.
"""

from operator import attrgetter

from reservoir.core.solver.packing.filling import fill_existing, top_up, use_best_first
from reservoir.core.solver.packing.item_types import BinType, BinTypes
from reservoir.core.solver.packing.knapsack import Pattern
from reservoir.core.solver.packing.one_per_node import open_one_per_node
from reservoir.core.solver.packing.packing import Packing
from reservoir.core.solver.packing.reserved_units import use_reserved
from reservoir.core.solver.problem.vectors import mask_of


def completed(packing: Packing, bin_types: BinTypes) -> Packing:
    """Return a copy in which the replicas left are placed, as far as bin types can hold them."""
    packing = packing.fork()
    top_up(packing)
    if bin_types.reserved and packing.active:
        packing = use_reserved(packing, bin_types)
    buy_rest(packing, bin_types)
    return packing


def buy_rest(packing: Packing, bin_types: BinTypes) -> None:
    """Fill the nodes that the plan buys already, then buy nodes for the replicas left."""
    fill_existing(packing, packing.take_bought())
    if packing.active:
        open_one_per_node(packing, bin_types)
        _buy(packing, bin_types)


def _buy(packing: Packing, bin_types: BinTypes) -> None:
    """Buy nodes, the most value for their price first, until no bin type holds a replica that is left."""
    # Carriers of inexact host rules are left over here, as they would limit other replicas on large nodes:
    # ``open_one_per_node`` has bought small nodes for as many as it could.
    among = bin_types.buyable & ~mask_of(
        item.index for item in packing.item_types if item.is_loose
    )

    def fill(bin_type: BinType) -> tuple[float, Pattern]:
        return packing.knapsack.fill(bin_type.option.allocatable, bin_type.eligible & among)

    def bound(bin_type: BinType) -> float:
        return (
            packing.knapsack.bound(bin_type.option.allocatable, bin_type.eligible & among)
            / bin_type.price
        )

    use_best_first(packing, among, bin_types.paid, bound, attrgetter("price"), fill)
