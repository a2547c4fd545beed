"""How many nodes the budgets of a pool leave to be disrupted, for whatever reason (R-189)."""

from collections.abc import Mapping, Set
from datetime import datetime
from typing import Final

from reservoir.core.launching.claim_nodes import fills_freed_slot
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.node_pool import DisruptionReason, NodePool
from reservoir.core.model.schedule import allowed_disruptions

# Nodes that EC2 shows: budgets are percentages of these.
_EXISTING: Final = frozenset(
    {ClaimState.RUNNING, ClaimState.DRAINING, ClaimState.TERMINATING}
)


def budgets_leave(
    pool: NodePool,
    claims: Mapping[str, NodeClaim],
    now: datetime,
    *,
    leaving: Set[str] = frozenset(),
) -> Mapping[DisruptionReason, int]:
    """Return how many of the pool's nodes may be ended, by reason; draining and not yet running nodes count against it.

    ``claims`` are the live ones of all pools, ``leaving`` those among them that have begun to go since they were read.
    """
    nodes = [
        claim
        for claim in claims.values()
        if claim.node_pool_name == pool.name and _counts(claim, claims)
    ]
    missing = sum(claim.id in leaving or _is_missing(claim) for claim in nodes)
    return {
        reason: allowed_disruptions(
            pool.disruption.budgets,
            reason,
            node_count=len(nodes),
            unavailable_count=missing,
            now=now,
        ).nodes
        for reason in DisruptionReason
    }


def _counts(claim: NodeClaim, claims: Mapping[str, NodeClaim]) -> bool:
    """Whether EC2 shows the node, or it belongs to a static pool, or is to run replicas that another node had.

    A warm node is a free unit: it neither uses a budget up nor makes it larger.
    """
    return not claim.is_warm and (
        claim.state in _EXISTING
        or fills_freed_slot(claim, claims)
        or (claim.is_static and not claim.replaces)
    )


def _is_missing(claim: NodeClaim) -> bool:
    return (
        claim.state is not ClaimState.RUNNING
        or claim.drain is not None
        or claim.disruption is not None
    )
