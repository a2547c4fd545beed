"""Among packings that buy the same, the one that uses fewer and less scarce units.

What runs on reserved units is taken off them and packed again as if a unit cost what it is worth: the same problem as
buying, with other prices, so the same algorithms solve it. What is bought, and what goes onto nodes that are there,
stays.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import replace
from functools import partial
from math import inf
from operator import attrgetter

from reservoir.core.solver.packing.filling import top_up, use_best_first
from reservoir.core.solver.packing.item_types import BinType
from reservoir.core.solver.packing.knapsack import Pattern
from reservoir.core.solver.packing.outlay import Outlay
from reservoir.core.solver.packing.packing import Packing, PatternUse
from reservoir.core.solver.packing.unit_worth import (
    ACCELERATED_FACTOR,
    asks_for_accelerators,
    has_accelerators,
    worth_of_unit,
)
from reservoir.core.solver.problem.vectors import mask_of

# How many other units one with accelerators counts for. At the first work without accelerators stays off wherever it
# can; at the second what has to be there is packed into fewer of them.
_ACCELERATED = (ACCELERATED_FACTOR, 3.0)

Repacker = Callable[[Packing, Packing, Sequence[BinType]], Packing | None]


def _not_again(_base: Packing, _greedy: Packing, _bin_types: Sequence[BinType]) -> None:
    return None


def with_units_spared(
    empty: Packing,
    best: Packing,
    reserved: Sequence[BinType],
    outlay: Callable[[Packing], Outlay],
    repack: Repacker = _not_again,
) -> Packing:
    """Return the best packing with fewer or less scarce units, or as it is.

    ``empty`` is a packing of the same demand in which nothing is decided; ``reserved`` are the units' bin types.
    ``outlay`` says what a packing costs, by which packings are compared.
    ``repack`` may make a greedy packing better: it is given what stays, the greedy packing, and units at their worth.
    """
    for tier in sorted({bin_type.option.entry.tier for bin_type in reserved}):
        # An operator's order of pools stands above the worth of units: nothing moves to a lighter pool's.
        of_tier = [bin_type for bin_type in reserved if bin_type.option.entry.tier == tier]
        again = _spared(empty, best, of_tier, repack)
        best = min([best, *again], key=outlay)
    return best


def _spared(
    empty: Packing, best: Packing, reserved: Sequence[BinType], repack: Repacker
) -> list[Packing]:
    """Return packings in which what runs on these units is packed again, and no limit has less left."""
    options = {bin_type.option.index for bin_type in reserved}
    staying = [use for use in best.uses if not _is_movable(best, use, options)]
    units_moving = sum(use.count for use in best.uses) - sum(use.count for use in staying)
    if best.floor.percent or units_moving < 2:
        return []
    again = _packed_again(with_uses_of(empty, staying), best, reserved, repack)
    candidates = [with_uses_of(empty, packing.uses) for packing in again]
    return list(filter(partial(keeps_limits, best), candidates))


def with_uses_of(empty: Packing, uses: Iterable[PatternUse]) -> Packing:
    """Return a packing of just these uses."""
    packing = empty.fork()
    for use in uses:
        packing.use_again(use)
    return packing


def keeps_limits(best: Packing, found: Packing) -> bool:
    """Whether no pool's limit has less left than before: nodes on units count there, and others wait for the rest."""
    for pool, limits in best.residual.limits.items():
        left_now = found.residual.limits[pool]
        if any(left_now[name] < left for name, left in limits.items()):
            return False
    return True


def _is_movable(best: Packing, use: PatternUse, options: Set[int]) -> bool:
    """Whether a use is of one of these units, and its replicas may go elsewhere."""
    if use.bin_type is None or use.bin_type.option.index not in options:
        return False
    return may_move(best, use)


def may_move(best: Packing, use: PatternUse) -> bool:
    """Whether a use is of nodes to be launched, and no rule about hosts keeps its replicas where they are."""
    if use.bin_type is None:
        return False
    return all(best.item_types[index].host is None for index in use.pattern)


def _packed_again(
    base: Packing, best: Packing, reserved: Sequence[BinType], repack: Repacker
) -> Iterator[Packing]:
    """Yield packings of what may move: greed's, and what is made of it; none where greed finds units short."""
    for accelerated in _ACCELERATED:
        if base.expired():
            return
        priced = [
            replace(bin_type, price=_price(bin_type, accelerated)) for bin_type in reserved
        ]
        greedy = by_worth(base, priced)
        if sum(greedy.left) > sum(best.left):
            continue
        yield greedy
        improved = repack(base, greedy, priced)
        if improved is not None:
            yield improved


def _price(bin_type: BinType, accelerated: float) -> float:
    worth = worth_of_unit(bin_type.option)
    return worth * accelerated if has_accelerators(bin_type.option) else worth


def by_worth(base: Packing, reserved: Sequence[BinType]) -> Packing:
    """Return the packing with what is left on units, greedily: those first that hold most for what they are worth.

    What needs accelerators goes first: other work may then have the room beside it.
    """
    packing = base.fork()
    top_up(packing)

    def fill(bin_type: BinType) -> tuple[float, Pattern]:
        return packing.knapsack.fill(bin_type.option.allocatable, bin_type.eligible)

    accelerated = [bin_type for bin_type in reserved if has_accelerators(bin_type.option)]
    needing = mask_of(
        item.index for item in packing.item_types if asks_for_accelerators(item.workload)
    )
    for items, bin_types in ((needing, accelerated), (packing.active, reserved)):
        use_best_first(packing, items, bin_types, lambda _: inf, attrgetter("price"), fill)
    return packing
