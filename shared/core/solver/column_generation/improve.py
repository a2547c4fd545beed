"""Column generation: from the patterns of greedy packing to nearly the best combination of any patterns.

The restricted master says how often to use which pattern; its dual prices say what a replica and a unit are worth; the
pricing problem finds patterns worth more than they cost at these prices; they become columns. At the end diving makes
whole numbers of it.
"""

from collections.abc import Sequence

from shared.core.solver.column_generation.diving import rounded
from shared.core.solver.column_generation.lower_bound import RelaxationDuals, relaxation_duals
from shared.core.solver.column_generation.pricing_problem import PricingProblem, promising
from shared.core.solver.column_generation.restricted_master import RestrictedMaster
from shared.core.solver.packing.item_types import BinTypes
from shared.core.solver.packing.packing import Packing

_NEAR = 1.003  # times the cost in fractions: the program is as good as done
_SLOW_ROUNDS, _SLOW = 8, 1e-3  # so many rounds that gained no more than this part: the rest gains nothing either
_ITEM_TYPES_MAX = 400  # with more, the deadline leaves time for the certificate or for this, not for both


def improved(base: Packing, greedy: Packing, values: Sequence[float], bin_types: BinTypes) -> Packing | None:
    """Return a packing from the greedy one's patterns and better ones; None with too many items or no solution.

    ``base`` has only existing nodes filled.
    """
    if len(base.item_types) > _ITEM_TYPES_MAX:
        return None
    master = RestrictedMaster(base)
    for use in greedy.uses:
        if use.bin_type is not None:
            master.add(use.bin_type, tuple(sorted(use.pattern.items())))
    relaxation = relaxation_duals(base.item_types, base.left, bin_types, base.residual)
    chosen = promising(base, values if relaxation is None else relaxation.item_values, bin_types.paid)
    pricing = PricingProblem(master, base, [*chosen, *bin_types.reserved])
    if not _solved_in_fractions(master, pricing, base, relaxation):
        return None
    return rounded(master, pricing, base, values, bin_types)


def _solved_in_fractions(
    master: RestrictedMaster, pricing: PricingProblem, base: Packing, relaxation: RelaxationDuals | None
) -> bool:
    """Add columns until none would gain anything to speak of; False when HiGHS finds no solution."""
    costs: list[float] = []
    while True:
        if not master.program.solve():
            return False
        costs.append(master.program.objective())
        if base.expired() or is_done(costs, relaxation) or not pricing.add(master.program.duals(), base.left):
            return True


def is_done(costs: Sequence[float], relaxation: RelaxationDuals | None) -> bool:
    """Whether more rounds would gain nothing to speak of; ``costs`` are those of the program so far."""
    if relaxation is not None and costs[-1] <= _NEAR * relaxation.cost:
        return True
    return len(costs) > _SLOW_ROUNDS and costs[-1 - _SLOW_ROUNDS] - costs[-1] < _SLOW * costs[-1]
