"""From fractions to whole numbers: fix whole uses, round some up, ask the program about the rest (diving).

After each dive greedy packing places what is left on a copy, and the best copy stands. Sadykov et al. (2019) compare
such heuristics.
"""

from collections.abc import Sequence
from math import floor

from shared.core.solver.column_generation.pricing_problem import PricingProblem
from shared.core.solver.column_generation.restricted_master import RestrictedMaster
from shared.core.solver.packing.buying import buy_rest
from shared.core.solver.packing.existing_room import top_up
from shared.core.solver.packing.item_types import BinTypes
from shared.core.solver.packing.packing import Packing
from shared.core.solver.packing.reserved_units import use_reserved

_FINISHED_FROM = 2  # with more left than after so many dives, the greedy pass is never the best
_WHOLE = 1e-6
_ROUNDED_UP = 10  # one in so many patterns in use is rounded up when none is whole


def rounded(
    master: RestrictedMaster,
    pricing: PricingProblem,
    base: Packing,
    values: Sequence[float],
    bin_types: BinTypes,
    *,
    dives_max: int,
) -> Packing:
    """Fix whole uses and ask again, until nothing is whole that matters; the greedy packs the rest."""
    packing = base.fork(values)
    best: Packing | None = None
    for dive in range(dives_max):
        master.keep(packing)
        if not packing.active or packing.expired() or not master.program.solve():
            break
        if pricing.add(master.program.duals(), packing.left) and not master.program.solve():
            break
        _fix(master, packing)
        if dive >= _FINISHED_FROM:
            finished = _finished(packing, values, bin_types)
            best = finished if best is None else min(best, finished, key=Packing.quality)
    return best or _finished(packing, values, bin_types)


def _finished(packing: Packing, values: Sequence[float], bin_types: BinTypes) -> Packing:
    """Return a copy in which the rest is packed greedily."""
    packing = packing.fork(values)
    top_up(packing)
    if bin_types.reserved and packing.active:
        packing = use_reserved(packing, bin_types.reserved, values)
    buy_rest(packing, bin_types)
    return packing


def _fix(master: RestrictedMaster, packing: Packing) -> None:
    """Take patterns as often as they are used wholly, and round up those nearest to one more use."""
    counts = master.counts()
    parts = []
    for position in sorted(range(len(counts)), key=lambda item: (-counts[item], item)):
        if counts[position] <= _WHOLE:
            break
        wanted = floor(counts[position] + _WHOLE)
        if wanted:
            packing.repeat(*master.patterns[position], wanted)
        parts.append((wanted - counts[position], position))
    parts.sort()
    for _, position in parts[: -(-len(parts) // _ROUNDED_UP)]:
        bin_type, pattern = master.patterns[position]
        # A reserved unit costs nothing more, so part of a pattern is worth a whole one; other nodes must be full.
        if not packing.repeat(bin_type, pattern, 1) and bin_type.option.reservation is not None:
            packing.repeat_in_part(bin_type, pattern)
