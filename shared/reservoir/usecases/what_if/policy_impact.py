"""What a change of policy means for what runs: nodes that would drift, and pools that could never launch."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from reservoir.core.disruption.methods.drift import Offered, drift_reason
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.core.what_if.edits import WorldEdits, edited
from reservoir.core.what_if.never_launches import NeverLaunches, never_launching
from reservoir.ports.policy import PolicyObject
from reservoir.ports.system import Clock
from reservoir.usecases.policy.apply_policy import PolicyChange
from reservoir.usecases.policy.policy_objects import policy_of
from reservoir.usecases.what_if.plan_demand import SnapshotSource


@dataclass(frozen=True, slots=True)
class DriftingNode:
    """A node that would drift, and is replaced then; reserved ones cost nothing beside their reservation."""

    claim_id: str
    reason: str
    is_reserved: bool
    price_micro_usd_per_hour: int


@dataclass(frozen=True, slots=True)
class PolicyImpact:
    """What a change would cause; what is so already is no part of it."""

    drifting: tuple[DriftingNode, ...] = ()
    never_launching: tuple[NeverLaunches, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FindPolicyImpact:
    """Compares the world after a change of policy with the world as it is; writes nothing."""

    source: SnapshotSource
    clock: Clock

    def of(self, changes: Iterable[PolicyChange]) -> PolicyImpact:
        """Return the impact of objects that are made or changed."""
        made = [
            PolicyObject(change.kind, change.name, change.after, change.generation, 0)
            for change in changes
            if change.after is not None
        ]
        if not made:
            return PolicyImpact()
        now = self.clock.now()
        gathered = self.source.gather(now)
        policy = policy_of(made)
        edits = WorldEdits(node_pools=policy.node_pools, node_classes=policy.node_classes)
        after = edited(gathered.snapshot, edits, now)
        changed = {pool.name for pool in policy.node_pools}
        changed_classes = {node_class.name for node_class in policy.node_classes}
        concerned = {
            pool.name
            for pool in after.snapshot.node_pools
            if pool.name in changed or pool.node_class_name in changed_classes
        }
        claims = [
            claim for claim in gathered.claims.values() if claim.node_pool_name in concerned
        ]
        return PolicyImpact(
            tuple(_drifting(claims, gathered.snapshot, after.snapshot, now)),
            tuple(
                item
                for item in never_launching(after.snapshot)
                if item.node_pool_name in concerned
            ),
            after.notes,
        )


def _drifting(
    claims: Iterable[NodeClaim], before: Snapshot, after: Snapshot, now: datetime
) -> Iterator[DriftingNode]:
    """Yield nodes that have not drifted and would; nodes that leave anyway are not counted."""
    for claim in sorted(claims, key=lambda claim: claim.id):
        if (
            claim.drain is not None
            or claim.disruption is not None
            or _reason(claim, before, now) is not None
        ):
            continue
        reason = _reason(claim, after, now)
        if reason is not None:
            is_reserved = claim.offering.reservation_id is not None
            price = (
                0
                if is_reserved
                else claim.price_atto_usd_per_hour // ATTO_USD_PER_MICRO_USD
            )
            yield DriftingNode(claim.id, reason, is_reserved, price)


def _reason(claim: NodeClaim, snapshot: Snapshot, now: datetime) -> str | None:
    pool = next(
        (item for item in snapshot.node_pools if item.name == claim.node_pool_name), None
    )
    if pool is None:
        return None
    node_class = next(
        (item for item in snapshot.node_classes if item.name == claim.node_class_name), None
    )
    return drift_reason(claim, pool, node_class, Offered.of(snapshot), now)
