"""Demand as groups of interchangeable replicas: everything later works on counts, not on replicas."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count as numbers
from itertools import repeat
from operator import attrgetter

from shared.core.capacity.offerings import usable_pools
from shared.core.model.policy import PreferencePolicy
from shared.core.model.snapshot import Snapshot
from shared.core.model.team import by_namespace
from shared.core.model.workload import ALL_CAPACITY_TYPES, Demand, Withheld, Workload
from shared.core.scheduling_terms.resources import CPU, MEMORY
from shared.core.scheduling_terms.taint import Taint, TaintEffect
from shared.core.solver.problem.catalogue import OptionCatalogue, RequirementSet
from shared.core.solver.problem.selection import Level, levels
from shared.core.solver.problem.topology import Constraints, Domains, Terms, constraints_of
from shared.core.solver.problem.vectors import Dimensions, Vector, iter_bits, mask_of


@dataclass(slots=True, eq=False)
class EquivalenceClass:
    """What groups share that differ in request, priority or owner alone: what they accept, and their topology rules.

    There are many groups and few classes, so what depends on the class alone is found once per class.
    """

    workload: Workload  # one of them
    levels: tuple[Level, ...]
    matching: int  # the terms that select them
    requirement_sets: tuple[int, ...]
    constraints: tuple[Constraints, ...] = ()
    terms: int = 0  # those that select them and those that they carry
    pinned_labels: tuple[frozenset[str], ...] = ()  # by level: topology keys of their gang and of rules about them

    def resolve(self, terms: Terms, domains: Domains, counted_by: Iterable[str]) -> None:
        """Resolve the topology rules of each level; ``counted_by``: the topology keys of the rules that select them."""
        about = self.workload, terms, domains, self.matching
        self.constraints = tuple([constraints_of(level, *about) for level in self.levels])
        self.terms = self.matching | mask_of(term.term for found in self.constraints for term in found)
        pinned = frozenset([*filter(None, [self.workload.single_topology_key]), *counted_by])
        self.pinned_labels = tuple([pinned.union([it.topology_key for it in found]) for found in self.constraints])


@dataclass(slots=True, eq=False)
class Group:
    """Interchangeable replicas: same request, same requirement sets at every level, same matches.

    ``members`` are (workload key, replicas, pending since), oldest first. ``requirement_sets`` has a mask of those
    that are acceptable per level. Gangs and workloads with a price cap are alone in their group.
    Levels, matching and constraints are those of the equivalence class, kept here too because they are asked for all
    the time.
    """

    index: int
    equivalence_class: EquivalenceClass
    workload: Workload  # one of them, for everything that is the same
    priority: int
    request: Vector
    levels: tuple[Level, ...]
    matching: int
    requirement_sets: tuple[int, ...]
    is_price_capped: bool  # what it pays for is bounded: then it shares no node that is being bought
    team_budget: int | None  # what its team's budget leaves for new nodes, in atto-USD an hour
    withheld: tuple[Withheld, ...]  # what a quota of its team keeps it from
    constraints: tuple[Constraints, ...] = ()
    count: int = 0  # all replicas
    members: list[tuple[str, int, datetime]] = field(default_factory=list)

    @property
    def relaxed(self) -> tuple["RelaxedGroup", ...]:
        """Itself at each level, from all preferences to none; not kept, since a cycle would outlive the pass."""
        return tuple(map(RelaxedGroup, repeat(self), numbers(), self.requirement_sets, self.constraints))


@dataclass(slots=True, eq=False)
class RelaxedGroup:
    """A group whose replicas have given up their first ``level`` preferences, and what they still insist on."""

    group: Group
    level: int
    requirement_sets: int  # a mask
    constraints: Constraints


@dataclass(slots=True)
class Demands:
    """All groups of a solve in queue order, with the terms they speak of and the requirement sets they have."""

    groups: list[Group]
    terms: Terms
    dimensions: Dimensions
    requirement_sets: list[RequirementSet]

    def resolve(self, catalogue: OptionCatalogue) -> None:
        """Resolve the groups' topology against the domains that the market and the nodes have."""
        keys = [key.topology_key for key in self.terms.keys]  # by term
        domains = known_domains(catalogue, set(keys))
        for class_ in dict.fromkeys(group.equivalence_class for group in self.groups):
            class_.resolve(self.terms, domains, [keys[term] for term in iter_bits(class_.matching)])
        for group in self.groups:
            group.constraints = group.equivalence_class.constraints


def gather(snapshot: Snapshot, now: datetime, preference_policy: PreferencePolicy) -> Demands:
    """Group the pending demand."""
    pending = sorted([demand for demand in snapshot.demands if demand.pending_count > 0], key=_queue_order)
    looks = _looks(pending, snapshot, now, preference_policy)
    terms = _terms(looks, snapshot)
    dimensions = Dimensions(demand.workload.requests for demand in pending)
    numbers: dict[RequirementSet, int] = {}
    classes: dict[object, EquivalenceClass] = {}
    groups: dict[object, Group] = {}
    for demand, found, withheld in looks:
        workload, budget = demand.workload, demand.budget_atto_usd_per_hour
        matching, request = terms.matching(workload), dimensions.request(workload.requests)
        about = id(found), matching, workload.single_topology_key
        if (class_ := classes.get(about)) is None:
            masks = _requirement_sets(found, numbers)
            class_ = classes[about] = EquivalenceClass(workload, found, matching, masks)
        is_capped = workload.max_price_micro_usd_per_hour is not None or budget is not None
        owner = workload.key if is_capped or workload.gang is not None else ""
        key = (request, id(class_), workload.priority, owner, withheld)
        if (group := groups.get(key)) is None:
            group = groups[key] = Group(
                index=len(groups),
                equivalence_class=class_,
                workload=workload,
                priority=workload.priority,
                request=request,
                levels=class_.levels,
                matching=matching,
                requirement_sets=class_.requirement_sets,
                is_price_capped=is_capped,
                team_budget=budget,
                withheld=withheld,
            )
        group.members.append((workload.key, demand.pending_count, demand.pending_since))
        group.count += demand.pending_count
    return Demands(list(groups.values()), terms, dimensions, list(numbers))


def _queue_order(demand: Demand) -> tuple[int, int, int, datetime, str]:
    """Sort by priority, CPU, memory, age, name (R-41; the priority is ours)."""
    workload = demand.workload
    requests = workload.requests
    return -workload.priority, -requests[CPU], -requests[MEMORY], demand.pending_since, workload.key


# A demand, what it accepts now (one object for all who accept the same and have the same terms), and what is withheld.
_Look = tuple[Demand, tuple[Level, ...], tuple[Withheld, ...]]
_what_it_accepts = attrgetter(
    "node_selector",
    "required_node_terms",
    "preferred_node_terms",
    "tolerations",
    "topology_spread",
    "affinity",
    "anti_affinity",
    "duration_s",
    "checkpoint_period_s",
)


# Branches: comprehensions of a line each around one loop over demands.
def _looks(
    demands: Iterable[Demand], snapshot: Snapshot, now: datetime, preference_policy: PreferencePolicy
) -> list[_Look]:
    taints = (taint for pool, _ in usable_pools(snapshot) for taint in pool.taints)
    soft_taints = any(taint.effect is TaintEffect.PREFER_NO_SCHEDULE for taint in taints)
    # Whose team it is matters to nobody where no units are shared out.
    is_shared = any(reservation.share is not None for reservation in snapshot.reservations)
    teams = by_namespace(snapshot.teams)
    known: dict[object, tuple[Level, ...]] = {}
    looks: list[_Look] = []
    for demand in demands:
        workload = demand.workload
        reached = workload.reached_capacity_types(demand.pending_since, now)
        withheld = tuple([replace(each, capacity_types=each.capacity_types & reached) for each in demand.withheld])
        allowed = reached.difference(*[each.capacity_types for each in withheld])
        team = teams.get(workload.namespace)
        team_name = None if not is_shared else "" if team is None else team.name
        # Terms look into the workload's own namespace; matchLabelKeys look at its labels.
        own = (workload.namespace, *_chosen_labels(workload)) if _has_terms(workload) else ()
        key = (*_what_it_accepts(workload), allowed, team_name, own)
        if (found := known.get(key)) is None:
            found = levels(workload, allowed, preference_policy, soft_taints=soft_taints, team_name=team_name)
            known[key] = found
        looks.append((demand, found, withheld))
    return looks


def _terms(looks: Sequence[_Look], snapshot: Snapshot) -> Terms:
    """Register the terms of pending workloads, once for all that have the same, and those of running ones."""
    terms = Terms()
    for demand, found, _ in {id(look[1]): look for look in looks}.values():
        terms.register(demand.workload, found)
    # Only their anti-affinity binds newcomers, but what any of their terms counts should not change zone at launch.
    pending = {demand.workload.key for demand, *_ in looks}
    for key, workload in sorted(snapshot.workloads.items()):
        if key not in pending and _has_terms(workload):
            terms.register(workload, levels(workload, ALL_CAPACITY_TYPES, PreferencePolicy.IGNORE, soft_taints=False))
    return terms


def _has_terms(workload: Workload) -> bool:
    return bool(workload.topology_spread or workload.affinity or workload.anti_affinity)


def _chosen_labels(workload: Workload) -> tuple[str | None, ...]:
    keys = [key for constraint in workload.topology_spread for key in constraint.match_label_keys]
    return tuple([workload.labels.get(key) for key in keys])


def _requirement_sets(of_levels: Iterable[Level], numbers: dict[RequirementSet, int]) -> tuple[int, ...]:
    """Return the mask of each level's requirement sets, and number those that are new."""
    each = ([RequirementSet(term, level.selection) for term in level.selection.terms] for level in of_levels)
    return tuple([mask_of(numbers.setdefault(one, len(numbers)) for one in sets) for sets in each])


def known_domains(catalogue: OptionCatalogue, keys: Iterable[str]) -> Domains:
    """Return every domain of the topology keys: what the pools could make, and what the nodes have (R-62)."""
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
