"""Topology in the final state: spread, affinity and anti-affinity between all replicas that run after the plan.

Kubernetes admits pods one after another; a plan places all at once, so the rules are about the state that it leads to,
and only about domains that the plan adds to: what was uneven or conflicting before is not the plan's doing.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import Final, NamedTuple

from reservoir.core.checking.constraints.domains import Domains, domain_of
from reservoir.core.checking.constraints.selections import RuleGroup, Selected, Selections
from reservoir.core.checking.final_state.facts import Facts, Host
from reservoir.core.model.workload import TopologySpreadConstraint, Workload
from reservoir.core.scheduling_terms import labels

OF_A_ZONE: Final = frozenset({labels.ZONE, labels.ZONE_ID})

# Replicas of one workload on one host, per node.
Presence = tuple[Host, int]


class Evenness(NamedTuple):
    """How evenly replicas are spread: by domain, the smallest count, and the domains that have too many."""

    counts: Counter[str]
    least: int
    crowded: frozenset[str]


class Topology(Selections):
    """Where everything is in the final state, counted by domain."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._domains = Domains(facts)
        self._reached: dict[tuple[str, str], frozenset[str | None]] = {}
        self._on_hosts: dict[tuple[Selected, bool], Mapping[str, int]] = {}
        self._counts: dict[tuple[object, ...], Counter[str]] = {}
        self._crowded: dict[tuple[Selected, str, int], frozenset[str]] = {}
        self._evenness: dict[tuple[object, ...], Evenness] = {}
        self._everywhere: dict[str, bool] = {}
        self._spread_counts: dict[tuple[object, ...], Counter[str]] = {}
        self._held: dict[frozenset[str], frozenset[str]] = {}
        self._all_counted: frozenset[str] | None = None
        self._added_in: dict[tuple[str, frozenset[str]], frozenset[str]] = {}

    # -- the final state

    @cached_property
    def placed(self) -> Mapping[str, Sequence[Presence]]:
        """Where the plan adds replicas, by workload."""
        found: defaultdict[str, list[Presence]] = defaultdict(list)
        for host in self._facts.changed:
            for key, count in host.placed.items():
                found[key].append((host, count))
        return dict(found)

    @cached_property
    def running(self) -> Mapping[str, Sequence[Presence]]:
        """Where replicas were before the plan, by workload."""
        found: defaultdict[str, list[Presence]] = defaultdict(list)
        for host in (
            self._facts.hosts
            if any(node.placements for node in self._facts.snapshot.nodes)
            else ()
        ):
            for key, count in host.running.items():
                found[key].append((host, count))
        return dict(found)

    @cached_property
    def _by_name(self) -> Mapping[str, Host]:
        return {host.name: host for host in self._facts.hosts}

    def is_everywhere(self, topology_key: str) -> bool:
        """Whether every host has a value of the topology key."""
        known = self._everywhere.get(topology_key)
        if known is None:
            # Thousands of planned hosts have the labels of a few sites.
            unlike = {id(host.labels): host.labels for host in self._facts.hosts}
            known = topology_key == labels.HOSTNAME or all(
                topology_key in found for found in unlike.values()
            )
            self._everywhere[topology_key] = known
        return known

    def domains(self, workload_key: str, topology_key: str) -> frozenset[str | None]:
        """Return the domains that have replicas of the workload; None for nodes that have none."""
        known = self._reached.get((workload_key, topology_key))
        if known is None:
            there = (
                *self.placed.get(workload_key, ()),
                *self.running.get(workload_key, ()),
            )
            known = frozenset([domain_of(host, topology_key) for host, _ in there])
            self._reached[workload_key, topology_key] = known
        return known

    def added(self, workload_key: str, topology_key: str) -> set[str | None]:
        """Return the domains to which the plan adds replicas of the workload."""
        there = self.placed.get(workload_key, ())
        if topology_key == labels.HOSTNAME:
            return {host.name for host, count in there if count}
        return {host.labels.get(topology_key) for host, count in there if count}

    def is_at(
        self, workload_key: str, topology_key: str, domains: Mapping[str, str]
    ) -> bool:
        """Whether replicas of the workload are in the domain that a node with these domains is in."""
        domain = domains.get(topology_key)
        return domain is not None and domain in self.domains(workload_key, topology_key)

    def hosts_in(self, topology_key: str, domains: frozenset[str]) -> Iterable[Host]:
        """Return the hosts in these domains, and those without a domain."""
        if topology_key == labels.HOSTNAME:
            return [self._by_name[domain] for domain in domains]
        if not domains and self.is_everywhere(topology_key):
            return ()
        found = ((host, host.labels.get(topology_key)) for host in self._facts.hosts)
        return [host for host, domain in found if domain is None or domain in domains]

    def added_in(self, topology_key: str, domains: frozenset[str]) -> Set[str]:
        """Return the workloads whose added replicas are in these domains, or where there is no domain."""
        known = (topology_key, domains)
        if known not in self._added_in:
            hosts = self.hosts_in(topology_key, domains)
            self._added_in[known] = frozenset().union(*[host.placed for host in hosts])
        return self._added_in[known]

    # -- which replicas, and where

    def is_counted(self, workload_key: str) -> bool:
        """Whether an anti-affinity or a hard spread of any workload selects this workload."""
        if self._all_counted is None:
            selections: set[Selected] = set()
            for group in self.groups:
                rules, first = group.rules, group.first
                selections.update(
                    self.selected(first, term) for term in rules.anti_affinity
                )
                selections.update(
                    self.spread_selected(first, constraint) for constraint in rules.spread
                )
            self._all_counted = frozenset().union(*(item.members for item in selections))
        return workload_key in self._all_counted

    def counts(self, selected: Selected, topology_key: str) -> Counter[str]:
        """Count the replicas of these workloads by domain; for hosts per node, since each node is a domain."""
        known = (selected, topology_key)
        if known not in self._counts:
            self._counts[known] = self._summed(selected, topology_key, with_running=True)
        return self._counts[known]

    def fresh(self, selected: Selected, topology_key: str) -> Counter[str]:
        """Count by domain only what the plan adds."""
        if not self.running:
            return self.counts(selected, topology_key)
        known = ("fresh", selected, topology_key)
        if known not in self._counts:
            self._counts[known] = self._summed(selected, topology_key, with_running=False)
        return self._counts[known]

    def _summed(
        self, selected: Selected, topology_key: str, *, with_running: bool
    ) -> Counter[str]:
        by_host = self._by_host(selected, with_running=with_running)
        if topology_key == labels.HOSTNAME:
            return Counter(by_host)
        counts: defaultdict[str, int] = defaultdict(int)
        for name, count in by_host.items():
            host = self._by_name[name]
            domain = host.labels.get(topology_key)
            if domain is not None:
                counts[domain] += count * host.nodes
        return Counter(counts)

    def _by_host(self, selected: Selected, *, with_running: bool) -> Mapping[str, int]:
        """Count replicas per node: once for all topology keys, since most of the time is spent here."""
        known = self._on_hosts.get((selected, with_running))
        if known is None:
            found: defaultdict[str, int] = defaultdict(int)
            for presences in (
                (self.placed, self.running) if with_running else (self.placed,)
            ):
                for key in selected.keys:
                    for host, count in presences.get(key, ()):
                        found[host.name] += count
            known = self._on_hosts[selected, with_running] = found
        return known

    def spread_counts(
        self, carrier: Workload, constraint: TopologySpreadConstraint
    ) -> Counter[str]:
        """Count by domain, only on nodes that the constraint's policies let count."""
        about = self._about(carrier, constraint)
        if about not in self._spread_counts:
            self._spread_counts[about] = self._found_counts(carrier, constraint)
        return self._spread_counts[about]

    def _about(
        self, carrier: Workload, constraint: TopologySpreadConstraint
    ) -> tuple[object, ...]:
        """Return what decides which replicas count for a constraint, and where."""
        own = [carrier.labels.get(key) for key in constraint.match_label_keys]
        return (
            carrier.namespace,
            self._numbers.of(constraint),
            self._facts.placement_class(carrier),
            *own,
        )

    def _found_counts(
        self, carrier: Workload, constraint: TopologySpreadConstraint
    ) -> Counter[str]:
        selected = self.spread_selected(carrier, constraint)
        terms = self._facts.terms(carrier) if constraint.node_affinity_policy_honor else ()
        if not any(terms) and not constraint.node_taints_policy_honor:
            return self.counts(selected, constraint.topology_key)
        known = (
            selected,
            self._numbers.of(constraint),
            self._facts.placement_class(carrier),
        )
        if known not in self._counts:
            self._counts[known] = self._counted(selected, carrier, constraint)
        return self._counts[known]

    def _counted(
        self, selected: Selected, carrier: Workload, constraint: TopologySpreadConstraint
    ) -> Counter[str]:
        counts: Counter[str] = Counter()
        of_hosts = constraint.topology_key == labels.HOSTNAME
        for key in selected.keys:
            for host, count in (*self.placed.get(key, ()), *self.running.get(key, ())):
                domain = domain_of(host, constraint.topology_key)
                if domain is not None and self._counts_there(host, carrier, constraint):
                    counts[domain] += count * (1 if of_hosts else host.nodes)
        return counts

    def _counts_there(
        self, host: Host, carrier: Workload, constraint: TopologySpreadConstraint
    ) -> bool:
        facts, site = self._facts, self._facts.site(host)
        if constraint.node_affinity_policy_honor and not facts.meets(
            site.description, site.undefined, carrier
        ):
            return False
        return not constraint.node_taints_policy_honor or facts.tolerates(
            site.taints, carrier
        )

    def hold(self, keys: Iterable[str], topology_keys: frozenset[str] = OF_A_ZONE) -> bool:
        """Whether some rule by one of the topology keys depends on where replicas of any of these workloads are."""
        if topology_keys not in self._held:
            self._held[topology_keys] = frozenset(self._found_held(topology_keys))
        return not self._held[topology_keys].isdisjoint(keys)

    def _found_held(self, topology_keys: frozenset[str]) -> Iterator[str]:
        for class_ in self._facts.workload_classes:
            if class_.first.single_topology_key in topology_keys:
                yield from class_.workloads
        for group in self.groups:
            yield from self._held_by(group, topology_keys)

    def _held_by(self, group: RuleGroup, topology_keys: frozenset[str]) -> Iterator[str]:
        """Yield the workloads that have the group's rules by these keys, and those that the rules select."""
        rules = group.rules
        constraints = [one for one in rules.spread if one.topology_key in topology_keys]
        terms = [
            one
            for one in (*rules.affinity, *rules.anti_affinity)
            if one.topology_key in topology_keys
        ]
        if constraints or terms:
            yield from group.workloads
        for constraint in constraints:
            yield from self.spread_selected(group.first, constraint).keys
        for term in terms:
            yield from self.selected(group.first, term).keys

    # -- how even it is

    def crowded(
        self, selected: Selected, topology_key: str, allowed: int
    ) -> frozenset[str]:
        """Return the domains that have more than so many replicas of these workloads."""
        known = (selected, topology_key, allowed)
        if known not in self._crowded:
            counts = self.counts(selected, topology_key)
            self._crowded[known] = frozenset(
                [domain for domain, count in counts.items() if count > allowed]
            )
        return self._crowded[known]

    def evenness(self, carrier: Workload, constraint: TopologySpreadConstraint) -> Evenness:
        """Return what many carriers of one constraint share."""
        facts = self._facts
        # Which domains could hold a replica depends on its size; every host is a domain.
        size = None if constraint.topology_key == labels.HOSTNAME else facts.needs(carrier)
        about = (size, *self._about(carrier, constraint))
        known = self._evenness.get(about)
        if known is None:
            counts = self.spread_counts(carrier, constraint)
            least = self._least(counts, carrier, constraint, only_hosting=True)
            most = least + constraint.max_skew
            crowded = frozenset(
                [domain for domain, count in counts.items() if count > most]
            )
            known = self._evenness[about] = Evenness(counts, least, crowded)
        return known

    def least(
        self, carrier: Workload, constraint: TopologySpreadConstraint, *, only_hosting: bool
    ) -> int:
        """Return the smallest count over the domains (0 for hosts, and below ``minDomains``: R-60, R-61)."""
        return self._least(
            self.spread_counts(carrier, constraint),
            carrier,
            constraint,
            only_hosting=only_hosting,
        )

    def _least(
        self,
        counts: Counter[str],
        carrier: Workload,
        constraint: TopologySpreadConstraint,
        *,
        only_hosting: bool,
    ) -> int:
        if constraint.topology_key == labels.HOSTNAME:
            return 0
        domains = self._domains.universe(carrier, constraint, only_hosting=only_hosting)
        if constraint.min_domains is not None and len(domains) < constraint.min_domains:
            return 0
        return min((counts[domain] for domain in domains), default=0)
