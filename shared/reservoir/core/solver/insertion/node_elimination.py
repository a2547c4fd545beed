"""Doing without nodes that are paid for once all is placed (rule 3, and tails of the packing).

Packing by counts closes nodes one kind at a time, so a last node may hold a few replicas that earlier ones, or units
left free, could have taken. Each such node is emptied on trial; if everything finds a place that costs nothing more,
the node is not launched.
"""

from collections.abc import Set
from operator import sub

from reservoir.core.solver.insertion.insert import Insertion
from reservoir.core.solver.problem.components import together
from reservoir.core.solver.problem.vectors import largest_share
from reservoir.core.solver.solution.bins import Bin
from reservoir.core.solver.solution.partial_plan import PartialPlan

# Trials look at every node, so their number is bounded by work, not by share; 20,000 evaluations take some 50 ms.
_EVALUATIONS_MAX = 20_000
_TRIALS_MIN = 8


def empty_paid_nodes(insertion: Insertion) -> None:
    """Do without paid nodes whose replicas fit elsewhere, the emptiest first."""
    # Under a floor a node that took others in may fill a unit that it was too little for before. What is done without
    # under a limit may leave enough of it for a free unit.
    may_gain = (
        insertion.state.catalogue.policy.reserved_floor_percent
        or insertion.state.residual.limits
    )
    while _empty_some(insertion) and may_gain:
        pass


def _empty_some(insertion: Insertion) -> bool:
    """Try each node once; return whether one could be emptied."""
    state, found = insertion.state, False
    paid = [bin_ for bin_ in state.bins if bin_.is_paid]
    trials = max(_TRIALS_MIN, _EVALUATIONS_MAX // max(1, len(state.bins)))
    for bin_ in sorted(paid, key=lambda item: (fullness(item), item.uid))[:trials]:
        while bin_.contents and not state.catalogue.policy.expired():
            mark = state.mark()
            if not _empty(insertion, state.split_bin(bin_, 1)):
                state.undo(mark)
                break
            found = True
            if bin_ not in state.bins:
                break
    return found


def fullness(bin_: Bin) -> float:
    """Return the part of a planned node that is used of the resource that is used most."""
    assert bin_.option is not None
    size = bin_.option.allocatable
    return largest_share(map(sub, size, bin_.free), size)


def _empty(insertion: Insertion, victim: Bin) -> bool:
    """Close the bin's node; return whether its replicas found places that cost nothing."""
    state, scope = insertion.state, insertion.staying(victim, victim.levels)
    moving = state.empty(victim)
    state.close_bin(victim)  # what it used of limits may be used by a free unit
    standing, floor = len(state.bins), state.catalogue.policy.reserved_floor_percent
    with insertion.new_nodes.without_floor():  # they may be enough for a slot together
        is_moved = all(
            insertion.place_at(relaxed, scope, count) == count for relaxed, count in moving
        )
    return is_moved and all(
        100 * fullness(bin_) >= floor for bin_ in state.bins[standing:] if not bin_.is_paid
    )


def take_off(state: PartialPlan, groups: Set[int]) -> set[int]:
    """Take the groups (by index) and whom rules connect with them off all nodes; return who that is.

    Planned nodes that this empties are not launched.
    """
    components = together(state.groups)
    whole: set[int] = set()
    for index in groups:
        whole.update(components[index])
    for bin_ in list(state.bins):
        state.empty(bin_, whole)
        if bin_.option is not None and not bin_.contents:
            state.close_bin(bin_)
    return whole
