"""The topology rules themselves: what breaks one in the final state, and whether one more replica would."""

from collections.abc import Iterator, Mapping

from shared.core import labels
from shared.core.checker_facts import Facts
from shared.core.checker_topology import Presence, Topology, hard, required
from shared.core.checker_violation import Violation, ViolationCode
from shared.core.workload import AffinityTerm, TopologySpreadConstraint, Workload


def topology_violations(facts: Facts, topology: Topology) -> Iterator[Violation]:
    """Report every spread, affinity and anti-affinity rule that the plan's additions break."""
    for key in sorted(topology.present):
        workload, presences = facts.workloads[key], topology.present[key]
        if any(presence.placed for presence in presences):
            for constraint in hard(workload.topology_spread):
                yield from _spread(topology, workload, constraint, presences)
            for term in required(workload.affinity):
                yield from _affinity(facts, topology, workload, term)
        for term in required(workload.anti_affinity):
            yield from _anti_affinity(topology, workload, term)


def _spread(
    topology: Topology, workload: Workload, constraint: TopologySpreadConstraint, presences: list[Presence]
) -> Iterator[Violation]:
    counts = topology.spread_counts(workload, constraint)
    added = {topology.domain(presence.host, constraint.topology_key) for presence in presences if presence.placed}
    least = topology.least(workload, constraint, only_hosting=True)
    for domain in sorted(added, key=str):
        if domain is None:
            yield Violation(ViolationCode.SPREAD, workload.key, f"a node has no {constraint.topology_key}")
        elif counts[domain] - least > constraint.max_skew:
            message = f"{counts[domain]} in {domain} and {least} elsewhere, maxSkew {constraint.max_skew}"
            yield Violation(ViolationCode.SPREAD, workload.key, message)


def _carries(workload: Workload, term: AffinityTerm, namespace: str) -> bool:
    """Whether the workload has the same required affinity, so that it follows the others instead of leading them."""
    wanted = (term.topology_key, term.selector, term.namespaces or {namespace})
    return any(
        (own.topology_key, own.selector, own.namespaces or {workload.namespace}) == wanted
        for own in required(workload.affinity)
    )


def _affinity(facts: Facts, topology: Topology, workload: Workload, term: AffinityTerm) -> Iterator[Violation]:
    """Each domain needs a matching replica; replicas that match themselves may open one domain, if none has any."""
    keys = topology.selected(workload, term.selector, term.namespaces)
    anchored: set[str | None] = set()
    opened: dict[str | None, int] = {}
    is_running = False
    for key in keys:
        follows = _carries(facts.workloads[key], term, workload.namespace)
        for presence in topology.present.get(key, ()):
            domain = topology.domain(presence.host, term.topology_key)
            is_running = is_running or presence.running > 0
            if not follows or presence.running:
                anchored.add(domain)
            else:  # equal planned nodes are one host here but as many host names
                opened[domain] = presence.host.nodes if term.topology_key == labels.HOSTNAME else 1
    own = {
        topology.domain(presence.host, term.topology_key)
        for presence in topology.present[workload.key]
        if presence.placed
    }
    alone = own - anchored
    openings = sum(number for domain, number in opened.items() if domain not in anchored)
    is_kept = not is_running and openings <= 1 if workload.key in keys else alone <= opened.keys()
    if None in own or (alone and not is_kept):
        where = ", ".join(sorted(str(domain) for domain in alone or own))
        yield Violation(ViolationCode.AFFINITY, workload.key, f"no matching replica by {term.topology_key} in {where}")


def _anti_affinity(topology: Topology, workload: Workload, term: AffinityTerm) -> Iterator[Violation]:
    """No domain has a carrier and another matching replica, where at least one of the two is new (inverse included)."""
    keys = topology.selected(workload, term.selector, term.namespaces)
    matching = topology.counts(keys, term.topology_key)
    fresh = topology.fresh(keys, term.topology_key)
    carriers = topology.counts((workload.key,), term.topology_key)
    fresh_carriers = topology.fresh((workload.key,), term.topology_key)
    allowed = 1 if workload.key in keys else 0
    for domain in sorted(carriers):
        if matching[domain] > allowed and (fresh[domain] or fresh_carriers[domain]):
            message = f"{matching[domain]} matching replicas in {domain} by {term.topology_key}"
            yield Violation(ViolationCode.ANTI_AFFINITY, workload.key, message)


def is_bound(facts: Facts, topology: Topology, workload: Workload) -> bool:
    """Whether any topology rule says something about where this workload may run."""
    if workload.topology_spread or workload.affinity or workload.anti_affinity:
        return True
    return any(
        workload.key in topology.selected(other, term.selector, term.namespaces)
        for other in facts.workloads.values()
        for term in required(other.anti_affinity)
    ) or any(
        workload.key in topology.spread_selected(other, constraint)
        for other in facts.workloads.values()
        for constraint in hard(other.topology_spread)
    )


def admits(facts: Facts, topology: Topology, workload: Workload, domains: Mapping[str, str]) -> bool:
    """Whether one more replica in these domains (by topology key, hostname included) keeps every rule.

    Read strictly (all domains count for the minimum): a yes means that nobody can object.
    """
    return (
        all(
            _admits_spread(topology, workload, workload, constraint, domains)
            for constraint in hard(workload.topology_spread)
        )
        and all(_admits_affinity(topology, workload, term, domains) for term in required(workload.affinity))
        and all(
            not topology.counts(topology.selected(workload, term.selector, term.namespaces), term.topology_key)[
                domains.get(term.topology_key, "")
            ]
            for term in required(workload.anti_affinity)
        )
        and all(_tolerates(topology, facts.workloads[key], workload, domains) for key in sorted(topology.present))
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
    keys = topology.selected(workload, term.selector, term.namespaces)
    counts = topology.counts(keys, term.topology_key)
    return domain is not None and (counts[domain] > 0 or (workload.key in keys and not counts.total()))


def _tolerates(topology: Topology, other: Workload, newcomer: Workload, domains: Mapping[str, str]) -> bool:
    """Whether rules that replicas already placed carry still hold with the newcomer beside them."""
    for term in required(other.anti_affinity):
        if newcomer.key in topology.selected(other, term.selector, term.namespaces):
            carriers = topology.counts((other.key,), term.topology_key)
            if carriers[domains.get(term.topology_key, "")]:
                return False
    for constraint in hard(other.topology_spread):
        if newcomer.key in topology.spread_selected(other, constraint):
            carriers = topology.counts((other.key,), constraint.topology_key)
            is_there = carriers[domains.get(constraint.topology_key, "")] > 0
            if is_there and not _admits_spread(topology, other, newcomer, constraint, domains):
                return False
    return True


def domains_of(description_labels: Mapping[str, str], hostname: str) -> dict[str, str]:
    """Return the domains of a node by topology key."""
    return {**description_labels, labels.HOSTNAME: hostname}
