"""Splitting units off for nodes that EC2 moves into them, and giving them back, so that none is ever promised twice.

::

    leased in the ledger -> EC2 splits it off, tagged -> the lease settles -> an observation of the source contains it
    what was split off joins its group -> EC2 moves a node in, minutes later -> observation finds the node reserved
    it lies free again, or too long: its unit moves back, and EC2 cancels what is empty

The lease is the intent: a pass that dies is continued by the next, with the same client token. What was split off is
found by its tags, also if no answer ever came. Nothing is launched into it, so its own free unit is nobody's: it is
counted nowhere until it is back, and then where EC2 shows it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.capacity.shortage import after_failure
from reservoir.core.capacity.unavailable_offerings import MoveKey
from reservoir.core.disruption.unit_split import UnitSplit
from reservoir.core.model.capacity_reservation import ACTIVE, CapacityReservation
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.plan import OfferingKey
from reservoir.names import OWNER_TAG, SPLIT_AT_TAG, SPLIT_FROM_TAG, SPLIT_GROUP_TAG
from reservoir.ports.ec2 import UnitMover, UnitSplitter
from reservoir.ports.errors import AwsError, IdempotencyMismatchError, TransientError
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

# How long EC2 has for moving a node in, which AWS gives no figure for; then the unit goes back.
MOVED_IN_WITHIN: Final = timedelta(minutes=15)
_OF_AWS: Final = "aws:"


@dataclass(slots=True)
class Split:
    """The results for units: split off, given back, or not, because another pass was faster (``dropped``).

    ``refused`` maps reservations to EC2's code.
    """

    split_off: int = 0
    given_back: int = 0
    dropped: int = 0
    refused: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SplitUnits:
    """Splits units off and gives them back."""

    claims: NodeClaimStore
    splitter: UnitSplitter
    mover: UnitMover
    shortages: ShortageHistory
    ids: IdFactory
    deployment: str

    def under_way(self) -> tuple[NodeClaim, ...]:
        """Return the leases of units that are being split off; may lag."""
        return tuple(lease for lease in self.claims.list_moving() if is_split(lease))

    def run(
        self,
        splits: Sequence[UnitSplit],
        reservations: Mapping[str, CapacityReservation],
        now: datetime,
        begun: Sequence[NodeClaim] = (),
    ) -> Split:
        """Continue what earlier passes have begun, then begin new splits; splits that are no longer needed are dropped.

        ``begun``: the splits that were in progress when the pass read them; they are read again before anything begins.
        Raises ConflictError when other processes keep changing a lease, and UnreadableRowsError.
        """
        outcome = Split()
        for reservation in reservations.values():
            if reservation.tags.get(OWNER_TAG) == self.deployment:
                self._tend(reservation, reservations, now, outcome)
        # First: anything that another pass begins after this conflicts with what this pass begins.
        turn = self.claims.turn() if splits else 0
        busy: set[tuple[str | None, str, str]] = set()
        for lease in self.under_way() if splits else begun:
            busy.add(_kind(lease.moves_to, lease.offering))
            if is_unanswered(lease):
                self._ask(lease, reservations, now, outcome)
        for split in splits:
            source = reservations.get(split.source_id)
            if source is None or self._rests(split, now):
                outcome.dropped += 1
                continue
            lease = self._lease(split, source, now)
            if _kind(lease.moves_to, lease.offering) in busy:
                outcome.dropped += 1
                continue
            try:
                self.claims.commit(PlannedCommit(claims=(lease,), turn=turn))
            except ConflictError:
                outcome.dropped += 1
                continue
            turn += 1
            self._ask(lease, reservations, now, outcome)
        return outcome

    def _rests(self, split: UnitSplit, now: datetime) -> bool:
        """Whether EC2 refused such a split lately: it is asked again later each time."""
        return self._is_resting(MoveKey(split.source_id, split.group_arn), now)

    def _is_resting(self, key: MoveKey, now: datetime) -> bool:
        known = self.shortages.get_many([key]).get(key)
        return known is not None and now < known.until

    def _remember(self, key: MoveKey, now: datetime) -> None:
        known = self.shortages.get_many([key]).get(key)
        self.shortages.put({key: after_failure(known, now)})

    def _lease(
        self, split: UnitSplit, source: CapacityReservation, now: datetime
    ) -> NodeClaim:
        fate = f"is split off: {split.explanation}"
        return lease_unit(self.ids.new_id("sp"), source, split.group_arn, fate, now)

    def _ask(
        self,
        lease: NodeClaim,
        reservations: Mapping[str, CapacityReservation],
        now: datetime,
        outcome: Split,
    ) -> None:
        source_id, group_arn = lease.offering.reservation_id, lease.moves_to
        source = reservations.get(source_id or "")
        if source_id is None or group_arn is None:
            return
        made = None
        if now - lease.created_at <= ASKED_WITHIN and source is not None:
            tags = self._tags(lease, source, group_arn)
            try:
                made = self.splitter.split(source_id, tags, lease.id)
            except IdempotencyMismatchError:
                pass  # its tags were others when it was asked first: it was split off then
            except TransientError:
                return  # the next pass asks again
            except AwsError as error:
                outcome.refused[source_id] = error.code
                self._remember(MoveKey(source_id, group_arn), now)
                give_unit_back(self.claims, lease, now)
                return
        # EC2 was asked for so long ago that no answer is to be had: the unit may be split off or not, and the source's
        # count will show it.
        settle_unit(self.claims, lease, now)
        outcome.split_off += 1
        if made is not None:
            self._join(made, group_arn, now, outcome)

    def _tags(
        self, lease: NodeClaim, source: CapacityReservation, group_arn: str
    ) -> dict[str, str]:
        """Return the source's tags, by which classes select it, and the tags of its owner; equal for each attempt."""
        own = {
            key: value
            for key, value in source.tags.items()
            if not key.lower().startswith(_OF_AWS)
        }
        return own | {
            OWNER_TAG: self.deployment,
            SPLIT_FROM_TAG: source.id,
            SPLIT_GROUP_TAG: group_arn,
            SPLIT_AT_TAG: lease.created_at.isoformat(),
        }

    def _tend(
        self,
        reservation: CapacityReservation,
        reservations: Mapping[str, CapacityReservation],
        now: datetime,
        outcome: Split,
    ) -> None:
        """See that a reservation that was split off is in its group, or give its unit back once it is not needed."""
        group_arn = reservation.tags.get(SPLIT_GROUP_TAG)
        source_id = reservation.split_from
        at = _moment(reservation.tags.get(SPLIT_AT_TAG, ""))
        is_free = reservation.state == ACTIVE and reservation.available_count > 0
        if group_arn is None or source_id is None or reservation.stale or not is_free:
            return
        if at is not None and now - at < MOVED_IN_WITHIN:
            if group_arn not in reservation.resource_group_arns:
                self._join(reservation.id, group_arn, now, outcome)
            return
        source = reservations.get(source_id)
        if source is None or source.state != ACTIVE:
            return  # the pass that ended it decides about the rest, too
        self._give_back(reservation, source_id, now, outcome)

    def _join(
        self, reservation_id: str, group_arn: str, now: datetime, outcome: Split
    ) -> None:
        key = MoveKey(reservation_id, group_arn)
        if self._is_resting(key, now):
            return
        try:
            self.splitter.join(reservation_id, group_arn)
        except TransientError:
            return  # the next pass asks again
        except AwsError as error:
            outcome.refused[reservation_id] = error.code
            self._remember(key, now)

    def _give_back(
        self,
        reservation: CapacityReservation,
        source_id: str,
        now: datetime,
        outcome: Split,
    ) -> None:
        """Move its units back; emptied, it is cancelled by EC2. A node that EC2 moves in just now makes EC2 refuse."""
        key = MoveKey(reservation.id, source_id)
        if self._is_resting(key, now):
            return
        count = reservation.available_count
        token = f"{reservation.id}-back-{count}-of-{reservation.total_count}"
        try:
            self.mover.move(reservation.id, source_id, count, token)
        except TransientError:
            return  # the next pass asks again
        except AwsError as error:
            outcome.refused[reservation.id] = error.code
            self._remember(key, now)
            return
        outcome.given_back += count


def is_split(lease: NodeClaim) -> bool:
    """Whether a unit on its way goes into a resource group, and not into another reservation."""
    return (lease.moves_to or "").startswith("arn:")


def _kind(group_arn: str | None, offering: OfferingKey) -> tuple[str | None, str, str]:
    return group_arn, offering.instance_type, offering.zone_id


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
