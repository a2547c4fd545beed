"""Removes paid nodes from a finished plan if their replicas fit elsewhere at no further cost (rule 3).

Packing by counts fills the nodes of one bin type after the other, so the last of them may hold a few replicas for which
earlier nodes or free reserved units have room. Each paid node is emptied on trial. If all its replicas find places that
cost nothing more, the node is not launched.
"""

from collections.abc import Set
from operator import sub

from reservoir.core.solver.insertion.insert import Insertion
from reservoir.core.solver.problem.components import together
from reservoir.core.solver.problem.vectors import largest_share
from reservoir.core.solver.solution.bins import Bin
from reservoir.core.solver.solution.partial_plan import PartialPlan

# Each trial looks at every node, so trials are limited by the nodes that they look at in all: 20,000 take some 50 ms.
_EVALUATIONS_MAX = 20_000
_TRIALS_MIN = 8


def empty_paid_nodes(insertion: Insertion) -> None:
    """Remove paid nodes whose replicas fit elsewhere, the emptiest first."""
    # One pass may make another possible. Under a reserved floor, the replicas of a node that took others in may now be
    # enough for a reserved unit. Under a limit, a removed node may leave enough of it for a free unit.
    may_gain = (
        insertion.state.catalogue.policy.reserved_floor_percent
        or insertion.state.residual.limits
    )
    while _empty_some(insertion) and may_gain:
        pass


def _empty_some(insertion: Insertion) -> bool:
    """Try to empty each paid node once, as far as trials last; return whether one could be emptied."""
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
    """Return the largest part of any one resource of the planned node that is used."""
    assert bin_.option is not None
    size = bin_.option.allocatable
    return largest_share(map(sub, size, bin_.free), size)


def _empty(insertion: Insertion, victim: Bin) -> bool:
    """Close the bin's node; return whether all its replicas found places that cost nothing more."""
    state, scope = insertion.state, insertion.staying(victim, victim.levels)
    moving = state.empty(victim)
    state.close_bin(victim)  # a free unit may need the part of a limit that the node used
    standing, floor = len(state.bins), state.catalogue.policy.reserved_floor_percent
    with insertion.new_nodes.without_floor():  # several groups may fill a slot together
        is_moved = all(
            insertion.place_at(relaxed, scope, count) == count for relaxed, count in moving
        )
    return is_moved and all(
        100 * fullness(bin_) >= floor for bin_ in state.bins[standing:] if not bin_.is_paid
    )


def take_off(state: PartialPlan, groups: Set[int]) -> set[int]:
    """Take these groups, and all groups that rules connect with them, off all nodes; return the indices of all.

    Planned nodes that become empty are not launched.
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
