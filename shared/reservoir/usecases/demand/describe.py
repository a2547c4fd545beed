"""Answers questions about a workload over the demand queue: senders can read no table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.plan import UnplacedReplicas
from reservoir.core.model.snapshot import PlacedReplicas, count_of
from reservoir.core.node_life import replicas, succession
from reservoir.core.serialisation.generation import content_digest
from reservoir.manifests.described import (
    DrainStatus,
    NodeStatus,
    UnplacedDetail,
    WorkloadDescribed,
)
from reservoir.manifests.kinds.workload import WorkloadManifest
from reservoir.manifests.messages import DescribeMessage, WorkloadInQuestion
from reservoir.manifests.parsing.message import validated
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.ports.messaging import EventPublisher
from reservoir.ports.state import NodeClaimStore, WorkloadRecord, WorkloadStore
from reservoir.usecases.claims.announce import node_detail, stored_ref, workload_ref

# A node takes half a kilobyte of the answer, and EventBridge takes 256.
NODES_IN_A_PART: Final = 200


@dataclass(frozen=True, slots=True)
class Describe:
    """Answers ``describe``."""

    workloads: WorkloadStore
    claims: NodeClaimStore
    publisher: EventPublisher
    nodes_in_a_part: int = NODES_IN_A_PART

    def __call__(self, message: DescribeMessage) -> None:
        """Publish ``Workload Described``; a repeated question is answered again.

        Raises UnreadableRowError when the workload's row cannot be read: that is no answer.
        """
        key = message.workload.key
        record = self.workloads.get(key)
        is_stored = _is_stored(message.workload, record)
        nodes = [] if record is None else _nodes(self.claims.list_live(), key)
        parts = [
            nodes[start : start + self.nodes_in_a_part]
            for start in range(0, len(nodes), self.nodes_in_a_part)
        ] or [[]]
        self.publisher.publish(
            [
                _status(message.request_id, key, record, part).model_copy(
                    update={
                        "is_stored": is_stored,
                        "part": number,
                        "part_count": len(parts),
                    }
                )
                for number, part in enumerate(parts, start=1)
            ]
        )


def _status(
    request_id: str, key: str, record: WorkloadRecord | None, nodes: list[NodeStatus]
) -> WorkloadDescribed:
    if record is None:
        return WorkloadDescribed(request_id=request_id, workload=workload_ref(key))
    submitted = record.workload
    return WorkloadDescribed(
        request_id=request_id,
        workload=stored_ref(record),
        content_digest=None if submitted is None else content_digest(submitted),
        sent_by=record.sent_by,
        sent_at=record.sent_at,
        withdrawn=record.withdrawn,
        wanted=0 if submitted is None or record.withdrawn else submitted.replicas,
        placed=record.placed_count,
        finished=record.finished_count,
        waiting=[_waiting(unplaced) for unplaced in record.unplaced],
        nodes=nodes,
    )


def _is_stored(asked: WorkloadInQuestion, record: WorkloadRecord | None) -> bool | None:
    """Return whether the stored workload is the one in the question; None: the question has nothing to compare.

    A sender needs no digest of its own. It could only compute one by reading a workload exactly as this release does.
    """
    if asked.spec is None:
        return None
    try:
        would_be = validated(
            WorkloadManifest, asked.model_dump(by_alias=True, exclude_unset=True)
        ).to_core()
    except ManifestError:
        return None
    if record is None or record.workload is None or record.withdrawn:
        return False
    return content_digest(would_be) == content_digest(record.workload)


def _waiting(unplaced: UnplacedReplicas) -> UnplacedDetail:
    return UnplacedDetail(
        replicas=unplaced.count,
        reason=unplaced.code,
        message=unplaced.message,
        earliest_at=unplaced.earliest_at,
    )


def _nodes(claims: Sequence[NodeClaim], key: str) -> list[NodeStatus]:
    found = []
    for claim in sorted(claims, key=lambda it: it.id):
        placed = count_of(key, claim.placements)
        awaiting = 0 if claim.drain is None else count_of(key, claim.drain.awaiting)
        if placed or awaiting:
            found.append(_node(claim, key, placed, awaiting))
    return found


def _node(claim: NodeClaim, key: str, placed: int, awaiting: int) -> NodeStatus:
    drain = claim.drain
    followed = succession.of_workload(claim, key)
    held = succession.held_count(claim, PlacedReplicas(key, placed))
    return NodeStatus(
        **node_detail(claim).model_dump(by_alias=False),
        replicas=placed - held,
        held=held,
        held_until=succession.held_until(followed)
        if followed is not None and held
        else None,
        predecessors=succession.predecessor_ids(claim, key),
        state=claim.state,
        ready=replicas.ready_count(claim, key),
        launched_at=claim.launched_at,
        running_at=claim.running_at,
        drain=None
        if drain is None
        else DrainStatus(
            drain_id=drain.id,
            reason=drain.reason,
            notified_at=drain.notified_at,
            deadline=drain.deadline,
            awaiting=awaiting,
        ),
    )
