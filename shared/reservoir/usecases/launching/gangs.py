"""Gangs launch whole or not at all, over all the calls that they take.

Within one call EC2 promises that where it can (MinTargetCapacity). Beyond it, in Capacity Blocks and over several
reservations, what came is ended again when the rest does not come. This is about launches only: a member that is lost
later is planned again by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.ports.ec2 import InstanceTerminator
from reservoir.ports.messaging import LaunchBatch
from reservoir.ports.state import NodeClaimStore, WorkloadStore
from reservoir.usecases.claims.claim_moves import return_all_replicas

# Longer than any launch takes, adoption included. An instance that has run for longer belongs to no launch in progress.
TAKEN_BACK_WITHIN: Final = timedelta(minutes=30)
_REASON: Final = "its gang could not be launched whole"
_LAUNCHED: Final = frozenset({ClaimState.LAUNCHED, ClaimState.RUNNING})


@dataclass(frozen=True, slots=True)
class LaunchGangs:
    """Undoes gangs that could not be launched whole."""

    claims: NodeClaimStore
    workloads: WorkloadStore
    terminator: InstanceTerminator

    def is_broken(self, launched: Sequence[NodeClaim]) -> bool:
        """Whether another batch of the gang has failed already: not all replicas have a place any more.

        Raises UnreadableRowsError.
        """
        if not launched or launched[0].gang_key is None:
            return False
        record = self.workloads.get(launched[0].gang_key)
        return record is not None and record.pending_count > 0

    def of_batch(self, batch: LaunchBatch) -> list[NodeClaim]:
        """Return the batch's claims that have an instance, also those whose undoing was cut short.

        Raises UnreadableRowsError.
        """
        found = self.claims.get_many(batch.claim_ids)
        undoable = _LAUNCHED | {ClaimState.TERMINATING}
        return [
            found[claim_id]
            for claim_id in sorted(found)
            if found[claim_id].state in undoable
        ]

    def undo(self, failed: Sequence[NodeClaim], now: datetime) -> int:
        """End everything that was planned together with gang claims that failed; return how many claims.

        Batches that are being launched at this moment find their gang broken when they settle. Raises ConflictError
        when a claim is fought over, and UnreadableRowsError.
        """
        gangs = {(claim.gang_key, claim.plan_id) for claim in failed if claim.gang_key}
        if not gangs:
            return 0
        live = {claim.id: claim for claim in self.claims.list_live()}
        # the list may lag behind claims that were just settled
        live |= self.claims.get_many([claim.id for claim in failed])
        undone_count = 0
        ended: list[str] = []
        for _, member in sorted(live.items()):
            is_planned_with_them = (member.gang_key, member.plan_id) in gangs
            age = now - (member.launched_at or now)
            if not is_planned_with_them or age > TAKEN_BACK_WITHIN:
                continue
            undone = return_all_replicas(self.claims, member, now, _undone)
            undone_count += undone is not None
            # Only where the row has a deadline: a node that drains already was promised the time until then.
            known = undone or member
            if known.state is ClaimState.TERMINATING and known.instance_id is not None:
                ended.append(known.instance_id)
        if ended:
            self.terminator.terminate(ended)
        return undone_count


def _undone(claim: NodeClaim) -> NodeClaim | None:
    if claim.state in _LAUNCHED:
        return replace(claim, state=ClaimState.TERMINATING, failure=_REASON)
    if claim.state is ClaimState.PLANNED:
        return replace(claim, state=ClaimState.FAILED, failure=_REASON)
    return None
