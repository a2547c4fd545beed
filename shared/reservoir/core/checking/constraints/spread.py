"""The topology rules themselves: what breaks one in the final state, and whether one more replica would."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from reservoir.core.checking.constraints.domains import domain_of
from reservoir.core.checking.constraints.selections import (
    RuleGroup,
    Rules,
    Selected,
    rules_of,
)
from reservoir.core.checking.constraints.topology import Evenness, Topology
from reservoir.core.checking.final_state.facts import Facts
from reservoir.core.checking.violation import Violation, ViolationCode
from reservoir.core.model.workload import AffinityTerm, TopologySpreadConstraint, Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.resources import Resources


def topology_violations(facts: Facts, topology: Topology) -> Iterator[Violation]:
    """Report every spread, affinity and anti-affinity rule that the plan's additions break.

    Many workloads carry rules, and few hosts are places where one may be broken: only the workloads on these are
    checked.
    """
    anchors: dict[tuple[str, AffinityTerm], _Anchors] = {}
    for group in topology.groups:
        for constraint in group.rules.spread:
            yield from _spread(topology, group, constraint)
        for term in group.rules.affinity:
            about = (group.first.namespace, term)
            if about not in anchors:
                anchors[about] = _anchors(facts, topology, group.first, term)
            yield from _affinities(topology, group, term, anchors[about])
        for term in group.rules.anti_affinity:
            yield from _anti_affinities(topology, group, term)


def _spread(
    topology: Topology, group: RuleGroup, constraint: TopologySpreadConstraint
) -> Iterator[Violation]:
    """Check the workloads of a group; those of one size are judged together, and for hosts all are."""
    by_size: defaultdict[Resources | None, list[Workload]] = defaultdict(list)
    for workload in group.workloads.values():
        by_size[
            None if constraint.topology_key == labels.HOSTNAME else workload.requests
        ].append(workload)
    for alike in by_size.values():
        evenness = topology.evenness(alike[0], constraint)
        added = topology.added_in(constraint.topology_key, evenness.crowded)
        for workload in alike if added else ():
            if workload.key in added:
                yield from _uneven(topology, workload, constraint, evenness)


def _uneven(
    topology: Topology,
    workload: Workload,
    constraint: TopologySpreadConstraint,
    evenness: Evenness,
) -> Iterator[Violation]:
    added = topology.added(workload.key, constraint.topology_key)
    bad = [domain for domain in added if domain is None or domain in evenness.crowded]
    for domain in sorted(bad, key=str):
        message = f"a node has no {constraint.topology_key}"
        if domain is not None:
            there = f"{evenness.counts[domain]} in {domain} and {evenness.least} elsewhere"
            message = f"{there}, maxSkew {constraint.max_skew}"
        yield Violation(ViolationCode.SPREAD, workload.key, message, (workload.key,))


def _carries(workload: Workload, term: AffinityTerm, namespace: str) -> bool:
    """Whether the workload has the same required affinity, so that it follows the others instead of leading them."""
    wanted = (term.topology_key, term.selector, term.namespaces or {namespace})
    return any(
        (own.topology_key, own.selector, own.namespaces or {workload.namespace}) == wanted
        for own in rules_of(workload).affinity
    )


@dataclass(eq=False)  # not frozen, for its cached property
class _Anchors:
    """Where replicas are that an affinity term is about."""

    selected: Selected
    anchored: set[str | None]  # domains that may be joined
    opened: dict[str | None, int]  # domains that followers opened, as how many domains each
    is_running: bool  # some were there before the plan

    @cached_property
    def is_kept(self) -> bool:
        """Whether following replicas may be where they are: they opened at most one, and there was none before."""
        openings = sum(
            number for domain, number in self.opened.items() if domain not in self.anchored
        )
        return not self.is_running and openings <= 1


def _anchors(
    facts: Facts, topology: Topology, workload: Workload, term: AffinityTerm
) -> _Anchors:
    selected, by = topology.selected(workload, term), term.topology_key
    anchored, opened, is_running = set[str | None](), dict[str | None, int](), False
    carrying: dict[tuple[str, int], bool] = {}
    for key in selected.keys:
        for host, count in topology.running.get(key, ()):
            if count:
                is_running = True
                anchored.add(domain_of(host, by))
        other = facts.workloads[key]
        about = (other.namespace, id(other.affinity))
        follows = carrying.get(about)
        if follows is None:
            follows = carrying[about] = _carries(other, term, workload.namespace)
        if follows:  # equal planned nodes are one host here but as many host names
            for host, _ in topology.placed.get(key, ()):
                opened[domain_of(host, by)] = host.nodes if by == labels.HOSTNAME else 1
        else:
            anchored.update(topology.domains(key, by))
    return _Anchors(selected, anchored, opened, is_running)


def _affinities(
    topology: Topology, group: RuleGroup, term: AffinityTerm, anchors: _Anchors
) -> Iterator[Violation]:
    """Check the workloads of a group."""
    # A replica that its own rule selects may then be where it is, in any domain.
    are_fine = anchors.is_kept and topology.is_everywhere(term.topology_key)
    for key in group.workloads.keys() - (anchors.selected.members if are_fine else ()):
        yield from _affinity(topology, group.workloads[key], term, anchors)


def _affinity(
    topology: Topology, workload: Workload, term: AffinityTerm, anchors: _Anchors
) -> Iterator[Violation]:
    """Each domain needs a matching replica; replicas that match themselves may open one domain, if none has any."""
    own = topology.added(workload.key, term.topology_key)
    alone = own - anchors.anchored
    is_kept = (
        anchors.is_kept
        if workload.key in anchors.selected
        else alone <= anchors.opened.keys()
    )
    if None in own or (alone and not is_kept):
        where = ", ".join(sorted(str(domain) for domain in alone or own))
        message = f"no matching replica by {term.topology_key} in {where}"
        yield Violation(ViolationCode.AFFINITY, workload.key, message, (workload.key,))


def _anti_affinities(
    topology: Topology, group: RuleGroup, term: AffinityTerm
) -> Iterator[Violation]:
    """Check the workloads of a group."""
    selected, keys = topology.selected(group.first, term), group.workloads.keys()
    for allowed, carriers in ((1, keys & selected.members), (0, keys - selected.members)):
        crowded = (
            topology.crowded(selected, term.topology_key, allowed)
            if carriers
            else frozenset()
        )
        if crowded:
            hosts = topology.hosts_in(term.topology_key, crowded)
            there: set[str] = set()
            for host in hosts:
                there.update(host.placed, host.running)
            for key in carriers & there:
                yield from _anti_affinity(
                    topology, group.workloads[key], term, selected, crowded
                )


def _anti_affinity(
    topology: Topology,
    workload: Workload,
    term: AffinityTerm,
    selected: Selected,
    crowded: frozenset[str],
) -> Iterator[Violation]:
    """No domain has a carrier and another matching replica, where at least one of the two is new (inverse included)."""
    matching = topology.counts(selected, term.topology_key)
    fresh = topology.fresh(selected, term.topology_key)
    added = topology.added(workload.key, term.topology_key)
    for domain in topology.domains(workload.key, term.topology_key):
        if domain is not None and domain in crowded and (fresh[domain] or domain in added):
            message = (
                f"{matching[domain]} matching replicas in {domain} by {term.topology_key}"
            )
            keys = sorted(
                key
                for key in selected.members | {workload.key}
                if domain in topology.added(key, term.topology_key)
            )
            yield Violation(ViolationCode.ANTI_AFFINITY, workload.key, message, tuple(keys))


def is_bound(topology: Topology, workload: Workload) -> bool:
    """Whether a topology rule limits where this workload may run."""
    if workload.has_topology_terms:
        return True
    return topology.is_counted(workload.key)


def admits(topology: Topology, workload: Workload, domains: Mapping[str, str]) -> bool:
    """Whether one more replica in these domains (by topology key, hostname included) keeps every rule.

    Read strictly (all domains count for the minimum): with a yes, every reading allows it.
    """
    rules = rules_of(workload)
    if not all(
        _admits_spread(topology, workload, workload, constraint, domains)
        for constraint in rules.spread
    ):
        return False
    if not all(
        _admits_affinity(topology, workload, term, domains) for term in rules.affinity
    ):
        return False
    for term in rules.anti_affinity:
        counts = topology.counts(topology.selected(workload, term), term.topology_key)
        if counts[domains.get(term.topology_key, "")]:
            return False
    for theirs, others in topology.groups:
        if not all(
            _tolerates(topology, other, theirs, workload, domains)
            for other in others.values()
        ):
            return False
    return True


def _admits_spread(
    topology: Topology,
    carrier: Workload,
    newcomer: Workload,
    constraint: TopologySpreadConstraint,
    domains: Mapping[str, str],
) -> bool:
    domain = domains.get(constraint.topology_key)
    if domain is None:
        return False
    count = topology.spread_counts(carrier, constraint)[domain]
    count += newcomer.key in topology.spread_selected(carrier, constraint)
    return (
        count - topology.least(carrier, constraint, only_hosting=False)
        <= constraint.max_skew
    )


def _admits_affinity(
    topology: Topology, workload: Workload, term: AffinityTerm, domains: Mapping[str, str]
) -> bool:
    domain = domains.get(term.topology_key)
    keys = topology.selected(workload, term)
    counts = topology.counts(keys, term.topology_key)
    return domain is not None and (
        counts[domain] > 0 or (workload.key in keys and not counts.total())
    )


def _tolerates(
    topology: Topology,
    other: Workload,
    rules: Rules,
    newcomer: Workload,
    domains: Mapping[str, str],
) -> bool:
    """Whether rules that replicas already placed carry still hold with the newcomer beside them."""
    for term in rules.anti_affinity:
        is_meant = newcomer.key in topology.selected(other, term)
        if is_meant and topology.is_at(other.key, term.topology_key, domains):
            return False
    for constraint in rules.spread:
        if newcomer.key in topology.spread_selected(other, constraint):
            is_there = topology.is_at(other.key, constraint.topology_key, domains)
            if is_there and not _admits_spread(
                topology, other, newcomer, constraint, domains
            ):
                return False
    return True


def domains_of(description_labels: Mapping[str, str], hostname: str) -> dict[str, str]:
    """Return the domains of a node by topology key."""
    return {**description_labels, labels.HOSTNAME: hostname}
