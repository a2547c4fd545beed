"""Karpenter's consolidation: which nodes may go, and what would take their place (R-163 to R-190, as upstream has it).

Empty nodes first; then the most nodes, of a prefix by disruption cost, that one cheaper node can replace, found by
halving; then single nodes. The price filter, the rule that no node is replaced by its own type, and that spot nodes are
not replaced by spot nodes are upstream's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lab.bench.karpenter.index import Index, PortOffering
from lab.bench.karpenter.loop import Claim
from lab.bench.peers.cluster import Cluster, Node, pods_of
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements

_MOST_TOGETHER: Final = 100


@dataclass(frozen=True, slots=True)
class Command:
    """Nodes that go, and the claim that takes their place, if any."""

    nodes: tuple[Node, ...]
    claim: Claim | None = None
    offering: PortOffering | None = None


def decide(cluster: Cluster, candidates: Sequence[Node], allowed: int) -> Command | None:
    """Return the first command that a pass finds."""
    empty = tuple(node for node in candidates if not node.pods)[:allowed]
    if empty:
        return Command(empty)
    # every pod costs the same to evict
    ordered = sorted(candidates, key=lambda node: (len(node.pods), node.name))
    return _together(cluster, ordered[: min(allowed, _MOST_TOGETHER)]) or _singly(
        cluster, ordered, allowed
    )


def _together(cluster: Cluster, ordered: Sequence[Node]) -> Command | None:
    low, high, found = 1, len(ordered) - 1, None
    while low <= high:
        middle = (low + high) // 2
        command = consolidated(cluster, ordered[: middle + 1])
        if command is not None:
            found, low = command, middle + 1
        else:
            high = middle - 1
    return found


def _singly(cluster: Cluster, ordered: Sequence[Node], allowed: int) -> Command | None:
    if allowed < 1:
        return None
    return next(
        (
            command
            for node in ordered
            if (command := consolidated(cluster, (node,))) is not None
        ),
        None,
    )


def consolidated(cluster: Cluster, nodes: Sequence[Node]) -> Command | None:
    """Return what ends these nodes: without a replacement, or with one that is cheaper than all of them."""
    if not pods_of(nodes):
        return Command(tuple(nodes))
    placed = cluster.simulate(nodes)
    lands_on_coming = any(not cluster.nodes[name].runs for name in placed.onto)
    if placed.left or lands_on_coming or len(placed.claims) > 1:
        return None
    if not placed.claims:
        return Command(tuple(nodes))
    claim = placed.claims[0]
    limit = sum(node.price_atto_usd for node in nodes)
    # not by a node of a type that goes, unless that one alone is cheaper
    if len(nodes) > 1:
        same = [node.price_atto_usd for node in nodes if _is_among(cluster, node, claim)]
        limit = min([limit, *same])
    offering = _cheaper(claim, limit, nodes, placed.index)
    return None if offering is None else Command(tuple(nodes), claim, offering)


def _is_among(cluster: Cluster, node: Node, claim: Claim) -> bool:
    position = list(cluster.types).index(node.place.instance_type)
    return bool(claim.types >> position & 1)


def _cheaper(
    claim: Claim, limit: int, nodes: Sequence[Node], index: Index
) -> PortOffering | None:
    if claim.held:
        offering = index.cheapest_held(claim.held, claim.types)
        return offering if offering.price_atto_usd < limit else None
    markets = claim.requirements[labels.CAPACITY_TYPE]
    with_spot = markets.has(str(CapacityType.SPOT))
    if with_spot and all(node.place.capacity_type is CapacityType.SPOT for node in nodes):
        return None  # spot to spot is behind a feature gate that is off
    wanted = claim.requirements
    if with_spot:  # from on demand to spot and nothing else, or it would cost as much again
        wanted = wanted.add(
            Requirement.new(labels.CAPACITY_TYPE, Operator.IN, (str(CapacityType.SPOT),))
        )
    wanted = index.interned(wanted)
    types = claim.types & index.offered(wanted)
    cheaper = [
        position
        for position in index.members(types)
        if _worst(index, position, wanted) < limit
    ]
    if not cheaper:
        return None
    return index.cheapest(wanted, sum(1 << position for position in cheaper))


def _worst(index: Index, position: int, wanted: Requirements) -> int:
    """Return the dearest offering of a type that meets the requirements: what a launch may come to."""
    prices = [
        offering.price_atto_usd
        for offering in index.offerings
        if offering.type_index == position
        and offering.reservation_id is None
        and wanted.compatible(offering.requirements, labels.WELL_KNOWN) is None
    ]
    return max(prices)
