"""Of packings that buy the same nodes, which one uses fewer and less scarce reserved units.

Replicas on reserved units are taken off and packed again as if each unit cost what it is worth (``unit_worth``). This
is the problem of buying with other prices, so the same algorithms solve it. Replicas on bought nodes and on nodes that
exist stay.
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

# By how much the worth of a unit with accelerators is multiplied; both factors are tried. The first keeps work without
# accelerators off such units wherever possible. The second lets work that must be there be packed into fewer of them.
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
    """Return a packing of less outlay than ``best``, on fewer or less scarce units; ``best`` if there is none.

    ``empty`` is a packing of the same demand in which nothing is decided; ``reserved`` are the units' bin types.
    ``repack`` may improve a greedy packing. Its arguments are the packing of the uses that stay, the greedy packing,
    and the units' bin types with their worth as price.
    """
    for tier in sorted({bin_type.option.entry.tier for bin_type in reserved}):
        # An operator's order of pools stands above the worth of units: no replica moves to a unit of another tier.
        of_tier = [bin_type for bin_type in reserved if bin_type.option.entry.tier == tier]
        again = _spared(empty, best, of_tier, repack)
        best = min([best, *again], key=outlay)
    return best


def _spared(
    empty: Packing, best: Packing, reserved: Sequence[BinType], repack: Repacker
) -> list[Packing]:
    """Return packings in which the replicas on these units are packed again, and no pool's limit has less left."""
    options = {bin_type.option.index for bin_type in reserved}
    staying = [use for use in best.uses if not _is_movable(best, use, options)]
    units_moving = sum(use.count for use in best.uses) - sum(use.count for use in staying)
    if best.floor.percent or units_moving < 2:
        return []
    again = _packed_again(with_uses_of(empty, staying), best, reserved, repack)
    candidates = [with_uses_of(empty, packing.uses) for packing in again]
    return list(filter(partial(keeps_limits, best), candidates))


def with_uses_of(empty: Packing, uses: Iterable[PatternUse]) -> Packing:
    """Return a packing with these uses and no others."""
    packing = empty.fork()
    for use in uses:
        packing.use_again(use)
    return packing


def keeps_limits(best: Packing, found: Packing) -> bool:
    """Whether ``found`` leaves as much of each pool's limits as ``best``.

    Nodes on reserved units count against limits, and other groups may need the part of a limit that is left.
    """
    for pool, limits in best.residual.limits.items():
        left_now = found.residual.limits[pool]
        if any(left_now[name] < left for name, left in limits.items()):
            return False
    return True


def _is_movable(best: Packing, use: PatternUse, options: Set[int]) -> bool:
    """Whether a use takes units of one of these options, and its replicas may move to other nodes."""
    if use.bin_type is None or use.bin_type.option.index not in options:
        return False
    return may_move(best, use)


def may_move(best: Packing, use: PatternUse) -> bool:
    """Whether a use launches nodes, and none of its replicas has a host rule."""
    if use.bin_type is None:
        return False
    return all(best.item_types[index].host is None for index in use.pattern)


def _packed_again(
    base: Packing, best: Packing, reserved: Sequence[BinType], repack: Repacker
) -> Iterator[Packing]:
    """Yield packings that go on from ``base``: greedy ones, each followed by what ``repack`` makes of it.

    A greedy packing that leaves more replicas over than ``best`` is left out.
    """
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
    """Return a copy in which the replicas left are packed greedily onto units, the most value for their price first.

    Items that request accelerators come first, so that other items fill the room beside them.
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
