"""``reservoir plan`` after the snapshot is read: edits, plans, check, and the answer as JSON."""

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from lab.bench.harness import repeated
from lab.bench.worlds.common import NOW
from lab.bench.worlds.mix import Mix, mix_snapshot
from lab.calibration import Figures
from reservoir.cli.side_by_side import side_by_side
from reservoir.core import scheduler
from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.what_if.added_capacity import AddedCapacity
from reservoir.core.what_if.edits import WorldEdits
from reservoir.runtime.composition.parts.planning import check
from reservoir.usecases.provisioning.gather_snapshot import Gathered
from reservoir.usecases.provisioning.solver import Solver
from reservoir.usecases.what_if.describe import described
from reservoir.usecases.what_if.plan_demand import PlanDemand

_SHAPES = 200


def cases() -> Sequence[str]:
    """Name the cases: replicas asked for, alone or beside an edited world."""
    return ["what-if-10000", "what-if-10000-edited"]


def run(case: str) -> Figures:
    """Measure one case."""
    return repeated("lab.bench.scheduling.what_if:answer", case)


class _World:
    """A snapshot that has been read, and the time that it was read at."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def gather(self, now: datetime) -> Gathered:
        """Return it."""
        del now
        return Gathered(self._snapshot, {}, {}, {})

    def now(self) -> datetime:
        """Return when it was made."""
        return NOW.astimezone(UTC)


def answer(case: str) -> Figures:
    """Ask once, in a world where nothing else waits, as well as the planner plans."""
    _, _, form = case.partition("what-if-")
    replicas, _, is_edited = form.partition("-")
    made = mix_snapshot(Mix(int(replicas), _SHAPES, reserved_percent=300))
    workloads = [
        replace(item.workload, replicas=item.pending_count) for item in made.demands
    ]
    world = _World(replace(made, demands=(), workloads={}))
    kind = made.instance_types[0]
    more = AddedCapacity(
        100, kind.name, kind.offerings[0].zone, node_class_name=made.node_classes[0].name
    )
    edits = WorldEdits(added=(more,)) if is_edited else WorldEdits()
    question = PlanDemand(
        world,
        world,
        Solver(SchedulingPolicy(with_certificate=True), _solve, check),
        side_by_side,
    )
    if is_edited:
        _use_all_cores()
    started_s, before = time.perf_counter(), os.times()
    text = described(question.plan(workloads, edits)).model_dump_json()
    answer_s, after = time.perf_counter() - started_s, os.times()
    own_s = after.user + after.system - before.user - before.system
    copies_s = (
        after.children_user
        + after.children_system
        - before.children_user
        - before.children_system
    )
    return {
        "answer_s": round(answer_s, 2),
        "answer_cpu_s": round(own_s + copies_s, 2),
        # With two cores there is one copy: this is the time on the clock when nobody else wants them.
        "busiest_process_cpu_s": round(max(own_s, copies_s), 2),
        "answer_bytes": len(text),
    }


def _use_all_cores() -> None:
    """Undo that a measurement has one core: two worlds are solved side by side, as ``reservoir plan`` does."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))


def _solve(snapshot: Snapshot, now: datetime, policy: SchedulingPolicy) -> Plan:
    return scheduler.solve(snapshot, now=now, policy=policy)
