"""The ledger's arithmetic (docs/architecture.md#the-ledger); the store commits it in conditional transactions.

free = what EC2 last said is available - leases whose effect that observation cannot have contained

An observation contains a launch for certain only if the call to EC2 began after the launch had settled, plus the time
that EC2's count may lag. Until then the lease stays open beside the observation. Counting a launch twice for a minute
leaves a unit idle for a minute; counting it never would promise one unit twice, so the estimate errs to the first.

::

    lease:        held ------ settled_at ----- lag ----> may be absorbed by observations that begin here or later
    observation:      started_at ... answered             (began before: the lease stays open beside it)
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.model.node_claim import (
    OPEN_LEASE_STATES,
    ClaimState,
    Lease,
    LeaseState,
    NodeClaim,
)
from reservoir.core.model.snapshot import PlacedReplicas

# AWS documents no figure for the lag of AvailableInstanceCount; its guidance is to poll with back-off from 2 s up.
# 30 s is half of our own polling period: a lease outlives its launch by at most two observations.
COUNT_LAG: Final = timedelta(seconds=30)
# A freed unit comes back within minutes (EC2 scrubs it first). A unit that does not went to an outsider, or EC2 refuses
# to end the node in it.
UNIT_BACK_WITHIN: Final = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class Balance:
    """One reservation's counters: what EC2 last said is available, and the open leases that it does not contain.

    Free goes below zero when EC2's number falls under what is already promised (an outsider took units, the owner
    shrank the reservation); then nothing may be leased until it recovers.
    """

    available_count: int
    outstanding_count: int

    @property
    def free_units(self) -> int:
        """Units that may still be promised."""
        return self.available_count - self.outstanding_count


def is_absorbed_by(
    lease: Lease, observation_started_at: datetime, lag: timedelta = COUNT_LAG
) -> bool:
    """Whether an observation that began at ``observation_started_at`` is certain to contain the lease's launch."""
    return (
        lease.state is LeaseState.SETTLED
        and lease.settled_at is not None
        and lease.settled_at + lag <= observation_started_at
    )


def observed(balance: Balance, available_count: int, absorbed_count: int) -> Balance:
    """Balance after an observation of ``available_count`` that replaces ``absorbed_count`` leases."""
    assert 0 <= absorbed_count <= balance.outstanding_count
    return Balance(available_count, balance.outstanding_count - absorbed_count)


def exhausted(balance: Balance) -> Balance:
    """Balance after EC2 refused a unit (ReservationCapacityExceeded): nothing is free until the next observation.

    ``available_count`` drops to 0 while open leases still count against it, so that returning the refused lease does
    not free a unit that EC2 has just denied.
    """
    return Balance(min(balance.available_count, 0), balance.outstanding_count)


def holds_open_lease(claim: NodeClaim) -> bool:
    """Whether the claim's lease still counts against its reservation."""
    return claim.lease is not None and claim.lease.state in OPEN_LEASE_STATES


def settled(claim: NodeClaim) -> NodeClaim:
    """Return the claim with its held lease settled at the launch; without a held lease, unchanged."""
    if claim.lease is None or claim.lease.state is not LeaseState.HELD:
        return claim
    assert claim.launched_at is not None, "a settled claim says when it was launched"
    return replace(
        claim,
        lease=replace(claim.lease, state=LeaseState.SETTLED, settled_at=claim.launched_at),
    )


def is_moving(claim: NodeClaim) -> bool:
    """Whether the claim is a unit that EC2's count of the reservation that it leaves may still contain."""
    return claim.moves_to is not None and holds_open_lease(claim)


def absorbed(claim: NodeClaim) -> NodeClaim:
    """Return the claim with its lease closed by an observation."""
    assert claim.lease is not None
    return replace(claim, lease=replace(claim.lease, state=LeaseState.ABSORBED))


def relieved(claim: NodeClaim, placements: Mapping[str, int]) -> NodeClaim:
    """Return the claim without ``placements`` (replicas by workload key); a failed one gives its lease back."""
    kept = []
    for placed in claim.placements:
        count = placed.count - placements.get(placed.workload_key, 0)
        assert count >= 0, "no more replicas are returned than are placed"
        if count > 0:
            kept.append(PlacedReplicas(placed.workload_key, count))
    claim = replace(claim, placements=tuple(kept))
    if claim.state is ClaimState.FAILED and holds_open_lease(claim):
        assert claim.lease is not None
        return replace(claim, lease=replace(claim.lease, state=LeaseState.RETURNED))
    return claim
