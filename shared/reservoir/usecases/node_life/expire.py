"""Everything that time alone causes: block drains, deadlines, ages, nodes that never came up. Every minute.

The same sweep finds what lost events would have reported. An exact timer asks for its own reservation only: all
Capacity Blocks end at the same time of day, and as many sweeps at once would each announce, and compete for, the same
drains.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from reservoir.core.disruption.budgets import budgets_leave
from reservoir.core.disruption.candidate import marked_reason, steady_since
from reservoir.core.model.instance import Instance
from reservoir.core.model.node_claim import ClaimState, DrainReason, NodeClaim, placed_keys
from reservoir.core.model.node_pool import DisruptionReason
from reservoir.core.node_life.drain import InstanceStatusPolicy, maintenance_deadline
from reservoir.core.node_life.maintenance import (
    closed,
    is_closed,
    reopened,
    waits_for_its_work,
)
from reservoir.core.node_life.observation import Meaning
from reservoir.ports.ec2 import InstanceHealth, InstanceHealthReader, InstanceReader
from reservoir.ports.errors import AwsError
from reservoir.ports.launches import LaunchPolicy
from reservoir.ports.messaging import StartTimers
from reservoir.ports.state import ConflictError, NodeClaimStore
from reservoir.ports.system import Clock
from reservoir.usecases.claims import unreadable
from reservoir.usecases.claims.checkpoints import placed_terms
from reservoir.usecases.claims.claim_moves import save_claim
from reservoir.usecases.discovery.reservation_starts import ReservationStarts
from reservoir.usecases.draining.block_drains import BlockDrains
from reservoir.usecases.draining.drain_deadlines import DrainDeadlines
from reservoir.usecases.draining.draining import Draining, DrainRequest
from reservoir.usecases.draining.let_followers_start import LetFollowersStart
from reservoir.usecases.node_life.broken_capacity import BOOT_WITHIN, BrokenCapacity
from reservoir.usecases.node_life.node_life import NodeLife

# a check that has failed for two minutes is no hiccup any more.
_IMPAIRED_FOR: Final = timedelta(seconds=120)
# No function has a clock that is further behind: AWS refuses requests that were signed five minutes off.
_BEHIND_MAX: Final = timedelta(minutes=5)
_STEADY: Final = frozenset({ClaimState.LAUNCHED, ClaimState.RUNNING})
_TENDED: Final = _STEADY | {ClaimState.DRAINING}


@dataclass(slots=True)
class ExpireReport:
    """Counts of one sweep."""

    seen_count: int = 0
    by_meaning: Mapping[Meaning, int] = field(default_factory=dict)
    rebought_count: int = 0
    block_drain_count: int = 0
    # how long after its time the latest of these began
    block_drain_late_s: float | None = None
    deadline_count: int = 0
    # how long after its deadline the latest drain was ended
    drain_late_s: float | None = None
    aged_count: int = 0
    # nodes that have just become unhealthy, whether or not they are replaced
    unhealthy_count: int = 0
    stuck_count: int = 0  # instances that never reached running
    suspected_count: int = 0  # reservations that have become suspected of broken units
    early_count: int = 0  # nodes that ended before they ran
    blocked_count: int = 0  # classes that rest because their nodes do
    started_count: int = 0  # reservations that were seen to begin
    # descriptions that EC2 refused; the stored state was used instead
    unread_count: int = 0
    health_unread_count: int = 0  # whether EC2 did not say which nodes are unhealthy
    refused: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Expire:
    """The expiry use case."""

    claims: NodeClaimStore
    policy: LaunchPolicy
    instances: InstanceReader
    health: InstanceHealthReader
    life: NodeLife
    draining: Draining
    blocks: BlockDrains
    deadlines: DrainDeadlines
    starts: ReservationStarts
    near_starts: StartTimers
    broken: BrokenCapacity
    clock: Clock
    instance_status: InstanceStatusPolicy = InstanceStatusPolicy.REPLACE

    def run(self) -> ExpireReport:
        """Sweep once. Blocks come first: theirs is the one deadline that EC2 enforces.

        Raises UnreadableRowsError for claims that cannot be read again.
        """
        now = self.clock.now()
        live = self.claims.list_live()
        report = ExpireReport(seen_count=len(live))
        blocks = self.blocks.run(live, now)
        draining = blocks.due_ids
        report.block_drain_count, report.unread_count = len(draining), blocks.unread_count
        report.block_drain_late_s = _seconds(blocks.late)
        over = self._end_drains(live, report, now)
        LetFollowersStart(self.claims).sweep(live, now)
        # Claims that were just moved are left to the next sweep: they are no longer as they were listed.
        rest = [
            claim for claim in live if claim.id not in draining and claim.id not in over
        ]
        shown = self._read(rest)
        launched = [claim for claim in rest if claim.instance_id is not None]
        followed = self.life.apply(launched, shown, now)
        report.by_meaning = followed.by_meaning
        report.rebought_count = followed.rebought_count
        report.stuck_count = followed.count(Meaning.STUCK)
        report.suspected_count = followed.early.suspected_count
        report.early_count = followed.early.ended_count
        report.blocked_count = followed.early.blocked_count
        report.refused.update(followed.refused)
        gone = {
            claim.id
            for claim in rest
            if claim.instance_id is not None and _is_gone(claim, shown)
        }
        present = [claim for claim in rest if claim.id not in gone]
        steady = [claim for claim in present if claim.state in _STEADY]
        leaving = {*draining, *gone, *self._look_after(present, report, now)}
        report.aged_count = self._drain_aged(steady, live, leaving, now)
        self._look_for_starts(report, lambda: self.starts.sweep(now, self.near_starts))
        self.deadlines.watch(
            [claim for claim in live if claim.id not in over], blocks.due_ids, now
        )
        return report

    def run_for(self, reservation_id: str, due: datetime | None = None) -> ExpireReport:
        """Do what the exact timer of one reservation asks for: begin the drains in it, or notice that it has begun.

        ``due``: the time that the timer was set to. Raises UnreadableRowsError.
        """
        now = self._now(due)
        live = self.claims.list_live()
        inside = [
            claim for claim in live if claim.offering.reservation_id == reservation_id
        ]
        blocks = self.blocks.run(inside, now)
        report = ExpireReport(
            seen_count=len(inside),
            block_drain_count=len(blocks.due_ids),
            block_drain_late_s=_seconds(blocks.late),
            unread_count=blocks.unread_count,
        )
        self._look_for_starts(report, lambda: self.starts.run(now, [reservation_id]))
        self.deadlines.watch(live, blocks.due_ids, now)
        return report

    def run_deadlines(self, due: datetime | None = None) -> ExpireReport:
        """Do what the exact timer of a drain's deadline asks for: end the drains that are over.

        Raises UnreadableRowsError.
        """
        now = self._now(due)
        live = self.claims.list_live()
        report = ExpireReport(seen_count=len(live))
        over = self._end_drains(live, report, now)
        self.deadlines.watch([claim for claim in live if claim.id not in over], (), now)
        return report

    def _now(self, due: datetime | None) -> datetime:
        """Return the time: what a timer was set to has come, also where the clock is behind.

        By such a clock nothing would be due yet, and the same timer would be set again, to fire at once.
        """
        now = self.clock.now()
        return due if due is not None and now < due <= now + _BEHIND_MAX else now

    def _end_drains(
        self, live: Sequence[NodeClaim], report: ExpireReport, now: datetime
    ) -> Set[str]:
        ended = self.deadlines.end(live, now)
        report.deadline_count = len(ended.claim_ids)
        report.drain_late_s = _seconds(ended.late)
        report.refused.update(ended.refused)
        return ended.claim_ids

    def _look_for_starts(self, report: ExpireReport, look: Callable[[], int]) -> None:
        try:
            report.started_count = look()
        except AwsError:  # discovery reads the same each minute, and alarms when it cannot
            report.unread_count += 1

    def _read(self, live: Sequence[NodeClaim]) -> Mapping[str, Instance]:
        return self.instances.get_many(
            [claim.instance_id for claim in live if claim.instance_id is not None]
        )

    def _drain_aged(
        self,
        steady: Sequence[NodeClaim],
        live: Sequence[NodeClaim],
        leaving: Set[str],
        now: datetime,
    ) -> int:
        """Drain nodes past their pool's expireAfter, oldest first, as many as the pool's budgets for drift allow.

        Karpenter ignores budgets here; a fleet that was launched together would then go together. Its budgets have no
        reason for age, so drift's count: drift replaces nodes too. ``leaving``: nodes that this sweep has found gone or
        has drained.
        """
        count = 0
        claims = {claim.id: claim for claim in live}
        staying = [
            claim
            for claim in steady
            if claim.disruption is None and claim.id not in leaving
        ]
        for name in sorted({claim.node_pool_name for claim in staying}):
            pool = unreadable.node_pool(self.policy, name)
            # disruption replaces nodes that run
            if pool is None or pool.expire_after_s is None or pool.is_static:
                continue
            limit = timedelta(seconds=pool.expire_after_s)
            nodes = [claim for claim in staying if claim.node_pool_name == name]
            aged = [claim for claim in nodes if now - claim.created_at >= limit]
            if aged:
                allowed = budgets_leave(pool, claims, now, leaving=leaving)
                count += self._drain_oldest(aged, allowed[DisruptionReason.DRIFTED])
        return count

    def _drain_oldest(self, aged: Sequence[NodeClaim], allowed: int) -> int:
        oldest = sorted(aged, key=lambda claim: (claim.created_at, claim.id))[:allowed]
        return len(
            self.draining.begin_drains(
                [DrainRequest(claim, DrainReason.EXPIRED) for claim in oldest]
            ).moved
        )

    def _look_after(
        self, present: Sequence[NodeClaim], report: ExpireReport, now: datetime
    ) -> Set[str]:
        """Replace nodes whose checks fail, at once; drain those for which EC2 has planned maintenance (R-160).

        A node that drains already goes sooner if that is more urgent: nothing checkpoints on a machine that has failed.
        Returns the nodes that it drained.
        """
        by_instance = {
            claim.instance_id: claim for claim in present if claim.state in _TENDED
        }
        requests: dict[str, DrainRequest] = {}
        maintained: dict[str, InstanceHealth] = {}
        try:
            unhealthy = self.health.list_unhealthy()
        except AwsError:  # ages, starts and deadlines come after this, and are worth more
            report.health_unread_count = 1
            return frozenset()
        for health in unhealthy:
            claim = by_instance.get(health.instance_id)
            request = None if claim is None else _verdict(claim, health, now)
            if request is not None:
                requests[request.claim.id] = request
                if request.reason is DrainReason.SCHEDULED_CHANGE:
                    maintained[request.claim.id] = health
        if self.instance_status is InstanceStatusPolicy.REPLACE:
            for claim_id in self._waiting_for_work(
                [requests[key].claim for key in sorted(maintained)], maintained, now
            ):
                del requests[claim_id]
            self._reopen(present, maintained.keys(), now)
        if self.instance_status is InstanceStatusPolicy.REPORT:
            report.unhealthy_count = self._remember_episodes(present, requests.keys(), now)
        elif requests:
            young = [
                request.claim
                for request in requests.values()
                if _did_not_boot(request, now)
            ]
            report.suspected_count += self.broken.note(young, now)
            drained = {
                claim.id
                for claim in self.draining.begin_drains(list(requests.values())).moved
            }
            report.unhealthy_count = len(drained)
            return drained
        return frozenset()

    def _waiting_for_work(
        self,
        claims: Sequence[NodeClaim],
        maintained: Mapping[str, InstanceHealth],
        now: datetime,
    ) -> Sequence[str]:
        """Return the nodes that stay until their work is through; they take no more of it."""
        steady = [claim for claim in claims if claim.state in _STEADY]
        if not steady:
            return ()
        keys = placed_keys(steady)
        records, lost = unreadable.workloads(self.draining.workloads, keys)
        terms = placed_terms(records)
        waiting = []
        for claim in steady:
            health = maintained[claim.id]
            pool = unreadable.node_pool(self.policy, claim.node_pool_name)
            placed = [item.workload_key for item in terms.claim(claim).placements]
            work = [terms.workloads[key] for key in placed if key in terms.workloads]
            is_kept = pool is not None and marked_reason(pool) is not None
            if lost.isdisjoint(
                item.workload_key for item in claim.placements
            ) and not waits_for_its_work(
                work, steady_since(claim), health.scheduled_at, now, is_kept=is_kept
            ):
                continue
            waiting.append(claim.id)
            with suppress(ConflictError):  # seen again by the next sweep
                close = partial(_closed_for, health, now)
                save_claim(self.claims, claim, close)
        return waiting

    def _reopen(
        self, present: Sequence[NodeClaim], maintained: Set[str], now: datetime
    ) -> None:
        """Let nodes take replicas again whose maintenance EC2 plans no more."""
        for claim in present:
            if is_closed(claim) and claim.id not in maintained:
                with suppress(ConflictError):
                    save_claim(self.claims, claim, lambda current: reopened(current, now))

    def _remember_episodes(
        self, present: Sequence[NodeClaim], unhealthy_ids: Set[str], now: datetime
    ) -> int:
        """Note on claims that an episode began or ended; return how many began."""
        began = 0
        for claim in (claim for claim in present if claim.state in _STEADY):
            is_unhealthy = claim.id in unhealthy_ids
            if is_unhealthy == (claim.unhealthy_since is not None):
                continue
            with suppress(ConflictError):  # seen again by the next sweep
                since = now if is_unhealthy else None
                saved = save_claim(self.claims, claim, partial(_with_episode, since))
                began += is_unhealthy and saved is not None
        return began


def _closed_for(
    health: InstanceHealth, now: datetime, claim: NodeClaim
) -> NodeClaim | None:
    return closed(claim, health.scheduled_event_code or "", health.scheduled_at, now)


def _with_episode(since: datetime | None, claim: NodeClaim) -> NodeClaim | None:
    """Begin an episode, or end it; None when another sweep has done so already."""
    if claim.state not in _STEADY or (claim.unhealthy_since is None) == (since is None):
        return None
    return replace(claim, unhealthy_since=since)


def _did_not_boot(request: DrainRequest, now: datetime) -> bool:
    launched_at = request.claim.launched_at or request.claim.created_at
    return request.reason is DrainReason.UNHEALTHY and now - launched_at <= BOOT_WITHIN


def _is_gone(claim: NodeClaim, shown: Mapping[str, Instance]) -> bool:
    instance = shown.get(claim.instance_id or "")
    return instance is None or instance.is_gone


def _verdict(
    claim: NodeClaim, health: InstanceHealth, now: datetime
) -> DrainRequest | None:
    if health.impaired_since is not None and now - health.impaired_since >= _IMPAIRED_FOR:
        return DrainRequest(claim, DrainReason.UNHEALTHY, now)
    if health.scheduled_event_code is None:
        return None
    return DrainRequest(
        claim, DrainReason.SCHEDULED_CHANGE, maintenance_deadline(health.scheduled_at, now)
    )


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()
