"""Provision: snapshot, solve, check, commit, send to launch, publish.

Each pass starts from what is stored. So whatever a pass that died left unfinished (half a gang, workloads without their
reason) is seen and finished by the next one. Order of effects: claims are committed before the message that launches
them; events come last. The decision is stored at the same time, and the pass waits for that at its end: a pass that
dies meanwhile can leave claims without a stored decision, but demand never waits for the store of decisions.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.checker import Violation
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.plan import Plan, ReasonCode, UnplacedReplicas
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.team import Team, by_namespace
from reservoir.core.serialisation.json_codec import dumps
from reservoir.core.serialisation.policy_json import policy_to_json
from reservoir.core.sharing.planning_groups import (
    PLANNED_AT_ONCE_MAX,
    PlanningGroups,
    PlanningTurn,
)
from reservoir.ports.history import Decision, DecisionStore
from reservoir.ports.messaging import NAMED_MAX, EventPublisher, WorkQueue
from reservoir.ports.state import NodeClaimStore, WorkloadRecord
from reservoir.ports.system import Clock, IdFactory
from reservoir.usecases.claims.claim_moves import return_all_replicas
from reservoir.usecases.lending.lend_units import LendUnits
from reservoir.usecases.provisioning.commit_plan import Committed, PlanCommitter
from reservoir.usecases.provisioning.gather_snapshot import (
    Gathered,
    PolicyReading,
    SnapshotGatherer,
)
from reservoir.usecases.provisioning.keep_static_pools import KeepStaticPools
from reservoir.usecases.provisioning.keep_warm_nodes import KeepWarmNodes
from reservoir.usecases.provisioning.placement_events import exhausted_events, placed_events
from reservoir.usecases.provisioning.recent_commits import INDEX_LAG, RecentCommits
from reservoir.usecases.provisioning.share_demand import EVERYONE, Share, Woken, share_of
from reservoir.usecases.provisioning.solver import Check, MakeWay, Solve
from reservoir.usecases.provisioning.workload_status import ShedSurplus, WorkloadStatus

# Lost races are planned again at once; after so many the next wake-up takes over.
_ATTEMPTS_MAX: Final = 4
# Plans without the workloads whose places broke a rule in the one before; a bug that moves on to others rejects all.
_PLANS_MAX: Final = 3
# A gang that was half committed when its planner died must not be launched in part. A planner that lives is through
# with its commit by then; ``collect``, which sends lost launch messages again, waits longer.
_COMMITTED_WITHIN: Final = timedelta(seconds=20)

# A burst goes on while more workloads began to wait between two looks; the last look bounds what that may delay. Plans
# for bursts of two seconds cost within 1 % of one plan for everything; waiting for one second, they cost 4 % more.
_BURST: Final = timedelta(seconds=2)
_LOOK_EVERY_S: Final = 0.2
_LOOKS_MAX: Final = 11


class PlanRejectedError(Exception):
    """The scheduler breaks a rule (a bug), whatever demand is held back. The decision is stored under ``plan_id``."""

    def __init__(self, plan_id: str, violations: Sequence[Violation]) -> None:
        super().__init__(
            f"plan {plan_id} breaks {len(violations)} rules, first: {violations[0]}"
        )
        self.plan_id = plan_id
        self.violations = tuple(violations)


@dataclass(slots=True)
class ProvisionReport:
    """What a pass did."""

    attempts: int = 0
    static_count: int = 0  # nodes that static pools were short of, and get
    warm_count: int = 0  # free units that get a node
    pending_count: int = 0
    placed_count: int = 0
    unplaced_count: int = 0
    held_count: int = 0  # of those, replicas that would have been placed against a rule
    # of those, replicas that the last plan had no time to look at to the end
    late_count: int = 0
    unread_count: int = 0  # workloads that wait, and that the pass had no room to read
    claim_count: int = 0
    batch_count: int = 0
    shed_count: int = 0
    conflict_count: int = 0
    repaired_count: int = 0
    recalled_count: int = 0  # lent units that are taken back for what waits
    solve_s: float | None = None  # in all attempts; None: nothing was to be planned
    # by how much the last plan may cost more than need be; None: it has no bound
    gap_percent: float | None = None
    plan_ids: list[str] = field(default_factory=list)
    # of the first workloads that it planned for
    correlation_ids: list[str] = field(default_factory=list)
    # what the checker would have had better
    shortcomings: list[str] = field(default_factory=list)
    # the violations of plans that were not applied
    rejected: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Decided:
    """A plan that keeps every rule and is being stored under an id; without one it does nothing."""

    plan: Plan
    plan_id: str | None = None
    storing: Future[None] | None = None


@dataclass(frozen=True, slots=True)
class Provision:
    """One planning pass."""

    gatherer: SnapshotGatherer
    committer: PlanCommitter
    status: WorkloadStatus
    node_claims: NodeClaimStore
    decisions: DecisionStore
    queue: WorkQueue
    publisher: EventPublisher
    ids: IdFactory
    clock: Clock
    policy: SchedulingPolicy
    solve: Solve
    check: Check
    shed_surplus: ShedSurplus
    make_way: MakeWay
    pause: Callable[[float], None]  # for so many seconds
    monotonic_s: Callable[[], float]
    executor: Executor
    recent: RecentCommits
    static_pools: KeepStaticPools
    lending: LendUnits
    warm_nodes: KeepWarmNodes
    at_once_max: int = PLANNED_AT_ONCE_MAX

    def run(self, woken: Woken = EVERYONE) -> ProvisionReport:
        """Plan the pending demand of the pass's share, take off what is surplus, and keep free units warm.

        Raises PlanRejectedError; UnreadableRowsError when the catalogue, a turn or a named workload cannot be read; and
        ConflictError when other processes keep changing a claim.
        """
        report = self._plan_demand(woken)
        if woken.is_woken_by_a_change:
            report.warm_count = self.warm_nodes.run(self.recent)
        return report

    def _plan_demand(self, woken: Woken) -> ProvisionReport:
        report = ProvisionReport()
        # also where no workload is named: a row that an earlier pass had no room for may be missing
        if woken.indexes_lag:
            self.pause(INDEX_LAG.total_seconds())
        # Begun at once where a workload surely waits. A pass without waiting workloads is one query.
        reading = (
            self.gatherer.read_policy()
            if woken.workload_keys or woken.is_woken_by_a_change
            else None
        )
        if reading is not None and woken.is_woken_by_a_change:
            report.static_count = self.static_pools.run(reading, self.recent)
        self.gatherer.turns.begin(self.clock.now())
        found = self.gatherer.listed_or(woken.workload_keys, reading)
        report.unread_count = self.gatherer.turns.unread_count
        report.correlation_ids = _correlation_ids(found.values())
        if not any(record.needs_planning for record in found.values()):
            return report
        reading = reading or self.gatherer.read_policy()
        groups = self.gatherer.planning_groups(reading)
        share = self._shared(groups, found, woken)
        share = self._await_burst(share, groups, woken, reading)
        for _ in range(_ATTEMPTS_MAX if share.needing else 0):
            report.attempts += 1
            if report.attempts > 1:
                reading = self.gatherer.read_policy()
                share = self._look_again(
                    share, self.gatherer.planning_groups(reading), woken, reading
                )
            turns = self._turns(share)
            now = self.clock.now()
            known = self.gatherer.gather(
                now, reading=reading, needing=share.needing, recent=self.recent
            )
            gathered = share.of(known)
            if report.attempts == 1:
                report.shed_count = self._shed(gathered, now)
                report.repaired_count = self._repair(gathered, now)
                if report.repaired_count:
                    continue
            committed = self._plan(gathered, turns, now, report)
            if not committed.lost:
                self._go_on(share, committed, report)
                return report
            report.conflict_count += 1
        if share.needing:
            # what lost to a row that no index shows yet would only lose again
            self.pause(INDEX_LAG.total_seconds())
            self.queue.wake_planner(reason="lost races", workload_keys=woken.workload_keys)
        return report

    def _shared(
        self, groups: PlanningGroups, found: Mapping[str, WorkloadRecord], woken: Woken
    ) -> Share:
        """Return the pass's part of the found workloads, and wake planners for the other parts."""
        share = share_of(groups, found, woken, self.at_once_max)
        for parts, named in share.others.items():
            self.queue.wake_planner(
                reason="demand of its own group", workload_keys=named, group=parts
            )
        return share

    def _look_again(
        self, share: Share, groups: PlanningGroups, woken: Woken, reading: PolicyReading
    ) -> Share:
        """Return the pass's part of the workloads listed now; where its groups changed, wake planners as before."""
        found = self.gatherer.listed_or(woken.workload_keys, reading)
        again = share_of(groups, found, woken, self.at_once_max)
        return again if again.parts == share.parts else self._shared(groups, found, woken)

    def _await_burst(
        self, share: Share, groups: PlanningGroups, woken: Woken, reading: PolicyReading
    ) -> Share:
        """Wait a little while demand keeps arriving, and return it; one message alone is never waited for.

        A plan for all of a burst is cheaper than a plan for each part of it. No team waits for another one's.
        """
        before = 1
        for _ in range(_LOOKS_MAX - 1):
            since = self.clock.now() - _BURST
            recent = [
                it
                for it in share.needing.values()
                if it.pending_since is not None and it.pending_since > since
            ]
            if len(recent) <= before or _are_of_several(recent, reading.policy.teams):
                break
            before = len(recent)
            self.pause(_LOOK_EVERY_S)
            share = self._look_again(share, groups, woken, reading)
        return share

    def _go_on(self, share: Share, committed: Committed, report: ProvisionReport) -> None:
        """Wake the next pass for workloads that this one had no time or room for: it has less to do.

        After a pass that placed nothing, the minute's schedule is soon enough.
        """
        is_behind = report.late_count or report.unread_count
        if is_behind and committed.placed_count:
            self.queue.wake_planner(reason="out of time", group=share.parts)

    def _turns(self, share: Share) -> Mapping[str, PlanningTurn]:
        """Return the turns that the pass builds on, once listings show what was committed in them."""
        if not share.parts:
            return {}
        turns = self.node_claims.planning_turns(share.parts)
        lag_s = self.recent.lag_s(turns, self.clock.now())
        if lag_s:
            self.pause(lag_s)
        return turns

    def _plan(
        self,
        gathered: Gathered,
        turns: Mapping[str, PlanningTurn],
        now: datetime,
        report: ProvisionReport,
    ) -> Committed:
        snapshot = gathered.snapshot
        report.pending_count = sum(demand.pending_count for demand in snapshot.demands)
        report.correlation_ids = _correlation_ids(
            gathered.records[it.workload.key]
            for it in snapshot.demands
            if it.workload.key in gathered.records
        )
        decided = self._decide(snapshot, now, report)
        plan, committed = decided.plan, Committed()
        if decided.plan_id is not None:
            committed = self.committer.commit(
                plan,
                gathered,
                plan_id=decided.plan_id,
                now=now,
                turns=turns,
                recent=self.recent,
            )
            self.recent.took(committed.turns)
            batches = committed.batches()
            self.queue.send_launches(batches)
            report.claim_count += len(committed.claims)
            report.batch_count += len(batches)
            events = [
                *placed_events(committed, gathered),
                *exhausted_events(committed, gathered),
            ]
            self.publisher.publish(events)
            report.placed_count += committed.placed_count
        report.unplaced_count = sum(unplaced.count for unplaced in plan.unplaced)
        report.late_count = sum(
            it.count for it in plan.unplaced if it.code is ReasonCode.OUT_OF_TIME
        )
        self.status.update(gathered, plan, now)
        recalled = self.lending.recall(
            snapshot, gathered.reservations, gathered.warm, plan, now
        )
        report.recalled_count += recalled.recalled
        if decided.storing is not None:
            decided.storing.result()
        self.make_way(committed.making_way)
        return committed

    def _decide(
        self, snapshot: Snapshot, now: datetime, report: ProvisionReport
    ) -> _Decided:
        """Solve, store and check; again without the workloads whose places break a rule, so that others need not wait.

        Held workloads are unplaced in the returned plan. The stored plan does not have them: it replays from its own
        snapshot.
        """
        held: dict[str, str] = {}
        for _ in range(_PLANS_MAX):
            part = replace(
                snapshot,
                demands=tuple(
                    item for item in snapshot.demands if item.workload.key not in held
                ),
            )
            plan = self._solve(part, now, report) if part.demands else Plan()
            if not (plan.launches or plan.existing):
                return _Decided(_with_held(plan, snapshot, held, report))
            plan_id = self.ids.new_id("plan")
            storing = self.executor.submit(self._store, plan_id, part, plan, now)
            violations = self.check(part, plan, now, self.policy)
            forbidding = [violation for violation in violations if violation.forbids_commit]
            if not forbidding:
                report.plan_ids.append(plan_id)
                report.shortcomings += [
                    f"{plan_id}: {violation}" for violation in violations
                ]
                return _Decided(_with_held(plan, snapshot, held, report), plan_id, storing)
            storing.result()
            report.rejected += [f"{plan_id}: {violation}" for violation in forbidding]
            named = _named(plan_id, forbidding)
            if named.keys() <= held.keys():
                break
            held = named | held
        raise PlanRejectedError(plan_id, forbidding)

    def _solve(self, snapshot: Snapshot, now: datetime, report: ProvisionReport) -> Plan:
        began_s = self.monotonic_s()
        plan = self.solve(snapshot, now, self.policy)
        report.solve_s = (report.solve_s or 0) + self.monotonic_s() - began_s
        report.gap_percent = plan.gap_percent
        return plan

    def _store(self, plan_id: str, snapshot: Snapshot, plan: Plan, now: datetime) -> None:
        """Store the decision, also one that will be found to break a rule: it can be looked at."""
        summary = {
            "launches": sum(planned.count for planned in plan.launches),
            "reserved": sum(
                planned.count
                for planned in plan.launches
                if planned.offering.reservation_id is not None
            ),
            "joined": len(plan.existing),
            "unplaced": sum(unplaced.count for unplaced in plan.unplaced),
        }
        decision = Decision(plan_id, now, dumps(plan), summary, policy_to_json(self.policy))
        self.decisions.save(decision, dumps(snapshot))

    def _repair(self, gathered: Gathered, now: datetime) -> int:
        """Give back the claims of gangs that are not whole and not yet being launched."""
        given_back = 0
        for claim in gathered.claims.values():
            record = (
                None if claim.gang_key is None else gathered.records.get(claim.gang_key)
            )
            if (
                record is None
                or record.pending_count == 0
                or claim.state is not ClaimState.PLANNED
            ):
                continue
            if now - claim.created_at > _COMMITTED_WITHIN:
                given_back += (
                    return_all_replicas(self.node_claims, claim, now, _incomplete)
                    is not None
                )
        return given_back

    def _shed(self, gathered: Gathered, now: datetime) -> int:
        """Take surplus replicas off their nodes."""
        shed = 0
        for key, record in sorted(gathered.records.items()):
            if record.surplus_count > 0:
                hosts = [claim for claim in gathered.claims.values() if claim.hosts(key)]
                shed += self.shed_surplus(record, hosts, now)
        return shed


def _correlation_ids(records: Iterable[WorkloadRecord]) -> list[str]:
    """Return the correlation ids of workloads, as far as a line of a log should be long."""
    return sorted({it.correlation_id for it in records if it.correlation_id is not None})[
        :NAMED_MAX
    ]


def _are_of_several(records: Iterable[WorkloadRecord], teams: Iterable[Team]) -> bool:
    """Whether workloads are of several teams; those of no team count as one's."""
    owners = {namespace: team.name for namespace, team in by_namespace(teams).items()}
    found = {owners.get(record.key.partition("/")[0]) for record in records}
    return len(found) > 1


def _incomplete(claim: NodeClaim) -> NodeClaim | None:
    if claim.state is not ClaimState.PLANNED:
        return None
    return replace(claim, state=ClaimState.FAILED, failure="its gang is not whole")


def _named(plan_id: str, violations: Sequence[Violation]) -> dict[str, str]:
    """Return the workloads to hold back, and why: those that a violation names alone.

    Others may only share a node with one.
    """
    alone = [violation for violation in violations if len(violation.workload_keys) == 1]
    held: dict[str, str] = {}
    for violation in alone or violations:
        held.update(
            dict.fromkeys(violation.workload_keys, f"{plan_id} broke a rule: {violation}")
        )
    return held


def _with_held(
    plan: Plan, snapshot: Snapshot, held: Mapping[str, str], report: ProvisionReport
) -> Plan:
    """Add the replicas that are held back, each with what its place would have broken."""
    waiting = tuple(
        UnplacedReplicas(
            item.workload.key,
            item.pending_count,
            ReasonCode.PLAN_REJECTED,
            held[item.workload.key],
        )
        for item in snapshot.demands
        if item.workload.key in held
    )
    report.held_count = sum(item.count for item in waiting)
    return replace(plan, unplaced=(*plan.unplaced, *waiting))
