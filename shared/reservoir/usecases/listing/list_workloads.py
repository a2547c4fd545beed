"""List workloads: those that want replicas, or still have some."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from reservoir.core.model.node_claim import NodeClaim, placed_keys
from reservoir.core.model.workload import Workload
from reservoir.core.sharing.reading_turns import ReadingBound, ReadingTurns
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
from reservoir.usecases.claims.waiting import rollout_status, waiting


@dataclass(frozen=True, slots=True)
class ListedWorkloads:
    """Rows by key. ``unread_count`` more workloads wait, for which there was no room."""

    rows: list[WorkloadRow]
    unread_count: int = 0


@dataclass(frozen=True, slots=True)
class ListWorkloads:
    """Lists workloads.

    No index has all of them, and none is needed: a workload that wants a place, or has one too many, is on the
    planner's list; every other wanted workload has a replica on a live claim. So the listing reads as much as there is
    demand and fleet at the moment, and not all that was ever submitted. Of waiting workloads it reads no more than a
    planner's pass does, an equal part of each namespace, and always the same ones, so that a watched list does not
    change by itself.
    """

    workloads: WorkloadStore
    claims: NodeClaimStore
    bound: ReadingBound = field(default_factory=ReadingBound)

    def named(self, keys: Collection[str]) -> Sequence[WorkloadRow]:
        """Return the workloads with these keys (``namespace/name``) that exist. Raises UnreadableRowsError."""
        records = self.workloads.get_many(keys)
        return _rows(records, self.claims.list_live())

    def list(self, namespace: str = "") -> ListedWorkloads:
        """Return the workloads of a namespace, or of all namespaces. Raises UnreadableRowsError."""
        live = self.claims.list_live()
        placed = set(_of_namespace(placed_keys(live), namespace))
        turns = ReadingTurns(self.bound)
        read = self.workloads.read_waiting(
            lambda keys: turns.reading(_of_namespace(keys, namespace), (), lambda: str)
        )
        waiting = {record.key: record for record in read}
        found = {**waiting, **self.workloads.get_many(placed - waiting.keys())}
        unread = set(turns.unread()) - placed
        return ListedWorkloads(_rows(found, live), len(unread))


def _rows(
    records: Mapping[str, WorkloadRecord], live: Collection[NodeClaim]
) -> list[WorkloadRow]:
    pools = _pools_by_workload(live)
    outdated = placed_terms(records).outdated(live)
    return [
        _row(record, record.workload, pools.get(key, frozenset()), outdated.get(key, {}))
        for key, record in sorted(records.items())
        if record.workload is not None
    ]


def _of_namespace(keys: Collection[str], namespace: str) -> Collection[str]:
    """Return the keys (``namespace/name``) of a namespace; none given: all."""
    return [key for key in keys if not namespace or key.startswith(f"{namespace}/")]


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
            rollout=rollout_status(record),
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
