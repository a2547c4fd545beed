"""The provision function."""

from dataclasses import replace
from datetime import datetime

from shared.core import checker
from shared.core.model.plan import Plan
from shared.core.model.policy import SchedulingPolicy
from shared.core.model.snapshot import Snapshot
from shared.runtime.adapters import Adapters
from shared.runtime.composition.draining import draining_from
from shared.runtime.composition.outside import adapters, once
from shared.runtime.composition.planning import snapshot_gatherer_from, solve_within
from shared.usecases.provisioning.commit_plan import PlanCommitter
from shared.usecases.provisioning.provision import Provision, Solve
from shared.usecases.provisioning.workload_status import WorkloadStatus


def check(snapshot: Snapshot, plan: Plan, now: datetime, policy: SchedulingPolicy) -> tuple[checker.Violation, ...]:
    """Check a plan by the rules, independently of the scheduler."""
    return checker.check(snapshot, plan, now=now, policy=policy)


@once
def provision() -> Provision:
    """Return the planner."""
    outside = adapters()
    return provision_from(outside, solve_within(outside.settings.solve_budget, outside.monotonic_s))


def provision_from(outside: Adapters, solve: Solve) -> Provision:
    """Wire the planner."""
    return Provision(
        gatherer=snapshot_gatherer_from(outside),
        committer=PlanCommitter(outside.node_claims, outside.ids),
        status=WorkloadStatus(outside.workloads, outside.publisher),
        node_claims=outside.node_claims,
        decisions=outside.decisions,
        queue=outside.queue,
        publisher=outside.publisher,
        ids=outside.ids,
        clock=outside.clock,
        # What is bought now is paid for hours: worth the seconds of polish.
        policy=replace(outside.settings.scheduling, with_certificate=True),
        solve=solve,
        check=check,
        shed_surplus=draining_from(outside).shed_surplus,
        pause=outside.pause,
    )
