"""Reports of nodes about their replicas: arrived, ready, failed, finished, gone from a node that drains.

As everywhere, each report is published before anything is written: a function that dies in between publishes it again.
"""

from dataclasses import dataclass, replace
from typing import Final, assert_never

from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.node_life import drain, gang, replicas
from reservoir.core.node_life.replicas import FinishedReplicas
from reservoir.manifests.replica_events import ReplicaFailed, ReplicaFinished, ReplicaReady
from reservoir.manifests.reports import (
    ArrivedReport,
    FailedReport,
    FinishedReport,
    NodeReport,
    ReadyReport,
    ReleasedReport,
)
from reservoir.ports.messaging import EventPublisher, OutboundEvent, WorkQueue
from reservoir.ports.state import (
    ConflictError,
    NodeClaimStore,
    WorkloadRecord,
    WorkloadStore,
)
from reservoir.ports.system import Clock
from reservoir.usecases.claims.announce import hosted_ref, node_detail, stored_ref
from reservoir.usecases.claims.claim_moves import save_claim, save_claims
from reservoir.usecases.claims.rolling_updates import kept_rollout
from reservoir.usecases.draining.draining import Draining

# Another start does not help a command that fails so often in a row: a person should look.
CRASH_LOOP_RESTARTS: Final = 3
_TRIES: Final = 6  # of a race for the claim and the workload


@dataclass(frozen=True, slots=True)
class FollowReplicas:
    """Applies what nodes report."""

    claims: NodeClaimStore
    workloads: WorkloadStore
    draining: Draining
    publisher: EventPublisher
    queue: WorkQueue
    clock: Clock

    def apply(self, report: NodeReport, instance_id: str) -> bool:
        """Apply what an instance reports of replicas on it; False when they are not its to report about.

        Raises ConflictError when every race for the rows was lost, and UnreadableRowsError.
        """
        key = report.workload.key
        claim = self.claims.find_by_instance([instance_id]).get(instance_id)
        if claim is None or not replicas.hosts(claim, key):
            return False
        match report:
            case ArrivedReport():
                self._seat(claim, key, report)
            case ReadyReport():
                self._note_ready(claim, key, report)
            case FailedReport():
                self._publish(_failed(claim, key, report))
            case FinishedReport():
                self._finish(claim, key, report)
            case ReleasedReport():
                self.draining.release(key, claim.id, None, self.clock.now())
            case _:
                assert_never(report)
        return True

    def _seat(self, claim: NodeClaim, key: str, report: ArrivedReport) -> None:
        """Note where the node is; when all nodes of the workload are there, let them know of each other.

        Two that arrive at once each look after they have written: the later one sees both.
        """

        def addressed(current: NodeClaim) -> NodeClaim | None:
            if current.address == report.address:
                return None
            return replace(current, address=report.address)

        save_claim(self.claims, claim, addressed)
        record = self.workloads.get(key)
        if (
            record is None
            or record.withdrawn
            or record.workload is None
            or record.pending_count
        ):
            return
        listed = {it.id for it in self.claims.list_live() if replicas.hosts(it, key)}
        # the list may lag
        members = list(self.claims.get_many({*listed, claim.id}).values())
        dealt = gang.seats(key, record.workload.replicas - record.finished_count, members)

        def seated(current: NodeClaim) -> NodeClaim | None:
            return gang.with_seat(dealt[current.id], current)

        save_claims(self.claims, [it for it in members if it.id in dealt], seated)

    def _publish(self, event: OutboundEvent) -> None:
        self.publisher.publish([event])

    def _note_ready(self, claim: NodeClaim, key: str, report: ReadyReport) -> None:
        self._publish(
            ReplicaReady(
                node=node_detail(claim),
                workload=hosted_ref(claim, key),
                replicas=report.replicas,
            )
        )
        # A report that came late, or again because replicas run again after a failure, changes nothing.
        save_claim(self.claims, claim, lambda it: replicas.ready(it, key, report.replicas))

    def _finish(self, claim: NodeClaim, key: str, report: FinishedReport) -> None:
        lost: ConflictError | None = None
        for _ in range(_TRIES):
            # In this order: a claim that is newer than its record shows that a report is a repeat; with an older one
            # the same replicas would be reported twice.
            record = self.workloads.get(key)
            current = self.claims.get(claim.id)
            done = (
                None
                if current is None
                else replicas.finished(current, key, report.replicas, self.clock.now())
            )
            if current is None or done is None or record is None or record.withdrawn:
                # A repeat; or the replicas are not wanted, and their node drains or is about to.
                self._end_if_over(current)
                return
            after = _with_finished(record, done)
            self._publish(_finished(current, report, done, after))
            try:
                moved = self.claims.finish_replicas(
                    done.claim,
                    expected_revision=current.revision,
                    record=after,
                    expected_record_revision=record.revision,
                )
            except ConflictError as error:
                lost = error
            else:
                if moved.drain is not None:
                    self.draining.let_followers_start(key, moved.id, self.clock.now())
                self._go_on(moved, after)
                return
        raise lost or ConflictError([claim.id])

    def _go_on(self, claim: NodeClaim, record: WorkloadRecord) -> None:
        self._end_if_over(claim)
        # the replica that was to replace the finished one is surplus
        if record.needs_planning:
            self.queue.wake_planner(reason="replicas finished", workload_keys=[record.key])

    def _end_if_over(self, claim: NodeClaim | None) -> None:
        now = self.clock.now()
        if claim is not None and drain.is_over(claim, now):
            self.draining.terminate([claim], now)


def _with_finished(record: WorkloadRecord, done: FinishedReplicas) -> WorkloadRecord:
    after = replace(
        record,
        placed_count=record.placed_count - done.placed_count,
        finished_count=record.finished_count + done.count,
    )
    after = replace(after, rollout=kept_rollout(record, after))
    return after if after.pending_count else replace(after, pending_since=None, unplaced=())


def _failed(claim: NodeClaim, key: str, report: FailedReport) -> ReplicaFailed:
    return ReplicaFailed(
        node=node_detail(claim),
        workload=hosted_ref(claim, key),
        exit_code=report.exit_code,
        restarts=report.restarts,
        next_start_in_s=report.next_start_in_s,
        is_crash_loop=report.restarts >= CRASH_LOOP_RESTARTS,
        log_tail=_printable(report.log_tail),
    )


def _finished(
    claim: NodeClaim, report: FinishedReport, done: FinishedReplicas, record: WorkloadRecord
) -> ReplicaFinished:
    return ReplicaFinished(
        node=node_detail(claim),
        workload=stored_ref(record),
        replicas=done.count,
        finished=record.finished_count,
        wanted=0 if record.workload is None else record.workload.replicas,
        log_tail=_printable(report.log_tail),
    )


def _printable(text: str) -> str:
    """Replace what could move a terminal's cursor: a node's log is anybody's text."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for char in text
    )
