"""The scheduling problem: the pending demand in groups of interchangeable replicas, and the options to launch.

Everything later works on the counts of groups. Groups that accept the same nodes and have the same topology rules share
an equivalence class.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count as numbers
from itertools import repeat
from typing import Final

from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import Demand, Withheld, Workload
from reservoir.core.scheduling_terms.labels import ULTRA_SERVER_ID
from reservoir.core.scheduling_terms.likeness import Likeness
from reservoir.core.scheduling_terms.taint import Taint
from reservoir.core.solver.problem.catalogue import OptionCatalogue
from reservoir.core.solver.problem.queue import (
    ACCEPTS,
    NOT_ABOUT_PLACES,
    PendingDemand,
    PendingQueue,
)
from reservoir.core.solver.problem.selection import Level
from reservoir.core.solver.problem.topology import (
    Constraints,
    Domains,
    Terms,
    constraints_of,
)
from reservoir.core.solver.problem.vectors import Vector, iter_bits, mask_of

# The fields of a workload that do not decide whether its replicas are interchangeable with others of the same class.
_GROUPED: Final = Likeness(
    Workload,
    {
        **{name: reason for name, reason in NOT_ABOUT_PLACES.items() if name != "priority"},
        **dict.fromkeys(
            ACCEPTS.names, "its equivalence class says what it accepts and has"
        ),
    },
)
_DEMANDED: Final = Likeness(
    Demand,
    {
        "workload": "its own likeness is in the key",
        "pending_count": "members are counted",
        "pending_since": "members are sorted by it; the class says which markets a ladder has reached",
        "budget_atto_usd_per_hour": "a workload with a budget is a group of its own",
        "was_late": "decides which demand has a pass to itself, not where it may run",
        "withheld": "is in the key beside it, as far as the ladder has reached it",
    },
)


@dataclass(frozen=True, slots=True, eq=False)
class EquivalenceClass:
    """The nodes that groups accept and their topology rules; their request, priority and owner may differ.

    There are many groups and few classes, so whatever depends on the class alone is computed once for each class.
    """

    levels: tuple[Level, ...]
    matching: int  # the mask of the terms that select the groups
    requirement_sets: tuple[int, ...]  # masks by level
    constraints: tuple[Constraints, ...]  # by level
    # by level: the topology keys of the groups' gang (of every gang the UltraServer, which it is not torn out of), of
    # the terms that select them, and of those that they carry
    pinned_labels: tuple[frozenset[str], ...]
    terms: int  # the mask of the terms that select the groups and of those that they carry


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Interchangeable replicas: the same request, requirement sets and topology rules at every level, and priority.

    ``members`` are (workload key, replicas, pending since), the oldest first. ``requirement_sets`` has, for each level,
    the mask of those of which one must hold. A gang is alone in its group, as is a workload with a price cap. Levels,
    matching and constraints are those of the equivalence class; they are copied here because they are read very often.
    """

    index: int
    equivalence_class: EquivalenceClass
    workload: Workload  # one of the members, to read what all have in common
    priority: int
    request: Vector
    levels: tuple[Level, ...]
    matching: int
    requirement_sets: tuple[int, ...]
    constraints: tuple[Constraints, ...]
    # whether a price cap or budget bounds what it pays; it then shares no node that the plan buys
    is_price_capped: bool
    # what its team's budget leaves for new nodes, in atto-USD an hour
    team_budget: int | None
    withheld: tuple[Withheld, ...]  # the markets that a quota of its team denies it
    members: Sequence[tuple[str, int, datetime]]
    count: int  # the replicas of all members

    @property
    def relaxed(self) -> tuple["RelaxedGroup", ...]:
        """The group at each level, from all preferences to none.

        It is made anew for each call: if the group kept it, the reference cycle would outlive the pass.
        """
        return tuple(
            map(
                RelaxedGroup,
                repeat(self),
                numbers(),
                self.requirement_sets,
                self.constraints,
            )
        )


@dataclass(slots=True, eq=False)
class RelaxedGroup:
    """A group whose replicas have given up their first ``level`` preferences, with the rules that are left."""

    group: Group
    level: int
    requirement_sets: int  # a mask
    constraints: Constraints


@dataclass(frozen=True, slots=True)
class SchedulingProblem:
    """The options of a solve, its demand in groups, and the terms of topology rules.

    ``unread`` is demand that there was no time to read; it is in no group.
    """

    catalogue: OptionCatalogue
    groups: Sequence[Group]
    terms: Terms
    unread: Sequence[Demand]

    @classmethod
    def of(
        cls, snapshot: Snapshot, now: datetime, policy: SchedulingPolicy
    ) -> "SchedulingProblem":
        """Return the problem of placing the snapshot's demand ``now``."""
        queue = PendingQueue.of(snapshot, now, policy)
        catalogue = queue.catalogue(snapshot, now, policy)
        return cls(catalogue, build_groups(queue, catalogue), queue.terms, queue.unread)


def build_groups(queue: PendingQueue, catalogue: OptionCatalogue) -> list[Group]:
    """Return the pending demand in groups, with topology rules over the domains that pools and nodes have."""
    keys = [key.topology_key for key in queue.terms.keys]  # by term
    domains = _known_domains(catalogue, set(keys))
    classes: dict[object, EquivalenceClass] = {}
    alike = defaultdict[tuple[EquivalenceClass, object], list[PendingDemand]](list)
    for each in queue.pending:
        workload = each.demand.workload
        accepted = (
            each.levels_number,
            queue.terms.matching(workload),
            workload.single_topology_key,
        )
        if (class_ := classes.get(accepted)) is None:
            class_ = classes[accepted] = _equivalence_class(each, queue, domains, keys)
        is_alone = each.demand.is_price_capped or workload.gang is not None
        own = (
            queue.dimensions.request(workload.requests),
            workload.key if is_alone else "",
            each.withheld,
            _GROUPED.key(workload),
            _DEMANDED.key(each.demand),
        )
        alike[class_, own].append(each)
    return [
        _group(index, class_, each, queue)
        for index, ((class_, _), each) in enumerate(alike.items())
    ]


def _equivalence_class(
    pending: PendingDemand,
    queue: PendingQueue,
    domains: Domains,
    topology_keys: Sequence[str],
) -> EquivalenceClass:
    """Return the equivalence class of a demand; ``topology_keys`` has the key of each term, by number."""
    workload = pending.demand.workload
    matching = queue.terms.matching(workload)
    pinned = {topology_keys[term] for term in iter_bits(matching)}
    if workload.single_topology_key:
        pinned.add(workload.single_topology_key)
    if workload.gang is not None:
        pinned.add(ULTRA_SERVER_ID)
    constraints: list[Constraints] = []
    pinned_labels: list[frozenset[str]] = []
    terms = matching
    for level in pending.levels:
        of_level = constraints_of(level, workload, queue.terms, domains, matching)
        constraints.append(of_level)
        pinned_labels.append(
            frozenset(pinned.union(rule.topology_key for rule in of_level))
        )
        terms |= mask_of(rule.term for rule in of_level)
    return EquivalenceClass(
        levels=pending.levels,
        matching=matching,
        requirement_sets=queue.masks(pending.levels),
        constraints=tuple(constraints),
        pinned_labels=tuple(pinned_labels),
        terms=terms,
    )


def _group(
    index: int,
    class_: EquivalenceClass,
    alike: Sequence[PendingDemand],
    queue: PendingQueue,
) -> Group:
    demands = [each.demand for each in alike]
    workload = demands[0].workload
    return Group(
        index=index,
        equivalence_class=class_,
        workload=workload,
        priority=workload.priority,
        request=queue.dimensions.request(workload.requests),
        levels=class_.levels,
        matching=class_.matching,
        requirement_sets=class_.requirement_sets,
        constraints=class_.constraints,
        is_price_capped=demands[0].is_price_capped,
        team_budget=demands[0].budget_atto_usd_per_hour,
        withheld=alike[0].withheld,
        members=[
            (each.workload.key, each.pending_count, each.pending_since) for each in demands
        ],
        count=sum([each.pending_count for each in demands]),
    )


def _known_domains(catalogue: OptionCatalogue, keys: Iterable[str]) -> Domains:
    """Return every domain of the topology keys, of nodes that pools could launch and of nodes that exist (R-62)."""
    found: dict[str, dict[str, set[tuple[Taint, ...]]]] = {}
    for key in keys:
        domains = found[key] = defaultdict(set)
        for entry, labels in catalogue.places:
            for value in (labels[key],) if key in labels else entry.values(key):
                domains[value].add(entry.taints)
        for node in catalogue.snapshot.nodes:
            if key in node.labels and not node.deleting:
                domains[node.labels[key]].add(catalogue.snapshot.binding_taints(node))
    return found
