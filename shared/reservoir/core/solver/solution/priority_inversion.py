"""Finds priority inversions: a replica holds a reserved unit that one of higher priority could use instead.

The replica of higher priority waits, or runs on a node that is paid for.
"""

from collections.abc import Set
from itertools import product

from reservoir.core.solver.problem.groups import Group
from reservoir.core.solver.solution.bins import Bin, total_load
from reservoir.core.solver.solution.partial_plan import PartialPlan


# Branches: which bins take units, which groups have none, and whether one of those groups could use one of those units.
def has_inversion(state: PartialPlan, moved: Set[int] = frozenset()) -> bool:
    """Whether the state has a priority inversion.

    Groups whose replicas depend on other replicas do not count: that a unit has room for one does not mean that the
    rules allow it there. Those in ``moved`` (group indices) count all the same, as they may have had reserved units
    that other groups have now.
    """
    paid: set[int] = set()  # groups with replicas on nodes that are paid for
    reserved: list[Bin] = []
    for bin_ in state.bins:
        if bin_.is_paid:
            paid.update(bin_.contents)
        if bin_.option is not None and bin_.option.reservation is not None:
            reserved.append(bin_)
    worse_off: list[Group] = []
    for group in state.groups:
        has_no_unit = state.remaining[group.index] or group.index in paid
        if has_no_unit and (group.index in moved or not _is_tied(group)):
            worse_off.append(group)
    pairs = product(reserved, worse_off)
    return any(_could_use(state, bin_, group) for bin_, group in pairs)


def _is_tied(group: Group) -> bool:
    """Whether the places of other replicas decide where a replica of the group may be."""
    return group.workload.gang is not None or bool(group.equivalence_class.terms)


def _could_use(state: PartialPlan, bin_: Bin, group: Group) -> bool:
    """Whether the node would have room for one more replica of the group without the replicas of lower priority."""
    assert bin_.option is not None
    kept = {
        index: count
        for index, count in bin_.contents.items()
        if state.groups[index].priority >= group.priority
    }
    if (
        len(kept) == len(bin_.contents)
        or not group.requirement_sets[-1] & bin_.option.requirement_sets
    ):
        return False
    load = total_load(state.groups, kept, len(group.request))
    needed = zip(load, group.request, bin_.option.allocatable, strict=True)
    return all(used + asked <= whole for used, asked, whole in needed)
