"""Fewer and less scarce units for the same money: an integer program over units and bought nodes together.

``spared_units`` packs again what is on units. Here what is bought moves as well: a replica that goes onto a bought node
in another's place may leave a unit free. A row for money keeps the purchase as cheap as it is.
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

_KINDS_MAX = 20
_BIN_TYPES_MAX = 40


def spared_exactly(
    empty: Packing, best: Packing, reserved: Sequence[BinType]
) -> Packing | None:
    """Return a packing that buys no more and uses units of less worth, if one is found; None where too much may move.

    ``empty`` is a packing of the same demand in which nothing is decided; ``reserved`` are the units' bin types.
    """
    moving, staying = divided(best, reserved)
    base = with_uses_of(empty, staying)
    bin_types = _bin_types(moving, reserved)
    is_small = base.active.bit_count() <= _KINDS_MAX and len(bin_types) <= _BIN_TYPES_MAX
    if best.floor.percent or not moving or not is_small:
        return None

    def worth(bin_type: BinType, pattern: Pattern) -> float:
        """Return what a use costs here: a unit its worth, and what is bought nothing beyond its money."""
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
    """Return the uses of these units and of what is bought, as far as they may move, and all others."""
    options = {bin_type.option.index for bin_type in reserved}
    moving, staying = list[PatternUse](), list[PatternUse]()
    for use in best.uses:
        is_unit = use.bin_type is not None and use.bin_type.option.index in options
        may_go = (is_unit or use.is_bought) and may_move(best, use)
        (moving if may_go else staying).append(use)
    return moving, staying


def _bin_types(moving: Sequence[PatternUse], reserved: Sequence[BinType]) -> list[BinType]:
    """Return the units and what is bought, each option once."""
    found = {bin_type.option.index: bin_type for bin_type in reserved}
    for use in moving:
        if use.is_bought and use.bin_type is not None:
            found[use.bin_type.option.index] = use.bin_type
    return list(found.values())
