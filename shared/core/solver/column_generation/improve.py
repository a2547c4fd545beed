"""Column generation: from the patterns of greedy packing to nearly the best combination of any patterns.

The restricted master says how often to use which pattern; its dual prices say what a replica and a unit are worth; the
pricing problem finds patterns worth more than they cost at these prices; they become columns. At the end diving makes
whole numbers of it, of the whole and then of what the best packing so far does badly.
"""

from collections.abc import Sequence

from shared.core.solver.column_generation.diving import rounded
from shared.core.solver.column_generation.pricing_problem import PricingProblem, promising
from shared.core.solver.column_generation.restricted_master import RestrictedMaster
from shared.core.solver.column_generation.ruin_and_recreate import rebuilt
from shared.core.solver.packing.item_types import BinTypes
from shared.core.solver.packing.packing import Packing

_SLOW_ROUNDS, _SLOW = 8, 1e-3  # so many rounds that gained no more than this part: the rest gains nothing either
_QUICK_ROUNDS, _QUICK_DIVES = 20, 3  # of a first plan (catalogue-10000, seeds 700 to 723)
_ITEM_TYPES_MAX = 400  # with more, the deadline leaves time for the certificate or for this, not for both


def improved(
    base: Packing, greedy: Packing, values: Sequence[float], bin_types: BinTypes, *, is_quick: bool
) -> Packing | None:
    """Return a packing from the greedy one's patterns and better ones; None with too many items or no solution.

    ``base`` has only existing nodes filled. ``is_quick`` ends after so many rounds and dives, near its optimum or not.
    """
    if len(base.item_types) > _ITEM_TYPES_MAX:
        return None
    master = RestrictedMaster(base)
    master.add((use.bin_type, tuple(sorted(use.pattern.items()))) for use in greedy.uses if use.bin_type is not None)
    pricing = PricingProblem(master, base, [*promising(base, bin_types.paid), *bin_types.reserved])
    if not _solved_in_fractions(master, pricing, base, _QUICK_ROUNDS if is_quick else None):
        return None
    if is_quick:
        return rounded(master, pricing, base, values, bin_types, dives_max=_QUICK_DIVES)
    return rebuilt(master, pricing, base, values, bin_types)


def _solved_in_fractions(
    master: RestrictedMaster, pricing: PricingProblem, base: Packing, rounds_max: int | None
) -> bool:
    """Add columns until none would gain anything to speak of; False when HiGHS finds no solution."""
    costs: list[float] = []
    while master.program.solve():
        costs.append(master.program.objective())
        if base.expired() or len(costs) == rounds_max or is_done(costs):
            return True
        if not pricing.add(master.program.duals(), base.left):
            return True
    return False


def is_done(costs: Sequence[float]) -> bool:
    """Whether more rounds would gain nothing to speak of; ``costs`` are those of the program so far."""
    return len(costs) > _SLOW_ROUNDS and costs[-1 - _SLOW_ROUNDS] - costs[-1] < _SLOW * costs[-1]
