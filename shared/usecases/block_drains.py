"""Draining Capacity Blocks before EC2 reclaims them (DESIGN section 6)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from shared.core.capacity_reservation import CapacityReservation
from shared.core.drain import BlockDrain, block_drain
from shared.core.node_claim import ClaimState, DrainReason, NodeClaim
from shared.ports.discovery import ReservationReader
from shared.ports.messaging import DrainTimers
from shared.ports.state import NodeClaimStore, ReservationStore, WorkloadStore
from shared.usecases.checkpoints import checkpoint_periods_s
from shared.usecases.claim_moves import save_claim
from shared.usecases.draining import Draining, DrainWish

_DRAINABLE: Final = frozenset({ClaimState.LAUNCHED, ClaimState.RUNNING})
# Within this of a drain's start the end date is re-read from EC2: extensions move it without an event, and what was
# discovered may be a minute old.
_REREAD_WITHIN: Final = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class BlockDrains:
    """Watches the ends of Capacity Blocks."""

    claims: NodeClaimStore
    workloads: WorkloadStore
    reservations: ReservationStore
    reader: ReservationReader
    timers: DrainTimers
    draining: Draining

    def run(self, claims: Collection[NodeClaim], now: datetime) -> frozenset[str]:
        """Start the drains that are due, keep the others' times and timers right; return the ids of the due claims."""
        by_block = _by_block(claims)
        if not by_block:
            return frozenset()
        periods = checkpoint_periods_s([claim for group in by_block.values() for claim in group], self.workloads)
        blocks = {block_id: block for block_id in by_block if (block := self._known(block_id)) is not None}
        near = set()
        for block_id, block in blocks.items():
            if _earliest(_drains(block, by_block[block_id], periods)) - now < _REREAD_WITHIN:
                near.add(block_id)
        if near:
            for shown in self.reader.list_visible():
                if shown.id in near:
                    blocks[shown.id] = replace(blocks[shown.id], end_at=shown.end_at)
        due: set[str] = set()
        for block_id in sorted(blocks):
            due |= self._watch(blocks[block_id], _drains(blocks[block_id], by_block[block_id], periods), now)
        return frozenset(due)

    def _known(self, block_id: str) -> CapacityReservation | None:
        record = self.reservations.get(block_id)
        if record is None or record.reservation.reclaim_at() is None:
            return None
        return record.reservation

    def _watch(
        self, block: CapacityReservation, drains: Sequence[tuple[NodeClaim, BlockDrain]], now: datetime
    ) -> set[str]:
        due = [(claim, drain) for claim, drain in drains if drain.starts_at <= now]
        later = [(claim, drain) for claim, drain in drains if drain.starts_at > now]
        moved = [(claim, drain) for claim, drain in later if claim.drain_at != drain.starts_at]
        # The block's one timer belongs to the next drain: set again when it has fired, or the end has moved.
        if later and (due or moved):
            self.timers.set_timer(block.id, _earliest(later))
        for claim, drain in moved:
            save_claim(self.claims, claim, partial(_with_drain_at, drain.starts_at))
        if due:
            ending = DrainReason.CAPACITY_BLOCK_ENDING
            self.draining.begin_drains([DrainWish(claim, ending, drain.deadline) for claim, drain in due], now)
        return {claim.id for claim, _ in due}


def _with_drain_at(drain_at: datetime, claim: NodeClaim) -> NodeClaim | None:
    return replace(claim, drain_at=drain_at) if claim.state in _DRAINABLE else None


def _by_block(claims: Collection[NodeClaim]) -> Mapping[str, list[NodeClaim]]:
    """Group the claims that are in blocks; only those have a drain time, and a started drain goes by its deadline."""
    by_block: dict[str, list[NodeClaim]] = {}
    for claim in sorted(claims, key=lambda claim: claim.id):
        if claim.drain_at is not None and claim.offering.reservation_id is not None and claim.state in _DRAINABLE:
            by_block.setdefault(claim.offering.reservation_id, []).append(claim)
    return by_block


def _drains(
    block: CapacityReservation, claims: Sequence[NodeClaim], periods_s: Mapping[str, list[int]]
) -> list[tuple[NodeClaim, BlockDrain]]:
    found = [(claim, block_drain(block, periods_s[claim.id])) for claim in claims]
    return [(claim, drain) for claim, drain in found if drain is not None]


def _earliest(drains: Sequence[tuple[NodeClaim, BlockDrain]]) -> datetime:
    return min(drain.starts_at for _, drain in drains)
