"""Nodes of one workload that know each other: each has a seat, by which it finds its own place and those of all others.

Seats are assigned when every replica has a node that has reported its address, and again when nodes were replaced. A
node that stays keeps its rank, and the others are dealt by proximity: ranks that follow each other talk most.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from reservoir.core.model.node_claim import GangSeat, NodeClaim
from reservoir.core.model.snapshot import count_of
from reservoir.core.node_life import drain
from reservoir.core.node_life.proximity import WayDown, hops, way_down


# Branches: comprehensions of a line each; only two questions decide.
def seats(
    workload_key: str, unfinished: int, claims: Sequence[NodeClaim]
) -> Mapping[str, GangSeat]:
    """Return the seats of the nodes with ``unfinished`` replicas of a workload, by claim id; none until all are there.

    Not all are there while a node that must end still runs some: its replicas may need the others.
    """
    if any(claim.is_live and drain.awaited_count(claim, workload_key) for claim in claims):
        return {}
    counts = {
        claim.id: count_of(workload_key, claim.placements)
        for claim in claims
        if claim.is_live
    }
    members = [claim for claim in claims if counts.get(claim.id)]
    addresses = {claim.id: claim.address for claim in members if claim.address is not None}
    if sum(counts.values()) != unfinished or len(addresses) < len(members):
        return {}
    order = _in_order(workload_key, members)
    found: dict[str, GangSeat] = {}
    first_rank = 0
    for node_rank, claim_id in enumerate(order):
        found[claim_id] = GangSeat(
            workload_key,
            node_rank,
            first_rank,
            unfinished,
            tuple(addresses[member] for member in order),
        )
        first_rank += counts[claim_id]
    return found


def with_seat(seat: GangSeat, claim: NodeClaim) -> NodeClaim | None:
    """Return the claim with its seat; None when it has it."""
    others = [it for it in claim.seats if it.workload_key != seat.workload_key]
    taken = tuple(sorted((*others, seat), key=lambda it: it.workload_key))
    return None if taken == claim.seats else replace(claim, seats=taken)


def _in_order(workload_key: str, members: Sequence[NodeClaim]) -> list[str]:
    """Return claim ids by rank: ranks that are known stay, and the new ones fill the gaps.

    A gap is filled by whoever is nearest to the ranks before and after it, the last rank being before the first. Where
    all are new that is the shortest way round: a part of the network is left only once all in it have a rank.
    """
    by_rank = _known_ranks(workload_key, members)
    ways = {claim.id: way_down(claim.labels) for claim in members}
    newcomers = ways.keys() - set(by_rank.values())
    for rank in range(len(members)):
        if rank not in by_rank:
            around = ((rank - 1) % len(members), (rank + 1) % len(members))
            beside = [ways[by_rank[it]] for it in around if it in by_rank]
            by_rank[rank] = _nearest(newcomers, ways, beside)
            newcomers = newcomers - {by_rank[rank]}
    return [by_rank[rank] for rank in range(len(members))]


def _known_ranks(workload_key: str, members: Sequence[NodeClaim]) -> dict[int, str]:
    """Return the claims that have a rank already, by rank."""
    by_rank: dict[int, str] = {}
    for claim in sorted(members, key=lambda claim: claim.id):
        for seat in claim.seats:
            if seat.workload_key == workload_key and seat.node_rank < len(members):
                by_rank.setdefault(seat.node_rank, claim.id)
    return by_rank


def _nearest(
    newcomers: Set[str], ways: Mapping[str, WayDown], beside: Sequence[WayDown]
) -> str:
    """Return the new node with the fewest hops to the nodes ``beside`` it; of equally near ones the first by id."""

    def distance(claim_id: str) -> tuple[int, str]:
        return sum(hops(ways[claim_id], it) for it in beside), claim_id

    return min(newcomers, key=distance)
