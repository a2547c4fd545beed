"""Who has to do with whom by topology rules.

Groups and terms form a graph: a group that carries or matches a term is its neighbour. What happens in one connected
component does not matter to the others.
"""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from shared.core.solver.problem.bits import iter_bits
from shared.core.solver.problem.groups import EquivalenceClass, Group


@dataclass(slots=True, eq=False)
class Component:
    """Groups that rules connect, in the order of the queue; or with no ``terms`` some that no rule concerns."""

    groups: list[Group]
    terms: int  # a mask
    classes: list[EquivalenceClass] = field(default_factory=list)


def connected_components(groups: Sequence[Group]) -> list[Component]:
    """Return the connected components, in the order of their first group; free neighbours in the queue are one."""
    component_of = connected(group.equivalence_class.terms for group in groups)
    components: list[Component] = []
    tied: dict[int, Component] = {}
    free: Component | None = None
    for group in groups:
        terms = group.equivalence_class.terms
        component = tied.get(component_of[terms]) if terms else free
        if component is None:
            component = Component([], 0)
            components.append(component)
            if terms:
                tied[component_of[terms]], free = component, None
            else:
                free = component
        component.groups.append(group)
    for component in components:
        component.classes.extend(dict.fromkeys([group.equivalence_class for group in component.groups]))
        component.terms = reduce(or_, (class_.terms for class_ in component.classes))
    return components


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
    found: dict[int, frozenset[int]] = {}
    for component in connected_components(groups):
        whole = frozenset(group.index for group in component.groups)
        found.update({index: whole if component.terms else frozenset((index,)) for index in whole})
    return found


# Branches: comprehensions of a line each; only one question decides.
def inserted_groups(components: Iterable[Component], one_by_one: Set[int]) -> set[int]:
    """Return the groups that must are inserted one by one from the start, with all who are tied to them by terms.

    Those are gangs, price caps, and ``one_by_one``: what could not be assigned.
    """
    found: set[int] = set()
    for component in components:
        alone = [group.index for group in component.groups if group.is_alone or group.index in one_by_one]
        # Terms that reach over priorities would have to be kept between two packings.
        mixed = component.terms and len({group.priority for group in component.groups}) > 1
        found.update([group.index for group in component.groups] if mixed or (alone and component.terms) else alone)
    return found


def assignable_components(components: Iterable[Component], priority: int, inserted: Set[int]) -> list[Component]:
    """Return what is left of the components without the ``general`` groups and those of other priorities.

    Where there are terms, that is all of a component or nothing.
    """
    found = []
    for component in components:
        groups = [group for group in component.groups if group.priority == priority and group.index not in inserted]
        if groups:
            found.append(Component(groups, component.terms, component.classes))
    return found
