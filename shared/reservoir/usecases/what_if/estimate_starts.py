"""Estimate when work that waits will start, from the history and the present; writes nothing."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from reservoir.core.advice.lives import lives_of
from reservoir.core.history.past_demand import DemandStep, DemandStepKind
from reservoir.core.model.plan import Plan
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.start_times.estimate import (
    LOOKED_BACK,
    Past,
    StartQuantiles,
    estimate_starts,
)
from reservoir.core.start_times.foreseen import is_foreseen
from reservoir.manifests.answers.explanations import StartEstimate
from reservoir.ports.history import HistoryStore
from reservoir.ports.system import Clock
from reservoir.usecases.provisioning.solver import Solver
from reservoir.usecases.what_if.plan_demand import SnapshotSource, Starts


@dataclass(frozen=True, slots=True)
class EstimateStarts:
    """Estimates starts of work that waits for nothing but units, blocks and its ladder."""

    source: SnapshotSource
    history: HistoryStore
    clock: Clock
    solver: Solver

    def estimate(self, keys: Collection[str]) -> Starts:
        """Return when workloads will have all of their places; those are left out of which nothing is known."""
        now = self.clock.now()
        gathered = self.source.gather(now)
        asked = [
            key
            for key in sorted(set(keys) & gathered.records.keys())
            if is_foreseen(each.code for each in gathered.records[key].unplaced)
        ]
        return self.in_world(gathered.snapshot, asked, now) if asked else {}

    def in_world(self, world: Snapshot, keys: Collection[str], now: datetime) -> Starts:
        """Return the same of a world that has been read, or is not as it is."""
        since = now - LOOKED_BACK
        steps = list(self.history.demand(since, now))
        lives = lives_of(steps, since)
        past = Past(lives.lives, _placed_at(steps), lives.begins)
        return estimate_starts(world, past, keys, self._plan, now)

    def _plan(self, snapshot: Snapshot, now: datetime) -> Plan:
        """Plan as the planner does at first: what fits where needs no improvement."""
        policy = replace(self.solver.policy, with_certificate=False)
        return self.solver.solve(snapshot, now, policy)


def start_described(starts: StartQuantiles | None) -> StartEstimate | None:
    """Return an estimate in its wire form."""
    if starts is None:
        return None
    return StartEstimate(p10_at=starts.p10, p50_at=starts.p50, p90_at=starts.p90)


def _placed_at(steps: Iterable[DemandStep]) -> Mapping[str, datetime]:
    """Return when what may still run got its first place."""
    found: dict[str, datetime] = {}
    for step in steps:
        if step.kind is DemandStepKind.PLACED:
            found.setdefault(step.workload_key, step.at)
        elif step.kind is DemandStepKind.WITHDRAWN:
            found.pop(step.workload_key, None)
    return found
