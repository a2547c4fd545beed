"""The drain protocol, one for every reason: notify, wait for releases or the deadline, terminate, say that it is gone.

Each step is announced before it is committed. A function that dies in between announces again when it is repeated
(with the same drain id); the other order would lose announcements.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from shared.core import drain
from shared.core.node_claim import ClaimState, DrainReason, NodeClaim
from shared.core.snapshot import PlacedReplicas
from shared.ports.ec2 import InstanceTerminator
from shared.ports.launches import LaunchPolicy
from shared.ports.messaging import EventPublisher, WorkQueue
from shared.ports.state import NodeClaimStore, WorkloadRecord, WorkloadStore
from shared.usecases.announce import node_draining, node_terminated
from shared.usecases.claim_moves import return_all_replicas, return_some_replicas, save_claim
from shared.usecases.launch_effects import checkpoint_periods_s


@dataclass(frozen=True, slots=True)
class TerminateReport:
    """What became of the claims that were to be terminated; ``refused`` maps instance ids to EC2's code."""

    asked: tuple[str, ...]
    refused: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Draining:
    """Drains nodes."""

    claims: NodeClaimStore
    workloads: WorkloadStore
    policy: LaunchPolicy
    terminator: InstanceTerminator
    publisher: EventPublisher
    queue: WorkQueue

    def begin_drain(
        self, claim: NodeClaim, reason: DrainReason, deadline: datetime | None, now: datetime
    ) -> NodeClaim | None:
        """Start the drain, or move the deadline of one under way forward; None when nothing changes.

        ``deadline`` None: the usual grace, and at least the longest checkpointPeriod of the workloads on the node. The
        pool's terminationGracePeriod bounds it. The replicas are demand again at once, so that they are replaced
        before the node is gone; withdrawn ones are simply taken off.
        """
        pool = self.policy.node_pool(claim.node_pool_name)
        grace_s = None if pool is None else pool.termination_grace_period_s
        until = deadline or drain.voluntary_deadline(reason, now, checkpoint_periods_s(claim, self.workloads))
        planned = drain.begin(claim, reason, until, now, grace_s)
        if planned is None or planned.drain is None:
            return None
        self.publisher.publish([node_draining(planned, planned.drain)])
        committed = return_all_replicas(
            self.claims, claim, now, lambda current: drain.begin(current, reason, until, now, grace_s)
        )
        if committed is None or committed.drain is None:
            return None
        if committed.drain.awaiting != planned.drain.awaiting:  # replicas arrived between the two
            self.publisher.publish([node_draining(committed, committed.drain)])
        self.queue.wake_planner(reason="node draining")
        if drain.is_over(committed, now):
            self.terminate([committed], now)
        return committed

    def release(self, workload_key: str, claim_id: str, count: int | None, now: datetime) -> None:
        """Note that ``count`` replicas (None: all) of the workload have left the claim's node.

        During a drain the node goes as soon as everybody has left. Outside one, replicas that the workload has too many
        of are taken off this node; a release that nobody asked for and that would leave too few changes nothing.
        """
        claim = self.claims.get(claim_id)
        if claim is None:
            return
        if claim.state is not ClaimState.DRAINING:
            self._release_surplus(claim, workload_key, count, now)
            return
        after = save_claim(self.claims, claim, lambda current: drain.released(current, workload_key, count))
        current = after or self.claims.get(claim_id)
        if current is not None and drain.is_over(current, now):
            self.terminate([current], now)

    def shed_surplus(self, record: WorkloadRecord, hosts: Sequence[NodeClaim], now: datetime) -> int:
        """Take replicas that the workload has too many of off its nodes; return how many.

        ``hosts`` are live claims. Dear and young nodes lose theirs first, reserved ones last: their units are paid
        for. A node whose last replicas go is drained, so that the workload hears of it and can say when it is done.
        """
        left = record.surplus_count
        for claim in sorted(hosts, key=_shed_order):
            here = sum(placed.count for placed in claim.placements if placed.workload_key == record.key)
            if left == 0 or here == 0:
                continue
            taken = min(left, here)
            if self._shed(claim, record.key, taken, now):
                left -= taken
        return record.surplus_count - left

    def terminate(self, claims: Sequence[NodeClaim], now: datetime) -> TerminateReport:
        """Terminate the nodes of claims, all in as few calls as EC2 allows. The intent is committed first."""
        asked: list[str] = []
        for claim in claims:
            if claim.state is not ClaimState.TERMINATING:
                moved = return_all_replicas(self.claims, claim, now, _terminating)
                if moved is None:
                    continue
            if claim.instance_id is not None:
                asked.append(claim.instance_id)
        receipt = self.terminator.terminate(asked) if asked else None
        refused = {} if receipt is None or receipt.refused is None else receipt.refused
        return TerminateReport(tuple(sorted(asked)), dict(refused))

    def ended(self, claims: Collection[NodeClaim], now: datetime) -> int:
        """Note that the instances of claims are gone; what still ran there is demand again. Returns how many."""
        count = 0
        for claim in claims:
            if not claim.may_become(ClaimState.TERMINATED):
                continue
            reason = claim.drain.reason.value if claim.drain is not None else claim.failure or "InstanceTerminated"
            self.publisher.publish([node_terminated(claim, reason, now, claim.placements)])
            if return_all_replicas(self.claims, claim, now, lambda current: _terminated(current, now)) is not None:
                count += 1
        if claims:
            # Also when another run committed it: that one may have died before it could wake anybody.
            self.queue.wake_planner(reason="node terminated")
        return count

    def _release_surplus(self, claim: NodeClaim, workload_key: str, count: int | None, now: datetime) -> None:
        record = self.workloads.get(workload_key)
        here = sum(placed.count for placed in claim.placements if placed.workload_key == workload_key)
        if record is None or not claim.is_live or here == 0:
            return
        taken = min(here if count is None else count, here, record.surplus_count)
        if taken > 0:
            self._shed(claim, workload_key, taken, now)

    def _shed(self, claim: NodeClaim, workload_key: str, count: int, now: datetime) -> bool:
        """Take replicas off a node, or drain it when they are all that it has."""
        total = sum(placed.count for placed in claim.placements)
        if count == total and claim.state in (ClaimState.LAUNCHED, ClaimState.RUNNING):
            return self.begin_drain(claim, DrainReason.WITHDRAWN, None, now) is not None

        def without(current: NodeClaim) -> NodeClaim | None:
            enough = sum(p.count for p in current.placements if p.workload_key == workload_key) >= count
            if not enough or not current.is_live:
                return None
            if current.state is ClaimState.PLANNED and count == sum(p.count for p in current.placements):
                return replace(current, state=ClaimState.FAILED, failure="withdrawn before its launch")
            return replace(current, placements_changed_at=now)

        taken = (PlacedReplicas(workload_key, count),)
        return return_some_replicas(self.claims, claim, now, taken, without) is not None


def _shed_order(claim: NodeClaim) -> tuple[bool, int, float, str]:
    reserved = claim.offering.reservation_id is not None
    return (reserved, -claim.price_atto_usd_per_hour, -claim.created_at.timestamp(), claim.id)


def _terminating(claim: NodeClaim) -> NodeClaim | None:
    return replace(claim, state=ClaimState.TERMINATING) if claim.may_become(ClaimState.TERMINATING) else None


def _terminated(claim: NodeClaim, now: datetime) -> NodeClaim | None:
    if not claim.may_become(ClaimState.TERMINATED):
        return None
    return replace(claim, state=ClaimState.TERMINATED, terminated_at=now)
