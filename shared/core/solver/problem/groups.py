"""Demand as groups of interchangeable replicas: everything later works on counts, not on replicas."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from shared.core.model.instance_type import CapacityType
from shared.core.model.policy import PreferencePolicy
from shared.core.model.snapshot import Snapshot
from shared.core.model.workload import Demand, Workload
from shared.core.scheduling_terms.taint import Taint, TaintEffect, binding_taints
from shared.core.solver.problem.catalogue import Alternative, Entry, Market, usable_pools
from shared.core.solver.problem.selection import ALL_CAPACITY_TYPES, Level, levels, reached_capacity_types
from shared.core.solver.problem.topology import Constraints, Domains, Terms, constraints_of, term_keys
from shared.core.solver.problem.vectors import Dimensions, Vector


@dataclass(slots=True, eq=False)
class Kind:
    """What groups share that differ in request, priority or owner alone: wishes, and their part in topology rules.

    Groups are many and kinds few, so whatever depends on these only is found once a kind.
    """

    workload: Workload  # one of them
    levels: tuple[Level, ...]
    matching: int  # the terms that select them
    constraints: tuple[Constraints, ...] = ()
    terms: int = 0  # those that select them and those that they carry


@dataclass(slots=True, eq=False)
class Group:
    """Interchangeable replicas: same request, same wishes at every level, same matches.

    ``members`` are (workload key, replicas, pending since), oldest first. ``alternatives`` has one mask of acceptable
    wishes per level. Gangs and workloads with a price cap are alone in their group (``is_alone``).
    Levels, matching and constraints are those of the kind, kept here too because they are asked for all the time.
    """

    index: int
    kind: Kind
    workload: Workload  # one of them, for everything that is the same
    priority: int
    request: Vector
    levels: tuple[Level, ...]
    matching: int
    is_alone: bool
    alternatives: tuple[int, ...] = ()
    constraints: tuple[Constraints, ...] = ()
    count: int = 0  # all replicas
    members: list[tuple[str, int, datetime]] = field(default_factory=list)

    @property
    def is_price_capped(self) -> bool:
        """Whether what it pays for is bounded: then it shares no node that is being bought."""
        return self.workload.max_price_micro_usd_per_hour is not None


@dataclass(slots=True)
class Demands:
    """All groups of a solve in queue order, with the terms they speak of and the wishes they have."""

    groups: list[Group]
    kinds: list[Kind]
    terms: Terms
    dimensions: Dimensions
    alternatives: list[Alternative]

    def resolve(self, market: Market) -> None:
        """Resolve the groups' topology against the domains that the market and the nodes have."""
        domains = known_domains(market, {key.topology_key for key in self.terms.keys})
        for kind in self.kinds:
            resolved = [
                constraints_of(kind.workload, level, self.terms, domains, kind.matching) for level in kind.levels
            ]
            kind.constraints, kind.terms = tuple(resolved), kind.matching
            for constraints in resolved:
                kind.terms |= constraints.terms()
        for group in self.groups:
            group.constraints = group.kind.constraints


def has_soft_taints(snapshot: Snapshot) -> bool:
    """Whether some usable pool has a PreferNoSchedule taint (R-47)."""
    return any(
        taint.effect is TaintEffect.PREFER_NO_SCHEDULE for pool, _ in usable_pools(snapshot) for taint in pool.taints
    )


def gather(snapshot: Snapshot, now: datetime, preference_policy: PreferencePolicy) -> Demands:
    """Group the pending demand."""
    soft_taints = has_soft_taints(snapshot)
    pending = [demand for demand in snapshot.demands if demand.pending_count > 0]
    dimensions = Dimensions(demand.workload.requests for demand in pending)
    memo: dict[object, tuple[Level, ...]] = {}
    # Demands by number: those that look alike to topology rules have one.
    numbers: dict[object, int] = {}
    looks: list[tuple[Workload, tuple[Level, ...]]] = []
    numbered: list[int] = []
    for demand in pending:
        workload, found = demand.workload, _levels(demand, now, preference_policy, soft_taints, memo)
        # ``levels`` are shared through a memo, so their identity stands for their value (cheaper than hashing it).
        number = numbers.setdefault((id(found), workload.namespace, tuple(workload.labels.items())), len(looks))
        if number == len(looks):
            looks.append((workload, found))
        numbered.append(number)
    terms = _terms(looks, snapshot)
    kinds = _kinds(looks, terms)
    groups = _grouped(pending, [kinds[number] for number in numbered], dimensions)
    return Demands(groups, list(dict.fromkeys(kinds)), terms, dimensions, _numbered_wishes(groups))


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


def _kinds(looks: Sequence[tuple[Workload, tuple[Level, ...]]], terms: Terms) -> list[Kind]:
    """Return the kind of each look."""
    by_key: dict[object, Kind] = {}
    found = []
    for workload, level_of in looks:
        matching = terms.matching(workload)
        # Terms look into the workload's own namespace; matchLabelKeys look at its labels.
        own = (workload.namespace, _chosen_labels(workload)) if _has_terms(workload) else ()
        kind = by_key.get((id(level_of), matching, own))
        if kind is None:
            kind = by_key[id(level_of), matching, own] = Kind(workload, level_of, matching)
        found.append(kind)
    return found


def _numbered_wishes(groups: Sequence[Group]) -> list[Alternative]:
    """Return the wishes of the groups, and give each level of theirs the mask of its wishes."""
    alternatives: dict[Alternative, int] = {}
    masks: dict[int, tuple[int, ...]] = {}  # by identity of the levels, which kinds share
    for group in groups:
        known = masks.get(id(group.levels))
        if known is None:
            known = masks[id(group.levels)] = tuple([_wishes(level, alternatives) for level in group.levels])
        group.alternatives = known
    return list(alternatives)


def _wishes(level: Level, alternatives: dict[Alternative, int]) -> int:
    """Return the mask of a level's wishes, and number those that are new."""
    mask = 0
    for requirements in level.selection.terms:
        mask |= 1 << alternatives.setdefault(Alternative(requirements, level.selection), len(alternatives))
    return mask


def running_level(workload: Workload) -> Level:
    """Return what a running workload still insists on."""
    return levels(workload, ALL_CAPACITY_TYPES, PreferencePolicy.IGNORE, soft_taints=False)[0]


def _known(snapshot: Snapshot) -> Iterable[Workload]:
    if not snapshot.workloads:
        return ()
    pending = {demand.workload.key for demand in snapshot.demands}
    return (workload for key, workload in sorted(snapshot.workloads.items()) if key not in pending)


def _levels(
    demand: Demand,
    now: datetime,
    preference_policy: PreferencePolicy,
    soft_taints: bool,
    memo: dict[object, tuple[Level, ...]],
) -> tuple[Level, ...]:
    workload = demand.workload
    capacity_types = reached_capacity_types(workload, demand.pending_since, now)
    # Workloads that were read together share equal terms; comparing those takes time. Mostly they have few.
    identity = (
        id(workload.node_selector),
        workload.required_node_terms and id(workload.required_node_terms),
        workload.preferred_node_terms and id(workload.preferred_node_terms),
        workload.tolerations and id(workload.tolerations),
        workload.topology_spread and id(workload.topology_spread),
        workload.affinity and id(workload.affinity),
        workload.anti_affinity and id(workload.anti_affinity),
        workload.duration_s,
        workload.checkpoint_period_s,
        capacity_types,
    )
    known = memo.get(identity)
    if known is None:
        known = memo[identity] = _levels_by_value(workload, capacity_types, preference_policy, soft_taints, memo)
    return known


def _levels_by_value(
    workload: Workload,
    capacity_types: frozenset[CapacityType],
    preference_policy: PreferencePolicy,
    soft_taints: bool,
    memo: dict[object, tuple[Level, ...]],
) -> tuple[Level, ...]:
    key = (
        workload.node_selector,
        workload.required_node_terms,
        workload.preferred_node_terms,
        workload.tolerations,
        workload.topology_spread,
        workload.affinity,
        workload.anti_affinity,
        workload.duration_s,
        workload.checkpoint_period_s,
        capacity_types,
    )
    known = memo.get(key)
    if known is None:
        known = memo[key] = levels(workload, capacity_types, preference_policy, soft_taints=soft_taints)
    return known


def _grouped(pending: Sequence[Demand], kinds: Sequence[Kind], dimensions: Dimensions) -> list[Group]:
    by_key: dict[object, Group] = {}
    for demand, kind in zip(pending, kinds, strict=True):
        workload = demand.workload
        request = dimensions.request(workload.requests)
        is_alone = workload.gang is not None or workload.max_price_micro_usd_per_hour is not None
        key = (request, id(kind), workload.priority, workload.key if is_alone else "")
        group = by_key.get(key)
        if group is None:
            group = by_key[key] = Group(
                0, kind, workload, workload.priority, request, kind.levels, kind.matching, is_alone
            )
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


def known_domains(market: Market, keys: Iterable[str]) -> Domains:
    """Return every domain of the topology keys: what the pools could make, and what the nodes have (R-62)."""
    found: dict[str, dict[str, set[tuple[Taint, ...]]]] = {}
    places = [
        (entry, place.labels(), binding_taints(entry.pool.taints, entry.pool.startup_taints, initialized=False))
        for entry, place in market.places
    ]
    startup = {pool.name: pool.startup_taints for pool in market.snapshot.node_pools}
    for key in sorted(keys):
        domains: dict[str, set[tuple[Taint, ...]]] = {}
        for entry, labels, taints in places:
            for value in _values_there(market, entry, labels, key):
                domains.setdefault(value, set()).add(taints)
        for node in market.snapshot.nodes:
            if key in node.labels and not node.deleting:
                taints = binding_taints(node.taints, startup.get(node.node_pool_name, ()), initialized=node.initialized)
                domains.setdefault(node.labels[key], set()).add(taints)
        found[key] = dict(sorted(domains.items()))
    return found


def _values_there(market: Market, entry: Entry, labels: Mapping[str, str], key: str) -> Iterable[str]:
    """Return the values of a label that new nodes of a pool could have at a place."""
    settled = labels.get(key, entry.labels.get(key))
    if settled is not None:
        return (settled,)
    of_types = (item.requirements.get(key) for item in market.entry_types[entry.index])
    return {value for wanted in of_types if wanted is not None and not wanted.complement for value in wanted.values}
