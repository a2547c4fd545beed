"""The topology rules themselves: what breaks one in the final state, and whether one more replica would."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from shared.core import labels
from shared.core.checking.facts import Facts
from shared.core.checking.topology import Evenness, Rules, Selected, Topology, rules_of
from shared.core.checking.violation import Violation, ViolationCode
from shared.core.workload import AffinityTerm, TopologySpreadConstraint, Workload


def topology_violations(facts: Facts, topology: Topology) -> Iterator[Violation]:
    """Report every spread, affinity and anti-affinity rule that the plan's additions break."""
    anchors: dict[tuple[str, AffinityTerm], _Anchors] = {}
    for rules, workloads in topology.groups:
        there = [workload for workload in workloads if workload.key in topology.present]
        placed = [workload for workload in there if any(count for _, _, count in topology.present[workload.key])]
        for constraint in rules.spread:
            yield from _spread(facts, topology, placed, constraint)
        for term in rules.affinity if placed else ():
            about = (placed[0].namespace, term)
            if about not in anchors:
                anchors[about] = _anchors(facts, topology, placed[0], term)
            for workload in placed:
                yield from _affinity(topology, workload, term, anchors[about])
        for term in rules.anti_affinity:
            for workload in there:
                yield from _anti_affinity(topology, workload, term)


def _spread(
    facts: Facts, topology: Topology, workloads: Sequence[Workload], constraint: TopologySpreadConstraint
) -> Iterator[Violation]:
    """Check the workloads of a group."""
    is_everywhere = topology.is_everywhere(constraint.topology_key)
    known: dict[tuple[object, ...], Evenness] = {}
    for workload in workloads:
        alike = (id(workload.requests), facts.kind(workload), workload.tolerations)
        evenness = known.get(alike)
        if evenness is None:
            evenness = known[alike] = topology.evenness(workload, constraint)
        if evenness.crowded or not is_everywhere:
            yield from _uneven(topology, workload, constraint, evenness)


def _uneven(
    topology: Topology, workload: Workload, constraint: TopologySpreadConstraint, evenness: Evenness
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


@dataclass(eq=False)
class _Anchors:
    """Where replicas are that an affinity term is about."""

    selected: Selected
    anchored: set[str | None]  # domains that may be joined
    opened: dict[str | None, int]  # domains that followers opened, as how many domains each
    is_running: bool  # some were there before the plan

    @cached_property
    def openings(self) -> int:
        """How many domains followers opened where nobody else is."""
        return sum(number for domain, number in self.opened.items() if domain not in self.anchored)


def _anchors(facts: Facts, topology: Topology, workload: Workload, term: AffinityTerm) -> _Anchors:
    selected = topology.selected(workload, term)
    there = (running for key in selected.keys for _, running, _ in topology.present.get(key, ()))
    found = _Anchors(selected, set(), {}, topology.has_running and any(there))
    carrying: dict[tuple[str, int], bool] = {}
    for key in selected.keys:
        other = facts.workloads[key]
        alike = (other.namespace, id(other.affinity))
        follows = carrying.get(alike)
        if follows is None:
            follows = carrying[alike] = _carries(other, term, workload.namespace)
        for domain, tally in topology.tallies(key, term.topology_key).items():
            if not follows or tally.running:
                found.anchored.add(domain)
            else:  # equal planned nodes are one host here but as many host names
                found.opened[domain] = tally.nodes if term.topology_key == labels.HOSTNAME else 1
    return found


def _affinity(topology: Topology, workload: Workload, term: AffinityTerm, anchors: _Anchors) -> Iterator[Violation]:
    """Each domain needs a matching replica; replicas that match themselves may open one domain, if none has any."""
    own = topology.added(workload.key, term.topology_key)
    alone = own - anchors.anchored
    if workload.key in anchors.selected:
        is_kept = not anchors.is_running and anchors.openings <= 1
    else:
        is_kept = alone <= anchors.opened.keys()
    if None in own or (alone and not is_kept):
        where = ", ".join(sorted(str(domain) for domain in alone or own))
        message = f"no matching replica by {term.topology_key} in {where}"
        yield Violation(ViolationCode.AFFINITY, workload.key, message, (workload.key,))


def _anti_affinity(topology: Topology, workload: Workload, term: AffinityTerm) -> Iterator[Violation]:
    """No domain has a carrier and another matching replica, where at least one of the two is new (inverse included)."""
    selected = topology.selected(workload, term)
    crowded = topology.crowded(selected, term.topology_key, 1 if workload.key in selected else 0)
    if not crowded:
        return
    matching = topology.counts(selected, term.topology_key)
    fresh = topology.fresh(selected, term.topology_key)
    added = topology.added(workload.key, term.topology_key)
    for domain in topology.tallies(workload.key, term.topology_key):
        if domain is not None and domain in crowded and (fresh[domain] or domain in added):
            message = f"{matching[domain]} matching replicas in {domain} by {term.topology_key}"
            keys = sorted(
                key for key in selected.members | {workload.key} if domain in topology.added(key, term.topology_key)
            )
            yield Violation(ViolationCode.ANTI_AFFINITY, workload.key, message, tuple(keys))


def is_bound(topology: Topology, workload: Workload) -> bool:
    """Whether any topology rule says something about where this workload may run."""
    if workload.topology_spread or workload.affinity or workload.anti_affinity:
        return True
    return topology.is_counted(workload.key)


def admits(topology: Topology, workload: Workload, domains: Mapping[str, str]) -> bool:
    """Whether one more replica in these domains (by topology key, hostname included) keeps every rule.

    Read strictly (all domains count for the minimum): a yes means that nobody can object.
    """
    rules = rules_of(workload)
    return (
        all(_admits_spread(topology, workload, workload, constraint, domains) for constraint in rules.spread)
        and all(_admits_affinity(topology, workload, term, domains) for term in rules.affinity)
        and all(
            not topology.counts(topology.selected(workload, term), term.topology_key)[
                domains.get(term.topology_key, "")
            ]
            for term in rules.anti_affinity
        )
        and all(
            _tolerates(topology, other, theirs, workload, domains)
            for theirs, others in topology.groups
            for other in others
        )
    )


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
    return count - topology.least(carrier, constraint, only_hosting=False) <= constraint.max_skew


def _admits_affinity(topology: Topology, workload: Workload, term: AffinityTerm, domains: Mapping[str, str]) -> bool:
    domain = domains.get(term.topology_key)
    keys = topology.selected(workload, term)
    counts = topology.counts(keys, term.topology_key)
    return domain is not None and (counts[domain] > 0 or (workload.key in keys and not counts.total()))


def _tolerates(
    topology: Topology, other: Workload, rules: Rules, newcomer: Workload, domains: Mapping[str, str]
) -> bool:
    """Whether rules that replicas already placed carry still hold with the newcomer beside them."""
    for term in rules.anti_affinity:
        is_meant = newcomer.key in topology.selected(other, term)
        if is_meant and topology.is_at(other.key, term.topology_key, domains):
            return False
    for constraint in rules.spread:
        if newcomer.key in topology.spread_selected(other, constraint):
            is_there = topology.is_at(other.key, constraint.topology_key, domains)
            if is_there and not _admits_spread(topology, other, newcomer, constraint, domains):
                return False
    return True


def domains_of(description_labels: Mapping[str, str], hostname: str) -> dict[str, str]:
    """Return the domains of a node by topology key."""
    return {**description_labels, labels.HOSTNAME: hostname}
