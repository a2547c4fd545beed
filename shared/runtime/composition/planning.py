"""What planning and disruption share."""

import time
from dataclasses import replace
from datetime import datetime
from functools import cache

from shared.core import scheduler
from shared.core.model.plan import Plan
from shared.core.model.policy import SchedulingPolicy
from shared.core.model.snapshot import Snapshot
from shared.runtime.composition.outside import adapters
from shared.usecases.provisioning.gather_snapshot import SnapshotGatherer


@cache
def snapshot_gatherer() -> SnapshotGatherer:
    """Return the reader of snapshots."""
    outside = adapters()
    return SnapshotGatherer(
        outside.offerings,
        outside.reservations,
        outside.node_claims,
        outside.workloads,
        outside.policy,
        outside.boot_failures,
    )


def solve(snapshot: Snapshot, now: datetime, policy: SchedulingPolicy) -> Plan:
    """Solve; improvement ends when the budget is used up, which is real time also where the clock is set."""
    deadline_s = time.monotonic() + adapters().settings.solve_budget.total_seconds()
    return scheduler.solve(snapshot, now=now, policy=replace(policy, expired=lambda: time.monotonic() >= deadline_s))
