"""A disruption command in one transaction: it begins only if nothing that it depends on has changed since the decision.

The transaction names the revision of each node that is to go and of each node onto which its replicas were simulated,
and the generation of each workload that it moves; it needs a free unit of each reservation that a replacement was
planned in, and that no other pass has committed anything since budgets were read. So a node that got replicas
meanwhile, a workload that has just set ``do-not-disrupt``, a destination that filled up and a reservation that filled
up all stop the command.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.disruption.command import DisruptionCommand
from reservoir.core.disruption.decision_ids import decision_id
from reservoir.core.launching.claim_nodes import correlated, planned_claims
from reservoir.core.model.node_claim import (
    ClaimState,
    DisruptionMark,
    DrainReason,
    NodeClaim,
    placed_keys,
)
from reservoir.core.model.node_pool import DisruptionReason
from reservoir.ports.state import ConflictError, NodeClaimStore, PlannedCommit
from reservoir.ports.system import IdFactory
from reservoir.usecases.claims.claim_moves import return_all_replicas, save_claim
from reservoir.usecases.provisioning.commit_plan import in_batches, in_transactions
from reservoir.usecases.provisioning.gather_snapshot import Gathered

# A destination is left alone while the replicas that were simulated onto it are on their way: a minute's planning pass
# and the drain's grace.
NOMINATION: Final = timedelta(minutes=5)

DRAIN_REASONS: Final = {
    DisruptionReason.EMPTY: DrainReason.EMPTY,
    DisruptionReason.DRIFTED: DrainReason.DRIFT,
    DisruptionReason.UNDERUTILIZED: DrainReason.CONSOLIDATION,
    DisruptionReason.RECLAIMED: DrainReason.RECLAIMED,
}


@dataclass(frozen=True, slots=True)
class CommittedCommand:
    """Nodes that go and nodes that come, as stored."""

    mark: DisruptionMark
    marked: tuple[NodeClaim, ...]
    replacements: tuple[NodeClaim, ...]


@dataclass(slots=True)
class CommandCommitter:
    """Commits the commands of one pass.

    ``turn`` is as it was read before the budgets were: a pass that commits in between makes every later commit of this
    one conflict, so two passes never spend one budget.
    """

    claims: NodeClaimStore
    ids: IdFactory
    turn: int

    def commit(
        self,
        command: DisruptionCommand,
        known: dict[str, NodeClaim],
        gathered: Gathered,
        command_id: str,
        now: datetime,
    ) -> CommittedCommand:
        """Commit a command; ``known`` are the claims that it was decided on, and is kept up to date.

        A command of more rows than one transaction holds takes several; should a later one fail, the earlier ones are
        undone. Raises ConflictError when something changed: then nothing of the command holds;
        and UnreadableRowsError.
        """
        reason = drain_reason(command)
        slot_of = (
            known[command.claim_ids[0]].offering.reservation_id
            if command.terminate_first
            else None
        )
        replacements = self._replacements(command, slot_of, gathered, command_id, now)
        mark = DisruptionMark(
            command_id, reason, now, len(replacements), command.terminate_first
        )
        marked = [
            (known[key], replace(known[key], disruption=mark)) for key in command.claim_ids
        ]
        until = now + NOMINATION
        nominated = [
            (known[key], replace(known[key], nominated_until=until))
            for key in command.destinations
            if known[key].nominated_until != until
        ]
        done: list[PlannedCommit] = []
        try:
            for part in in_transactions(
                replacements, [*nominated, *marked], _moved(command, known, gathered)
            ):
                self.claims.commit(replace(part, turn=self.turn))
                self.turn += 1
                done.append(part)
        except ConflictError:
            self._give_back(done, now)
            raise
        stored = {
            before.id: replace(after, revision=before.revision + 1)
            for before, after in (*nominated, *marked)
        }
        known.update(stored)
        return CommittedCommand(
            mark, tuple(stored[key] for key in command.claim_ids), replacements
        )

    def _replacements(
        self,
        command: DisruptionCommand,
        slot_of: str | None,
        gathered: Gathered,
        command_id: str,
        now: datetime,
    ) -> tuple[NodeClaim, ...]:
        """Return the replacements' claims: empty, because the replicas come when the old nodes drain.

        They are of no gang: one that is on a node runs already, and may have lost or be waiting for members elsewhere.
        ``slot_of`` is the reservation of a node that goes first; one replacement waits for its slot.
        """
        claims: list[NodeClaim] = []
        for planned in command.replacements:
            ids = [self.ids.new_id("nc") for _ in range(planned.count)]
            claims += planned_claims(
                planned, ids, gathered.facts(), plan_id=decision_id(command_id), now=now
            )
        into_slot = next(
            (
                claim.id
                for claim in claims
                if slot_of and claim.offering.reservation_id == slot_of
            ),
            None,
        )
        replacing = (
            replace(
                correlated(claim, gathered.correlation_ids()),
                placements=(),
                expected=claim.placements,
                replaces=command.claim_ids,
                waits_for_slot=claim.id == into_slot,
                gang_key=None,
            )
            for claim in claims
        )
        return tuple(in_batches(replacing, self.ids))

    def _give_back(self, done: Iterable[PlannedCommit], now: datetime) -> None:
        for part in done:
            give_up(
                self.claims, part.claims, "its command could not be committed whole", now
            )
            for before, _ in part.existing:
                save_claim(self.claims, before, unmarked)


def _moved(
    command: DisruptionCommand, known: Mapping[str, NodeClaim], gathered: Gathered
) -> Mapping[str, int]:
    """Return the generations of the workloads whose replicas the command moves, as it was decided on them."""
    keys = placed_keys(known[claim_id] for claim_id in command.claim_ids)
    return {
        key: gathered.records[key].generation for key in keys if key in gathered.records
    }


def drain_reason(command: DisruptionCommand) -> DrainReason:
    """Return the reason that the command's nodes are given for their drain."""
    if command.pool_deleted:
        return DrainReason.NODE_POOL_DELETED
    return DrainReason.SCALED_DOWN if command.scales_down else DRAIN_REASONS[command.reason]


def give_up(
    claims: NodeClaimStore, replacements: Sequence[NodeClaim], why: str, now: datetime
) -> int:
    """Fail replacements that EC2 was not asked for yet; give back their units and the replicas moved onto them.

    Returns how many failed. Raises ConflictError when other processes keep changing a claim, and UnreadableRowsError.
    """

    def failed(claim: NodeClaim) -> NodeClaim | None:
        if claim.state is ClaimState.PLANNED:
            return replace(claim, state=ClaimState.FAILED, failure=why)
        return None

    return sum(
        return_all_replicas(claims, claim, now, failed) is not None
        for claim in replacements
    )


def expecting_nothing(claim: NodeClaim) -> NodeClaim | None:
    """Return the replacement without the replicas that it was for, whose node stays."""
    return replace(claim, expected=()) if claim.expected else None


def unmarked(claim: NodeClaim) -> NodeClaim | None:
    """Return the claim without its mark, unless it drains already."""
    if claim.disruption is None or claim.drain is not None:
        return None
    return replace(claim, disruption=None)
