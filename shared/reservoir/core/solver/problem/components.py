"""Groups that topology rules connect.

Groups and terms form a graph: a group that carries or matches a term is its neighbour. What happens in one connected
component does not matter to the others.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from functools import reduce
from operator import or_

from reservoir.core.solver.problem.groups import EquivalenceClass, Group
from reservoir.core.solver.problem.vectors import iter_bits


@dataclass(slots=True, eq=False)
class Component:
    """Groups that rules connect, in the order of the queue; or with no ``terms`` some that no rule concerns."""

    groups: list[Group]

    @property
    def classes(self) -> list[EquivalenceClass]:
        """The equivalence classes of the groups."""
        return list(dict.fromkeys([group.equivalence_class for group in self.groups]))

    @property
    def terms(self) -> int:
        """The mask of the terms that the groups carry or match."""
        return reduce(or_, (class_.terms for class_ in self.classes))


def connected_components(groups: Sequence[Group]) -> list[Component]:
    """Return the connected components, in the order of their first group; those that no rule concerns are one."""
    component_of = connected(group.equivalence_class.terms for group in groups)
    found = defaultdict[int, list[Group]](list)
    for group in groups:
        found[component_of[group.equivalence_class.terms]].append(group)
    return list(map(Component, found.values()))


def connected(masks: Iterable[int]) -> dict[int, int]:
    """Return, by mask, which of the masks stands for its connected component: those that share a bit are connected."""
    parent: dict[int, int] = {}
    owner_of: dict[int, int] = {}
    for mask in dict.fromkeys(masks):
        parent[mask] = mask
        for term in iter_bits(mask):
            parent[_root(parent, mask)] = _root(parent, owner_of.setdefault(term, mask))
    return {mask: _root(parent, mask) for mask in parent}


def _root(parent: dict[int, int], item: int) -> int:
    """Return who stands for the mask's component, and shorten the way to it."""
    while parent[item] != item:
        parent[item] = parent[parent[item]]
        item = parent[item]
    return item


def together(groups: Sequence[Group]) -> dict[int, frozenset[int]]:
    """Return, by group, the groups that rules connect with it (indices); nobody else has to do with where it is."""
    found = {group.index: frozenset((group.index,)) for group in groups}
    for component in connected_components(groups):
        if component.terms:
            whole = frozenset(group.index for group in component.groups)
            found.update(dict.fromkeys(whole, whole))
    return found


def assignable_components(
    components: Iterable[Component], priority: int, one_by_one: Set[int]
) -> list[Component]:
    """Return what can be packed of the components: not gangs, price caps, ``one_by_one``, and other priorities.

    Where there are terms, that is all of a component or nothing: they would have to be kept between two placements.
    """
    found = []
    for component in components:
        groups = [
            group
            for group in component.groups
            if group.priority == priority
            and not (
                group.workload.gang or group.is_price_capped or group.index in one_by_one
            )
        ]
        if groups and (len(groups) == len(component.groups) or not component.terms):
            found.append(Component(groups))
    return found
