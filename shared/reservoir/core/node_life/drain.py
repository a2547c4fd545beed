"""The drain protocol's decisions: when a drain starts, until when it lasts, which replicas are still awaited.

::

    begin ---- notified (Node Draining) ---- released by all, or deadline ---- terminate ---- Node Terminated
      └ the replicas are demand again from here on, so that they are replaced before the node is gone

A node drains once in its life. A later, more urgent reason (an interruption during a consolidation) moves the deadline
of the drain that is under way forward; nothing ever moves it back.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from reservoir.core.model.capacity_reservation import BlockDrain, CapacityReservation
from reservoir.core.model.node_claim import ClaimState, Drain, DrainReason, NodeClaim
from reservoir.core.model.snapshot import PlacedReplicas, count_of

# EC2's promise for spot and interruptible reservations
INTERRUPTION_NOTICE: Final = timedelta(minutes=2)
# How long a voluntary drain waits for releases, unless the pool's terminationGracePeriod is shorter. Kubernetes would
# wait for ever; a slot that is never released must come free some day.
VOLUNTARY_GRACE: Final = timedelta(minutes=15)
# A workload that was withdrawn asked for the end itself.
WITHDRAWN_GRACE: Final = timedelta(minutes=2)

# The longest notice that any work gets, unless a deployment chooses another.
LONGEST_NOTICE: Final = timedelta(hours=2)
# Drains that another team or a person waits for: whatever notice the work wants, they take no longer than this.
_AWAITED_END_MAX: Final = timedelta(hours=1)
_AWAITED_ENDS: Final = frozenset(
    {
        DrainReason.WITHDRAWN,
        DrainReason.REQUESTED,
        DrainReason.RECLAIMED,
        DrainReason.REBALANCE,
        DrainReason.SCHEDULED_CHANGE,
        DrainReason.UNHEALTHY,
    }
)

# Maintenance that begins within this shortens the usual grace; before later maintenance the node has long gone.
_MAINTENANCE_IS_NEAR: Final = timedelta(hours=1)

_DRAINABLE: Final = frozenset(
    {ClaimState.LAUNCHED, ClaimState.RUNNING, ClaimState.DRAINING}
)


class RebalancePolicy(StrEnum):
    """What a rebalance recommendation does. Karpenter ignores it; draining early costs a node for a risk."""

    IGNORE = "ignore"
    LAUNCH_BEFORE_DRAIN = "launch-before-drain"


class InstanceStatusPolicy(StrEnum):
    """What failed status checks and planned maintenance lead to, whether an event or a sweep finds them."""

    REPLACE = "replace"
    REPORT = "report"  # count each episode once, touch nothing


def block_drain(
    reservation: CapacityReservation, checkpoint_periods_s: Iterable[int]
) -> BlockDrain | None:
    """Return the drain of a claim in ``reservation``; None for kinds whose end leaves instances running.

    A workload that needs longer to write a checkpoint than the usual notice lasts is notified that much earlier.
    """
    drain = reservation.block_drain()
    return None if drain is None else drain.for_notice(max(checkpoint_periods_s, default=0))


def voluntary_deadline(
    reason: DrainReason, now: datetime, checkpoint_periods_s: Iterable[int]
) -> datetime:
    """Return the deadline of a drain that nothing outside forces; the periods are within the longest notice."""
    grace = WITHDRAWN_GRACE if reason is DrainReason.WITHDRAWN else VOLUNTARY_GRACE
    wanted = timedelta(seconds=max(checkpoint_periods_s, default=0))
    if reason in _AWAITED_ENDS:
        wanted = min(wanted, _AWAITED_END_MAX)
    return now + max(grace, wanted)


def maintenance_deadline(begins_at: datetime | None, now: datetime) -> datetime | None:
    """Return the deadline of a drain for planned maintenance; None for the usual grace."""
    is_near = begins_at is not None and begins_at - now < _MAINTENANCE_IS_NEAR
    return begins_at if is_near else None


def begin(
    claim: NodeClaim,
    reason: DrainReason,
    deadline: datetime,
    now: datetime,
    grace_period_s: int | None = None,
) -> NodeClaim | None:
    """Return the claim as it drains, or None when nothing changes (it drains already, or is past draining).

    ``grace_period_s`` is the pool's terminationGracePeriod, which bounds every drain. The returned claim still carries
    its placements; ``awaiting`` repeats them.
    """
    if claim.state not in _DRAINABLE:
        return None
    if grace_period_s is not None:
        deadline = min(deadline, now + timedelta(seconds=grace_period_s))
    deadline = max(deadline, now)
    if claim.drain is None:
        drain = Drain(drain_id(claim.id), reason, now, deadline, claim.placements)
        return replace(claim, state=ClaimState.DRAINING, drain=drain)
    if deadline >= claim.drain.deadline:
        return None
    return replace(
        claim, drain=replace(claim.drain, reason=reason, notified_at=now, deadline=deadline)
    )


def begin_voluntary(
    claim: NodeClaim,
    reason: DrainReason,
    deadline: datetime,
    now: datetime,
    grace_period_s: int | None = None,
) -> NodeClaim | None:
    """As :func:`begin`, for a reason that nothing outside forces: it does not move the deadline of a current drain."""
    return (
        begin(claim, reason, deadline, now, grace_period_s) if claim.drain is None else None
    )


def drain_id(claim_id: str) -> str:
    """Return the id of the claim's drain; a claim drains once, so repeats of the notification carry the same."""
    return f"drain-{claim_id}"


def released(claim: NodeClaim, workload_key: str, count: int | None) -> NodeClaim | None:
    """Return the claim after ``count`` replicas (None: all) of a workload were released, or None if none is awaited."""
    if claim.drain is None or claim.state is not ClaimState.DRAINING:
        return None
    rest: list[PlacedReplicas] = []
    changed = False
    for placed in claim.drain.awaiting:
        if placed.workload_key != workload_key:
            rest.append(placed)
            continue
        changed = True
        left = 0 if count is None else placed.count - count
        if left > 0:
            rest.append(PlacedReplicas(workload_key, left))
    if changed:
        return replace(claim, drain=replace(claim.drain, awaiting=tuple(rest)))
    return None


def awaited_count(claim: NodeClaim, workload_key: str) -> int:
    """Return how many replicas of the workload the drain still awaits."""
    return 0 if claim.drain is None else count_of(workload_key, claim.drain.awaiting)


def is_over(claim: NodeClaim, now: datetime) -> bool:
    """Whether the node may be terminated: everything was released, or the deadline has passed."""
    if claim.state is not ClaimState.DRAINING or claim.drain is None:
        return False
    return not claim.drain.awaiting or claim.drain.deadline <= now
