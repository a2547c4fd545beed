"""Demand as groups of interchangeable replicas: everything later works on counts, not on replicas."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import attrgetter

from shared.core.model.policy import PreferencePolicy
from shared.core.model.snapshot import Snapshot
from shared.core.model.team import by_namespace
from shared.core.model.workload import Demand, Withheld, Workload
from shared.core.scheduling_terms.taint import Taint, TaintEffect, binding_taints
from shared.core.solver.problem.bits import mask_of
from shared.core.solver.problem.catalogue import Entry, OptionCatalogue, RequirementSet, usable_pools
from shared.core.solver.problem.selection import ALL_CAPACITY_TYPES, Level, levels, reached_capacity_types
from shared.core.solver.problem.topology import Constraints, Domains, Terms, constraints_of, term_keys
from shared.core.solver.problem.vectors import Dimensions, Vector


@dataclass(slots=True, eq=False)
class EquivalenceClass:
    """What groups share that differ in request, priority or owner alone: what they accept, and their topology rules.

    Groups are many and kinds few, so whatever depends on these only is found once a kind.
    """

    workload: Workload  # one of them
    levels: tuple[Level, ...]
    matching: int  # the terms that select them
    requirement_sets: tuple[int, ...] = ()
    constraints: tuple[Constraints, ...] = ()
    terms: int = 0  # those that select them and those that they carry


@dataclass(slots=True, eq=False)
class Group:
    """Interchangeable replicas: same request, same requirement sets at every level, same matches.

    ``members`` are (workload key, replicas, pending since), oldest first. ``requirement_sets`` has a mask of those
    that are acceptable per level. Gangs and workloads with a price cap are alone in their group (``is_alone``).
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
    is_alone: bool
    requirement_sets: tuple[int, ...] = ()
    constraints: tuple[Constraints, ...] = ()
    count: int = 0  # all replicas
    members: list[tuple[str, int, datetime]] = field(default_factory=list)
    team_budget: int | None = None  # what its team's budget leaves for new nodes, in atto-USD an hour
    withheld: tuple[Withheld, ...] = ()  # what a quota of its team keeps it from

    @property
    def relaxed(self) -> tuple["RelaxedGroup", ...]:
        """Itself at each level, from all preferences to none; not kept, since a cycle would outlive the pass."""
        each = zip(self.requirement_sets, self.constraints, strict=True)
        return tuple([RelaxedGroup(self, level, *kept) for level, kept in enumerate(each)])

    @property
    def is_price_capped(self) -> bool:
        """Whether what it pays for is bounded: then it shares no node that is being bought."""
        return self.workload.max_price_micro_usd_per_hour is not None or self.team_budget is not None


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
    classes: list[EquivalenceClass]
    terms: Terms
    dimensions: Dimensions
    requirement_sets: list[RequirementSet]

    def resolve(self, catalogue: OptionCatalogue) -> None:
        """Resolve the groups' topology against the domains that the market and the nodes have."""
        domains = known_domains(catalogue, {key.topology_key for key in self.terms.keys})
        for class_ in self.classes:
            about = class_.workload, self.terms, domains, class_.matching
            class_.constraints = tuple([constraints_of(level, *about) for level in class_.levels])
            class_.terms = class_.matching | mask_of(term.term for found in class_.constraints for term in found)
        for group in self.groups:
            group.constraints = group.equivalence_class.constraints


def gather(snapshot: Snapshot, now: datetime, preference_policy: PreferencePolicy) -> Demands:
    """Group the pending demand."""
    taints = (taint for pool, _ in usable_pools(snapshot) for taint in pool.taints)
    soft_taints = any(taint.effect is TaintEffect.PREFER_NO_SCHEDULE for taint in taints)
    team_of = _team_names(snapshot)
    memo: dict[object, tuple[Level, ...]] = {}
    pending = [
        (demand, _levels(demand, now, preference_policy, soft_taints, team_of(demand.workload.namespace), memo))
        for demand in snapshot.demands
        if demand.pending_count > 0
    ]
    terms = _terms([(demand.workload, found) for demand, found in pending], snapshot)
    dimensions = Dimensions(demand.workload.requests for demand, _ in pending)
    classes: dict[object, EquivalenceClass] = {}
    groups: dict[object, Group] = {}
    for demand, found in pending:
        group = _group(demand, _class(demand.workload, found, terms, classes), dimensions, now, groups)
        group.members.append((demand.workload.key, demand.pending_count, demand.pending_since))
        group.count += demand.pending_count
    ordered = _in_queue_order(groups.values())
    return Demands(ordered, list(classes.values()), terms, dimensions, _numbered_requirement_sets(ordered))


def _team_names(snapshot: Snapshot) -> Callable[[str], str | None]:
    """Return what names the team of a namespace; where no units are shared out it matters to nobody."""
    if all(reservation.share is None for reservation in snapshot.reservations):
        return lambda _: None
    teams = by_namespace(snapshot.teams)
    return lambda namespace: teams[namespace].name if namespace in teams else ""


def _terms(looks: Sequence[tuple[Workload, tuple[Level, ...]]], snapshot: Snapshot) -> Terms:
    """Register the terms of pending workloads, once for all that have the same, and those of running ones."""
    terms = Terms()
    registered: set[object] = set()
    for workload, found in looks:
        if _has_terms(workload):
            alike = (id(found), workload.namespace, _chosen_labels(workload))
            if alike not in registered:
                registered.add(alike)
                for key in term_keys(workload, found):
                    terms.register(key)
    # Only their anti-affinity binds newcomers, but what any of their terms counts should not change zone at launch.
    for workload in _known(snapshot):
        if _has_terms(workload):
            for key in term_keys(workload, (running_level(workload),)):
                terms.register(key)
    return terms


def _has_terms(workload: Workload) -> bool:
    return bool(workload.topology_spread or workload.affinity or workload.anti_affinity)


def _class(
    workload: Workload, found: tuple[Level, ...], terms: Terms, classes: dict[object, EquivalenceClass]
) -> EquivalenceClass:
    """Return the class of a workload, and add it to the others if it is new."""
    matching = terms.matching(workload)
    # Terms look into the workload's own namespace; matchLabelKeys look at its labels.
    own = (workload.namespace, _chosen_labels(workload)) if _has_terms(workload) else ()
    # Levels are shared through a memo, so their identity stands for their value (cheaper than hashing it).
    key = (id(found), matching, own)
    class_ = classes.get(key)
    if class_ is None:
        class_ = classes[key] = EquivalenceClass(workload, found, matching)
    return class_


def _numbered_requirement_sets(groups: Sequence[Group]) -> list[RequirementSet]:
    """Return the requirement sets of the groups, and give each level of theirs the mask of its requirement sets."""
    requirement_sets: dict[RequirementSet, int] = {}
    for group in groups:
        class_ = group.equivalence_class
        if not class_.requirement_sets:
            class_.requirement_sets = tuple([_requirement_sets(level, requirement_sets) for level in class_.levels])
        group.requirement_sets = class_.requirement_sets
    return list(requirement_sets)


def _requirement_sets(level: Level, requirement_sets: dict[RequirementSet, int]) -> int:
    """Return the mask of a level's requirement sets, and number those that are new."""
    sets = (RequirementSet(requirements, level.selection) for requirements in level.selection.terms)
    return mask_of(requirement_sets.setdefault(each, len(requirement_sets)) for each in sets)


def running_level(workload: Workload) -> Level:
    """Return what a running workload still insists on."""
    return levels(workload, ALL_CAPACITY_TYPES, PreferencePolicy.IGNORE, soft_taints=False)[0]


def _known(snapshot: Snapshot) -> Iterable[Workload]:
    if not snapshot.workloads:
        return ()
    pending = {demand.workload.key for demand in snapshot.demands}
    return (workload for key, workload in sorted(snapshot.workloads.items()) if key not in pending)


_what_it_accepts = attrgetter(
    "node_selector",
    "required_node_terms",
    "preferred_node_terms",
    "tolerations",
    "topology_spread",
    "affinity",
    "anti_affinity",
)


def _levels(
    demand: Demand,
    now: datetime,
    preference_policy: PreferencePolicy,
    soft_taints: bool,
    team_name: str | None,
    memo: dict[object, tuple[Level, ...]],
) -> tuple[Level, ...]:
    workload = demand.workload
    capacity_types = reached_capacity_types(workload, demand.pending_since, now)
    for withheld in demand.withheld:
        capacity_types -= withheld.capacity_types
    key = (*_what_it_accepts(workload), workload.duration_s, workload.checkpoint_period_s, capacity_types, team_name)
    known = memo.get(key)
    if known is None:
        known = memo[key] = levels(
            workload, capacity_types, preference_policy, soft_taints=soft_taints, team_name=team_name
        )
    return known


def _withheld(demand: Demand, now: datetime) -> tuple[Withheld, ...]:
    """Return what quotas keep the demand from of what its ladder has reached."""
    if not demand.withheld:
        return ()
    reached = reached_capacity_types(demand.workload, demand.pending_since, now)
    return tuple(replace(each, capacity_types=each.capacity_types & reached) for each in demand.withheld)


def _group(
    demand: Demand, class_: EquivalenceClass, dimensions: Dimensions, now: datetime, groups: dict[object, Group]
) -> Group:
    """Return the group that the demand belongs to, and add it to the others if it is new."""
    workload, budget = demand.workload, demand.budget_atto_usd_per_hour
    request = dimensions.request(workload.requests)
    is_capped = workload.max_price_micro_usd_per_hour is not None or budget is not None
    is_alone = workload.gang is not None or is_capped
    key = (request, id(class_), workload.priority, workload.key if is_alone else "", demand.withheld)
    group = groups.get(key)
    if group is None:
        group = groups[key] = Group(
            0, class_, workload, workload.priority, request, class_.levels, class_.matching, is_alone
        )
        group.team_budget, group.withheld = budget, _withheld(demand, now)
    return group


def _chosen_labels(workload: Workload) -> tuple[str | None, ...]:
    keys = [key for constraint in workload.topology_spread for key in constraint.match_label_keys]
    return tuple([workload.labels.get(key) for key in keys]) if keys else ()


def _in_queue_order(groups: Iterable[Group]) -> list[Group]:
    """Sort by priority, CPU, memory, age, name (R-41; the priority is ours)."""
    for group in groups:
        if len(group.members) > 1:  # groups are many, and mostly of one workload
            group.members.sort(key=lambda member: (member[2], member[0]))
    ordered = sorted(groups, key=_order)
    for index, group in enumerate(ordered):
        group.index = index
    return ordered


def _order(group: Group) -> tuple[int, int, int, datetime, str]:
    name, _, pending_since = group.members[0]
    return -group.priority, -group.request[0], -group.request[1], pending_since, name


def known_domains(catalogue: OptionCatalogue, keys: Iterable[str]) -> Domains:
    """Return every domain of the topology keys: what the pools could make, and what the nodes have (R-62)."""
    found: dict[str, dict[str, set[tuple[Taint, ...]]]] = {}
    places = [(entry, place.labels()) for entry, place in catalogue.places]
    startup = {pool.name: pool.startup_taints for pool in catalogue.snapshot.node_pools}
    for key in sorted(keys):
        domains: dict[str, set[tuple[Taint, ...]]] = {}
        for entry, labels in places:
            for value in _values_there(catalogue, entry, labels, key):
                domains.setdefault(value, set()).add(entry.taints)
        for node in catalogue.snapshot.nodes:
            if key in node.labels and not node.deleting:
                taints = binding_taints(node.taints, startup.get(node.node_pool_name, ()), initialized=node.initialized)
                domains.setdefault(node.labels[key], set()).add(taints)
        found[key] = dict(sorted(domains.items()))
    return found


def _values_there(catalogue: OptionCatalogue, entry: Entry, labels: Mapping[str, str], key: str) -> Iterable[str]:
    """Return the values of a label that new nodes of a pool could have at a place."""
    settled = labels.get(key, entry.labels.get(key))
    if settled is not None:
        return (settled,)
    of_types = (item.requirements.get(key) for item in catalogue.entry_types[entry.index])
    return {value for wanted in of_types if wanted is not None and not wanted.complement for value in wanted.values}
