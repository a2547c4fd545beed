"""How many nodes depend on a policy object: what a person should know before deleting it."""

from collections.abc import Iterable, Sequence
from typing import assert_never

from reservoir.core.model.node_claim import NodeClaim
from reservoir.ports.policy import PolicyKind
from reservoir.usecases.policy.apply_policy import Name, PolicyChange


def nodes_of(
    changes: Iterable[PolicyChange], claims: Sequence[NodeClaim]
) -> dict[Name, int]:
    """Return how many live claims each object has: a pool's and a class's own nodes, and nodes with a team's work."""
    counts: dict[Name, int] = {}
    for change in changes:
        counts[change.kind, change.name] = sum(_belongs(claim, change) for claim in claims)
    return counts


def _belongs(claim: NodeClaim, change: PolicyChange) -> bool:
    match change.kind:
        case PolicyKind.NODE_POOL:
            return claim.node_pool_name == change.name
        case PolicyKind.NODE_CLASS:
            return claim.node_class_name == change.name
        case PolicyKind.TEAM:
            namespaces = _namespaces(change)
            return any(
                placed.workload_key.partition("/")[0] in namespaces
                for placed in claim.placements
            )
        case _:
            assert_never(change.kind)


def _namespaces(change: PolicyChange) -> frozenset[str]:
    spec = (change.before or {}).get("spec", {})
    return frozenset(spec.get("namespaces") or ())
