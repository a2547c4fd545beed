"""No replica holds a reserved unit that one of a higher priority, which waits or is paid for, could use instead."""

from collections.abc import Set
from itertools import product

from reservoir.core.solver.problem.groups import Group
from reservoir.core.solver.solution.bins import Bin, total_load
from reservoir.core.solver.solution.partial_plan import PartialPlan


# Branches: who has something, who would have more, and each of these beside each of those.
def has_inversion(state: PartialPlan, moved: Set[int] = frozenset()) -> bool:
    """Whether there is such a unit.

    Who is tied to others does not count as kept off, as room alone does not say that they may use it; but ``moved``
    groups do: they may have had reserved units that others have now.
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
    """Whether where one replica may be depends on where others are."""
    return group.workload.gang is not None or bool(group.equivalence_class.terms)


def _could_use(state: PartialPlan, bin_: Bin, group: Group) -> bool:
    """Whether one more replica of the group had room on the node, were it not for less important ones."""
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
