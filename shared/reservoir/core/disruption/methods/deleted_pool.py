"""Nodes that outlive their NodePool: deleted with it, but gently.

Karpenter's nodes belong to their pool and go when it is deleted. Here they go as drifted nodes do, one command each and
replaced before they drain where another pool can hold their replicas, and without a replacement where none can: who
deletes a pool wants its nodes gone. The pool's own budgets are deleted with it, so Karpenter's default holds.
"""

from collections.abc import Iterable, Sequence

from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.node_pool import NodePool
from reservoir.core.scheduling_terms.requirements import Requirements


def deleted_pools(
    node_pools: Sequence[NodePool], claims: Iterable[NodeClaim]
) -> tuple[NodePool, ...]:
    """Return a stand-in, with default disruption settings, for each pool that claims name and that is no more."""
    known = {pool.name for pool in node_pools}
    gone = {
        claim.node_pool_name: claim.node_class_name
        for claim in claims
        if claim.node_pool_name not in known
    }
    return tuple(
        NodePool(name, class_name, Requirements.of())
        for name, class_name in sorted(gone.items())
    )
