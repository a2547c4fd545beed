"""Voluntary disruption, once a minute: carry on with what was begun, then decide again.

A command with replacements is make before break: the replacements are committed and launched first, the old nodes are
marked (they take no new replicas), and drain only once every replacement runs. If a replacement fails, the marks are
taken off and nothing was drained. All state lies in the claims, so a pass that dies anywhere is continued by the next:

    committed, not marked   the replacements are empty nodes like any other and go again
    marked, not launched    launch batches are sent again by ``collect``
    launched, not drained   the next pass drains

Terminate first turns it round, for the node whose own slot alone can host its replacement: the replacement is leased
over the slot while it is still in use, so that none of our other demand gets it; the old node drains; once it is gone
and an observation shows the slot free (a block's slot is scrubbed for minutes), the replacement is launched.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from shared.core.claim_nodes import planned_claims
from shared.core.disruption.command import DisruptionCommand
from shared.core.disruption.decide import DisruptionInput, decide_disruption
from shared.core.node_claim import ClaimState, DisruptionMark, DrainReason, NodeClaim
from shared.core.node_pool import DisruptionReason, NodePool
from shared.core.plan import Plan
from shared.core.policy import SchedulingPolicy
from shared.core.schedule import allowed_disruptions
from shared.core.scheduler import solve
from shared.core.snapshot import Snapshot
from shared.ports.messaging import WorkQueue
from shared.ports.state import ConflictError, NodeClaimStore, PlannedCommit
from shared.ports.system import Clock, IdFactory
from shared.usecases.claim_moves import save_claim
from shared.usecases.commit_plan import in_batches, launch_batches
from shared.usecases.draining import Draining
from shared.usecases.gather_snapshot import Gathered, SnapshotGatherer

# A destination is left alone while the replicas that were simulated onto it are on their way: a minute's planning pass
# and the drain's grace.
NOMINATION: Final = timedelta(minutes=5)

_DRAIN_REASONS: Final = {
    DisruptionReason.EMPTY: DrainReason.EMPTY,
    DisruptionReason.DRIFTED: DrainReason.DRIFT,
    DisruptionReason.UNDERUTILIZED: DrainReason.CONSOLIDATION,
}


@dataclass(frozen=True, slots=True)
class DisruptReport:
    """What a pass did, in numbers of nodes; ``refusals`` says why each other node stays."""

    drained: int
    replaced: int
    abandoned: int
    refusals: dict[str, str]

    def counts(self) -> dict[str, int]:
        """Return its numbers by name, for logs and metrics."""
        return {
            "nodes_disrupted": self.drained,
            "nodes_being_replaced": self.replaced,
            "replacements_abandoned": self.abandoned,
            "disruptions_refused": len(self.refusals),
        }


@dataclass(frozen=True, slots=True)
class Disrupt:
    """Runs passes."""

    gatherer: SnapshotGatherer
    claims: NodeClaimStore
    draining: Draining
    queue: WorkQueue
    ids: IdFactory
    clock: Clock
    policy: SchedulingPolicy

    def run(self) -> DisruptReport:
        """Run one pass."""
        now = self.clock.now()
        gathered = self.gatherer.gather(now)
        drained, abandoned = self._carry_on(gathered, now)
        given = DisruptionInput(gathered.snapshot, gathered.claims, _allowed(gathered, now))
        ask: Callable[[Snapshot], Plan] = partial(solve, now=now, policy=self.policy)
        decision = decide_disruption(given, ask, now=now)
        replaced = 0
        for command in decision.commands:
            self._nominate(command, gathered, now)
            if command.replacements:
                replaced += self._replace(command, gathered, now)
            else:
                for claim_id in command.claim_ids:
                    drained += self._begin_drain(gathered.claims[claim_id], _DRAIN_REASONS[command.reason], now)
        return DisruptReport(
            drained, replaced, abandoned, {refusal.claim_id: refusal.reason for refusal in decision.refusals}
        )

    def _carry_on(self, gathered: Gathered, now: datetime) -> tuple[int, int]:
        """Drain marked nodes whose replacements run; unmark those whose replacements came to nothing."""
        drained = abandoned = 0
        replacements: dict[str, list[NodeClaim]] = {}
        for claim in gathered.claims.values():
            for replaced_id in claim.replaces:
                replacements.setdefault(replaced_id, []).append(claim)
        for claim in gathered.claims.values():
            mark = claim.disruption
            if mark is None or claim.drain is not None:
                continue
            ready = replacements.get(claim.id, [])
            if len(ready) < mark.replacement_count:
                abandoned += self._unmark(claim)
            elif mark.terminate_first or all(replacement.state is ClaimState.RUNNING for replacement in ready):
                drained += self._begin_drain(claim, mark.reason, now)
        self._launch_into_freed_slots(gathered)
        return drained, abandoned

    def _launch_into_freed_slots(self, gathered: Gathered) -> None:
        """Launch replacements whose slot is free now: nobody stands in it, and every promise is covered by a unit."""
        freed = []
        for claim in gathered.claims.values():
            if claim.state is not ClaimState.PLANNED or not claim.waits_for_slot or claim.lease is None:
                continue
            record = gathered.reservations.get(claim.lease.reservation_id)
            in_use = any(replaced_id in gathered.claims for replaced_id in claim.replaces)
            if not in_use and record is not None and record.balance.free_units >= 0:
                freed.append(claim)
        self.queue.send_launches(launch_batches(freed))

    def _unmark(self, claim: NodeClaim) -> int:
        saved = save_claim(
            self.claims,
            claim,
            lambda current: None if current.disruption is None else replace(current, disruption=None),
        )
        return int(saved is not None)

    def _replace(self, command: DisruptionCommand, gathered: Gathered, now: datetime) -> int:
        """Commit and launch replacements (empty: the replicas come when the old nodes drain), mark the old nodes."""
        command_id = self.ids.new_id("disruption")
        replacements = self._replacement_claims(command, gathered, command_id, now)
        try:
            self.claims.commit(PlannedCommit(claims=replacements))
        except ConflictError:
            return 0  # a unit went to other demand meanwhile: the next pass decides on the world as it then is
        reason = _DRAIN_REASONS[command.reason]
        mark = DisruptionMark(command_id, reason, now, len(replacements), command.terminate_first)
        for claim_id in command.claim_ids:
            save_claim(self.claims, gathered.claims[claim_id], partial(_marked, mark=mark))
        if not command.terminate_first:
            self.queue.send_launches(launch_batches(replacements))
        return len(command.claim_ids)

    def _replacement_claims(
        self, command: DisruptionCommand, gathered: Gathered, command_id: str, now: datetime
    ) -> tuple[NodeClaim, ...]:
        claims: list[NodeClaim] = []
        for planned in command.replacements:
            ids = [self.ids.new_id("nc") for _ in range(planned.count)]
            empty = replace(planned, placements=())
            claims += planned_claims(empty, ids, gathered.facts(), plan_id=command_id, now=now)
        until = now + NOMINATION
        replacing = (
            replace(claim, replaces=command.claim_ids, nominated_until=until, waits_for_slot=command.terminate_first)
            for claim in claims
        )
        return tuple(in_batches(replacing, self.ids))

    def _nominate(self, command: DisruptionCommand, gathered: Gathered, now: datetime) -> None:
        until = now + NOMINATION
        for claim_id in command.destinations:
            save_claim(self.claims, gathered.claims[claim_id], partial(_nominated, until=until))

    def _begin_drain(self, claim: NodeClaim, reason: DrainReason, now: datetime) -> int:
        return int(self.draining.begin_drain(claim, reason, None, now) is not None)


def _marked(claim: NodeClaim, mark: DisruptionMark) -> NodeClaim | None:
    if claim.state is not ClaimState.RUNNING or claim.drain is not None or claim.disruption is not None:
        return None
    return replace(claim, disruption=mark)


def _nominated(claim: NodeClaim, until: datetime) -> NodeClaim | None:
    return replace(claim, nominated_until=until) if claim.is_live else None


def _allowed(gathered: Gathered, now: datetime) -> dict[tuple[str, DisruptionReason], int]:
    """Return what each pool's budgets leave (R-189): nodes already on their way out, or not running, use them up."""
    allowed = {}
    for pool in gathered.snapshot.node_pools:
        claims = [claim for claim in gathered.claims.values() if claim.node_pool_name == pool.name]
        for reason in DisruptionReason:
            allowed[pool.name, reason] = _allowed_in(pool, reason, claims, now)
    return allowed


def _allowed_in(pool: NodePool, reason: DisruptionReason, claims: Sequence[NodeClaim], now: datetime) -> int:
    leaving = sum(claim.drain is not None or claim.disruption is not None for claim in claims)
    return allowed_disruptions(
        pool.disruption.budgets, reason, node_count=len(claims), unavailable_count=leaving, now=now
    ).nodes
