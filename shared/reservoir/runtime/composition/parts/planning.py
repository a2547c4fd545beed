"""What planning and disruption share."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from reservoir.core import checker, scheduler
from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.runtime.outside import Outside
from reservoir.usecases.accounting.monthly_budgets import MonthlyBudgets
from reservoir.usecases.provisioning.gather_snapshot import SnapshotGatherer
from reservoir.usecases.provisioning.give_way import GivingWay
from reservoir.usecases.provisioning.solver import Solve, Solver


def snapshot_gatherer_from(outside: Outside) -> SnapshotGatherer:
    """Return the reader of snapshots."""
    return SnapshotGatherer(
        outside.offerings,
        outside.reservations,
        outside.node_claims,
        outside.workloads,
        outside.policy,
        outside.boot_failures,
        outside.executor,
        MonthlyBudgets(outside.accounts, outside.settings.ceiling),
        longest_notice=outside.settings.longest_notice,
    )


def planner_policy(outside: Outside) -> SchedulingPolicy:
    """Return how the planner decides: bought capacity is paid for hours, so column generation is worth its time."""
    return replace(outside.settings.scheduling, with_certificate=True)


def solver_from(outside: Outside) -> Solver:
    """Return the planner's way to decide, for questions."""
    solve = solve_within(outside.settings.solve_budget, outside.monotonic_s)
    return Solver(planner_policy(outside), solve, check)


def check(
    snapshot: Snapshot, plan: Plan, now: datetime, policy: SchedulingPolicy
) -> tuple[checker.Violation, ...]:
    """Check a plan by the rules, independently of the scheduler."""
    return checker.check(snapshot, plan, now=now, policy=policy)


def solve_in_full(snapshot: Snapshot, now: datetime, policy: SchedulingPolicy) -> Plan:
    """Solve for as long as it takes: plans that are compared must not depend on the machine's speed."""
    return scheduler.solve(snapshot, now=now, policy=policy)


def solve_within(
    budget: timedelta,
    monotonic_s: Callable[[], float],
    is_awaited: Callable[[], bool] | None = None,
) -> Solve:
    """Return the solver whose improvement ends when the budget is used up, in real time also where the clock is set.

    ``is_awaited``: whether others wait for the next pass; where there are several teams, a pass gives way to them.
    """
    giving_way = None if is_awaited is None else GivingWay(is_awaited, monotonic_s)

    def solve(snapshot: Snapshot, now: datetime, policy: SchedulingPolicy) -> Plan:
        began_s, budget_s = monotonic_s(), budget.total_seconds()

        def of_budget() -> int:
            return int((monotonic_s() - began_s) * 100 / budget_s) if budget_s else 100

        used_percent = of_budget
        if giving_way is not None and len(snapshot.teams) > 1:
            used_percent = giving_way.of_a_pass(of_budget)
        policy = replace(
            policy, expired=lambda: used_percent() >= 100, used_percent=used_percent
        )
        return scheduler.solve(snapshot, now=now, policy=policy)

    return solve
