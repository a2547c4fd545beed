"""Nodes whose NodePool was deleted: they end with it, but gently.

Karpenter's nodes belong to their pool and end when it is deleted. Here they end as drifted nodes do, one command each:
replaced before they drain where another pool can hold their replicas, and without a replacement where none can, because
deleting a pool asks for that. The pool's own budgets are deleted with it, so Karpenter's default holds.
"""

from collections.abc import Iterable, Sequence

from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.node_pool import NodePool
from reservoir.core.scheduling_terms.requirements import Requirements


def deleted_pools(
    node_pools: Sequence[NodePool], claims: Iterable[NodeClaim]
) -> tuple[NodePool, ...]:
    """Return a substitute, with default disruption settings, for each deleted pool that claims name."""
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
