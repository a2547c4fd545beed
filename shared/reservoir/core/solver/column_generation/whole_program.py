"""Solves small packing problems nearly exactly: an integer program decides about all nodes that are launched.

It minimises the replicas left over first, then the price of bought nodes, then the worth of the units in use
(``worth_in_use``).
"""

from reservoir.core.solver.column_generation.priced_program import (
    QUICK,
    THOROUGH,
    PricedProgram,
)
from reservoir.core.solver.column_generation.spared_program import divided
from reservoir.core.solver.packing.item_types import BinType, BinTypes
from reservoir.core.solver.packing.knapsack import Pattern
from reservoir.core.solver.packing.packing import Packing
from reservoir.core.solver.packing.spared_units import with_uses_of
from reservoir.core.solver.packing.unit_worth import worth_in_use
from reservoir.core.solver.problem.vectors import iter_bits

# For larger problems the program takes longer than diving, and its packings are less than one per cent cheaper.
_REPLICAS_MAX = 50
_ITEM_TYPES_MAX = 20
# The cost of a worth of one, in USD: so little that worth decides only between packings of equal price.
_WORTH = 1e-6


def cheapest_exactly(
    empty: Packing, best: Packing, bin_types: BinTypes, *, is_last: bool, is_quick: bool
) -> Packing | None:
    """Return a packing at least as cheap as the best one known; None if the problem is not small enough.

    ``empty`` is a packing of the same demand in which nothing is decided. Unless these replicas are the last to be
    placed (``is_last``), those on units stay there: the program would use the fewest units, whichever it leaves to less
    important work. ``is_quick`` ends the search earlier.
    """
    reserved = bin_types.reserved if is_last else []
    moving, staying = divided(best, reserved)
    base = with_uses_of(empty, staying)
    if best.floor.percent or not moving or not _is_small(base):
        return None

    def cost(bin_type: BinType, pattern: Pattern) -> float:
        """Return the cost of a use: the price of a bought node, or the weighted worth of a unit."""
        if bin_type.option.reservation is None:
            return bin_type.price
        workloads = [base.item_types[index].workload for index, _ in pattern]
        return _WORTH * worth_in_use(bin_type.option, workloads)

    offered = [*bin_types.unthinned, *reserved]
    program = PricedProgram(base, moving, offered, cost, within_money=False)
    return program.solved(QUICK if is_quick else THOROUGH)


def _is_small(base: Packing) -> bool:
    replicas = sum([base.left[index] for index in iter_bits(base.active)])
    return base.active.bit_count() <= _ITEM_TYPES_MAX or replicas <= _REPLICAS_MAX
