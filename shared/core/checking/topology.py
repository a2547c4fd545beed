"""Topology in the final state: spread, affinity and anti-affinity between all replicas that run after the plan.

Kubernetes admits pods one after another; a plan places all at once, so the rules are about the state that it leads to,
and only about domains that the plan adds to: what was uneven or conflicting before is not the plan's doing.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from shared.core import labels
from shared.core.checking.facts import Facts, Host
from shared.core.instance_type import InstanceType
from shared.core.plan import OfferingKey
from shared.core.taint import binding_taints
from shared.core.workload import (
    AffinityTerm,
    LabelSelector,
    TopologySpreadConstraint,
    WhenUnsatisfiable,
    Workload,
)

_OF_A_ZONE: Final = frozenset({labels.ZONE, labels.ZONE_ID})
_OF_OFFERINGS: Final = frozenset({labels.ZONE, labels.ZONE_ID, labels.CAPACITY_TYPE})


class Presence(NamedTuple):
    """Replicas of one workload on one host, per node."""

    host: Host
    running: int
    placed: int


@dataclass(frozen=True, slots=True, eq=False)
class Selected:
    """Workloads that a constraint is about; one object for equal selectors, so that it serves as a key."""

    keys: tuple[str, ...]
    members: frozenset[str]

    def __contains__(self, key: str) -> bool:
        return key in self.members


@dataclass(slots=True)
class Tally:
    """Replicas of one workload in one domain, per node."""

    running: int = 0
    placed: int = 0
    nodes: int = 0  # of the largest host


def required(terms: tuple[AffinityTerm, ...]) -> Iterator[AffinityTerm]:
    """Yield the terms that are not mere preferences."""
    return (term for term in terms if term.weight is None)


def hard(constraints: tuple[TopologySpreadConstraint, ...]) -> Iterator[TopologySpreadConstraint]:
    """Yield the spread constraints that forbid."""
    return (one for one in constraints if one.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE)


class Topology:
    """Where everything is in the final state, counted by domain."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.present: dict[str, list[Presence]] = {}
        for host in facts.hosts:
            running, placed = host.running, host.placed
            for key, count in placed.items():
                self.present.setdefault(key, []).append(Presence(host, running.get(key, 0), count))
            for key, count in running.items():
                if key not in placed:
                    self.present.setdefault(key, []).append(Presence(host, count, 0))
        for key in self.present.keys() - facts.workloads.keys():
            del self.present[key]
        self._by_label: dict[tuple[str, str], list[str]] = {}
        for key in sorted(facts.workloads):
            for label in facts.workloads[key].labels.items():
                self._by_label.setdefault(label, []).append(key)
        self._selected: dict[tuple[frozenset[str], LabelSelector], Selected] = {}
        self._tallies: dict[tuple[str, str], dict[str | None, Tally]] = {}
        self._counts: dict[tuple[object, ...], Counter[str]] = {}
        self._evenness: dict[tuple[object, ...], tuple[Counter[str], int]] = {}
        self._spread_counts: dict[tuple[object, ...], Counter[str]] = {}
        self._existing: dict[str, frozenset[str | None]] = {}
        self._numbers: dict[int, int] = {}  # by identity
        self._number_of: dict[TopologySpreadConstraint, int] = {}
        self._universes: dict[tuple[object, ...], frozenset[str]] = {}
        self._all_offered: dict[str, frozenset[str]] = {}
        self._zonal: frozenset[str] | None = None
        self._all_counted: frozenset[str] | None = None

    # -- who and where

    def domain(self, host: Host, key: str) -> str | None:
        """Return the host's value of a topology key; a host is its own hostname. None: it has none (yet)."""
        return host.name if key == labels.HOSTNAME else host.labels.get(key)

    def tallies(self, workload_key: str, topology_key: str) -> dict[str | None, Tally]:
        """Count the replicas of one workload by domain; None stands for nodes that have none."""
        known = self._tallies.get((workload_key, topology_key))
        if known is None:
            known = self._tallies[workload_key, topology_key] = {}
            for host, running, placed in self.present.get(workload_key, ()):
                domain = self.domain(host, topology_key)
                tally = known.get(domain)
                if tally is None:
                    tally = known[domain] = Tally()
                tally.running += running
                tally.placed += placed
                tally.nodes = max(tally.nodes, host.nodes)
        return known

    def added(self, workload_key: str, topology_key: str) -> set[str | None]:
        """Return the domains to which the plan adds replicas of the workload."""
        if topology_key == labels.HOSTNAME:
            return {host.name for host, _, placed in self.present.get(workload_key, ()) if placed}
        return {domain for domain, tally in self.tallies(workload_key, topology_key).items() if tally.placed}

    def selected(self, carrier: Workload, selector: LabelSelector, namespaces: frozenset[str]) -> Selected:
        """Return the keys of the workloads that a constraint of ``carrier`` is about."""
        within = namespaces or frozenset({carrier.namespace})
        known = self._selected.get((within, selector))
        if known is None:
            candidates = min(
                (self._by_label.get(label, []) for label in selector.match_labels),
                key=len,
                default=sorted(self._facts.workloads),
            )
            workloads = self._facts.workloads
            keys = tuple(
                key
                for key in candidates
                if workloads[key].namespace in within and selector.matches(workloads[key].labels)
            )
            known = self._selected[within, selector] = Selected(keys, frozenset(keys))
        return known

    def spread_selected(self, carrier: Workload, constraint: TopologySpreadConstraint) -> Selected:
        """Return the keys of the workloads that count for a spread constraint, ``matchLabelKeys`` included."""
        own = tuple((key, carrier.labels[key]) for key in sorted(constraint.match_label_keys) if key in carrier.labels)
        selector = constraint.selector
        if own:
            selector = replace(selector, match_labels=tuple(sorted({*selector.match_labels, *own})))
        return self.selected(carrier, selector, frozenset())

    def is_counted(self, workload_key: str) -> bool:
        """Whether somebody's anti-affinity or hard spread is about this workload."""
        if self._all_counted is None:
            selections: set[Selected] = set()
            for other in self._facts.workloads.values():
                terms, constraints = required(other.anti_affinity), hard(other.topology_spread)
                selections.update(self.selected(other, term.selector, term.namespaces) for term in terms)
                selections.update(self.spread_selected(other, constraint) for constraint in constraints)
            self._all_counted = frozenset().union(*(item.members for item in selections))
        return workload_key in self._all_counted

    def is_at(self, workload_key: str, topology_key: str, domains: Mapping[str, str]) -> bool:
        """Whether replicas of the workload are in the domain that a node with these domains is in."""
        domain = domains.get(topology_key)
        return domain is not None and domain in self.tallies(workload_key, topology_key)

    def counts(self, selected: Selected, topology_key: str) -> Counter[str]:
        """Count the replicas of these workloads by domain; for hosts per node, since each node is a domain."""
        known = (selected, topology_key)
        if known not in self._counts:
            self._counts[known] = self._summed(selected, topology_key, with_running=True)
        return self._counts[known]

    def fresh(self, selected: Selected, topology_key: str) -> Counter[str]:
        """Count by domain only what the plan adds."""
        known = ("fresh", selected, topology_key)
        if known not in self._counts:
            self._counts[known] = self._summed(selected, topology_key, with_running=False)
        return self._counts[known]

    def _summed(self, selected: Selected, topology_key: str, *, with_running: bool) -> Counter[str]:
        counts: dict[str, int] = {}
        is_host = topology_key == labels.HOSTNAME
        for key in selected.keys:
            for host, running, placed in self.present.get(key, ()):
                domain = host.name if is_host else host.labels.get(topology_key)
                if domain is not None:
                    count = placed + running if with_running else placed
                    counts[domain] = counts.get(domain, 0) + (count if is_host else count * host.nodes)
        return Counter(counts)

    def spread_counts(self, carrier: Workload, constraint: TopologySpreadConstraint) -> Counter[str]:
        """Count by domain, only on nodes that the constraint's policies let count."""
        about = self._about(carrier, constraint)
        if about not in self._spread_counts:
            self._spread_counts[about] = self._found_counts(carrier, constraint)
        return self._spread_counts[about]

    def _about(self, carrier: Workload, constraint: TopologySpreadConstraint) -> tuple[object, ...]:
        """Return what decides who counts for a constraint, and where."""
        own = [carrier.labels.get(key) for key in constraint.match_label_keys]
        return (carrier.namespace, self._number(constraint), self._facts.kind(carrier), carrier.tolerations, *own)

    def _found_counts(self, carrier: Workload, constraint: TopologySpreadConstraint) -> Counter[str]:
        selected = self.spread_selected(carrier, constraint)
        terms = self._facts.terms(carrier) if constraint.node_affinity_policy_honor else ()
        if not any(terms) and not constraint.node_taints_policy_honor:
            return self.counts(selected, constraint.topology_key)
        tolerations = carrier.tolerations if constraint.node_taints_policy_honor else None
        known = (selected, constraint.topology_key, terms, tolerations)
        if known not in self._counts:
            self._counts[known] = self._counted(selected, carrier, constraint)
        return self._counts[known]

    def _counted(self, selected: Selected, carrier: Workload, constraint: TopologySpreadConstraint) -> Counter[str]:
        counts: Counter[str] = Counter()
        of_hosts = constraint.topology_key == labels.HOSTNAME
        for key in selected.keys:
            for host, running, placed in self.present.get(key, ()):
                domain = self.domain(host, constraint.topology_key)
                if domain is not None and self._counts_there(host, carrier, constraint):
                    counts[domain] += (running + placed) * (1 if of_hosts else host.nodes)
        return counts

    def _counts_there(self, host: Host, carrier: Workload, constraint: TopologySpreadConstraint) -> bool:
        facts, site = self._facts, host.site
        if constraint.node_affinity_policy_honor and not facts.meets(site.description, site.undefined, carrier):
            return False
        return not constraint.node_taints_policy_honor or facts.tolerates(site.taints, carrier)

    def holds_to_zone(self, key: str) -> bool:
        """Whether some rule by zone depends on where replicas of this workload are."""
        if self._zonal is None:
            self._zonal = frozenset(self._found_zonal())
        return key in self._zonal

    def _found_zonal(self) -> Iterator[str]:
        for key in sorted(self._facts.workloads):
            workload = self._facts.workloads[key]
            if workload.gang is not None and workload.gang.single_topology_key in _OF_A_ZONE:
                yield key
            for constraint in hard(workload.topology_spread):
                if constraint.topology_key in _OF_A_ZONE:
                    yield key
                    yield from self.spread_selected(workload, constraint).keys
            for term in (*required(workload.affinity), *required(workload.anti_affinity)):
                if term.topology_key in _OF_A_ZONE:
                    yield key
                    yield from self.selected(workload, term.selector, term.namespaces).keys

    # -- which domains exist

    def universe(
        self, carrier: Workload, constraint: TopologySpreadConstraint, *, only_hosting: bool
    ) -> frozenset[str]:
        """Return the domains over which a spread is measured (R-62): of pools and types, and of existing nodes.

        With ``only_hosting`` a domain without nodes counts only if something there could hold a replica of the carrier.
        The true set lies between the two: fewer domains raise the minimum and allow more.
        """
        facts, key = self._facts, constraint.topology_key
        is_wide = not only_hosting and not constraint.node_affinity_policy_honor
        wishes = (facts.terms(carrier), facts.markets(carrier), facts.needs(carrier), carrier.tolerations)
        known = (key, wishes, only_hosting, is_wide)
        if known not in self._universes:
            terms = facts.terms(carrier)
            if key not in self._existing:
                hosts = (host for host in facts.hosts if host.node is not None)
                self._existing[key] = frozenset(self.domain(host, key) for host in hosts)
            existing = self._existing[key]
            self._universes[known] = frozenset(
                value
                for value in sorted(self._offered(key) | {value for value in existing if value is not None})
                if (is_wide or any(term[key].has(value) for term in terms))
                and (not only_hosting or value in existing or self._hosts(carrier, key, value))
            )
        return self._universes[known]

    def _offered(self, topology_key: str) -> frozenset[str]:
        """Return the values that new nodes of any pool could have."""
        if topology_key not in self._all_offered:
            facts = self._facts
            found: set[str] = set()
            for pool in facts.snapshot.node_pools:
                for key in facts.all_offerings(pool):
                    found.update(self._values(topology_key, key, facts.types[key.instance_type]))
                if topology_key not in _OF_OFFERINGS and not pool.requirements[topology_key].complement:
                    found.update(pool.requirements[topology_key].values)
            self._all_offered[topology_key] = frozenset(found)
        return self._all_offered[topology_key]

    def _hosts(self, carrier: Workload, topology_key: str, value: str) -> bool:
        """Whether some new node with this value could hold one replica of the carrier."""
        facts = self._facts
        needs = facts.needs(carrier)
        return any(
            (
                topology_key not in _OF_OFFERINGS
                or value in self._values(topology_key, key, facts.types[key.instance_type])
            )
            and needs.fits_in(facts.types[key.instance_type].allocatable)
            and facts.accepts(pool, key, carrier)
            for pool in facts.snapshot.node_pools
            if facts.tolerates(binding_taints(pool.taints, pool.startup_taints, initialized=False), carrier)
            for key in facts.open_offerings(pool)
        )

    def _values(self, topology_key: str, key: OfferingKey, instance_type: InstanceType) -> tuple[str, ...]:
        if topology_key == labels.ZONE:
            return (key.zone,)
        if topology_key == labels.ZONE_ID:
            return (key.zone_id,)
        if topology_key == labels.CAPACITY_TYPE:
            return (str(key.capacity_type),)
        requirement = instance_type.requirements[topology_key]
        return () if requirement.complement else tuple(sorted(requirement.values))

    def evenness(self, carrier: Workload, constraint: TopologySpreadConstraint) -> tuple[Counter[str], int]:
        """Return the counts by domain and the smallest of them, which many carriers of one constraint share."""
        facts = self._facts
        # Which domains could hold a replica depends on its size; every host is a domain.
        size = None if constraint.topology_key == labels.HOSTNAME else facts.needs(carrier)
        about = (size, *self._about(carrier, constraint))
        known = self._evenness.get(about)
        if known is None:
            least = self.least(carrier, constraint, only_hosting=True)
            known = self._evenness[about] = self.spread_counts(carrier, constraint), least
        return known

    def _number(self, constraint: TopologySpreadConstraint) -> int:
        """Return a number for equal constraints; the snapshot keeps them alive, and comparing them takes time."""
        known = self._numbers.get(id(constraint))
        if known is None:
            known = self._numbers[id(constraint)] = self._number_of.setdefault(constraint, len(self._number_of))
        return known

    def least(self, carrier: Workload, constraint: TopologySpreadConstraint, *, only_hosting: bool) -> int:
        """Return the smallest count over the domains (0 for hosts, and below ``minDomains``: R-60, R-61)."""
        if constraint.topology_key == labels.HOSTNAME:
            return 0
        domains = self.universe(carrier, constraint, only_hosting=only_hosting)
        if constraint.min_domains is not None and len(domains) < constraint.min_domains:
            return 0
        counts = self.spread_counts(carrier, constraint)
        return min((counts[domain] for domain in domains), default=0)
