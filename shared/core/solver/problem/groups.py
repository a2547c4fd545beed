"""Demand as groups of interchangeable replicas: everything later works on counts, not on replicas."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce
from operator import attrgetter, or_

from shared.core.model.policy import PreferencePolicy
from shared.core.model.snapshot import Snapshot
from shared.core.model.team import by_namespace
from shared.core.model.workload import Demand, Withheld, Workload
from shared.core.scheduling_terms.taint import Taint, TaintEffect, binding_taints
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


@dataclass(frozen=True, slots=True, eq=False)
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
            class_.terms = reduce(or_, (constraints.terms() for constraints in class_.constraints), class_.matching)
        for group in self.groups:
            group.constraints = group.equivalence_class.constraints


def gather(snapshot: Snapshot, now: datetime, preference_policy: PreferencePolicy) -> Demands:
    """Group the pending demand."""
    taints = (taint for pool, _ in usable_pools(snapshot) for taint in pool.taints)
    soft_taints = any(taint.effect is TaintEffect.PREFER_NO_SCHEDULE for taint in taints)
    team_of = _team_names(snapshot)
    pending = [demand for demand in snapshot.demands if demand.pending_count > 0]
    dimensions = Dimensions(demand.workload.requests for demand in pending)
    memo: dict[object, tuple[Level, ...]] = {}
    # Demands by number: those that look alike to topology rules have one.
    numbers: dict[object, int] = {}
    looks: list[tuple[Workload, tuple[Level, ...]]] = []
    numbered: list[int] = []
    for demand in pending:
        workload = demand.workload
        found = _levels(demand, now, preference_policy, soft_taints, team_of(workload.namespace), memo)
        # ``levels`` are shared through a memo, so their identity stands for their value (cheaper than hashing it).
        number = numbers.setdefault((id(found), workload.namespace, tuple(workload.labels.items())), len(looks))
        if number == len(looks):
            looks.append((workload, found))
        numbered.append(number)
    terms = _terms(looks, snapshot)
    classes = _classes(looks, terms)
    groups = _grouped(pending, [classes[number] for number in numbered], dimensions, now)
    return Demands(groups, list(dict.fromkeys(classes)), terms, dimensions, _numbered_requirement_sets(groups))


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


def _classes(looks: Sequence[tuple[Workload, tuple[Level, ...]]], terms: Terms) -> list[EquivalenceClass]:
    """Return the kind of each look."""
    by_key: dict[object, EquivalenceClass] = {}
    found = []
    for workload, level_of in looks:
        matching = terms.matching(workload)
        # Terms look into the workload's own namespace; matchLabelKeys look at its labels.
        own = (workload.namespace, _chosen_labels(workload)) if _has_terms(workload) else ()
        class_ = by_key.get((id(level_of), matching, own))
        if class_ is None:
            class_ = by_key[id(level_of), matching, own] = EquivalenceClass(workload, level_of, matching)
        found.append(class_)
    return found


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
    return reduce(or_, (1 << requirement_sets.setdefault(each, len(requirement_sets)) for each in sets), 0)


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
    terms = _what_it_accepts(workload)
    others = (workload.duration_s, workload.checkpoint_period_s, capacity_types, team_name)
    # Workloads that were read together share equal terms; comparing those takes time.
    identity = (*map(id, terms), *others)
    known = memo.get(identity)
    if known is None:
        known = memo.get((terms, others))
        if known is None:
            known = memo[terms, others] = levels(
                workload, capacity_types, preference_policy, soft_taints=soft_taints, team_name=team_name
            )
        memo[identity] = known
    return known


def _withheld(demand: Demand, now: datetime) -> tuple[Withheld, ...]:
    """Return what quotas keep the demand from of what its ladder has reached."""
    if not demand.withheld:
        return ()
    reached = reached_capacity_types(demand.workload, demand.pending_since, now)
    return tuple(replace(each, capacity_types=each.capacity_types & reached) for each in demand.withheld)


def _grouped(
    pending: Sequence[Demand], classes: Sequence[EquivalenceClass], dimensions: Dimensions, now: datetime
) -> list[Group]:
    by_key: dict[object, Group] = {}
    for demand, class_ in zip(pending, classes, strict=True):
        workload = demand.workload
        request = dimensions.request(workload.requests)
        budget = demand.budget_atto_usd_per_hour
        is_capped = workload.max_price_micro_usd_per_hour is not None or budget is not None
        is_alone = workload.gang is not None or is_capped
        key = (request, id(class_), workload.priority, workload.key if is_alone else "", demand.withheld)
        group = by_key.get(key)
        if group is None:
            group = by_key[key] = Group(
                0, class_, workload, workload.priority, request, class_.levels, class_.matching, is_alone
            )
            group.team_budget, group.withheld = budget, _withheld(demand, now)
        group.members.append((workload.key, demand.pending_count, demand.pending_since))
        group.count += demand.pending_count
    return _in_queue_order(by_key.values())


def _chosen_labels(workload: Workload) -> tuple[str | None, ...]:
    keys = [key for constraint in workload.topology_spread for key in constraint.match_label_keys]
    return tuple([workload.labels.get(key) for key in keys]) if keys else ()


def _in_queue_order(groups: Iterable[Group]) -> list[Group]:
    """Sort by priority, CPU, memory, age, name (R-41; the priority is ours)."""
    # Groups are many, sizes few, and mostly those of a size come by age: sorting them apart takes few comparisons.
    queues: dict[tuple[int, int, int], list[Group]] = {}
    for group in groups:
        if len(group.members) > 1:
            group.members.sort(key=_age)
        queues.setdefault((-group.priority, -group.request[0], -group.request[1]), []).append(group)
    ordered: list[Group] = []
    for size in sorted(queues):
        ordered += sorted(queues[size], key=_oldest)
    for index, group in enumerate(ordered):
        group.index = index
    return ordered


def _age(member: tuple[str, int, datetime]) -> tuple[datetime, str]:
    return member[2], member[0]


def _oldest(group: Group) -> tuple[datetime, str]:
    name, _, pending_since = group.members[0]
    return pending_since, name


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
