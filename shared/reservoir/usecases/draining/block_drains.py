"""Draining Capacity Blocks before EC2 reclaims them (docs/architecture.md#how-a-node-drains)."""

from collections.abc import Collection, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import Final

from reservoir.core.model.capacity_reservation import BlockDrain, CapacityReservation
from reservoir.core.model.node_claim import ClaimState, DrainReason, NodeClaim
from reservoir.core.node_life.drain import block_drain
from reservoir.ports.discovery import ReservationReader
from reservoir.ports.errors import AwsError
from reservoir.ports.messaging import DrainTimers
from reservoir.ports.state import (
    ConflictError,
    NodeClaimStore,
    ReservationStore,
    WorkloadStore,
)
from reservoir.usecases.claims import unreadable
from reservoir.usecases.claims.checkpoints import checkpoint_periods_s
from reservoir.usecases.claims.claim_moves import save_claim
from reservoir.usecases.draining.draining import Draining, DrainRequest

_STEADY: Final = frozenset({ClaimState.LAUNCHED, ClaimState.RUNNING})
_IN_USE: Final = _STEADY | {ClaimState.DRAINING}
# When a drain starts within this time, the end date is read from EC2 again: an extension moves it without an event, and
# the last discovery may be a minute old.
_REREAD_WITHIN: Final = timedelta(minutes=2)


@dataclass(slots=True)
class BlockReport:
    """``due_ids``: claims whose drain was due. ``unread_count``: blocks near their end whose end EC2 would not say."""

    due_ids: frozenset[str] = frozenset()
    # how long after its time the latest of these drains began
    late: timedelta | None = None
    unread_count: int = 0


@dataclass(frozen=True, slots=True)
class BlockDrains:
    """Watches the ends of Capacity Blocks."""

    claims: NodeClaimStore
    workloads: WorkloadStore
    reservations: ReservationStore
    reader: ReservationReader
    timers: DrainTimers
    draining: Draining

    def run(self, claims: Collection[NodeClaim], now: datetime) -> BlockReport:
        """Start the drains that are due, then keep the others' times and timers right.

        Raises UnreadableRowsError for claims to be drained that cannot be read again.
        """
        by_block = _by_block(claims)
        report = BlockReport()
        if not by_block:
            return report
        in_blocks = list(chain.from_iterable(by_block.values()))
        periods = checkpoint_periods_s(
            in_blocks, self.workloads, self.draining.longest_notice
        )
        blocks = {
            block_id: block
            for block_id in by_block
            if (block := self._known(block_id)) is not None
        }
        near = {
            block_id
            for block_id, block in blocks.items()
            if _earliest(_drains(block, by_block[block_id], periods)) - now < _REREAD_WITHIN
        }
        ends = self._read_ends(near, report)
        drains = {}
        for block_id in sorted(blocks):
            block = replace(
                blocks[block_id], end_at=ends.get(block_id, blocks[block_id].end_at)
            )
            drains[block_id] = _drains(block, by_block[block_id], periods)
        known = chain.from_iterable(drains.values())
        begun = [
            (claim, drain)
            for claim, drain in known
            if drain.starts_at <= now and _is_sooner(drain, claim)
        ]
        due = [
            DrainRequest(claim, DrainReason.CAPACITY_BLOCK_ENDING, drain.deadline)
            for claim, drain in begun
        ]
        if due:  # nothing that could fail comes before this, of any block
            self.draining.begin_drains(due)
        for block_id, found in drains.items():
            self._watch(block_id, found, now, is_near=block_id in near)
        report.due_ids = frozenset(request.claim.id for request in due)
        report.late = max((now - drain.starts_at for _, drain in begun), default=None)
        return report

    def _read_ends(
        self, near: Set[str], report: BlockReport
    ) -> Mapping[str, datetime | None]:
        """Re-read the ends of blocks from EC2.

        Where EC2 does not answer, the end that was discovered a minute ago counts: a drain too many, of a block that
        was extended meanwhile, costs less than instances that are reclaimed without a word.
        """
        if not near:
            return {}
        try:
            return {
                shown.id: shown.end_at
                for shown in self.reader.list_visible()
                if shown.id in near
            }
        except AwsError:
            report.unread_count = len(near)
            return {}

    def _known(self, block_id: str) -> CapacityReservation | None:
        record = unreadable.reservation(self.reservations, block_id)
        if record is None or record.reservation.reclaim_at() is None:
            return None
        return record.reservation

    def _watch(
        self,
        block_id: str,
        drains: Sequence[tuple[NodeClaim, BlockDrain]],
        now: datetime,
        *,
        is_near: bool,
    ) -> None:
        steady = [(claim, drain) for claim, drain in drains if claim.state in _STEADY]
        later = [(claim, drain) for claim, drain in steady if drain.starts_at > now]
        moved = [(claim, drain) for claim, drain in later if not _knows(claim, drain)]
        # The block's one timer belongs to the next drain: set again when it has fired, or the end has moved; and once
        # more shortly before, because a launch sets it for its own claims and may not know of earlier ones.
        wants_timer = bool(later) and (bool(moved) or is_near or len(later) < len(steady))
        for claim, drain in moved:
            # a claim that changes this often is left to the next sweep
            with suppress(ConflictError):
                save_claim(self.claims, claim, partial(_with_block_drain, drain))
        if wants_timer:
            self.timers.set_timer(block_id, _earliest(later))


def _knows(claim: NodeClaim, drain: BlockDrain) -> bool:
    return (claim.drain_at, claim.drain_deadline) == (drain.starts_at, drain.deadline)


def _with_block_drain(drain: BlockDrain, claim: NodeClaim) -> NodeClaim | None:
    if claim.state not in _STEADY:
        return None
    return replace(claim, drain_at=drain.starts_at, drain_deadline=drain.deadline)


def _is_sooner(drain: BlockDrain, claim: NodeClaim) -> bool:
    """Whether the block's end changes the drain: the claim drains later than that, or not at all yet."""
    return claim.drain is None or drain.deadline < claim.drain.deadline


def _by_block(claims: Collection[NodeClaim]) -> Mapping[str, list[NodeClaim]]:
    """Group the claims that are in blocks; only those have a drain time.

    Claims that drain already are among them: the block's end may come before the deadline that they were given.
    """
    by_block: dict[str, list[NodeClaim]] = {}
    for claim in sorted(claims, key=lambda claim: claim.id):
        if (
            claim.drain_at is not None
            and claim.offering.reservation_id is not None
            and claim.state in _IN_USE
        ):
            by_block.setdefault(claim.offering.reservation_id, []).append(claim)
    return by_block


def _drains(
    block: CapacityReservation,
    claims: Sequence[NodeClaim],
    periods_s: Mapping[str, list[int]],
) -> list[tuple[NodeClaim, BlockDrain]]:
    found = [(claim, block_drain(block, periods_s.get(claim.id, ()))) for claim in claims]
    return [(claim, drain) for claim, drain in found if drain is not None]


def _earliest(drains: Sequence[tuple[NodeClaim, BlockDrain]]) -> datetime:
    return min(drain.starts_at for _, drain in drains)
