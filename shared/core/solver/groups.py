"""Demand as groups of interchangeable replicas: everything later works on counts, not on replicas."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from shared.core.instance_type import CapacityType
from shared.core.policy import PreferencePolicy
from shared.core.snapshot import Snapshot
from shared.core.solver.market import Alternative, Entry, Market, usable_pools
from shared.core.solver.selection import ALL_CAPACITY_TYPES, Level, levels, reached_capacity_types
from shared.core.solver.topology import Constraints, Domains, Terms, constraints_of, term_keys
from shared.core.solver.vectors import Dimensions, Vector
from shared.core.taint import Taint, TaintEffect, binding_taints
from shared.core.workload import Demand, Workload


@dataclass(slots=True, eq=False)
class Group:
    """Interchangeable replicas: same request, same wishes at every level, same matches.

    ``members`` are (workload key, replicas, pending since), oldest first. ``alternatives`` has one mask of acceptable
    wishes per level. Gangs and workloads with a price cap are alone in their group.
    """

    index: int
    workload: Workload  # one of them, for everything that is the same
    priority: int
    request: Vector
    levels: tuple[Level, ...]
    matching: int
    count: int = 0  # all replicas
    members: list[tuple[str, int, datetime]] = field(default_factory=list)
    alternatives: list[int] = field(default_factory=list)
    constraints: list[Constraints] = field(default_factory=list)

    @property
    def is_price_capped(self) -> bool:
        """Whether what it pays for is bounded: then it shares no node that is being bought."""
        return self.workload.max_price_micro_usd_per_hour is not None


@dataclass(slots=True)
class Demands:
    """All groups of a solve in queue order, with the terms they speak of and the wishes they have."""

    groups: list[Group]
    terms: Terms
    dimensions: Dimensions
    alternatives: list[Alternative]

    def resolve(self, market: Market) -> None:
        """Resolve the groups' topology against the domains that the market and the nodes have."""
        domains = known_domains(market, {key.topology_key for key in self.terms.keys})
        # Workloads share levels through a memo of ``gather``, so their identity stands for their value.
        known: dict[object, Constraints] = {}
        for group in self.groups:
            workload, matching = group.workload, group.matching
            shared = (matching, workload.namespace, _chosen_labels(workload))
            for level in group.levels:
                if (id(level), shared) not in known:
                    known[id(level), shared] = constraints_of(workload, level, self.terms, domains, matching)
            group.constraints = [known[id(level), shared] for level in group.levels]


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
    terms = Terms()
    memo: dict[object, tuple[Level, ...]] = {}
    levels_of = [_levels(demand, now, preference_policy, soft_taints, memo) for demand in pending]
    _register(pending, levels_of, terms)
    # Only their anti-affinity binds newcomers, but what any of their terms counts should not change zone at launch.
    for workload in _known(snapshot):
        if workload.topology_spread or workload.affinity or workload.anti_affinity:
            for key in term_keys(workload, (running_level(workload),)):
                terms.register(key)
    groups = _grouped(pending, levels_of, terms, dimensions)
    alternatives: dict[Alternative, int] = {}
    masks: dict[int, int] = {}  # by identity of the levels, which groups share
    for group in groups:
        group.alternatives = [
            masks.get(id(level)) or masks.setdefault(id(level), _wishes(level, alternatives)) for level in group.levels
        ]
    return Demands(groups, terms, dimensions, list(alternatives))


def _wishes(level: Level, alternatives: dict[Alternative, int]) -> int:
    """Return the mask of a level's wishes, and number those that are new."""
    mask = 0
    for requirements in level.selection.terms:
        mask |= 1 << alternatives.setdefault(Alternative(requirements, level.selection), len(alternatives))
    return mask


def _register(pending: Sequence[Demand], levels_of: Sequence[tuple[Level, ...]], terms: Terms) -> None:
    """Register the terms of pending workloads, once for all that share their levels and see the same replicas."""
    registered: set[object] = set()
    for demand, found in zip(pending, levels_of, strict=True):
        workload = demand.workload
        if workload.topology_spread or workload.affinity or workload.anti_affinity:
            alike = (id(found), workload.namespace, _chosen_labels(workload))
            if alike not in registered:
                registered.add(alike)
                for key in term_keys(workload, found):
                    terms.register(key)


def running_level(workload: Workload) -> Level:
    """Return what a running workload still insists on."""
    return levels(workload, ALL_CAPACITY_TYPES, PreferencePolicy.IGNORE, soft_taints=False)[0]


def _known(snapshot: Snapshot) -> Iterable[Workload]:
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
    # Workloads that were read together share equal terms; comparing those takes time.
    identity = (
        id(workload.node_selector),
        id(workload.required_node_terms),
        id(workload.preferred_node_terms),
        id(workload.tolerations),
        id(workload.topology_spread),
        id(workload.affinity),
        id(workload.anti_affinity),
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


def _grouped(
    pending: Sequence[Demand], levels_of: Sequence[tuple[Level, ...]], terms: Terms, dimensions: Dimensions
) -> list[Group]:
    by_key: dict[object, Group] = {}
    for demand, found in zip(pending, levels_of, strict=True):
        workload = demand.workload
        request, matching = dimensions.request(workload.requests), terms.matching(workload)
        has_terms = workload.topology_spread or workload.affinity or workload.anti_affinity
        is_alone = workload.gang is not None or workload.max_price_micro_usd_per_hour is not None
        key = (
            request,
            # ``levels`` are shared through a memo, so their identity stands for their value (cheaper than hashing it).
            id(found),
            matching,
            workload.priority,
            # Terms look into the workload's own namespace; matchLabelKeys look at its labels.
            workload.namespace if has_terms else "",
            _chosen_labels(workload) if has_terms else (),
            workload.key if is_alone else "",
        )
        group = by_key.get(key)
        if group is None:
            group = by_key[key] = Group(0, workload, workload.priority, request, found, matching)
        group.members.append((workload.key, demand.pending_count, demand.pending_since))
        group.count += demand.pending_count
    return _in_queue_order(by_key.values())


def _chosen_labels(workload: Workload) -> tuple[str | None, ...]:
    keys = [key for constraint in workload.topology_spread for key in constraint.match_label_keys]
    return tuple([workload.labels.get(key) for key in keys]) if keys else ()


def _in_queue_order(groups: Iterable[Group]) -> list[Group]:
    """Sort by priority, CPU, memory, age, name (R-41; the priority is ours)."""
    for group in groups:
        if len(group.members) > 1:
            group.members.sort(key=lambda member: (member[2], member[0]))
    ordered = sorted(
        groups,
        key=lambda group: (
            -group.priority,
            -group.request[0],
            -group.request[1],
            group.members[0][2],
            group.members[0][0],
        ),
    )
    for index, group in enumerate(ordered):
        group.index = index
    return ordered


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
