"""Replacing nodes, from the marks to the last drain. All state lies in the claims: any pass continues any other's work.

::

    make before break   marked -> replacements launched -> all of them run -> hand over, drain
    terminate first     marked -> hand over, drain -> gone -> the slot shows free -> launch into it

Until the hand-over the replacements' room is held for the replicas that are expected there. If a replacement comes to
nothing before, the marks are taken off and nothing was drained. A terminate-first replacement keeps its lease over the
slot from the beginning, so that none of our other demand gets it, and carries the replicas as soon as the old node
drains.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from reservoir.core.capacity.ledger import UNIT_BACK_WITHIN
from reservoir.core.disruption.candidate import marked_reason, protected_reason
from reservoir.core.disruption.saving.node_prices import NodePrices
from reservoir.core.model.node_claim import (
    ClaimState,
    DisruptionMark,
    DrainReason,
    NodeClaim,
)
from reservoir.ports.messaging import EventPublisher, WorkQueue
from reservoir.ports.state import ConflictError, NodeClaimStore, ReservationRecord
from reservoir.usecases.claims.claim_moves import save_claim
from reservoir.usecases.disruption.commit_command import (
    expecting_nothing,
    give_up,
    unmarked,
)
from reservoir.usecases.disruption.hand_over import HandOver
from reservoir.usecases.draining.draining import Draining, DrainRequest
from reservoir.usecases.provisioning.commit_plan import Committed, launch_batches
from reservoir.usecases.provisioning.gather_snapshot import Gathered
from reservoir.usecases.provisioning.placement_events import placed_events

# Indexes lag a commit by moments: a replacement that is not listed this long after its commit is not there.
_LISTED_WITHIN: Final = timedelta(minutes=1)
_COMING: Final = frozenset(
    {ClaimState.PLANNED, ClaimState.LAUNCHING, ClaimState.LAUNCHED, ClaimState.RUNNING}
)


@dataclass(slots=True)
class Carried:
    """The results for commands in progress, in numbers of nodes; ``notes`` says for each node why it is where it is."""

    drained: int = 0
    abandoned: int = 0
    launched: int = 0
    notes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReplaceNodes:
    """Carries replacements on."""

    claims: NodeClaimStore
    draining: Draining
    publisher: EventPublisher
    queue: WorkQueue

    def carry_on(self, gathered: Gathered, now: datetime) -> Carried:
        """Do the next step of every replacement in progress.

        Raises ConflictError when other processes keep changing a claim, and UnreadableRowsError.
        """
        carried = Carried()
        commands: dict[str, tuple[DisruptionMark, list[NodeClaim]]] = {}
        for _, claim in sorted(gathered.claims.items()):
            if claim.disruption is not None:
                commands.setdefault(claim.disruption.command_id, (claim.disruption, []))[
                    1
                ].append(claim)
        for mark, nodes in commands.values():
            self._step(mark, nodes, gathered, now, carried)
        self._release_unneeded(gathered, now)
        for reservation_id, waiting in sorted(_waiting_by_reservation(gathered).items()):
            self._fill_slots(
                gathered.reservations.get(reservation_id), waiting, now, carried
            )
        return carried

    def _step(
        self,
        mark: DisruptionMark,
        nodes: Sequence[NodeClaim],
        gathered: Gathered,
        now: datetime,
        carried: Carried,
    ) -> None:
        """Do the next step of one command; ``nodes`` are its marked nodes that are still alive."""
        for node in nodes:
            # the pass died between handing over and returning the replicas that no replacement expects
            if node.drain is not None:
                HandOver(self.claims, (), now).return_rest(node)
        staying = [node for node in nodes if node.state is ClaimState.RUNNING]
        replacements = _replacements(nodes[0], gathered, now)
        missing = mark.replacement_count - len(replacements)
        if staying and missing > 0 and now - mark.started_at < _LISTED_WITHIN:
            _note(carried, staying, "its replacements are being committed")
            return
        failed = (
            f"{missing} of {mark.replacement_count} replacements could not be launched"
            if missing > 0
            else None
        )
        unwanted = failed or _no_longer_wanted(mark, staying, gathered)
        why = unwanted or _no_longer_cheaper(mark, staying, replacements, gathered)
        coming = [
            claim.id for claim in replacements if claim.state is not ClaimState.RUNNING
        ]
        if why is not None:
            carried.abandoned += sum(
                save_claim(self.claims, node, unmarked) is not None for node in staying
            )
            _note(carried, staying, f"{why}: it stays")
        elif coming and not mark.terminate_first:
            _note(carried, staying, f"waits until {', '.join(coming)} runs")
        elif staying:
            carried.drained += self.drain(
                mark, staying, [claim.id for claim in replacements], gathered, now
            )

    def drain(
        self,
        mark: DisruptionMark,
        nodes: Sequence[NodeClaim],
        replacement_ids: Sequence[str],
        gathered: Gathered,
        now: datetime,
    ) -> int:
        """Drain nodes with this mark and hand their replicas over; return how many began to drain.

        Raises UnreadableRowsError.
        """
        held_keys = frozenset(
            key
            for key, record in gathered.records.items()
            if record.workload is not None and record.workload.is_handed_over
        )
        hand_over = HandOver(self.claims, tuple(replacement_ids), now, held_keys)
        requests = [DrainRequest(node, mark.reason) for node in nodes]
        moves = self.draining.begin_drains(requests, hand_over)
        if hand_over.placed:
            self.publisher.publish(
                list(placed_events(Committed(placed=hand_over.placed), gathered))
            )
        return len(moves.moved)

    def _release_unneeded(self, gathered: Gathered, now: datetime) -> None:
        """Give up replacements of nodes that stay: their command was abandoned. Room on launched ones is free."""
        unneeded = []
        for _, claim in sorted(gathered.claims.items()):
            replaced = [gathered.claims.get(claim_id) for claim_id in claim.replaces]
            stays = [
                old is not None and old.disruption is None and old.drain is None
                for old in replaced
            ]
            listed = now - claim.created_at >= _LISTED_WITHIN
            if not (listed and stays and all(stays)):
                continue
            if claim.state is ClaimState.PLANNED:
                unneeded.append(claim)
            elif claim.expected:
                save_claim(self.claims, claim, expecting_nothing)
        give_up(self.claims, unneeded, "the node that it should replace stays", now)

    def _fill_slots(
        self,
        record: ReservationRecord | None,
        waiting: Sequence[NodeClaim],
        now: datetime,
        carried: Carried,
    ) -> None:
        """Launch, of the replacements that wait for slots of one reservation, as many as there are free slots."""
        # The balance counts the leases over slots that are still in use; the slots themselves are what EC2 shows free.
        free = 0 if record is None else record.balance.free_units + len(waiting)
        ended = record is None or not record.reservation.is_active(now)
        filled = []
        for claim in waiting:
            old = self.claims.get_many(claim.replaces)
            in_use = any(node.is_live for node in old.values())
            late = (
                now
                - max((_left_at(node) for node in old.values()), default=claim.created_at)
                > UNIT_BACK_WITHIN
            )
            if free > 0 and not in_use and not ended:
                free -= 1
                filled += (
                    [] if (launchable := self._open(claim, now)) is None else [launchable]
                )
            elif ended or late:
                carried.abandoned += give_up(
                    self.claims, [claim], "its unit did not become free", now
                )
                self.queue.wake_planner(reason="unit did not become free")
            else:
                _note(carried, [claim], "waits until its unit is free")
        if filled:
            self.queue.send_launches(launch_batches(filled))
            carried.launched += len(filled)

    def _open(self, claim: NodeClaim, now: datetime) -> NodeClaim | None:
        """Let the claim be launched; its age and its launch deadline count from now. ``collect`` sends it again."""
        try:
            return save_claim(self.claims, claim, partial(_launchable, now))
        except ConflictError:
            return None  # it is fought over: the next pass looks again


def _replacements(node: NodeClaim, gathered: Gathered, now: datetime) -> list[NodeClaim]:
    """Return the replacements of a command that still may come to something, by id.

    One in a Capacity Block that has begun to drain is none, whether or not a sweep has drained it yet.
    """
    return [
        claim
        for _, claim in sorted(gathered.claims.items())
        if node.id in claim.replaces and claim.state in _COMING and claim.drain is None
        if claim.drain_at is None or now < claim.drain_at
    ]


def _no_longer_wanted(
    mark: DisruptionMark, nodes: Sequence[NodeClaim], gathered: Gathered
) -> str | None:
    """Say why nodes must not go after all: what runs there forbids it by now, or their pool was made again."""
    pools = {pool.name: pool for pool in gathered.snapshot.node_pools}
    for node in nodes:
        if node.is_warm:  # a free unit, whatever its pool says of its nodes
            continue
        pool = pools.get(node.node_pool_name)
        if pool is not None and mark.reason is DrainReason.NODE_POOL_DELETED:
            return f"NodePool {pool.name} exists again"
        marked = marked_reason(pool) if pool is not None else None
        if marked is not None:
            return marked
        bounded = pool is not None and pool.termination_grace_period_s is not None
        if mark.reason is DrainReason.DRIFT and bounded:
            continue
        placed = gathered.placed_terms.claim(node).placements
        protected = protected_reason(placed, gathered.snapshot.workloads)
        if protected is not None:
            return protected
    return None


def _no_longer_cheaper(
    mark: DisruptionMark,
    nodes: Sequence[NodeClaim],
    replacements: Sequence[NodeClaim],
    gathered: Gathered,
) -> str | None:
    """Return that consolidation would no longer save anything, or None.

    A replacement may have become something other than planned: its reservation may have ended, EC2 may have taken the
    old node into a reservation, and prices move. Where some nodes of the command have gone already, the others are not
    held back.
    """
    if mark.reason is not DrainReason.CONSOLIDATION or not replacements:
        return None
    if {node.id for node in nodes} != set(replacements[0].replaces):
        return None
    prices = NodePrices.of(gathered.snapshot.instance_types)
    before = sum(
        prices.today(node.offering, node.price_atto_usd_per_hour) for node in nodes
    )
    after = sum(
        prices.today(claim.offering, claim.price_atto_usd_per_hour)
        for claim in replacements
    )
    return None if after < before else "its replacements are no cheaper any more"


def _waiting_by_reservation(gathered: Gathered) -> Mapping[str, list[NodeClaim]]:
    """Return the replacements that wait for slots, oldest first."""
    waiting: dict[str, list[NodeClaim]] = {}
    for claim in sorted(
        gathered.claims.values(), key=lambda claim: (claim.created_at, claim.id)
    ):
        if (
            claim.waits_for_slot
            and claim.state is ClaimState.PLANNED
            and claim.lease is not None
        ):
            waiting.setdefault(claim.lease.reservation_id, []).append(claim)
    return waiting


def _left_at(node: NodeClaim) -> datetime:
    """Return when the node is gone, or should be by its drain's deadline."""
    if node.terminated_at is not None:
        return node.terminated_at
    if node.drain is not None:
        return node.drain.deadline
    return node.created_at if node.disruption is None else node.disruption.started_at


def _launchable(now: datetime, claim: NodeClaim) -> NodeClaim | None:
    if claim.state is not ClaimState.PLANNED or not claim.waits_for_slot:
        return None
    return replace(claim, waits_for_slot=False, created_at=now)


def _note(carried: Carried, nodes: Sequence[NodeClaim], text: str) -> None:
    carried.notes.update({node.id: text for node in nodes})
