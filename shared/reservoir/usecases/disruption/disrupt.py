"""Voluntary disruption, once a minute: continue the commands that have begun, then decide again.

The decision is made on one snapshot, and each of its commands is committed only if the nodes, destinations and
reservations that it is about have not changed since. Nodes that go without a replacement drain at once; the others when
their replacements run (``reservoir.usecases.disruption.replace_nodes``). A pass that dies anywhere is continued by the
next.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Final

from reservoir.core.disruption.budgets import budgets_leave
from reservoir.core.disruption.candidate import Refusal
from reservoir.core.disruption.command import DisruptionCommand, DisruptionDecision
from reservoir.core.disruption.decide import DisruptionInput, decide_disruption
from reservoir.core.disruption.decision_ids import DECISION_PREFIX, LATEST_DECISION
from reservoir.core.disruption.methods.deleted_pool import deleted_pools
from reservoir.core.disruption.methods.reclaim import units_returning
from reservoir.core.launching.claim_nodes import is_held
from reservoir.core.lending.decide import may_lend
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.node_pool import DisruptionReason, NodePool
from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.team import ReclaimWithinCohort
from reservoir.core.safety.endings import EndingKind, kind_of
from reservoir.core.serialisation.json_codec import dumps
from reservoir.core.warm_nodes.free_units import without_warm_nodes
from reservoir.ports.errors import AwsError
from reservoir.ports.history import Decision, DecisionStore
from reservoir.ports.safety import UnreadableRowError
from reservoir.ports.state import COMMIT_ITEMS_MAX, TURN_ROW, ConflictError, NodeClaimStore
from reservoir.ports.system import Clock, IdFactory
from reservoir.usecases.disruption.commit_command import (
    NOMINATION,
    CommandCommitter,
    CommittedCommand,
    drain_reason,
)
from reservoir.usecases.disruption.move_units import Moved, MoveUnits
from reservoir.usecases.disruption.replace_nodes import Carried, ReplaceNodes
from reservoir.usecases.disruption.roll_out import RollOut
from reservoir.usecases.disruption.split_units import SplitUnits
from reservoir.usecases.lending.lend_units import LendUnits, is_lending
from reservoir.usecases.provisioning.commit_plan import launch_batches
from reservoir.usecases.provisioning.gather_snapshot import Gathered, SnapshotGatherer
from reservoir.usecases.provisioning.solver import Solve
from reservoir.usecases.safety.envelope import Envelope

# What a pass of disruption ends.
_KINDS: Final = (EndingKind.DISRUPTION, EndingKind.SURPLUS, EndingKind.DELETED_POOLS)
_NEVER: Final = ReclaimWithinCohort.NEVER
_EMPTY_MAX: Final = COMMIT_ITEMS_MAX - 1  # beside the turn
_AT_REST_EVERY: Final = 5  # minutes

_Allowed = dict[tuple[str, DisruptionReason], int]


@dataclass(slots=True)
class DisruptReport:
    """What a pass did, in numbers of nodes; ``refusals`` gives the reason why each other node stays."""

    drained: int = 0
    replaced: int = 0
    refilled: int = 0
    abandoned: int = 0
    dropped: int = 0
    units_moved: int = 0
    units_split_off: int = 0
    units_given_back: int = 0
    units_lent: int = 0
    units_recalled: int = 0
    unjudged: int = 0  # nodes whose turn comes in more than an hour
    # EC2's codes by source reservation
    moves_refused: Mapping[str, str] = field(default_factory=dict)
    splits_refused: Mapping[str, str] = field(default_factory=dict)
    lending_refused: Mapping[str, str] = field(default_factory=dict)
    refusals: Mapping[str, str] = field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        """Return its numbers by name, for logs and metrics."""
        return {
            "nodes_disrupted": self.drained,
            "nodes_being_replaced": self.replaced,
            "slots_refilled": self.refilled,
            "replacements_abandoned": self.abandoned,
            "disruptions_dropped": self.dropped,
            "reserved_units_moved": self.units_moved,
            "unit_moves_refused": len(self.moves_refused),
            "units_split_off": self.units_split_off,
            "units_given_back": self.units_given_back,
            "unit_splits_refused": len(self.splits_refused),
            "units_lent": self.units_lent,
            "units_recalled": self.units_recalled,
            "lending_refused": len(self.lending_refused),
            "disruptions_refused": len(self.refusals),
            "nodes_unjudged": self.unjudged,
        }


@dataclass(slots=True)
class Turns:
    """Since when nodes wait for their turn, by claim, from the last pass of this process.

    Not stored: a new process goes by the minute, until its first pass has found out which nodes wait.
    """

    waiting: Mapping[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Disrupt:
    """Runs passes."""

    gatherer: SnapshotGatherer
    claims: NodeClaimStore
    replacing: ReplaceNodes
    rolling: RollOut
    envelope: Envelope
    moving: MoveUnits
    splitting: SplitUnits
    lending: LendUnits
    decisions: DecisionStore
    ids: IdFactory
    clock: Clock
    policy: SchedulingPolicy
    solve: Solve
    account_id: str
    turns: Turns = field(default_factory=Turns)

    def run(self) -> DisruptReport:
        """Run one pass.

        Raises ConflictError when a claim is fought over, and UnreadableRowsError when rows that a step needs cannot be
        read.
        """
        live = self.claims.list_live()
        now = self.clock.now()
        if not live:
            return self._at_rest(now)  # nothing to decide on: the rest is not read
        gathered = self.gatherer.gather(now, live=live, shows_warm_nodes=True)
        carried = self.replacing.carry_on(gathered, now)
        allowed = _allowed(gathered.snapshot.node_pools, gathered.claims, now)
        rolled = self.rolling.run(gathered, allowed, now)
        if rolled:
            gathered = replace(gathered, claims={**gathered.claims, **rolled})
        decision = self._decide(gathered, now)
        self.turns.waiting = {turn.claim_id: turn.since for turn in decision.waiting}
        snapshot_json = dumps(gathered.snapshot)
        pass_id = self.ids.new_id(DECISION_PREFIX)
        if decision.commands:
            self.decisions.save(_kept(pass_id, decision, now), snapshot_json)
        drained = carried.drained + len(rolled)
        report = DisruptReport(drained, 0, carried.launched, carried.abandoned)
        done = self._apply(decision, gathered, pass_id, report, now)
        moved = self.moving.run(decision.moves, gathered.facts().reservations, now)
        report.units_moved, report.moves_refused = moved.moved, moved.refused
        split = self.splitting.run(
            decision.splits, gathered.facts().reservations, now, moved.splitting
        )
        report.units_split_off, report.splits_refused = split.split_off, split.refused
        report.units_given_back = split.given_back
        self._lend(gathered, moved.lending, report, now)
        done = _with_refused_moves(done, moved)
        done = _with_notes(done, carried)
        report.unjudged = decision.unjudged_for_an_hour(now)
        report.refusals = {refusal.claim_id: refusal.reason for refusal in done.refusals}
        # While nothing happens, minute after minute decides the same on the same: that is not written again.
        self.decisions.save_if_changed(_kept(LATEST_DECISION, done, now), snapshot_json)
        return report

    def _at_rest(self, now: datetime) -> DisruptReport:
        """Give back units that were split off for nodes that have all ended, and lend what is idle.

        It costs reads, so it is not done each minute.
        """
        report = DisruptReport()
        if now.minute % _AT_REST_EVERY == 0:
            reading = self.gatherer.read_policy()
            records = reading.reservations.result()
            known = {record.reservation.id: record.reservation for record in records}
            split = self.splitting.run((), known, now)
            report.units_given_back = split.given_back
            report.splits_refused = split.refused
            begun = [it for it in self.claims.list_moving() if is_lending(it)]
            shown = Snapshot(
                (), tuple(known.values()), node_classes=reading.policy.node_classes
            )
            if begun or may_lend(shown, self.lending.deployment):
                gathered = self.gatherer.gather(now, reading=reading, shows_warm_nodes=True)
                self._lend(gathered, begun, report, now)
        return report

    def _lend(
        self,
        gathered: Gathered,
        begun: Sequence[NodeClaim],
        report: DisruptReport,
        now: datetime,
    ) -> None:
        snapshot, warm = without_warm_nodes(gathered.snapshot, gathered.claims.values())
        lent = self.lending.run(snapshot, gathered.reservations, warm, now, begun)
        report.units_lent, report.units_recalled = lent.lent, lent.recalled
        report.lending_refused = lent.refused

    def _decide(self, gathered: Gathered, now: datetime) -> DisruptionDecision:
        claims = {
            # A replacement is empty until its replicas are handed over: it is no candidate meanwhile.
            key: replace(claim, nominated_until=now + NOMINATION)
            if is_held(claim, gathered.claims)
            else claim
            for key, claim in gathered.claims.items()
        }
        allowed = _allowed(gathered.snapshot.node_pools, gathered.claims, now)
        ask = partial(self._ask, now)
        returning = self._returning(gathered, now)
        given = DisruptionInput(
            gathered.snapshot,
            claims,
            allowed,
            self.policy.spot_to_spot_consolidation,
            returning,
            self.turns.waiting,
            self.splitting.under_way() if _may_split(gathered.snapshot) else (),
            self.account_id,
        )
        return decide_disruption(given, ask, now=now)

    def _returning(self, gathered: Gathered, now: datetime) -> Mapping[str, int]:
        """Return how many reclaimed units have not come back yet; costs two reads where something may be reclaimed."""
        snapshot = gathered.snapshot
        if not snapshot.demands or all(
            team.reclaim_within_cohort is _NEVER for team in snapshot.teams
        ):
            return {}
        try:
            ended = self.envelope.let_pass(EndingKind.DISRUPTION) - gathered.claims.keys()
            found = self.claims.get_many(ended)
        except (UnreadableRowError, AwsError):
            # The reclaimed units cannot be read: all of them may still be on their way.
            return {
                reservation.id: reservation.total_count
                for reservation in snapshot.reservations
            }
        return units_returning(found.values(), gathered.claims.values(), now)

    def _ask(self, now: datetime, snapshot: Snapshot) -> Plan:
        return self.solve(snapshot, now, self.policy)

    def _apply(
        self,
        decision: DisruptionDecision,
        gathered: Gathered,
        pass_id: str,
        report: DisruptReport,
        now: datetime,
    ) -> DisruptionDecision:
        """Begin the commands that still hold; return the decision with the result of each."""
        if not decision.commands:
            return decision
        known = dict(gathered.claims)
        committer = CommandCommitter(self.claims, self.ids, self.claims.turn())
        budgets = _Budgets(self._allowed_by_now(decision, gathered, now), gathered.claims)
        wanted = _wanted(decision.commands, gathered)
        begun: list[DisruptionCommand] = []
        dropped: list[Refusal] = []
        for number, command in enumerate(_in_transactions(decision.commands)):
            # Before replacements are bought: a command that is held back must not cost anything.
            refusal = budgets.refusal(command) or self._held(command, wanted, gathered, now)
            committed = refusal or _commit(
                committer, command, known, gathered, f"{pass_id}/{number}", now
            )
            if isinstance(committed, str):
                dropped += [Refusal(claim_id, committed) for claim_id in command.claim_ids]
                continue
            budgets.spend(command)
            ids = tuple(claim.id for claim in committed.marked)
            dropped += [
                Refusal(key, "it changed just now")
                for key in command.claim_ids
                if key not in ids
            ]
            begun.append(replace(command, claim_ids=ids))
            self._begin(command, committed, gathered, report, now)
        report.dropped = len(dropped)
        refusals = sorted(
            (*decision.refusals, *dropped), key=lambda refusal: refusal.claim_id
        )
        return replace(decision, commands=tuple(begun), refusals=tuple(refusals))

    def _held(
        self,
        command: DisruptionCommand,
        wanted: dict[EndingKind, int],
        gathered: Gathered,
        now: datetime,
    ) -> str | None:
        """Return why the safety envelope holds a command's nodes back, or None; ``wanted`` counts those that remain."""
        kind = _kind(command)
        ids, fleet = command.claim_ids, gathered.claims.keys()
        admission = self.envelope.admit(
            kind, ids, now, wanted_count=wanted[kind], fleet=fleet
        )
        if not admission.admitted.issuperset(command.claim_ids):
            return admission.why
        wanted[kind] -= len(command.claim_ids)
        return None

    def _allowed_by_now(
        self, decision: DisruptionDecision, gathered: Gathered, now: datetime
    ) -> _Allowed:
        """Read again what budgets leave: another pass may have spent some of it while this one decided.

        The listing may lag by moments, so nodes that a pass may have begun to drain lately are read themselves: the
        envelope has admitted each of them. If it cannot be read, all nodes of the pools concerned are.
        """
        try:
            moved = (
                frozenset[str]().union(*(self.envelope.let_pass(kind) for kind in _KINDS))
                & gathered.claims.keys()
            )
        except (UnreadableRowError, AwsError):
            ids = chain.from_iterable(command.claim_ids for command in decision.commands)
            pools = {gathered.claims[claim_id].node_pool_name for claim_id in ids}
            moved = frozenset(
                key
                for key, claim in gathered.claims.items()
                if claim.node_pool_name in pools
            )
        current = {claim.id: claim for claim in self.claims.list_live()} | dict(
            self.claims.get_many(moved)
        )
        live = {key: claim for key, claim in current.items() if claim.is_live}
        return _allowed(gathered.snapshot.node_pools, live, now)

    def _begin(
        self,
        command: DisruptionCommand,
        committed: CommittedCommand,
        gathered: Gathered,
        report: DisruptReport,
        now: datetime,
    ) -> None:
        coming = [claim for claim in committed.replacements if not claim.waits_for_slot]
        if coming:
            self.replacing.queue.send_launches(launch_batches(coming))
        if coming and not command.terminate_first:
            report.replaced += len(committed.marked)
            return
        replacement_ids = [claim.id for claim in committed.replacements]
        report.drained += self.replacing.drain(
            committed.mark, committed.marked, replacement_ids, gathered, now
        )


def _may_split(snapshot: Snapshot) -> bool:
    return any(it.reclaim_group_arn is not None for it in snapshot.node_classes)


def _kept(decision_id: str, decision: DisruptionDecision, now: datetime) -> Decision:
    replacements = chain.from_iterable(
        command.replacements for command in decision.commands
    )
    summary = {
        "commands": len(decision.commands),
        "nodes": sum(len(command.claim_ids) for command in decision.commands),
        "replacements": sum(planned.count for planned in replacements),
        "refusals": len(decision.refusals),
    }
    return Decision(decision_id, now, dumps(decision), summary)


def _kind(command: DisruptionCommand) -> EndingKind:
    """Return what a command is counted as; EC2 forces nothing of what disruption decides."""
    return kind_of(drain_reason(command)) or EndingKind.DISRUPTION


def _wanted(
    commands: Iterable[DisruptionCommand], gathered: Gathered
) -> dict[EndingKind, int]:
    """Return how many nodes are to go in all, by kind: those of a pass, and all that have lost their NodePool."""
    wanted = dict.fromkeys(EndingKind, 0)
    for command in commands:
        wanted[_kind(command)] += len(command.claim_ids)
    pools = {pool.name for pool in gathered.snapshot.node_pools}
    left = [
        claim for claim in gathered.claims.values() if claim.node_pool_name not in pools
    ]
    wanted[EndingKind.DELETED_POOLS] = sum(
        claim.drain is None and claim.disruption is None for claim in left
    )
    return wanted


def _commit(
    committer: CommandCommitter,
    command: DisruptionCommand,
    known: dict[str, NodeClaim],
    gathered: Gathered,
    command_id: str,
    now: datetime,
) -> CommittedCommand | str:
    """Commit a command, or say why not. Empty nodes go each for itself, all others together or not at all."""
    left = command
    while left.claim_ids:
        try:
            return committer.commit(left, known, gathered, command_id, now)
        except ConflictError as error:
            if TURN_ROW in error.rows:
                return "another pass acted while this was decided"
            still = tuple(
                claim_id for claim_id in left.claim_ids if claim_id not in error.rows
            )
            if command.reason is not DisruptionReason.EMPTY or len(still) == len(
                left.claim_ids
            ):
                return f"{', '.join(error.rows)} changed while this was decided"
            left = replace(left, claim_ids=still)
    return "it changed just now"


class _Budgets:
    """What may still begin, by pool and reason; counted down as commands begin."""

    def __init__(self, allowed: _Allowed, claims: Mapping[str, NodeClaim]) -> None:
        self._left = allowed
        self._claims = claims

    def refusal(self, command: DisruptionCommand) -> str | None:
        if command.scales_down:
            return None
        for pool_name, count in self._counts(command).items():
            if self._left.get((pool_name, command.reason), 0) < count:
                return f"budget of NodePool {pool_name} was used up while this was decided"
        return None

    def spend(self, command: DisruptionCommand) -> None:
        for pool_name, count in self._counts(command).items():
            for reason in DisruptionReason:
                self._left[pool_name, reason] = (
                    self._left.get((pool_name, reason), 0) - count
                )

    def _counts(self, command: DisruptionCommand) -> dict[str, int]:
        counts: dict[str, int] = {}
        for claim_id in command.claim_ids:
            name = self._claims[claim_id].node_pool_name
            counts[name] = counts.get(name, 0) + 1
        return counts


def _in_transactions(commands: Iterable[DisruptionCommand]) -> Iterator[DisruptionCommand]:
    """Cut commands that delete many empty nodes: these go each for itself."""
    for command in commands:
        if command.reason is not DisruptionReason.EMPTY:
            yield command
            continue
        for start in range(0, len(command.claim_ids), _EMPTY_MAX):
            yield replace(command, claim_ids=command.claim_ids[start : start + _EMPTY_MAX])


def _with_notes(decision: DisruptionDecision, carried: Carried) -> DisruptionDecision:
    """Say of nodes that are being replaced how far that is, instead of only that they are."""
    reasons = {
        refusal.claim_id: refusal.reason for refusal in decision.refusals
    } | carried.notes
    return replace(
        decision,
        refusals=tuple(Refusal(key, reason) for key, reason in sorted(reasons.items())),
    )


def _with_refused_moves(decision: DisruptionDecision, moved: Moved) -> DisruptionDecision:
    """Say of nodes that waited for a unit that EC2 would not move it, now or lately."""
    later = {
        key: f"asked again from {until:%H:%M} UTC" for key, until in moved.resting.items()
    }
    why = later | moved.refused
    reasons: dict[str, str] = {}
    for move in decision.moves:
        code = why.get(move.source_id)
        if code is not None:
            reason = f"EC2 refused to move a unit from {move.source_id} to {move.destination_id}: {code}"
            reasons.update(dict.fromkeys(move.for_nodes, reason))
    refusals = (
        Refusal(it.claim_id, reasons.get(it.claim_id, it.reason))
        for it in decision.refusals
    )
    return replace(decision, refusals=tuple(refusals))


def _allowed(
    pools: Sequence[NodePool], claims: Mapping[str, NodeClaim], now: datetime
) -> _Allowed:
    """Return what each pool's budgets leave, by pool and reason."""
    allowed: _Allowed = {}
    for pool in (*pools, *deleted_pools(pools, claims.values())):
        for reason, count in budgets_leave(pool, claims, now).items():
            allowed[pool.name, reason] = count
    return allowed
