"""Topology in the final state: spread, affinity and anti-affinity between all replicas that run after the plan.

Kubernetes admits pods one after another; a plan places all at once, so the rules are about the state that it leads to,
and only about domains that the plan adds to: what was uneven or conflicting before is not the plan's doing.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

from shared.core import labels
from shared.core.checking.domains import Domains, domain_of
from shared.core.checking.facts import Facts, Host
from shared.core.checking.numbering import Numbering
from shared.core.workload import (
    AffinityTerm,
    LabelSelector,
    TopologySpreadConstraint,
    WhenUnsatisfiable,
    Workload,
)

_OF_A_ZONE: Final = frozenset({labels.ZONE, labels.ZONE_ID})

# Replicas of one workload on one host, per node: those that ran there before the plan, those that it adds.
Presence = tuple[Host, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Selected:
    """Workloads that a constraint is about; one object for equal selectors, so that it serves as a key."""

    keys: tuple[str, ...]
    members: frozenset[str]

    def __contains__(self, key: str) -> bool:
        return key in self.members


class Evenness(NamedTuple):
    """How evenly replicas are spread: by domain, the smallest count, and the domains that have too many."""

    counts: Counter[str]
    least: int
    crowded: frozenset[str]


@dataclass(slots=True)
class Tally:
    """Replicas of one workload in one domain, per node."""

    running: int = 0
    placed: int = 0
    nodes: int = 0  # of the largest host


class Rules(NamedTuple):
    """What of a workload's topology binds: no preferences."""

    spread: tuple[TopologySpreadConstraint, ...]
    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]


def rules_of(workload: Workload) -> Rules:
    """Return the constraints and terms that forbid."""
    return Rules(
        tuple(one for one in workload.topology_spread if one.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE),
        tuple(term for term in workload.affinity if term.weight is None),
        tuple(term for term in workload.anti_affinity if term.weight is None),
    )


class Group(NamedTuple):
    """Workloads with the same rules about the same others: of one namespace, and alike in ``matchLabelKeys``."""

    rules: Rules
    workloads: list[Workload]


_NO_RULES: Final = Rules((), (), ())


class Topology:
    """Where everything is in the final state, counted by domain."""

    def __init__(self, facts: Facts) -> None:
        self._facts, self._domains = facts, Domains(facts)
        present: defaultdict[str, list[Presence]] = defaultdict(list)
        self.has_running = False  # replicas that were there before the plan
        for host in facts.hosts:
            running = host.running
            for key, count in host.placed.items():
                present[key].append((host, running.get(key, 0), count))
            for key, count in running.items():
                self.has_running = True
                if key not in host.placed:
                    present[key].append((host, count, 0))
        self.present: Mapping[str, Sequence[Presence]] = {
            key: found for key, found in present.items() if key in facts.workloads
        }
        self._by_label: dict[tuple[str, str], list[str]] = {}
        for key, workload in facts.workloads.items():
            for label in workload.labels.items():
                self._by_label.setdefault(label, []).append(key)
        self._of_terms: dict[tuple[str, int], Selected] = {}
        self._of_constraints: dict[tuple[object, ...], Selected] = {}
        self._selected: dict[tuple[frozenset[str], LabelSelector], Selected] = {}
        self._tallies: dict[tuple[str, str], dict[str | None, Tally]] = {}
        self._on_hosts: dict[tuple[Selected, bool], dict[Host, int]] = {}
        self._counts: dict[tuple[object, ...], Counter[str]] = {}
        self._crowded: dict[tuple[Selected, str, int], frozenset[str]] = {}
        self._evenness: dict[tuple[object, ...], Evenness] = {}
        self._everywhere: dict[str, bool] = {}
        self._spread_counts: dict[tuple[object, ...], Counter[str]] = {}
        self._numbers = Numbering()  # of constraints and terms in the snapshot, which keeps them alive
        self._zonal: frozenset[str] | None = None
        self._all_counted: frozenset[str] | None = None

    # -- who and where

    @cached_property
    def groups(self) -> Sequence[Group]:
        """All workloads with rules."""
        known: dict[tuple[int, int, int], Rules] = {}  # most have one of a few, in the same tuples
        found: dict[tuple[object, ...], Group] = {}
        for workload in self._facts.workloads.values():
            tuples = (id(workload.topology_spread), id(workload.affinity), id(workload.anti_affinity))
            rules = known.get(tuples)
            if rules is None:
                rules = known[tuples] = rules_of(workload)
            if rules == _NO_RULES:
                continue
            own = [workload.labels.get(key) for one in rules.spread for key in one.match_label_keys]
            about = (workload.namespace, id(rules), *own)
            group = found.get(about)
            if group is None:
                group = found[about] = Group(rules, [])
            group.workloads.append(workload)
        return tuple(found.values())

    def is_everywhere(self, topology_key: str) -> bool:
        """Whether every host has a value of the topology key."""
        known = self._everywhere.get(topology_key)
        if known is None:
            known = all(domain_of(host, topology_key) is not None for host in self._facts.hosts)
            self._everywhere[topology_key] = known
        return known

    def tallies(self, workload_key: str, topology_key: str) -> dict[str | None, Tally]:
        """Count the replicas of one workload by domain; None stands for nodes that have none."""
        known = self._tallies.get((workload_key, topology_key))
        if known is None:
            known = self._tallies[workload_key, topology_key] = {}
            for host, running, placed in self.present.get(workload_key, ()):
                domain = domain_of(host, topology_key)
                tally = known.get(domain)
                if tally is None:
                    tally = known[domain] = Tally()
                tally.running += running
                tally.placed += placed
                tally.nodes = max(tally.nodes, host.nodes)
        return known

    def added(self, workload_key: str, topology_key: str) -> set[str | None]:
        """Return the domains to which the plan adds replicas of the workload."""
        there = self.present.get(workload_key, ())
        if topology_key == labels.HOSTNAME:
            return {host.name for host, _, placed in there if placed}
        return {host.labels.get(topology_key) for host, _, placed in there if placed}

    def selected(self, carrier: Workload, term: AffinityTerm) -> Selected:
        """Return the workloads that a term of ``carrier`` is about."""
        about = (carrier.namespace, self._numbers.of(term))
        known = self._of_terms.get(about)
        if known is None:
            within = term.namespaces or frozenset({carrier.namespace})
            known = self._of_terms[about] = self._matching(within, term.selector)
        return known

    def spread_selected(self, carrier: Workload, constraint: TopologySpreadConstraint) -> Selected:
        """Return the workloads that count for a spread constraint, ``matchLabelKeys`` included."""
        own = [carrier.labels.get(key) for key in constraint.match_label_keys]
        about = (carrier.namespace, self._numbers.of(constraint), *own)
        known = self._of_constraints.get(about)
        if known is None:
            selector, labels_too = constraint.selector, zip(constraint.match_label_keys, own, strict=True)
            said = {(key, value) for key, value in labels_too if value is not None}
            if said:
                selector = replace(selector, match_labels=tuple(sorted({*selector.match_labels, *said})))
            known = self._of_constraints[about] = self._matching(frozenset({carrier.namespace}), selector)
        return known

    def _matching(self, namespaces: frozenset[str], selector: LabelSelector) -> Selected:
        known = self._selected.get((namespaces, selector))
        if known is None:
            candidates = min(
                (self._by_label.get(label, []) for label in selector.match_labels),
                key=len,
                default=sorted(self._facts.workloads),
            )
            workloads = self._facts.workloads
            keys = tuple([key for key in candidates if workloads[key].namespace in namespaces])
            if len(selector.match_labels) != 1 or selector.match_expressions:  # else all candidates match
                keys = tuple([key for key in keys if selector.matches(workloads[key].labels)])
            known = self._selected[namespaces, selector] = Selected(keys, frozenset(keys))
        return known

    def is_counted(self, workload_key: str) -> bool:
        """Whether somebody's anti-affinity or hard spread is about this workload."""
        if self._all_counted is None:
            selections: set[Selected] = set()
            for rules, workloads in self.groups:
                selections.update(self.selected(workloads[0], term) for term in rules.anti_affinity)
                selections.update(self.spread_selected(workloads[0], constraint) for constraint in rules.spread)
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
        if not self.has_running:
            return self.counts(selected, topology_key)
        known = ("fresh", selected, topology_key)
        if known not in self._counts:
            self._counts[known] = self._summed(selected, topology_key, with_running=False)
        return self._counts[known]

    def _summed(self, selected: Selected, topology_key: str, *, with_running: bool) -> Counter[str]:
        by_host = self._by_host(selected, with_running=with_running)
        if topology_key == labels.HOSTNAME:
            return Counter({host.name: count for host, count in by_host.items()})
        counts: Counter[str] = Counter()
        for host, count in by_host.items():
            domain = host.labels.get(topology_key)
            if domain is not None:
                counts[domain] += count * host.nodes
        return counts

    def _by_host(self, selected: Selected, *, with_running: bool) -> Mapping[Host, int]:
        """Count replicas per node: once for all topology keys, since most of the time is spent here."""
        known = self._on_hosts.get((selected, with_running))
        if known is None:
            known = self._on_hosts[selected, with_running] = {}
            for key in selected.keys:
                for host, running, placed in self.present.get(key, ()):
                    known[host] = known.get(host, 0) + (placed + running if with_running else placed)
        return known

    def spread_counts(self, carrier: Workload, constraint: TopologySpreadConstraint) -> Counter[str]:
        """Count by domain, only on nodes that the constraint's policies let count."""
        about = self._about(carrier, constraint)
        if about not in self._spread_counts:
            self._spread_counts[about] = self._found_counts(carrier, constraint)
        return self._spread_counts[about]

    def _about(self, carrier: Workload, constraint: TopologySpreadConstraint) -> tuple[object, ...]:
        """Return what decides who counts for a constraint, and where."""
        own = [carrier.labels.get(key) for key in constraint.match_label_keys]
        return (carrier.namespace, self._numbers.of(constraint), self._facts.kind(carrier), carrier.tolerations, *own)

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
                domain = domain_of(host, constraint.topology_key)
                if domain is not None and self._counts_there(host, carrier, constraint):
                    counts[domain] += (running + placed) * (1 if of_hosts else host.nodes)
        return counts

    def _counts_there(self, host: Host, carrier: Workload, constraint: TopologySpreadConstraint) -> bool:
        facts, site = self._facts, host.site
        if constraint.node_affinity_policy_honor and not facts.meets(site.description, site.undefined, carrier):
            return False
        return not constraint.node_taints_policy_honor or facts.tolerates(site.taints, carrier)

    def hold_to_zone(self, keys: Iterable[str]) -> bool:
        """Whether some rule by zone depends on where replicas of any of these workloads are."""
        if self._zonal is None:
            self._zonal = frozenset(self._found_zonal())
        return not self._zonal.isdisjoint(keys)

    def _found_zonal(self) -> Iterator[str]:
        for key, workload in self._facts.workloads.items():
            if workload.gang is not None and workload.gang.single_topology_key in _OF_A_ZONE:
                yield key
        for rules, workloads in self.groups:
            constraints = [one for one in rules.spread if one.topology_key in _OF_A_ZONE]
            terms = [one for one in (*rules.affinity, *rules.anti_affinity) if one.topology_key in _OF_A_ZONE]
            if constraints or terms:
                yield from (workload.key for workload in workloads)
            for constraint in constraints:
                yield from self.spread_selected(workloads[0], constraint).keys
            for term in terms:
                yield from self.selected(workloads[0], term).keys

    # -- how even it is

    def crowded(self, selected: Selected, topology_key: str, allowed: int) -> frozenset[str]:
        """Return the domains that have more than so many replicas of these workloads."""
        known = (selected, topology_key, allowed)
        if known not in self._crowded:
            counts = self.counts(selected, topology_key)
            self._crowded[known] = frozenset([domain for domain, count in counts.items() if count > allowed])
        return self._crowded[known]

    def evenness(self, carrier: Workload, constraint: TopologySpreadConstraint) -> Evenness:
        """Return what many carriers of one constraint share."""
        facts = self._facts
        # Which domains could hold a replica depends on its size; every host is a domain.
        size = None if constraint.topology_key == labels.HOSTNAME else facts.needs(carrier)
        about = (size, *self._about(carrier, constraint))
        known = self._evenness.get(about)
        if known is None:
            counts, least = self.spread_counts(carrier, constraint), self.least(carrier, constraint, only_hosting=True)
            most = least + constraint.max_skew
            crowded = frozenset([domain for domain, count in counts.items() if count > most])
            known = self._evenness[about] = Evenness(counts, least, crowded)
        return known

    def least(self, carrier: Workload, constraint: TopologySpreadConstraint, *, only_hosting: bool) -> int:
        """Return the smallest count over the domains (0 for hosts, and below ``minDomains``: R-60, R-61)."""
        if constraint.topology_key == labels.HOSTNAME:
            return 0
        domains = self._domains.universe(carrier, constraint, only_hosting=only_hosting)
        if constraint.min_domains is not None and len(domains) < constraint.min_domains:
            return 0
        counts = self.spread_counts(carrier, constraint)
        return min((counts[domain] for domain in domains), default=0)
