"""Fewer and less scarce units for the same money: an integer program over units and bought nodes together.

``spared_units`` packs again what is on units. Here what is bought moves as well: a replica that goes onto a bought node
in another's place may leave a unit free. A row for money keeps the purchase as cheap as it is. Patterns come from
column generation with exact pricing, which only few kinds of items and nodes have time for.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from reservoir.core.solver.column_generation.best_filling import BestFilling
from reservoir.core.solver.column_generation.restricted_master import RestrictedMaster
from reservoir.core.solver.packing.item_types import BinType
from reservoir.core.solver.packing.knapsack import Pattern
from reservoir.core.solver.packing.packing import Packing, PatternUse
from reservoir.core.solver.packing.spared_units import (
    keeps_limits,
    may_move,
    with_uses_of,
)
from reservoir.core.solver.packing.unit_worth import (
    asks_for_accelerators,
    has_accelerators,
    worth_in_use,
)
from reservoir.core.solver.problem.vectors import iter_bits

_KINDS_MAX = 20
_BIN_TYPES_MAX = 40
_ROUNDS_MAX = 60
# Less than this a pattern gains only by rounding.
_TINY = 1e-6


def spared_exactly(
    empty: Packing, best: Packing, reserved: Sequence[BinType]
) -> Packing | None:
    """Return a packing that buys no more and uses units of less worth, if one is found; None where too much may move.

    ``empty`` is a packing of the same demand in which nothing is decided; ``reserved`` are the units' bin types.
    """
    moving, staying = _divided(best, reserved)
    base = with_uses_of(empty, staying)
    bin_types = _bin_types(moving, reserved)
    if best.floor.percent or not moving or not _is_small(base, bin_types):
        return None
    found = _Program(base, moving, bin_types).solved()
    if found is None or not keeps_limits(best, found):
        return None
    return found


def _divided(
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


def _bin_types(
    moving: Sequence[PatternUse], reserved: Sequence[BinType]
) -> dict[int, BinType]:
    """Return the units and what is bought, by option."""
    found = {bin_type.option.index: bin_type for bin_type in reserved}
    for use in moving:
        if use.is_bought and use.bin_type is not None:
            found[use.bin_type.option.index] = use.bin_type
    return found


def _is_small(base: Packing, bin_types: Mapping[int, BinType]) -> bool:
    return base.active.bit_count() <= _KINDS_MAX and len(bin_types) <= _BIN_TYPES_MAX


class _Program:
    """How often to use which pattern, for the least worth of units."""

    def __init__(
        self, base: Packing, moving: Sequence[PatternUse], bin_types: Mapping[int, BinType]
    ) -> None:
        self._base = base
        self._bin_types = bin_types
        self._asking = {
            index
            for index in iter_bits(base.active)
            if asks_for_accelerators(base.item_types[index].workload)
        }
        bought = [use for use in moving if use.is_bought]
        self._master = RestrictedMaster(base, bought=bought)
        # Counted twice, a replica that asks for accelerators would seem to use those of two nodes.
        for index in self._asking:
            count = float(base.left[index])
            self._master.program.rebound(index, count, count)
        self._known = Counter[tuple[int, Pattern]]()
        for use in moving:
            assert use.bin_type is not None
            pattern = tuple(sorted(use.pattern.items()))
            self._known[use.bin_type.option.index, pattern] += use.count
        self._add([(bin_types[option], pattern) for option, pattern in self._known])

    def solved(self) -> Packing | None:
        """Return the best packing that is found from the known one on."""
        for _ in range(_ROUNDS_MAX):
            if self._base.expired() or not self._master.program.solve():
                return None
            if not self._add(list(self._worthwhile())):
                break
        known = [
            float(self._known[bin_type.option.index, pattern])
            for bin_type, pattern in self._master.patterns
        ]
        if not self._master.solve_whole_from(known):
            return None
        return self._master.packed(self._base)

    def _add(self, patterns: Sequence[tuple[BinType, Pattern]]) -> int:
        count = self._master.add(patterns)
        self._master.recost([self._cost(*each) for each in self._master.patterns])
        return count

    def _cost(self, bin_type: BinType, pattern: Pattern) -> float:
        """Return what a use costs here: a unit its worth, and what is bought nothing beyond its money."""
        if bin_type.option.reservation is None:
            return 0.0
        workloads = [self._base.item_types[index].workload for index, _ in pattern]
        return worth_in_use(bin_type.option, workloads)

    def _worthwhile(self) -> Iterator[tuple[BinType, Pattern]]:
        """Yield patterns that are worth more, at the program's prices, than what a use costs and takes."""
        duals = self._master.program.duals()
        for bin_type in self._bin_types.values():
            if self._base.expired():
                return
            taken = sum(
                [-duals[row] * amount for row, amount in self._master.row_entries(bin_type)]
            )
            for pattern in self._fillings(bin_type, duals):
                value = sum([duals[index] * count for index, count in pattern])
                if value > self._cost(bin_type, pattern) + taken + _TINY:
                    yield bin_type, pattern

    def _fillings(self, bin_type: BinType, duals: Sequence[float]) -> Iterator[Pattern]:
        """Yield the best filling of a node, and with accelerators the best with each item that asks for them."""
        eligible = list(iter_bits(bin_type.eligible & self._base.active))
        values = {index: duals[index] for index in eligible if duals[index] > 0}
        size = bin_type.option.allocatable
        left = dict(enumerate(self._base.left))
        _, pattern = BestFilling(self._base.item_types, values, left, size).found()
        yield pattern
        if not has_accelerators(bin_type.option):
            return
        for index in sorted(self._asking.intersection(values)):
            request = self._base.item_types[index].request
            room = tuple([free - asked for free, asked in zip(size, request, strict=True)])
            if min(room) < 0:
                continue
            beside = left | {index: left[index] - 1}
            _, rest = BestFilling(self._base.item_types, values, beside, room).found()
            yield tuple(sorted((Counter(dict(rest)) + Counter([index])).items()))
