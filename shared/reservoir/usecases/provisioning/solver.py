"""How the planner decides: its solver, its checker, and the operator's policy for both."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from reservoir.core.checker import Violation
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot

Solve = Callable[[Snapshot, datetime, SchedulingPolicy], Plan]
Check = Callable[[Snapshot, Plan, datetime, SchedulingPolicy], Sequence[Violation]]
# Ends warm nodes whose units others wait for.
MakeWay = Callable[[Sequence[NodeClaim]], None]


@dataclass(frozen=True, slots=True)
class Solver:
    """The planner's ``solve`` and ``check`` with its policy, for questions about what it would decide."""

    policy: SchedulingPolicy
    solve: Solve
    check: Check

    def plan(self, snapshot: Snapshot, now: datetime) -> Plan:
        """Return the planner's plan; without demand nothing is asked."""
        return self.solve(snapshot, now, self.policy) if snapshot.demands else Plan()
