"""Topology rules (spread, affinity, anti-affinity) and the counts of replicas in each domain (R-60 to R-65).

A *term* is a selector over a topology key. All terms of a solve are numbered. The terms that select a group, and those
that it carries as anti-affinity, are masks, so that one operation tests all rules between two groups.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache

from reservoir.core.model.workload import (
    AffinityTerm,
    LabelSelector,
    TopologySpreadConstraint,
    Workload,
)
from reservoir.core.scheduling_terms.labels import CAPACITY_TYPE, HOSTNAME
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.taint import (
    Taint,
    TaintEffect,
    Toleration,
    tolerates_all,
)
from reservoir.core.solver.problem.catalogue import accepts
from reservoir.core.solver.problem.selection import Level, Selection, required
from reservoir.core.solver.problem.vectors import UNLIMITED, iter_bits, mask_of


@dataclass(frozen=True, slots=True)
class CountedNodes:
    """The nodes on which a spread counts replicas (R-62): those that its carrier could be on.

    A node must meet one of ``terms`` (any node if empty), set by nodeAffinityPolicy Honor, and its taints must be
    tolerated by ``tolerations`` (any taint if None), set by nodeTaintsPolicy Honor.
    """

    terms: tuple[Requirements, ...]
    tolerations: tuple[Toleration, ...] | None

    def has(self, labels: Mapping[str, str], taints: Iterable[Taint]) -> bool:
        """Whether replicas on nodes with these labels and taints count."""
        if self.tolerations is not None and not tolerates_hard(taints, self.tolerations):
            return False
        return not self.terms or any(accepts(labels, term.values()) for term in self.terms)

    def covers(self, selection: Selection, topology_key: str) -> bool:
        """Whether it is certain that replicas count on every node that the selection accepts."""
        if self.tolerations is not None and selection.tolerations != self.tolerations:
            return False
        return not self.terms or {
            term.without({topology_key}) for term in selection.terms
        } <= set(self.terms)


def tolerates_hard(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> bool:
    """Whether all taints except PreferNoSchedule ones are tolerated."""
    hard = [taint for taint in taints if taint.effect is not TaintEffect.PREFER_NO_SCHEDULE]
    return tolerates_all(hard, tolerations) is None


@dataclass(frozen=True, slots=True)
class TermKey:
    """What a term counts: replicas in ``namespaces`` that ``selector`` matches, on ``nodes``."""

    topology_key: str
    selector: LabelSelector
    namespaces: frozenset[str]
    nodes: CountedNodes | None = None  # None: every node counts


@dataclass(frozen=True, slots=True)
class SpreadTerm:
    """A spread constraint of a group. ``domains`` are those that its carrier may use; hosts are not listed."""

    term: int
    topology_key: str
    max_skew: int
    min_domains: int | None
    matches_self: bool
    domains: frozenset[str]
    nodes: CountedNodes | None

    def excess(self, matched: Mapping[str, int], domain: str) -> int:
        """Return how many replicas too many the domain holds; if negative, how many more it may take.

        ``matched`` has the replicas that the term counts, by domain.
        """
        are_too_few = self.min_domains is not None and len(self.domains) < self.min_domains
        lowest = (
            0
            if are_too_few
            else min((matched.get(item, 0) for item in self.domains), default=0)
        )
        return matched.get(domain, 0) - self.max_skew - lowest

    def room(self, excess: int) -> int:
        """Return how many of the carrier's replicas fit into a domain with this excess."""
        if self.matches_self:
            return max(0, -excess)
        return UNLIMITED if excess <= 0 else 0


@dataclass(frozen=True, slots=True)
class NearTerm:
    """An affinity or anti-affinity term of a group."""

    term: int
    topology_key: str
    matches_self: bool


@dataclass(frozen=True, slots=True)
class Constraints:
    """A group's topology rules at one relaxation level. ``anti_mask`` has its required anti-affinity terms."""

    spread: tuple[SpreadTerm, ...] = ()
    affinity: tuple[NearTerm, ...] = ()
    anti: tuple[NearTerm, ...] = ()
    anti_mask: int = 0

    def __iter__(self) -> Iterator[SpreadTerm | NearTerm]:
        """Yield every term."""
        yield from self.spread
        yield from self.affinity
        yield from self.anti

    @property
    def is_free(self) -> bool:
        """Whether there is no rule."""
        return not (self.spread or self.affinity or self.anti)


@dataclass(slots=True)
class Terms:
    """The register of all terms of a solve: numbers by key, and the terms that select each workload."""

    keys: dict[TermKey, int] = field(default_factory=dict)
    _memo: dict[tuple[str, frozenset[tuple[str, str]]], int] = field(default_factory=dict)
    _by_label: dict[tuple[str, tuple[str, str] | None], list[tuple[int, TermKey]]] = field(
        default_factory=dict
    )

    def register(self, workload: Workload, levels: Iterable[Level]) -> None:
        """Give a number to each term that the workload has at some level, unless it has one."""
        for level in levels:
            spread = [
                spread_key(constraint, workload, level) for constraint in level.spread
            ]
            near = [
                near_key(term, workload) for term in (*level.affinity, *level.anti_affinity)
            ]
            for key in (*spread, *near):
                self.keys.setdefault(key, len(self.keys))

    def matching(self, workload: Workload) -> int:
        """Return the mask of the terms that select the workload; all terms must be registered before."""
        if not self.keys:
            return 0
        memo_key = (workload.namespace, frozenset(workload.labels.items()))
        if (known := self._memo.get(memo_key)) is None:
            near = self._with_a_label_of(workload)
            known = self._memo[memo_key] = mask_of(
                term for term, key in near if key.selector.matches(workload.labels)
            )
        return known

    def _with_a_label_of(self, workload: Workload) -> Iterator[tuple[int, TermKey]]:
        """Yield the terms for the workload's namespace whose selector begins with one of its labels, or with none.

        These are all that can select it. If each workload has a rule about its own replicas, testing every workload
        with every term would take quadratic time.
        """
        if not self._by_label:
            for key, term in self.keys.items():
                first = next(iter(key.selector.match_labels), None)
                for namespace in sorted(key.namespaces):
                    self._by_label.setdefault((namespace, first), []).append((term, key))
        for label in (None, *workload.labels.items()):
            yield from self._by_label.get((workload.namespace, label), ())


def spread_key(
    constraint: TopologySpreadConstraint, workload: Workload, level: Level
) -> TermKey:
    """Return what a spread constraint of the workload counts."""
    selector = constraint.selector
    chosen = tuple(
        (key, workload.labels[key])
        for key in sorted(constraint.match_label_keys)
        if key in workload.labels
    )
    if chosen:
        selector = LabelSelector(
            tuple(sorted({*selector.match_labels, *chosen})), selector.match_expressions
        )
    nodes = _counted_nodes(constraint, level)
    return TermKey(
        constraint.topology_key, selector, frozenset({workload.namespace}), nodes
    )


def _counted_nodes(
    constraint: TopologySpreadConstraint, level: Level
) -> CountedNodes | None:
    if constraint.topology_key == HOSTNAME:
        # A host is counted on the carrier's own node alone, which counts whatever the policies say.
        return None
    terms = tuple(
        [term.without({constraint.topology_key}) for term in level.selection.terms]
    )
    honored = terms if constraint.node_affinity_policy_honor and all(terms) else ()
    tolerations = (
        level.selection.tolerations if constraint.node_taints_policy_honor else None
    )
    return (
        None if not honored and tolerations is None else CountedNodes(honored, tolerations)
    )


def near_key(term: AffinityTerm, workload: Workload) -> TermKey:
    """Return what an affinity or anti-affinity term of the workload counts."""
    return TermKey(
        term.topology_key, term.selector, term.namespaces or frozenset({workload.namespace})
    )


@dataclass(slots=True)
class DomainCounts:
    """The counts of one term by domain: ``matched`` replicas, and ``owners`` that carry it as anti-affinity."""

    topology_key: str
    nodes: CountedNodes | None
    matched: Counter[str] = field(default_factory=Counter)
    owners: Counter[str] = field(default_factory=Counter)


class DomainLedger:
    """The counts of each term over domains other than hosts; for hosts, the replicas on a node are counted there."""

    def __init__(self, terms: Terms) -> None:
        self.by_term: dict[int, DomainCounts] = {}
        self.host_mask = 0
        for key, term in terms.keys.items():
            if key.topology_key == HOSTNAME:
                self.host_mask |= 1 << term
            else:
                self.by_term[term] = DomainCounts(key.topology_key, key.nodes)
        # By spread constraint and domain, the placed replicas that carry it. Replicas that join later must keep it too,
        # so that it holds in the final state and not only when its carrier was admitted.
        self.carried = defaultdict[SpreadTerm, Counter[str]](Counter)
        # There are few different masks.
        self._terms_in: Callable[[int], Sequence[int]] = cache(
            lambda mask: tuple(iter_bits(mask))
        )
        # by term over hosts, the matching replicas on all nodes together
        self.populated_hosts = Counter[int]()

    def add(
        self,
        labels: Mapping[str, str],
        taints: Iterable[Taint],
        matching: int,
        anti_mask: int,
        count: int,
    ) -> None:
        """Record ``count`` replicas (negative: take them back) on a node with these labels and taints."""
        for term in self._terms_in((matching | anti_mask) & ~self.host_mask):
            counts = self.by_term[term]
            domain = labels.get(counts.topology_key)
            if domain is None:
                continue
            if anti_mask >> term & 1:
                counts.owners[domain] += count
            if matching >> term & 1 and (
                counts.nodes is None or counts.nodes.has(labels, taints)
            ):
                counts.matched[domain] += count
        for term in self._terms_in(matching & self.host_mask):
            self.populated_hosts[term] += count

    def carry(
        self, labels: Mapping[str, str], constraints: Constraints, count: int
    ) -> None:
        """Record that ``count`` replicas with these spread constraints are on a node with these labels."""
        for spread in constraints.spread:
            domain = labels.get(spread.topology_key)
            if spread.topology_key != HOSTNAME and domain is not None:
                self.carried[spread][domain] += count

    def carried_room(self, labels: Mapping[str, str], matching: int) -> int:
        """Return how many replicas with this mask of matches the spread constraints of placed replicas allow here."""
        room = UNLIMITED
        for spread, where in self.carried.items():
            domain = labels.get(spread.topology_key)
            if (
                matching >> spread.term & 1
                and domain is not None
                and where.get(domain, 0) > 0
            ):
                room = min(room, max(0, -self._excess(spread, domain)))
        return room

    def is_even(self) -> bool:
        """Whether the spread constraints of all placed replicas hold; they may not after replicas left a domain."""
        for spread, where in self.carried.items():
            for domain, count in where.items():
                if count > 0 and self._excess(spread, domain) > 0:
                    return False
        return True

    def _excess(self, spread: SpreadTerm, domain: str) -> int:
        return spread.excess(self.by_term[spread.term].matched, domain)

    def inverse_blocked(self, labels: Mapping[str, str], matching: int) -> bool:
        """Whether a placed replica's anti-affinity keeps replicas with these matches out of the node's domain."""
        for term, counts in self.by_term.items():
            domain = labels.get(counts.topology_key) if matching >> term & 1 else None
            if domain is not None and counts.owners.get(domain, 0) > 0:
                return True
        return False

    def crowd(self, labels: Mapping[str, str], constraints: Constraints) -> int:
        """Return how many replicas that the constraints spread are in the domains of a node with these labels."""
        spreads = (
            spread for spread in constraints.spread if spread.topology_key != HOSTNAME
        )
        return sum(
            [
                self.by_term[it.term].matched.get(labels.get(it.topology_key, ""), 0)
                for it in spreads
            ]
        )

    def spread_room(self, spread: SpreadTerm, domain: str | None) -> int:
        """Return how many more replicas the constraint allows in the domain (R-60, R-61)."""
        if domain is None or domain not in spread.domains:
            return 0
        return spread.room(self._excess(spread, domain))

    # Branches: one loop over anti-affinity and one over affinity, each with the same three conditions.
    def near_room(self, constraints: Constraints, labels: Mapping[str, str]) -> int:
        """Return how many replicas affinity and anti-affinity over domains (not hosts) allow in the node's domains."""
        room = UNLIMITED
        for near in constraints.anti:
            domain = labels.get(near.topology_key)
            if near.topology_key != HOSTNAME and domain is not None:
                if self.by_term[near.term].matched.get(domain, 0) > 0:
                    return 0
                room = 1 if near.matches_self else room
        for near in constraints.affinity:
            if near.topology_key != HOSTNAME:
                domain = labels.get(near.topology_key)
                matched = self.by_term[near.term].matched
                may_open = near.matches_self and not any(
                    count > 0 for count in matched.values()
                )
                if domain is None or not (matched.get(domain, 0) > 0 or may_open):
                    return 0
        return room


# By topology key and domain: the sets of taints that nodes there have or could have.
Domains = Mapping[str, Mapping[str, Set[tuple[Taint, ...]]]]


def constraints_of(
    level: Level, workload: Workload, terms: Terms, domains: Domains, matching: int
) -> Constraints:
    """Return a workload's topology rules at a level, with the numbers of their terms and their domains."""
    spread = []
    for constraint in level.spread:
        key = spread_key(constraint, workload, level)
        term = terms.keys[key]
        known = domains[constraint.topology_key].items()
        spread.append(
            SpreadTerm(
                term=term,
                topology_key=constraint.topology_key,
                max_skew=constraint.max_skew,
                min_domains=constraint.min_domains,
                matches_self=bool(matching >> term & 1),
                domains=frozenset(
                    [
                        domain
                        for domain, taints in known
                        if _may_use(level, constraint, domain, taints)
                    ]
                ),
                nodes=key.nodes,
            )
        )

    def near(wanted: AffinityTerm) -> NearTerm:
        number = terms.keys[near_key(wanted, workload)]
        return NearTerm(number, wanted.topology_key, bool(matching >> number & 1))

    anti = tuple(map(near, level.anti_affinity))
    # Only required anti-affinity keeps other replicas away.
    anti_mask = mask_of(near(wanted).term for wanted in required(level.anti_affinity))
    return Constraints(tuple(spread), tuple(map(near, level.affinity)), anti, anti_mask)


def _may_use(
    level: Level,
    constraint: TopologySpreadConstraint,
    domain: str,
    taints: Set[tuple[Taint, ...]],
) -> bool:
    """Whether the workload's own requirements allow the domain; other domains do not lower its minimum (R-62)."""
    tolerations = level.selection.tolerations
    if constraint.node_taints_policy_honor and not any(
        tolerates_hard(of_node, tolerations) for of_node in taints
    ):
        return False
    if not constraint.node_affinity_policy_honor:
        return True
    key = constraint.topology_key
    if not any(key not in term or term[key].has(domain) for term in level.selection.terms):
        return False
    # A ladder, or another choice of markets, restricts the domains of the capacity-type key in the same way.
    return key != CAPACITY_TYPE or domain in level.selection.capacity_types
