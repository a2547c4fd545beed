"""Nodes that a static pool has too many of go, as many as there are too many, whatever the pool's budgets.

Whoever lowers ``replicas`` has said how many nodes go; Karpenter scales past budgets too. What says do-not-disrupt, and
gangs, are no candidates and stay: others go in their place.
"""

from collections.abc import Iterable, Mapping

from reservoir.core.disruption.candidate import Candidate
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.node_pool import NodePool
from reservoir.core.static_pools.census import census
from reservoir.core.static_pools.units import ReservedCapacity


def too_many(
    pool: NodePool,
    candidates: Iterable[Candidate],
    claims: Mapping[str, NodeClaim],
    reserved: ReservedCapacity,
) -> tuple[Candidate, ...]:
    """Return which of the candidates go, so that the static pool has no more nodes than it wants.

    Empty nodes go first, then what is bought before what is reserved, then where least is disturbed, then the young.
    Nodes on their way count too: where a pool shrinks while it grows, nodes that run may go in their place.
    """
    own = sorted((each for each in candidates if each.pool.name == pool.name), key=_order)
    going: list[Candidate] = []
    for surplus in census(pool, claims, reserved).surplus:
        going += [candidate for candidate in own if candidate.id in surplus.claim_ids][
            : surplus.count
        ]
    return tuple(going)


def _order(candidate: Candidate) -> tuple[bool, bool, int, float, str]:
    age_order = -candidate.claim.created_at.timestamp()
    return (
        not candidate.is_empty,
        candidate.is_reserved,
        candidate.disruption_cost,
        age_order,
        candidate.id,
    )
