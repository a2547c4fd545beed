"""Which groups topology rules connect.

Groups and terms are the nodes of a graph, with an edge between a term and each group that carries it or that it
selects. Placements in one connected component do not change what is allowed in another.
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
    """Groups that rules connect, in the order of the queue; without ``terms``, groups that no rule concerns."""

    groups: list[Group]

    @property
    def classes(self) -> list[EquivalenceClass]:
        """The equivalence classes of the groups."""
        return list(dict.fromkeys([group.equivalence_class for group in self.groups]))

    @property
    def terms(self) -> int:
        """The mask of the terms that the groups carry or that select them."""
        return reduce(or_, (class_.terms for class_ in self.classes))


def connected_components(groups: Sequence[Group]) -> list[Component]:
    """Return the connected components, in the order of their first group; groups without any rule are one of them."""
    component_of = connected(group.equivalence_class.terms for group in groups)
    found = defaultdict[int, list[Group]](list)
    for group in groups:
        found[component_of[group.equivalence_class.terms]].append(group)
    return list(map(Component, found.values()))


def connected(masks: Iterable[int]) -> dict[int, int]:
    """Return, for each mask, the mask that represents its connected component; masks that share a bit are connected."""
    parent: dict[int, int] = {}
    owner_of: dict[int, int] = {}
    for mask in dict.fromkeys(masks):
        parent[mask] = mask
        for term in iter_bits(mask):
            parent[_root(parent, mask)] = _root(parent, owner_of.setdefault(term, mask))
    return {mask: _root(parent, mask) for mask in parent}


def _root(parent: dict[int, int], item: int) -> int:
    """Return the mask that represents the component of ``item``, and shorten the path to it (union-find)."""
    while parent[item] != item:
        parent[item] = parent[parent[item]]
        item = parent[item]
    return item


def together(groups: Sequence[Group]) -> dict[int, frozenset[int]]:
    """Return, by group index, the indices of the groups that rules connect with it, itself included."""
    found = {group.index: frozenset((group.index,)) for group in groups}
    for component in connected_components(groups):
        if component.terms:
            whole = frozenset(group.index for group in component.groups)
            found.update(dict.fromkeys(whole, whole))
    return found


def assignable_components(
    components: Iterable[Component], priority: int, one_by_one: Set[int]
) -> list[Component]:
    """Return the components whose groups can be packed by counts.

    Groups of other priorities, gangs, groups with a price cap and those in ``one_by_one`` (indices) cannot. If a
    component has terms and one of its groups cannot, none is packed: the terms would have to be kept between the groups
    that are packed and those that are inserted.
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
