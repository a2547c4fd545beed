"""Static pools get the nodes that they are short of, before demand is planned: it then fills them.

Launches take the same way as any other: claims are committed with their leases, so that no unit is promised twice, and
their batches are handed to launch. That two passes at once do not both launch what one pool lacks, its turn sees to,
which each commit takes. What a pass leaves undone (it died, or lost a race) the next one finds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.serialisation.json_codec import dumps
from reservoir.core.serialisation.policy_json import policy_to_json
from reservoir.core.static_pools.census import census
from reservoir.core.static_pools.growth import bare, growth_policy, growth_snapshot
from reservoir.core.static_pools.shortfall import growth_decision_id
from reservoir.core.static_pools.units import ReservedCapacity
from reservoir.ports.history import Decision, DecisionStore
from reservoir.ports.messaging import EventPublisher, WorkQueue
from reservoir.ports.state import NodeClaimStore
from reservoir.ports.system import Clock, IdFactory
from reservoir.usecases.provisioning.commit_plan import PlanCommitter
from reservoir.usecases.provisioning.gather_snapshot import (
    Gathered,
    PolicyReading,
    SnapshotGatherer,
)
from reservoir.usecases.provisioning.placement_events import exhausted_events
from reservoir.usecases.provisioning.recent_commits import RecentCommits
from reservoir.usecases.provisioning.solver import Check, Solve

# what loses twice is left to the next wake-up: discovery looks each minute
_ATTEMPTS_MAX: Final = 2


@dataclass(frozen=True, slots=True)
class KeepStaticPools:
    """Brings static pools up to their size."""

    gatherer: SnapshotGatherer
    committer: PlanCommitter
    node_claims: NodeClaimStore
    decisions: DecisionStore
    queue: WorkQueue
    publisher: EventPublisher
    ids: IdFactory
    clock: Clock
    policy: SchedulingPolicy
    solve: Solve
    check: Check
    pause: Callable[[float], None]  # for so many seconds

    def run(self, reading: PolicyReading, recent: RecentCommits) -> int:
        """Launch what static pools are short of; return how many nodes that is.

        Raises UnreadableRowsError, and ConflictError when a claim that is given back is fought over.
        """
        pools = growing_pools(reading.policy.node_pools)
        if not pools:
            return 0
        live = {claim.id: claim for claim in self.node_claims.list_live()}
        records = reading.reservations.result()
        shown = [record.reservation for record in records]
        reserved = ReservedCapacity.of(
            shown, reading.policy.node_classes, None, self.clock.now()
        )
        launched = 0
        for pool in pools:
            if not census(pool, live, reserved).missing:
                continue
            for _ in range(_ATTEMPTS_MAX):
                count, is_lost = self._grow(pool, reading, recent)
                launched += count
                if not is_lost:
                    break
                reading = self.gatherer.read_policy()
        return launched

    def _grow(
        self, pool: NodePool, reading: PolicyReading, recent: RecentCommits
    ) -> tuple[int, bool]:
        """Launch what one pool is short of; return how many nodes, and whether another pass came first."""
        turns = self.node_claims.planning_turns([turn_key(pool)])
        now = self.clock.now()
        if lag_s := recent.lag_s(turns, now):
            self.pause(lag_s)
        gathered = self.gatherer.gather(now, reading=reading, needing=(), recent=recent)
        snapshot = gathered.snapshot
        reserved = ReservedCapacity.of(
            snapshot.reservations, snapshot.node_classes, snapshot.instance_types, now
        )
        missing = census(pool, gathered.claims, reserved).missing
        if not missing:
            return 0, False
        plan_id = self.ids.new_id("plan")
        plan = self._plan(pool, missing, gathered, plan_id, now)
        if not plan.launches:
            return 0, False
        committed = self.committer.commit(
            plan, gathered, plan_id=plan_id, now=now, turns=turns, recent=recent
        )
        recent.took(committed.turns)
        self.queue.send_launches(committed.batches())
        self.publisher.publish([*exhausted_events(committed, gathered)])
        return len(committed.claims), bool(committed.lost)

    def _plan(
        self, pool: NodePool, missing: int, gathered: Gathered, plan_id: str, now: datetime
    ) -> Plan:
        """Decide where the nodes come from; a plan that breaks a rule launches nothing."""
        policy = growth_policy(self.policy)
        snapshot = growth_snapshot(gathered.snapshot, pool, missing, now)
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


def growing_pools(node_pools: Sequence[NodePool]) -> list[NodePool]:
    """Return the static pools that may launch, by name."""
    return sorted(
        (pool for pool in node_pools if pool.is_static and pool.paused is None),
        key=lambda pool: pool.name,
    )


def turn_key(pool: NodePool) -> str:
    """Return the key of the turn by which a pool grows; it differs from the keys of planning's turns."""
    return f"static/{pool.name}"
