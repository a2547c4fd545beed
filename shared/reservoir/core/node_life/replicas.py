"""Reports of a node about its replicas, and how they change its claim.

Reports may come twice and in any order. So a node reports how many replicas of a workload have finished on it *in all*:
only the part that the claim does not have yet counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from reservoir.core.capacity.ledger import relieved
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.snapshot import PlacedReplicas, count_of
from reservoir.core.node_life import drain


@dataclass(frozen=True, slots=True)
class FinishedReplicas:
    """A claim after ``count`` more replicas of a workload have finished on it.

    ``placed_count`` of them had their place there; the places of the others became demand again when the node began to
    drain, and may be taken already.
    """

    claim: NodeClaim
    count: int
    placed_count: int


def hosts(claim: NodeClaim, workload_key: str) -> bool:
    """Whether replicas of the workload belong on the node, still run there while it drains, or have finished there."""
    known = (
        *claim.placements,
        *claim.finished,
        *(() if claim.drain is None else claim.drain.awaiting),
    )
    return any(placed.workload_key == workload_key for placed in known)


def ready(claim: NodeClaim, workload_key: str, total: int) -> NodeClaim | None:
    """Return the claim after its node has reported that ``total`` replicas of a workload run; None: nothing new."""
    if total <= count_of(workload_key, claim.ready):
        return None
    return replace(claim, ready=_with(claim.ready, workload_key, total))


def ready_count(claim: NodeClaim, workload_key: str) -> int:
    """Return how many replicas that have their place on the node run, by its reports."""
    run = count_of(workload_key, claim.ready) - count_of(workload_key, claim.finished)
    return max(0, min(run, count_of(workload_key, claim.placements)))


def finished(
    claim: NodeClaim, workload_key: str, total: int, now: datetime
) -> FinishedReplicas | None:
    """Return the claim's change when ``total`` replicas of a workload have finished on the node; None: nothing new."""
    new = total - count_of(workload_key, claim.finished)
    placed = count_of(workload_key, claim.placements)
    count = min(new, placed or drain.awaited_count(claim, workload_key))
    if count <= 0:
        return None
    after = replace(
        claim,
        finished=_with(
            claim.finished, workload_key, count_of(workload_key, claim.finished) + count
        ),
    )
    if placed:
        relief = relieved(replace(after, placements_changed_at=now), {workload_key: count})
        return FinishedReplicas(relief, count, count)
    left = drain.released(after, workload_key, count)
    return None if left is None else FinishedReplicas(left, count, 0)


def _with(
    counted: Sequence[PlacedReplicas], workload_key: str, count: int
) -> tuple[PlacedReplicas, ...]:
    others = [it for it in counted if it.workload_key != workload_key]
    return tuple(
        sorted(
            (*others, PlacedReplicas(workload_key, count)), key=lambda it: it.workload_key
        )
    )
