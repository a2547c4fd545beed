"""Topology in the final state: spread, affinity and anti-affinity between all replicas that run after the plan.

Kubernetes admits pods one after another; a plan places all at once, so the rules are about the state that it leads to,
and only about domains that the plan adds to: what was uneven or conflicting before is not the plan's doing.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from shared.core import labels
from shared.core.checker_facts import Facts, Host
from shared.core.instance_type import InstanceType
from shared.core.plan import OfferingKey
from shared.core.workload import (
    AffinityTerm,
    LabelSelector,
    TopologySpreadConstraint,
    WhenUnsatisfiable,
    Workload,
)

_OF_A_ZONE: Final = frozenset({labels.ZONE, labels.ZONE_ID})
_OF_OFFERINGS: Final = frozenset({labels.ZONE, labels.ZONE_ID, labels.CAPACITY_TYPE})


@dataclass(frozen=True, slots=True)
class Presence:
    """Replicas of one workload on one host, per node."""

    host: Host
    running: int
    placed: int


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
            for key in host.running.keys() | host.placed.keys():
                if key in facts.workloads:
                    presence = Presence(host, host.running.get(key, 0), host.placed.get(key, 0))
                    self.present.setdefault(key, []).append(presence)
        self._by_label: dict[tuple[str, str], list[str]] = {}
        for key in sorted(facts.workloads):
            for label in facts.workloads[key].labels.items():
                self._by_label.setdefault(label, []).append(key)
        self._selected: dict[tuple[frozenset[str], LabelSelector], tuple[str, ...]] = {}
        self._counts: dict[tuple[object, ...], Counter[str]] = {}
        self._universes: dict[tuple[object, ...], frozenset[str]] = {}
        self._all_offered: dict[str, frozenset[str]] = {}
        self._zonal: frozenset[str] | None = None

    # -- who and where

    def domain(self, host: Host, key: str) -> str | None:
        """Return the host's value of a topology key; a host is its own hostname. None: it has none (yet)."""
        return host.subject if key == labels.HOSTNAME else host.labels.get(key)

    def selected(self, carrier: Workload, selector: LabelSelector, namespaces: frozenset[str]) -> tuple[str, ...]:
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
            known = tuple(
                key
                for key in candidates
                if workloads[key].namespace in within and selector.matches(workloads[key].labels)
            )
            self._selected[within, selector] = known
        return known

    def spread_selected(self, carrier: Workload, constraint: TopologySpreadConstraint) -> tuple[str, ...]:
        """Return the keys of the workloads that count for a spread constraint, ``matchLabelKeys`` included."""
        own = tuple((key, carrier.labels[key]) for key in sorted(constraint.match_label_keys) if key in carrier.labels)
        selector = constraint.selector
        if own:
            selector = replace(selector, match_labels=tuple(sorted({*selector.match_labels, *own})))
        return self.selected(carrier, selector, frozenset())

    def counts(self, keys: tuple[str, ...], topology_key: str) -> Counter[str]:
        """Count the replicas of these workloads by domain; for hosts per node, since each node is a domain."""
        known = (keys, topology_key)
        if known not in self._counts:
            self._counts[known] = self._counted(keys, topology_key, None)
        return self._counts[known]

    def fresh(self, keys: tuple[str, ...], topology_key: str) -> Counter[str]:
        """Count by domain only what the plan adds."""
        known = ("fresh", keys, topology_key)
        if known not in self._counts:
            counts: Counter[str] = Counter()
            for key in keys:
                for presence in self.present.get(key, ()):
                    domain = self.domain(presence.host, topology_key)
                    if domain is not None:
                        counts[domain] += presence.placed
            self._counts[known] = counts
        return self._counts[known]

    def spread_counts(self, carrier: Workload, constraint: TopologySpreadConstraint) -> Counter[str]:
        """Count by domain, only on nodes that the constraint's policies let count."""
        keys = self.spread_selected(carrier, constraint)
        terms = self._facts.terms(carrier) if constraint.node_affinity_policy_honor else ()
        if not any(terms) and not constraint.node_taints_policy_honor:
            return self.counts(keys, constraint.topology_key)
        tolerations = carrier.tolerations if constraint.node_taints_policy_honor else None
        known = (keys, constraint.topology_key, terms, tolerations)
        if known not in self._counts:
            self._counts[known] = self._counted(keys, constraint.topology_key, (carrier, constraint))
        return self._counts[known]

    def _counted(
        self, keys: tuple[str, ...], topology_key: str, counting: tuple[Workload, TopologySpreadConstraint] | None
    ) -> Counter[str]:
        counts: Counter[str] = Counter()
        for key in keys:
            for presence in self.present.get(key, ()):
                host = presence.host
                domain = self.domain(host, topology_key)
                if domain is None or (counting is not None and not self._counts_there(host, *counting)):
                    continue
                nodes = 1 if topology_key == labels.HOSTNAME else host.nodes
                counts[domain] += (presence.running + presence.placed) * nodes
        return counts

    def _counts_there(self, host: Host, carrier: Workload, constraint: TopologySpreadConstraint) -> bool:
        facts = self._facts
        if constraint.node_affinity_policy_honor and not facts.meets(host.description, host.undefined, carrier):
            return False
        return not constraint.node_taints_policy_honor or facts.tolerates(host.taints, carrier)

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
                    yield from self.spread_selected(workload, constraint)
            for term in (*required(workload.affinity), *required(workload.anti_affinity)):
                if term.topology_key in _OF_A_ZONE:
                    yield key
                    yield from self.selected(workload, term.selector, term.namespaces)

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
        known = (key, facts.terms(carrier), facts.markets(carrier), facts.needs(carrier), only_hosting, is_wide)
        if known not in self._universes:
            terms = facts.terms(carrier)
            existing = {self.domain(host, key) for host in facts.hosts if host.node is not None}
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
                for key in facts.open_offerings(pool):
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

    def least(self, carrier: Workload, constraint: TopologySpreadConstraint, *, only_hosting: bool) -> int:
        """Return the smallest count over the domains (0 for hosts, and below ``minDomains``: R-60, R-61)."""
        if constraint.topology_key == labels.HOSTNAME:
            return 0
        domains = self.universe(carrier, constraint, only_hosting=only_hosting)
        if constraint.min_domains is not None and len(domains) < constraint.min_domains:
            return 0
        counts = self.spread_counts(carrier, constraint)
        return min((counts[domain] for domain in domains), default=0)
