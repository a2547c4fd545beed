"""Which nodes may be disrupted at all, and why the others may not (R-164 to R-170)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from reservoir.core.disruption.saving.cost import node_cost, savings_ratio
from reservoir.core.disruption.saving.node_prices import NodePrices
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.node_pool import ConsolidationPolicy, NodePool
from reservoir.core.model.snapshot import Node, PlacedReplicas
from reservoir.core.model.team import Team
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.labels import DO_NOT_DISRUPT


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that may be disrupted. ``disruption_cost`` is in units of ``1 / ONE``.

    ``is_empty``: no replicas are on it. Replicas that cost nothing to move are work too: if their node were deleted as
    empty, another would be launched for them (R-169). Replicas of an unknown workload are about to leave.

    ``price`` is what removing it saves, in atto-USD an hour at today's prices. The pool of an orphan was deleted;
    ``pool`` is a substitute (``reservoir.core.disruption.methods.deleted_pool``).
    """

    node: Node
    claim: NodeClaim
    pool: NodePool
    disruption_cost: int
    is_empty: bool
    price: int
    is_orphan: bool = False

    @property
    def id(self) -> str:
        """The claim's id."""
        return self.claim.id

    @property
    def is_reserved(self) -> bool:
        """Whether the node runs in a reservation."""
        return self.node.capacity_type is CapacityType.RESERVED

    @property
    def order(self) -> tuple[float, int, str]:
        """Total order of ending candidates: most saved per disruption first, then least disruption, then id."""
        return (
            -savings_ratio(self.price, self.disruption_cost),
            self.disruption_cost,
            self.id,
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node is left alone in this pass."""

    claim_id: str
    reason: str


def blocked_reason(claim: NodeClaim, now: datetime) -> str | None:
    """Say why no voluntary disruption may touch the node now, or None."""
    if claim.state is not ClaimState.RUNNING:
        return f"is {claim.state.value}, not running"
    if claim.drain is not None or claim.disruption is not None:
        return "is already draining or ending"
    if claim.nominated_until is not None and now < claim.nominated_until:
        return "replicas are expected on it"
    return None


def marked_reason(pool: NodePool) -> str | None:
    """Return that the pool's template marks its nodes ``do-not-disrupt``, or None. Drift respects that too (R-164).

    The mark holds for all nodes of the pool while its template has it, also for those launched before.
    """
    is_marked = pool.annotations.get(DO_NOT_DISRUPT) == "true"
    return (
        f"NodePool {pool.name} says do-not-disrupt in its template" if is_marked else None
    )


def protected_reason(
    placements: tuple[PlacedReplicas, ...], workloads: Mapping[str, Workload]
) -> str | None:
    """Return which workload forbids disruption, or None.

    ``do-not-disrupt`` and gangs, of which one replica cannot move alone. Drift may override it in a pool whose
    termination grace period bounds how long the workload may take (R-164).
    """
    for placed in placements:
        workload = workloads.get(placed.workload_key)
        if workload is not None and workload.do_not_disrupt:
            return f"workload {workload.key} says do-not-disrupt"
        if workload is not None and workload.gang is not None:
            return f"workload {workload.key} is a gang and cannot move in part"
    return None


def undisturbed(
    placements: tuple[PlacedReplicas, ...], workloads: Mapping[str, Workload]
) -> frozenset[str]:
    """Return the namespaces whose work on a node must not be disturbed."""
    known = (workloads.get(placed.workload_key) for placed in placements)
    return frozenset(
        workload.namespace
        for workload in known
        if workload is not None and workload.do_not_disrupt
    )


def grace_is_over(candidate: Candidate, owner: Team, now: datetime) -> bool:
    """Whether work on a node has had the time that the lender of its unit or room grants.

    Counted from the launch of the node: the borrower decides when replicas come and go.
    """
    return now - candidate.claim.created_at >= timedelta(seconds=owner.loan_grace_s)


def settling_reason(claim: NodeClaim, pool: NodePool, now: datetime) -> str | None:
    """Say that the node changed too recently (R-165), or None. A pool that never consolidates has no such time."""
    after_s = pool.disruption.consolidate_after_s
    if after_s is not None and now - steady_since(claim) < timedelta(seconds=after_s):
        return f"changed less than consolidateAfter ({after_s} s) ago"
    return None


def steady_since(claim: NodeClaim) -> datetime:
    """Return when the node changed last: when replicas came or went, or when it came up with its first ones."""
    known = (claim.created_at, claim.running_at, claim.placements_changed_at)
    return max(at for at in known if at is not None)


def not_consolidatable_reason(candidate: Candidate, now: datetime) -> str | None:
    """Say why consolidation (not drift) must leave the node alone, or None (R-165, R-166)."""
    pool = candidate.pool
    if pool.is_static:
        return f"NodePool {pool.name} is static"
    if pool.disruption.consolidate_after_s is None:
        return f"NodePool {pool.name} never consolidates"
    settling = settling_reason(candidate.claim, pool, now)
    if settling is not None:
        return settling
    if (
        pool.disruption.consolidation_policy is ConsolidationPolicy.WHEN_EMPTY
        and not candidate.is_empty
    ):
        return f"NodePool {pool.name} consolidates empty nodes only"
    return None


def make_candidate(
    node: Node,
    claim: NodeClaim,
    pool: NodePool,
    workloads: Mapping[str, Workload],
    prices: NodePrices,
    *,
    is_orphan: bool = False,
) -> Candidate:
    """Put together what disruption needs to know of a node."""
    is_empty = not any(placed.workload_key in workloads for placed in claim.placements)
    price = prices.today(claim.offering, claim.price_atto_usd_per_hour)
    return Candidate(
        node,
        claim,
        pool,
        node_cost(claim.placements, workloads),
        is_empty,
        price,
        is_orphan,
    )
