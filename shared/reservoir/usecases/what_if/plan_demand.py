"""Plan demand that nobody has sent: the planner's view of the world, its ``solve``, and no effect."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Protocol

from reservoir.core.checker import Violation
from reservoir.core.model.plan import Plan, ReasonCode
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import Demand, Workload
from reservoir.core.start_times.estimate import StartQuantiles
from reservoir.core.start_times.foreseen import is_foreseen
from reservoir.core.what_if.across_ends import parts_after
from reservoir.core.what_if.edits import WorldEdits, edited
from reservoir.core.what_if.outcome import DemandOutcome, outcome_of
from reservoir.ports.state import WorkloadRecord
from reservoir.ports.system import Clock
from reservoir.usecases.provisioning.gather_snapshot import Gathered
from reservoir.usecases.provisioning.solver import Solver

Starts = Mapping[str, StartQuantiles]  # by workload


class SnapshotSource(Protocol):
    """Where the world is read from; there is nothing to write with."""

    def gather(self, now: datetime) -> Gathered:
        """Read everything that a solve may see."""
        ...


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What would happen now, and in the edited world if there are edits; ``notes`` say what was assumed for that.

    ``placed`` are the replicas of each workload that have a place already; the starts are of those that would wait.
    """

    asked_at: datetime
    workloads: tuple[Workload, ...]
    placed: Mapping[str, int]
    present: DemandOutcome
    edited: DemandOutcome | None = None
    notes: tuple[str, ...] = ()
    present_starts: Starts = field(default_factory=dict)
    edited_starts: Starts = field(default_factory=dict)


StartsIn = Callable[[Snapshot, Collection[str], datetime], Starts]
Solved = tuple[Plan, Sequence[Violation]]
SolveAll = Callable[[Sequence[Callable[[], Solved]]], list[Solved]]


def _in_turn(tasks: Sequence[Callable[[], Solved]]) -> list[Solved]:
    return [task() for task in tasks]


def _unknown(_world: Snapshot, _keys: Collection[str], _now: datetime) -> Starts:
    return {}


@dataclass(frozen=True, slots=True)
class PlanDemand:
    """Answers what would happen to demand. ``solve_all`` solves worlds that have nothing to do with each other.

    ``starts_in`` estimates when workloads of a world start that wait in it.
    """

    source: SnapshotSource
    clock: Clock
    solver: Solver
    solve_all: SolveAll = _in_turn
    starts_in: StartsIn = _unknown

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
        worlds = [snapshot] if other is None else [snapshot, other.snapshot]
        outcomes = self._outcomes(worlds, records, workloads, now)
        keys = frozenset(workload.key for workload in workloads)
        placed = {key: record.placed_count for key, record in records.items()}
        starts = [
            self._starts(
                _with(_without(world, keys), records, workloads, now), outcome, now
            )
            for world, outcome in zip(worlds, outcomes, strict=True)
        ]
        answer = WhatIf(
            now,
            tuple(workloads),
            {it.key: placed.get(it.key, 0) for it in workloads},
            outcomes[0],
            present_starts=starts[0],
        )
        if other is None:
            return answer
        return replace(
            answer, edited=outcomes[1], notes=other.notes, edited_starts=starts[1]
        )

    def _starts(self, world: Snapshot, outcome: DemandOutcome, now: datetime) -> Starts:
        """Return when what would wait in a world starts."""
        codes: dict[str, set[ReasonCode]] = {}
        for item in outcome.waiting:
            codes.setdefault(item.workload_key, set()).add(item.code)
        asked = [key for key in sorted(codes) if is_foreseen(codes[key])]
        return self.starts_in(world, asked, now) if asked else {}

    def _outcomes(
        self,
        worlds: Sequence[Snapshot],
        records: Mapping[str, WorkloadRecord],
        workloads: Sequence[Workload],
        now: datetime,
    ) -> list[DemandOutcome]:
        keys = frozenset(workload.key for workload in workloads)
        without = [_without(world, keys) for world in worlds]
        tasks = [
            partial(self._checked, _with(world, records, workloads, now), now)
            for world in without
        ]
        tasks += [partial(self._unchecked, world, now) for world in without]
        solved = self.solve_all(tasks)
        found = []
        for (plan, violations), (plan_without, _) in zip(
            solved[: len(worlds)], solved[len(worlds) :], strict=True
        ):
            outcome = outcome_of(plan, plan_without, keys)
            forbidden = [item for item in violations if item.forbids_commit]
            notes = (
                *outcome.notes,
                *(f"the planner would not carry this out: {item}" for item in forbidden),
            )
            found.append(replace(outcome, notes=notes))
        for index, world in enumerate(worlds):
            parts = parts_after(solved[index][0], world, workloads, now)
            found[index] = replace(found[index], notes=(*found[index].notes, *parts))
        return found

    def _checked(self, world: Snapshot, now: datetime) -> Solved:
        plan = self.solver.plan(world, now)
        return plan, self.solver.check(world, plan, now, self.solver.policy)

    def _unchecked(self, world: Snapshot, now: datetime) -> Solved:
        return self.solver.plan(world, now), ()


def _without(snapshot: Snapshot, keys: Collection[str]) -> Snapshot:
    return replace(
        snapshot,
        demands=tuple(item for item in snapshot.demands if item.workload.key not in keys),
    )


def _with(
    snapshot: Snapshot,
    records: Mapping[str, WorkloadRecord],
    workloads: Sequence[Workload],
    now: datetime,
) -> Snapshot:
    """Add the demand, less what of it has a place already; a new one begins to wait now."""
    asked = []
    for workload in workloads:
        known = records.get(workload.key)
        pending = workload.replicas - (
            0 if known is None else known.placed_count + known.finished_count
        )
        since = now if known is None else known.pending_since or now
        if pending > 0:
            asked.append(Demand(workload.across_ends(), pending, since))
    demands = sorted((*snapshot.demands, *asked), key=lambda item: item.workload.key)
    named = {workload.key: workload.across_ends() for workload in workloads}
    return replace(
        snapshot, demands=tuple(demands), workloads={**snapshot.workloads, **named}
    )
