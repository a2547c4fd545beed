"""Taking part of a packing apart and asking the program about it again (large neighbourhood search, Shaw 1998).

What a packing costs beyond the program's optimum is the sum of what its nodes lose: the reduced costs of their patterns
at the program's prices. So the nodes that lose most go, and some of the others beside them, with which they may mix.
"""

from collections.abc import Sequence

from shared.core.solver.column_generation.diving import rounded
from shared.core.solver.column_generation.pricing_problem import PricingProblem
from shared.core.solver.column_generation.restricted_master import RestrictedMaster
from shared.core.solver.packing.item_types import BinTypes
from shared.core.solver.packing.packing import Packing

_DIVES = 6  # each time
# Chosen with catalogue-10000, seeds 701 to 759.
_TURNS = 3
_NEAR = 1.005  # a packing that costs no more than this times the program's optimum is left as it is
_LOSS = 0.8  # nodes go that lose this part of all that is lost,
_OTHERS = 3  # and one in so many of the others, in each turn others of them


def rebuilt(
    master: RestrictedMaster, pricing: PricingProblem, base: Packing, values: Sequence[float], bin_types: BinTypes
) -> Packing:
    """Return the best packing that diving finds, at first from the whole program and then from parts of it."""
    duals, near = master.program.duals(), base.cost() + _NEAR * master.program.objective()
    best = rounded(master, pricing, base, values, bin_types, dives_max=_DIVES)
    for turn in range(_TURNS):
        if base.expired() or best.cost() <= near:
            break
        found = rounded(master, pricing, _part(master, duals, base, best, turn), values, bin_types, dives_max=_DIVES)
        best = min(best, found, key=Packing.quality)
    return best


def _part(master: RestrictedMaster, duals: Sequence[float], base: Packing, best: Packing, turn: int) -> Packing:
    """Return the base with those nodes of the best packing that stay."""
    part = base.fork(base.knapsack.values)
    launched = [(use.bin_type, tuple(sorted(use.pattern.items())), use.count) for use in best.uses if use.bin_type]
    master.add((bin_type, pattern) for bin_type, pattern, _ in launched)
    losses = []
    for bin_type, pattern, count in launched:
        loss = count * master.reduced_cost(duals, bin_type, pattern)
        losses.append((-loss, bin_type.option.index, pattern, bin_type, count))
    losses.sort(key=lambda item: item[:3])
    wanted = _LOSS * sum(loss for loss, *_ in losses)
    lost = 0.0
    for position, (loss, _, pattern, bin_type, count) in enumerate(losses):
        if lost <= wanted and position % _OTHERS != turn % _OTHERS:
            part.repeat(bin_type, pattern, count)
        else:
            lost += loss
    return part
