"""Launches nodes that nothing waits for yet: those of static pools, and warm ones.

They take the same way as any other launch: claims are committed with their leases, so that no unit is promised twice,
and their batches are handed to launch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.serialisation.json_codec import dumps
from reservoir.core.serialisation.policy_json import policy_to_json
from reservoir.core.sharing.planning_groups import PlanningTurn
from reservoir.core.static_pools.growth import bare, growth_policy, growth_snapshot
from reservoir.core.static_pools.shortfall import growth_decision_id
from reservoir.ports.history import Decision, DecisionStore
from reservoir.ports.messaging import EventPublisher, WorkQueue
from reservoir.ports.system import IdFactory
from reservoir.usecases.provisioning.commit_plan import PlanCommitter
from reservoir.usecases.provisioning.gather_snapshot import Gathered
from reservoir.usecases.provisioning.placement_events import exhausted_events
from reservoir.usecases.provisioning.recent_commits import RecentCommits
from reservoir.usecases.provisioning.solver import Check, MakeWay, Solve


@dataclass(frozen=True, slots=True)
class Ahead:
    """Nodes that were launched; whether other passes came first."""

    count: int = 0
    is_lost: bool = False


@dataclass(frozen=True, slots=True)
class LaunchAhead:
    """Plans such nodes of one pool, and commits them."""

    committer: PlanCommitter
    decisions: DecisionStore
    queue: WorkQueue
    publisher: EventPublisher
    ids: IdFactory
    policy: SchedulingPolicy
    solve: Solve
    check: Check
    make_way: MakeWay

    def run(
        self,
        pool: NodePool,
        count: int,
        gathered: Gathered,
        now: datetime,
        turns: Mapping[str, PlanningTurn],
        recent: RecentCommits,
    ) -> Ahead:
        """Launch so many nodes of the pool, as far as the world has room for them.

        Raises UnreadableRowsError, and ConflictError when a claim that is given back is fought over.
        """
        plan_id = self.ids.new_id("plan")
        plan = self._plan(pool, count, gathered, plan_id, now)
        if not plan.launches:
            return Ahead()
        committed = self.committer.commit(
            plan, gathered, plan_id=plan_id, now=now, turns=turns, recent=recent
        )
        recent.took(committed.turns)
        self.queue.send_launches(committed.batches())
        self.publisher.publish([*exhausted_events(committed, gathered)])
        self.make_way(committed.making_way)
        return Ahead(len(committed.claims), bool(committed.lost))

    def _plan(
        self, pool: NodePool, count: int, gathered: Gathered, plan_id: str, now: datetime
    ) -> Plan:
        """Decide where the nodes come from; a plan that breaks a rule launches nothing."""
        policy = growth_policy(self.policy)
        snapshot = growth_snapshot(gathered.snapshot, pool, count, now)
        plan = self.solve(snapshot, now, policy)
        self._remember(pool, snapshot, plan, policy, now)
        if not plan.launches:
            return Plan()
        self._store(plan_id, snapshot, plan, policy, now)
        wrong = [it for it in self.check(snapshot, plan, now, policy) if it.forbids_commit]
        return Plan() if wrong else bare(plan)

    def _remember(
        self,
        pool: NodePool,
        snapshot: Snapshot,
        plan: Plan,
        policy: SchedulingPolicy,
        now: datetime,
    ) -> None:
        """Store why nodes are not launched, for later questions; an unchanged reason is not written again."""
        unplaced = sum(each.count for each in plan.unplaced)
        decision = Decision(
            growth_decision_id(pool.name),
            now,
            dumps(Plan(unplaced=plan.unplaced)),
            {"launches": 0, "reserved": 0, "joined": 0, "unplaced": unplaced},
            policy_to_json(policy),
        )
        self.decisions.save_if_changed(decision, dumps(snapshot))

    def _store(
        self,
        plan_id: str,
        snapshot: Snapshot,
        plan: Plan,
        policy: SchedulingPolicy,
        now: datetime,
    ) -> None:
        count = sum(planned.count for planned in plan.launches)
        reserved = sum(
            planned.count
            for planned in plan.launches
            if planned.offering.reservation_id is not None
        )
        summary = {"launches": count, "reserved": reserved, "joined": 0, "unplaced": 0}
        self.decisions.save(
            Decision(plan_id, now, dumps(plan), summary, policy_to_json(policy)),
            dumps(snapshot),
        )
