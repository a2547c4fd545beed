"""No spot node is bought that costs more than an on-demand node which could stand in its place (R-115).

Spot is cheaper than the same type on demand, but small types may be out of spot while large ones are not: the cheapest
spot offering is then dearer than a small on-demand one.
"""

from shared.core.model.instance_type import CapacityType
from shared.core.solver.solution.alternatives import Alternatives
from shared.core.solver.solution.partial_plan import PartialPlan


def replace_dear_spot(state: PartialPlan) -> None:
    """Buy the cheapest on-demand offering instead, where there is one that costs less and holds the same."""
    alternatives: Alternatives | None = None
    for bin_ in state.bins:
        option = bin_.option
        if option is None or option.key.capacity_type is not CapacityType.SPOT or not bin_.contents:
            continue
        alternatives = alternatives or Alternatives(state)
        cheaper = alternatives.cheaper_on_demand(bin_)
        if cheaper is not None:
            state.change_option(bin_, cheaper)  # which takes no more of any limit than what it replaces
