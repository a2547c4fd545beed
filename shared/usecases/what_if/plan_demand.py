"""Plan demand that nobody has sent: the planner's view of the world, its ``solve``, and no effect."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from shared.core.model.snapshot import Snapshot
from shared.core.model.workload import Demand, Workload
from shared.core.what_if.edits import WorldEdits, edited
from shared.core.what_if.outcome import DemandOutcome, outcome_of
from shared.ports.state import WorkloadRecord
from shared.ports.system import Clock
from shared.usecases.provisioning.gather_snapshot import Gathered
from shared.usecases.provisioning.solver import Solver


class SnapshotSource(Protocol):
    """Where the world is read from; there is nothing to write with."""

    def gather(self, now: datetime) -> Gathered:
        """Read everything that a solve may see."""
        ...


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What would happen now, and in the edited world if there are edits; ``notes`` say what was assumed for that.

    ``placed`` are the replicas of each workload that have a place already.
    """

    asked_at: datetime
    workloads: tuple[Workload, ...]
    placed: Mapping[str, int]
    present: DemandOutcome
    edited: DemandOutcome | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanDemand:
    """Answers what would happen to demand."""

    source: SnapshotSource
    clock: Clock
    solver: Solver

    def plan(self, workloads: Sequence[Workload], edits: WorldEdits) -> WhatIf:
        """Plan the workloads beside all that waits already; one that exists is planned as if it were updated.

        Raises
        ------
        EditError
            The edits name something that is not there.
        """
        now = self.clock.now()
        gathered = self.source.gather(now)
        return self.answer(gathered.snapshot, gathered.records, workloads, edits, now)

    def answer(
        self,
        snapshot: Snapshot,
        records: Mapping[str, WorkloadRecord],
        workloads: Sequence[Workload],
        edits: WorldEdits,
        now: datetime,
    ) -> WhatIf:
        """Answer from a world that has been read. Raises EditError."""
        other = edited(snapshot, edits, now) if edits else None
        present = self._outcome(snapshot, records, workloads, now)
        placed = {key: record.placed_count for key, record in records.items()}
        answer = WhatIf(now, tuple(workloads), {it.key: placed.get(it.key, 0) for it in workloads}, present)
        if other is None:
            return answer
        then = self._outcome(other.snapshot, records, workloads, now)
        return replace(answer, edited=then, notes=other.notes)

    def _outcome(
        self,
        snapshot: Snapshot,
        records: Mapping[str, WorkloadRecord],
        workloads: Sequence[Workload],
        now: datetime,
    ) -> DemandOutcome:
        keys = frozenset(workload.key for workload in workloads)
        without = _without(snapshot, keys)
        asked = _with(without, records, workloads, now)
        plan = self.solver.plan(asked, now)
        outcome = outcome_of(plan, self.solver.plan(without, now), keys)
        violations = self.solver.check(asked, plan, now, self.solver.policy)
        forbidden = [item for item in violations if item.forbids_commit]
        notes = (*outcome.notes, *(f"the planner would not carry this out: {item}" for item in forbidden))
        return replace(outcome, notes=notes)


def _without(snapshot: Snapshot, keys: Collection[str]) -> Snapshot:
    return replace(snapshot, demands=tuple(item for item in snapshot.demands if item.workload.key not in keys))


def _with(
    snapshot: Snapshot, records: Mapping[str, WorkloadRecord], workloads: Sequence[Workload], now: datetime
) -> Snapshot:
    """Add the demand, less what of it has a place already; a new one begins to wait now."""
    asked = []
    for workload in workloads:
        known = records.get(workload.key)
        pending = workload.replicas - (0 if known is None else known.placed_count + known.finished_count)
        since = now if known is None else known.pending_since or now
        if pending > 0:
            asked.append(Demand(workload, pending, since))
    demands = sorted((*snapshot.demands, *asked), key=lambda item: item.workload.key)
    named = {workload.key: workload for workload in workloads}
    return replace(snapshot, demands=tuple(demands), workloads={**snapshot.workloads, **named})
