"""Finds a packing on fewer or less scarce units for the same money, by an integer program over units and bought nodes.

``spared_units`` packs only the replicas on units again. Here those on bought nodes move too: a unit may become free
because its replica takes the place of another on a bought node. A row for money keeps the program from spending more.
"""

from collections.abc import Sequence

from reservoir.core.solver.column_generation.priced_program import QUICK, PricedProgram
from reservoir.core.solver.packing.item_types import BinType
from reservoir.core.solver.packing.knapsack import Pattern
from reservoir.core.solver.packing.packing import Packing, PatternUse
from reservoir.core.solver.packing.spared_units import (
    keeps_limits,
    may_move,
    with_uses_of,
)
from reservoir.core.solver.packing.unit_worth import worth_in_use

_ITEM_TYPES_MAX = 20
_BIN_TYPES_MAX = 40


def spared_exactly(
    empty: Packing, best: Packing, reserved: Sequence[BinType]
) -> Packing | None:
    """Return a packing that spends no more money than ``best``, on the units of least worth that are found.

    It is None if the problem is too large, or if the packing found leaves less of a pool's limits.

    ``empty`` is a packing of the same demand in which nothing is decided; ``reserved`` are the units' bin types.
    """
    moving, staying = divided(best, reserved)
    base = with_uses_of(empty, staying)
    bin_types = _bin_types(moving, reserved)
    is_small = (
        base.active.bit_count() <= _ITEM_TYPES_MAX and len(bin_types) <= _BIN_TYPES_MAX
    )
    if best.floor.percent or not moving or not is_small:
        return None

    def worth(bin_type: BinType, pattern: Pattern) -> float:
        """Return the cost of a use: a unit's worth; nothing for a bought node, as the row for money limits those."""
        if bin_type.option.reservation is None:
            return 0.0
        workloads = [base.item_types[index].workload for index, _ in pattern]
        return worth_in_use(bin_type.option, workloads)

    program = PricedProgram(base, moving, bin_types, worth, within_money=True)
    found = program.solved(QUICK)
    if found is None or not keeps_limits(best, found):
        return None
    return found


def divided(
    best: Packing, reserved: Sequence[BinType]
) -> tuple[list[PatternUse], list[PatternUse]]:
    """Return the uses whose replicas may move, of these units and of bought nodes, and all other uses."""
    options = {bin_type.option.index for bin_type in reserved}
    moving, staying = list[PatternUse](), list[PatternUse]()
    for use in best.uses:
        is_unit = use.bin_type is not None and use.bin_type.option.index in options
        may_go = (is_unit or use.is_bought) and may_move(best, use)
        (moving if may_go else staying).append(use)
    return moving, staying


def _bin_types(moving: Sequence[PatternUse], reserved: Sequence[BinType]) -> list[BinType]:
    """Return the bin types of these units and of the bought nodes that may move, each option once."""
    found = {bin_type.option.index: bin_type for bin_type in reserved}
    for use in moving:
        if use.is_bought and use.bin_type is not None:
            found[use.bin_type.option.index] = use.bin_type
    return list(found.values())
