"""Surplus nodes of a static pool end, as many as there are, whatever the pool's budgets.

Lowering ``replicas`` asks for that; Karpenter exceeds budgets too. Nodes with do-not-disrupt or gangs are no candidates
and stay: others end in their place.
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
    """Return the candidates that end, so that the static pool has no more nodes than it wants.

    Empty nodes end first, then bought ones before reserved ones, then the least disturbed work, then the youngest.
    Nodes on their way count too: where a pool shrinks while it grows, running nodes may end in their place.
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
