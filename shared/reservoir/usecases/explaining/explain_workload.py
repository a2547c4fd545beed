"""Explain a workload: where its replicas are, why the others wait, and when that could change."""

from dataclasses import dataclass

from reservoir.core.model.snapshot import count_of
from reservoir.manifests.answers.explanations import HostingNode, WorkloadExplanation
from reservoir.ports.state import NodeClaimStore, WorkloadStore
from reservoir.usecases.claims.announce import stored_ref
from reservoir.usecases.claims.waiting import waiting


@dataclass(frozen=True, slots=True)
class ExplainWorkload:
    """Explains workloads."""

    workloads: WorkloadStore
    claims: NodeClaimStore

    def explain(self, key: str) -> WorkloadExplanation | None:
        """Explain the workload ``namespace/name``; None when nobody ever submitted it, or it is forgotten.

        Raises UnreadableRowsError.
        """
        record = self.workloads.get(key)
        if record is None:
            return None
        pending = record.pending_count
        waits = [waiting(unplaced) for unplaced in record.unplaced] if pending else []
        times = [each.earliest_at for each in waits if each.earliest_at is not None]
        hosts = [
            claim for claim in self.claims.list_live() if count_of(key, claim.placements)
        ]
        return WorkloadExplanation(
            workload=stored_ref(record),
            withdrawn=record.withdrawn,
            replicas=record.unfinished_count,
            placed=record.placed_count,
            finished=record.finished_count,
            pending=pending,
            pending_since=record.pending_since if pending else None,
            next_feasible_at=min(times, default=None),
            waiting=waits,
            nodes=[
                HostingNode(
                    node_claim=c.id,
                    instance_id=c.instance_id,
                    state=c.state,
                    replicas=count_of(key, c.placements),
                )
                for c in hosts
            ],
        )
