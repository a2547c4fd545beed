"""Doing without nodes that are paid for once all is placed (rule 3, and tails of the packing).

Packing by counts closes nodes one kind at a time, so a last node may hold a few replicas that earlier ones, or units
left free, could have taken. Each such node is emptied on trial; if everything finds a place that costs nothing more,
the node is not launched.
"""

from collections.abc import Set
from functools import partial
from operator import is_, sub

from shared.core.solver.insertion.insert import Insertion
from shared.core.solver.insertion.new_nodes import Scope
from shared.core.solver.problem.catalogue import LaunchOption
from shared.core.solver.problem.vectors import largest_share
from shared.core.solver.solution.bins import Bin, total_load
from shared.core.solver.solution.partial_plan import PartialPlan

# Trials look at every node, so their number is bounded by work, not by share; 20,000 evaluations take some 50 ms.
_EVALUATIONS_MAX = 20_000
_TRIALS_MIN = 8


def empty_paid_nodes(insertion: Insertion) -> None:
    """Do without paid nodes whose replicas fit elsewhere, the emptiest first."""
    # Under a floor a node that took others in may fill a unit that it was too little for before. What is done without
    # under a limit may leave enough of it for a free unit.
    may_gain = insertion.state.catalogue.policy.reserved_floor_percent or insertion.state.residual.limits
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
    """Close the bin's node if its replicas fit elsewhere for nothing: where there is room, or all on one free unit."""
    state = insertion.state
    load = total_load(state.groups, victim.contents, len(victim.free))
    for home in (None, *insertion.floor.free_units(load)):
        mark = state.mark()
        if _move(insertion, victim, home):
            return True
        state.undo(mark)
    return False


def _move(insertion: Insertion, victim: Bin, home: LaunchOption | None) -> bool:
    state = insertion.state
    # Leaving a domain could make it the emptiest of a spread, so replicas stay in the domains that were counted; then
    # rules over domains hold again once all have moved.
    kept = [(key, victim.labels.get(key)) for key in state.pinned_labels(victim.levels)]

    def admits(place: Bin | LaunchOption) -> bool:
        labels = place.labels
        for key, domain in kept:  # noqa: SIM110 # asked of thousands of nodes, and all() takes four times as long
            if labels.get(key) != domain:
                return False
        return True

    moving = state.empty(victim)
    state.close_bin(victim)  # what it used of limits may be used by a free unit
    scope = Scope(admits, is_assigned=True, is_free=True)
    if home is not None:
        if not admits(home) or state.residual.nodes_left(home) < 1:
            return False
        scope = Scope(partial(is_, state.open_bin(home, 1)), is_assigned=True, is_free=True)
    for relaxed, count in moving:
        before = state.remaining[relaxed.group.index]
        insertion.place_at(relaxed, scope, count)
        if before - state.remaining[relaxed.group.index] < count:
            return False
    return True


def take_off(state: PartialPlan, groups: Set[int]) -> None:
    """Take all replicas of the groups (by index) off their nodes, and do without planned nodes that this empties."""
    for bin_ in list(state.bins):
        state.empty(bin_, groups)
        if bin_.option is not None and not bin_.contents:
            state.close_bin(bin_)
