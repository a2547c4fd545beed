"""List workloads: those that want replicas, or still have some."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.workload import Workload
from reservoir.manifests.answers.listed import (
    GenerationReplicas,
    Named,
    WorkloadRow,
    WorkloadRowSpec,
    WorkloadRowStatus,
    WorkloadState,
)
from reservoir.ports.state import NodeClaimStore, WorkloadRecord, WorkloadStore
from reservoir.usecases.claims.checkpoints import placed_terms
from reservoir.usecases.claims.waiting import waiting


@dataclass(frozen=True, slots=True)
class ListWorkloads:
    """Lists workloads.

    No index has all of them, and none is needed: what wants a place, or has one too many, is on the planner's list;
    everything else that is wanted has a replica on a live claim. So what is read grows with the demand and the fleet
    of the moment, and never with what was once submitted.
    """

    workloads: WorkloadStore
    claims: NodeClaimStore

    def list(self, keys: Collection[str] = ()) -> list[WorkloadRow]:
        """Return those that keys (``namespace/name``) name and that are known; without keys, all. By key.

        Raises UnreadableRowsError.
        """
        live = self.claims.list_live()
        pools = _pools_by_workload(live)
        records = (
            {}
            if keys
            else {record.key: record for record in self.workloads.list_needing_planning()}
        )
        records.update(self.workloads.get_many((set(keys) or set(pools)) - records.keys()))
        outdated = placed_terms(records).outdated(live)
        return [
            _row(
                record, record.workload, pools.get(key, frozenset()), outdated.get(key, {})
            )
            for key, record in sorted(records.items())
            if record.workload is not None
        ]


def _pools_by_workload(claims: Collection[NodeClaim]) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for claim in claims:
        for placed in claim.placements:
            found.setdefault(placed.workload_key, set()).add(claim.node_pool_name)
    return {key: frozenset(pools) for key, pools in found.items()}


def _row(
    record: WorkloadRecord,
    workload: Workload,
    pools: Collection[str],
    outdated: Mapping[int, int],
) -> WorkloadRow:
    waits = (
        [waiting(unplaced) for unplaced in record.unplaced] if record.pending_count else []
    )
    return WorkloadRow(
        metadata=Named(
            name=workload.name, namespace=workload.namespace, labels=dict(workload.labels)
        ),
        spec=WorkloadRowSpec(
            replicas=workload.replicas,
            generation=record.generation,
            priority=workload.priority,
            gang=workload.gang is not None,
            duration_s=workload.duration_s,
            requests=workload.requests.formatted(),
        ),
        status=WorkloadRowStatus(
            state=_state(record),
            placed=record.placed_count,
            pending=record.pending_count,
            outdated=sum(outdated.values()),
            outdated_generations=[
                GenerationReplicas(generation=generation, replicas=outdated[generation])
                for generation in sorted(outdated)
            ],
            submitted_at=record.submitted_at,
            pending_since=record.pending_since if record.pending_count else None,
            next_feasible_at=min(
                (each.earliest_at for each in waits if each.earliest_at is not None),
                default=None,
            ),
            waiting=waits,
            node_pools=sorted(pools),
        ),
    )


def _state(record: WorkloadRecord) -> WorkloadState:
    if record.withdrawn:
        return WorkloadState.WITHDRAWN
    if record.surplus_count:
        return WorkloadState.LEAVING
    if record.pending_count:
        return WorkloadState.PARTIAL if record.placed_count else WorkloadState.WAITING
    return WorkloadState.PLACED
