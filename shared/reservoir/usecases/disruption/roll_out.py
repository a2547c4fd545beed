"""Replaces replicas that were placed with an earlier spec, for workloads that ask for it; once a minute, node by node.

The workload's row has how many more replicas may have a place meanwhile, so that the planner places them like any
demand. A node goes by a drain of its own, which notifies its workloads like any drain.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from reservoir.core.disruption.rollout import (
    Hosting,
    RollingWorkload,
    RolloutStep,
    next_steps,
)
from reservoir.core.model.node_claim import DrainReason, NodeClaim
from reservoir.core.model.node_pool import DisruptionReason
from reservoir.core.model.team import by_namespace
from reservoir.ports.errors import RowsRefusedError
from reservoir.ports.messaging import WorkQueue
from reservoir.ports.state import ConflictError, Rollout, WorkloadRecord, WorkloadStore
from reservoir.usecases.draining.draining import Draining, DrainRequest
from reservoir.usecases.provisioning.gather_snapshot import Gathered

Allowed = Mapping[tuple[str, DisruptionReason], int]


@dataclass(frozen=True, slots=True)
class RollOut:
    """Carries rolling updates on."""

    workloads: WorkloadStore
    draining: Draining
    queue: WorkQueue

    def run(
        self, gathered: Gathered, allowed: Allowed, now: datetime
    ) -> Mapping[str, NodeClaim]:
        """Do the next step of every rolling update; return the nodes that began to drain, by claim.

        ``allowed`` is what budgets leave. Raises UnreadableRowsError.
        """
        records = gathered.records
        rolling = {
            workload.key: workload for workload in _rolling_workloads(records.values())
        }
        if not rolling and all(record.rollout is None for record in records.values()):
            return {}
        hosting = Hosting(
            gathered.placed_terms,
            {pool.name: pool for pool in gathered.snapshot.node_pools},
            by_namespace(gathered.snapshot.teams),
        )
        found = next_steps(
            rolling.values(),
            hosting.nodes(rolling.keys(), gathered.claims.values(), now),
            {
                pool: count
                for (pool, reason), count in allowed.items()
                if reason is DisruptionReason.DRIFTED
            },
        )
        moves = self.draining.begin_drains(
            [
                DrainRequest(gathered.claims[claim_id], DrainReason.DRIFT)
                for claim_id in found.going
            ]
        )
        held = [moves.held[claim_id] for claim_id in found.going if claim_id in moves.held]
        for key, record in sorted(records.items()):
            step = found.steps.get(key)
            if step is None and record.rollout is None:
                continue
            if step is not None and held:
                step = replace(step, waits_for=held[0])
            self._note(record, step, now)
        return {claim.id: claim for claim in moves.moved}

    def _note(
        self, record: WorkloadRecord, step: RolloutStep | None, now: datetime
    ) -> None:
        """Write how far a workload's update is, if that has changed; the next pass does it where the row has moved."""
        wanted = None if step is None else Rollout(step.surge_count, step.waits_for)
        current = self.workloads.get(record.key)
        if current is None or current.rollout == wanted:
            return
        if current.generation != record.generation:
            return  # another update has come
        after = replace(current, rollout=wanted)
        if after.pending_count == 0:
            after = replace(after, pending_since=None, unplaced=())
        elif after.pending_since is None:
            after = replace(after, pending_since=now)
        with suppress(ConflictError, RowsRefusedError):
            self.workloads.put(after, expected_revision=current.revision)
            if after.surge_count > current.surge_count:
                self.queue.wake_planner(reason="update", workload_keys=[record.key])


def _rolling_workloads(records: Iterable[WorkloadRecord]) -> Iterator[RollingWorkload]:
    """Yield the workloads that name bounds."""
    for record in records:
        bounds = None if record.workload is None else record.workload.rolling_update
        if bounds is not None and not record.withdrawn:
            yield RollingWorkload(
                record.key, record.unfinished_count, bounds, record.surge_count
            )
