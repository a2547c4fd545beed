"""The parts of a command: removed nodes whose replicas share no new node with those of the others.

The simulation shows where replicas go, not which of them came from which node; those of one workload are alike. So each
new node is traced to the nodes that its replicas may have come from, expensive new nodes to cheap old ones. What a part
of such a division loses is lost whatever the other parts do: without the part, the rest of the command is as it was,
and saves more.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from reservoir.core.disruption.candidate import Candidate
from reservoir.core.model.plan import ExistingPlacement, Plan, PlannedNodes
from reservoir.core.model.snapshot import PlacedReplicas


@dataclass(frozen=True, slots=True)
class CommandPart:
    """Nodes to be ended, and their replacements: launches, and empty nodes that would have been ended too.

    ``launches``: which of the command's planned nodes are among these, by position.
    """

    removed: tuple[Candidate, ...]
    plan: Plan
    launches: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class _PricedHost:
    """A node with a price that gets replicas: one of the command's planned nodes, or an empty node."""

    price: int  # atto-USD an hour
    placements: tuple[PlacedReplicas, ...]
    planned: tuple[int, PlannedNodes] | None = None
    existing: ExistingPlacement | None = None


def parts_of(
    removed: Sequence[Candidate], plan: Plan, idle: Mapping[str, int]
) -> tuple[CommandPart, ...]:
    """Divide a command, cheapest nodes first; ``idle`` has the prices of empty nodes that would be ended in any case.

    A node whose replicas all go to other nodes that stay is a part of its own.
    """
    hosts = sorted(_hosts(plan, idle), key=lambda host: -host.price)
    if len(removed) == 1:
        return (_part(removed, hosts),)
    nodes = sorted(removed, key=lambda candidate: (candidate.price, candidate.id))
    sources = _traced(nodes, hosts)
    part_of = list(range(len(nodes)))
    for numbers in sources:
        joined = {part_of[number] for number in numbers}
        part_of = [min(joined) if number in joined else number for number in part_of]
    nodes_of: dict[int, list[Candidate]] = {}
    for node, number in zip(nodes, part_of, strict=True):
        nodes_of.setdefault(number, []).append(node)
    hosts_of: dict[int, list[_PricedHost]] = {number: [] for number in nodes_of}
    for host, numbers in zip(hosts, sources, strict=True):
        hosts_of[part_of[min(numbers, default=0)]].append(host)
    return tuple(_part(nodes_of[number], hosts_of[number]) for number in nodes_of)


def _hosts(plan: Plan, idle: Mapping[str, int]) -> Iterable[_PricedHost]:
    for position, planned in enumerate(plan.launches):
        one = _PricedHost(
            planned.price_atto_usd_per_hour, planned.placements, (position, planned)
        )
        yield from [one] * planned.count
    for placement in plan.existing:
        if placement.claim_id in idle:
            yield _PricedHost(
                idle[placement.claim_id], placement.placements, existing=placement
            )


def _counts(placements: Iterable[PlacedReplicas]) -> dict[str, int]:
    return {placed.workload_key: placed.count for placed in placements}


# Branches: three passes over the same hosts, each over what the pass before left.
def _traced(nodes: Sequence[Candidate], hosts: Sequence[_PricedHost]) -> list[set[int]]:
    """Return of each host which nodes its replicas came from, by position: from one where that is possible."""
    left = [_counts(candidate.claim.placements) for candidate in nodes]
    wanted = [_counts(host.placements) for host in hosts]
    sources: list[set[int]] = [set() for _ in hosts]
    alike: dict[frozenset[tuple[str, int]], list[int]] = {}
    holding: dict[str, list[int]] = {}
    for number, has in enumerate(left):
        alike.setdefault(frozenset(has.items()), []).append(number)
        for key in has:
            holding.setdefault(key, []).append(number)
    for found, want in zip(sources, wanted, strict=True):
        if twins := alike.get(frozenset(want.items())):
            found.add(twins[0])
            _take(left[twins.pop(0)], want)
    for found, want in zip(sources, wanted, strict=True):
        for number in holding.get(next(iter(want), ""), ()):
            if all(left[number].get(key, 0) >= count for key, count in want.items()):
                found.add(number)
                _take(left[number], want)
                break
    for found, want in zip(sources, wanted, strict=True):
        for key in tuple(want):
            found.update(
                number for number in holding.get(key, ()) if _take(left[number], want)
            )
    return sources


def _take(has: dict[str, int], want: dict[str, int]) -> bool:
    """Take from a node what a host still wants of it; say whether that was anything."""
    taken = {key: min(count, has[key]) for key, count in want.items() if key in has}
    for key, count in taken.items():
        for counts in (has, want):
            counts[key] -= count
            if not counts[key]:
                del counts[key]
    return bool(taken)


def _part(removed: Sequence[Candidate], hosts: Sequence[_PricedHost]) -> CommandPart:
    planned = dict(host.planned for host in hosts if host.planned is not None)
    counts = Counter(host.planned[0] for host in hosts if host.planned is not None)
    launches = tuple(
        replace(planned[position], count=counts[position]) for position in sorted(counts)
    )
    existing = tuple(host.existing for host in hosts if host.existing is not None)
    return CommandPart(
        tuple(removed), Plan(launches=launches, existing=existing), frozenset(counts)
    )
