"""When a node with planned EC2 maintenance ends: at once, or when its work has ended.

EC2 announces maintenance days or weeks ahead. A node whose work must not be interrupted, or ends by itself before,
stays until then; it takes no new replicas meanwhile. It ends when it is empty, or an hour and the longest notice that
its work wants before the maintenance begins, whichever comes first.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.model.node_claim import NodeClaim, Operation, with_operation
from reservoir.core.model.workload import Workload

_LEAD: Final = timedelta(hours=1)
_BY: Final = "EC2"  # the operator that cordoned the node, among its operations


# Branches: one question after the other, with a comprehension each over the work on the node.
def waits_for_its_work(
    work: Iterable[Workload],
    since: datetime,
    begins_at: datetime | None,
    now: datetime,
    *,
    is_kept: bool,
) -> bool:
    """Whether a node with this work stays for now.

    ``since``: when its latest replica came; ``is_kept``: the node's pool has do-not-disrupt.
    """
    placed = list(work)
    if begins_at is None or not placed:
        return False
    latest = (
        begins_at
        - _LEAD
        - timedelta(seconds=max((it.checkpoint_period_s or 0 for it in placed), default=0))
    )
    if now >= latest:
        return False
    if is_kept or any(it.do_not_disrupt for it in placed):
        return True
    durations = [it.duration_s for it in placed if it.duration_s is not None]
    return any(since + timedelta(seconds=duration_s) <= latest for duration_s in durations)


def closed(
    claim: NodeClaim, code: str, begins_at: datetime | None, now: datetime
) -> NodeClaim | None:
    """Return the claim as it takes no new replicas, or None when it takes none already."""
    if claim.cordoned or claim.drain is not None:
        return None
    when = "" if begins_at is None else f" at {begins_at.isoformat()}"
    told = Operation("cordon", _BY, f"{code}{when}", now)
    return replace(claim, cordoned=True, operations=with_operation(claim.operations, told))


def reopened(claim: NodeClaim, now: datetime) -> NodeClaim | None:
    """Return the claim as it takes replicas again, or None when it was not maintenance that closed it."""
    if not is_closed(claim):
        return None
    told = Operation("uncordon", _BY, "no maintenance is planned any more", now)
    return replace(claim, cordoned=False, operations=with_operation(claim.operations, told))


def is_closed(claim: NodeClaim) -> bool:
    """Whether maintenance has closed the node to new replicas, and no person has changed that since."""
    return (
        claim.cordoned
        and claim.drain is None
        and bool(claim.operations)
        and claim.operations[-1].by == _BY
    )
