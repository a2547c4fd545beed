"""Who has to do with whom by topology rules.

Groups and terms form a graph: a group that carries or matches a term is its neighbour. What happens in one connected
part does not matter to the others.
"""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from shared.core.solver.problem.bits import iter_bits
from shared.core.solver.problem.groups import Group, Kind


@dataclass(slots=True, eq=False)
class Part:
    """Groups that rules connect, in the order of the queue; or with no ``terms`` some that no rule concerns."""

    groups: list[Group]
    terms: int  # a mask
    kinds: list[Kind] = field(default_factory=list)


def connected_parts(groups: Sequence[Group]) -> list[Part]:
    """Return the connected parts, in the order of their first group; free neighbours in the queue are one."""
    part_of = _connected(dict.fromkeys(group.kind.terms for group in groups))  # groups are many, combinations few
    parts: list[Part] = []
    tied: dict[int, Part] = {}
    free: Part | None = None
    for group in groups:
        terms = group.kind.terms
        part = tied.get(part_of[terms]) if terms else free
        if part is None:
            part = Part([], 0)
            parts.append(part)
            if terms:
                tied[part_of[terms]], free = part, None
            else:
                free = part
        part.groups.append(group)
    for part in parts:
        part.kinds.extend(dict.fromkeys([group.kind for group in part.groups]))
        part.terms = reduce(or_, (kind.terms for kind in part.kinds))
    return parts


def _connected(masks: Iterable[int]) -> dict[int, int]:
    """Return, by combination of terms, who stands for its part: one of the part's combinations, 0 for no terms."""
    parent: dict[int, int] = {}
    owner_of: dict[int, int] = {}
    for mask in masks:
        parent[mask] = mask
        for term in iter_bits(mask):
            parent[_root(parent, mask)] = _root(parent, owner_of.setdefault(term, mask))
    return {mask: _root(parent, mask) for mask in parent}


def _root(parent: dict[int, int], item: int) -> int:
    """Return who stands for the item's part, and shorten the way to it."""
    while parent[item] != item:
        parent[item] = parent[parent[item]]
        item = parent[item]
    return item


def together(groups: Sequence[Group]) -> dict[int, frozenset[int]]:
    """Return, by group, the groups that rules connect with it (indices); nobody else has to do with where it is."""
    found: dict[int, frozenset[int]] = {}
    for part in connected_parts(groups):
        whole = frozenset(group.index for group in part.groups)
        found.update({index: whole if part.terms else frozenset((index,)) for index in whole})
    return found


def general_groups(parts: Iterable[Part], one_by_one: Set[int]) -> set[int]:
    """Return the groups that must take the general path from the start, with all who are tied to them by terms.

    Those are gangs, price caps, and ``one_by_one``: what could not be dealt out.
    """
    found: set[int] = set()
    for part in parts:
        alone = [group.index for group in part.groups if group.is_alone or group.index in one_by_one]
        # Terms that reach over priorities would have to be kept between two packings.
        mixed = part.terms and len({group.priority for group in part.groups}) > 1
        found.update([group.index for group in part.groups] if mixed or (alone and part.terms) else alone)
    return found


def dealt_parts(parts: Iterable[Part], priority: int, general: Set[int]) -> list[Part]:
    """Return what is left of the parts without the ``general`` groups and those of other priorities.

    Where there are terms, that is all of a part or nothing.
    """
    found = []
    for part in parts:
        groups = [group for group in part.groups if group.priority == priority and group.index not in general]
        if groups:
            found.append(Part(groups, part.terms, part.kinds))
    return found
