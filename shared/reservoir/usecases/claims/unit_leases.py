"""Leases of units that no node of ours gets: each moves to another reservation, is split off, or is lent.

The lease keeps everybody of ours off the unit from before EC2 is asked until EC2's own count of the reservation is
certain to have gone down. It is the intent, too: a pass that dies is continued by the next.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState, Lease, LeaseState, NodeClaim
from reservoir.core.model.plan import OfferingKey
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.ports.state import NodeClaimStore
from reservoir.usecases.claims.claim_moves import return_all_replicas, settle_claim

# EC2 does not say for how long it remembers a client token: later than this it is not asked again.
ASKED_WITHIN: Final = timedelta(minutes=10)
NO_MACHINE: Final = "no machine, but a unit that "


def lease_unit(
    lease_id: str,
    source: CapacityReservation,
    moves_to: str,
    fate: str,
    now: datetime,
    batch_id: str = "",
) -> NodeClaim:
    """Return a claim that no machine ever comes of: it ended before it began, and its lease is all of it.

    ``fate`` completes ``NO_MACHINE``.
    """
    return NodeClaim(
        id=lease_id,
        state=ClaimState.FAILED,
        revision=1,
        node_pool_name="",
        node_class_name="",
        batch_id=batch_id,
        attempt=1,
        offering=OfferingKey(
            source.instance_type,
            source.zone,
            source.zone_id,
            CapacityType.RESERVED,
            source.id,
        ),
        price_atto_usd_per_hour=0,
        placements=(),
        allocatable=Resources.of({}),
        created_at=now,
        lease=Lease(source.id),
        moves_to=moves_to,
        failure=f"{NO_MACHINE}{fate}",
    )


def is_unanswered(lease: NodeClaim) -> bool:
    """Whether EC2's answer about the unit is not recorded yet."""
    return lease.lease is not None and lease.lease.state is LeaseState.HELD


def give_unit_back(claims: NodeClaimStore, lease: NodeClaim, now: datetime) -> None:
    """Record that EC2 refused: the unit is free. Raises ConflictError and UnreadableRowsError."""
    return_all_replicas(claims, lease, now, lambda it: it if is_unanswered(it) else None)


def settle_unit(claims: NodeClaimStore, lease: NodeClaim, now: datetime) -> None:
    """Record that EC2 has done it, or may have: its count shows what happened. Raises as ``give_unit_back``."""
    settle_claim(
        claims,
        lease,
        lambda it: replace(it, launched_at=now) if is_unanswered(it) else None,
    )
