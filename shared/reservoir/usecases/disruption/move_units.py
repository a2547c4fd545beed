"""Moving free units between equal reservations, so that no unit is ever promised twice meanwhile.

::

    leased in the ledger -> EC2 moves them -> the lease settles -> an observation of the source contains the move

The lease keeps everybody of ours off the units from before EC2 is asked until EC2's own count of the source is certain
to have gone down. The destination's count goes up only when EC2 shows it. So for a minute the units are nobody's: that
idles them, and promises nothing. The leases are the intent, too: a pass that dies is continued by the next one, with
the same client token.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from reservoir.core.capacity.shortage import after_failure
from reservoir.core.capacity.unavailable_offerings import MoveKey, Remembered
from reservoir.core.disruption.unit_move import UnitMove
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.node_claim import NodeClaim
from reservoir.ports.ec2 import UnitMover
from reservoir.ports.errors import AwsError, TransientError
from reservoir.ports.launches import ShortageHistory
from reservoir.ports.state import ConflictError, NodeClaimStore, PlannedCommit
from reservoir.ports.system import IdFactory
from reservoir.usecases.claims.unit_leases import (
    ASKED_WITHIN,
    give_unit_back,
    is_unanswered,
    lease_unit,
    settle_unit,
)
from reservoir.usecases.disruption.split_units import is_split
from reservoir.usecases.lending.lend_units import is_lending

# each takes a call of its own, which keeps what a dead pass has left simple
_UNITS_A_PASS: Final = 20


@dataclass(slots=True)
class Moved:
    """The results of moves, in units.

    ``refused`` maps source reservations to EC2's code, ``resting`` to when EC2 is asked again after refusals.
    ``splitting``: units on their way into resource groups, which this use case does not move.
    """

    moved: int = 0
    dropped: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    resting: dict[str, datetime] = field(default_factory=dict)
    splitting: list[NodeClaim] = field(default_factory=list)
    lending: list[NodeClaim] = field(default_factory=list)  # units on their way to be lent


@dataclass(frozen=True, slots=True)
class MoveUnits:
    """Moves units."""

    claims: NodeClaimStore
    mover: UnitMover
    shortages: ShortageHistory
    ids: IdFactory

    def run(
        self,
        moves: Sequence[UnitMove],
        reservations: Mapping[str, CapacityReservation],
        now: datetime,
    ) -> Moved:
        """Continue the moves of earlier passes, then begin new ones; moves that are no longer needed are dropped.

        Between two reservations of which either gives or gets a unit already, nothing begins before EC2 shows that: it
        may be the very unit that is wanted. Raises ConflictError when other processes keep changing the claim of a
        moving unit, and UnreadableRowsError.
        """
        outcome = Moved()
        # First: anything that another pass begins after this conflicts with what this pass begins.
        turn = self.claims.turn() if moves else 0
        busy: set[str | None] = set()
        for lease in self.claims.list_moving():
            busy |= {lease.offering.reservation_id, lease.moves_to}
            if is_split(lease):
                outcome.splitting.append(lease)
            elif is_lending(lease):
                outcome.lending.append(lease)
            elif is_unanswered(lease):
                self._ask(lease, now, outcome)
        resting = self._resting(moves, now)
        for move in moves:
            until = resting.get(MoveKey(move.source_id, move.destination_id))
            if until is not None:
                outcome.resting[move.source_id] = until
                continue
            if {move.source_id, move.destination_id} & busy:
                outcome.dropped += move.count
                continue
            for _ in range(min(move.count, _UNITS_A_PASS - outcome.moved)):
                lease = self._lease(move, reservations[move.source_id], now)
                if not self._begun(lease, turn, now, outcome):
                    break
                turn += 1
        return outcome

    def _resting(
        self, moves: Sequence[UnitMove], now: datetime
    ) -> Mapping[Remembered, datetime]:
        """Return the moves that EC2 refused lately, with when it is asked again: later each time."""
        keys = {MoveKey(move.source_id, move.destination_id) for move in moves}
        known = self.shortages.get_many(keys) if keys else {}
        return {key: refusal.until for key, refusal in known.items() if now < refusal.until}

    def _begun(self, lease: NodeClaim, turn: int, now: datetime, outcome: Moved) -> bool:
        try:
            self.claims.commit(PlannedCommit(claims=(lease,), turn=turn))
        except ConflictError:
            outcome.dropped += 1
            return False
        self._ask(lease, now, outcome)
        return lease.offering.reservation_id not in outcome.refused

    def _lease(
        self, move: UnitMove, source: CapacityReservation, now: datetime
    ) -> NodeClaim:
        fate = f"moves to {move.destination_id}: {move.explanation}"
        return lease_unit(self.ids.new_id("mv"), source, move.destination_id, fate, now)

    def _ask(self, claim: NodeClaim, now: datetime, outcome: Moved) -> None:
        lease, destination_id = claim.lease, claim.moves_to
        if lease is None or destination_id is None:
            return
        if now - claim.created_at <= ASKED_WITHIN:
            try:
                self.mover.move(lease.reservation_id, destination_id, 1, claim.id)
            except TransientError:
                return  # the next pass asks again
            except AwsError as error:
                outcome.refused[lease.reservation_id] = error.code
                key = MoveKey(lease.reservation_id, destination_id)
                self.shortages.put(
                    {key: after_failure(self.shortages.get_many([key]).get(key), now)}
                )
                give_unit_back(self.claims, claim, now)
                return
        # EC2 was asked for so long ago that no answer is to be had: the unit may have moved or not, and the source's
        # count will show it.
        settle_unit(self.claims, claim, now)
        outcome.moved += 1
