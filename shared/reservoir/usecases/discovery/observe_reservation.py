"""One observation of one reservation: the facts, and the leases whose launches they are certain to contain."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from reservoir.core.capacity.ledger import is_absorbed_by
from reservoir.core.capacity.reservation_changes import change_kinds
from reservoir.core.model.capacity_reservation import ObservedReservation
from reservoir.core.model.node_claim import NodeClaim
from reservoir.manifests.events import ReservationChanged
from reservoir.ports.errors import AwsError
from reservoir.ports.messaging import EventPublisher
from reservoir.ports.state import (
    ConflictError,
    NodeClaimStore,
    ReservationRecord,
    ReservationStore,
)
from reservoir.usecases.claims.announce import reservation_changed

# Each lost race leaves out the claims that lost it; the last attempt closes no lease at all.
_ATTEMPTS_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class ReservationChange:
    """A reservation before and after an observation."""

    before: ReservationRecord | None
    after: ReservationRecord
    absorbed_count: int

    @property
    def is_written(self) -> bool:
        """Whether the observation changed anything."""
        return self.before != self.after

    def opened(self, now: datetime) -> bool:
        """Whether it offers more than before."""
        if not self.after.reservation.is_active(now) or self.after.balance.free_units <= 0:
            return False
        if self.before is None or not self.before.reservation.is_active(
            self.before.observed_at
        ):
            return True
        return self.after.balance.free_units > self.before.balance.free_units

    @property
    def was_exhausted(self) -> bool:
        """Whether EC2 shows that the last free units have gone.

        Units that we promised were published as gone at that time.
        """
        # a reservation that has ended is not full
        is_usable = self.after.reservation.is_active(self.after.observed_at)
        was_free = self.before is not None and self.before.balance.free_units > 0
        return is_usable and was_free and self.after.balance.available_count <= 0


@dataclass(frozen=True, slots=True)
class ReservationObserver:
    """Saves observations."""

    reservations: ReservationStore
    node_claims: NodeClaimStore
    publisher: EventPublisher

    def observe(
        self,
        before: ReservationRecord | None,
        reservation: ObservedReservation,
        observed_at: datetime,
    ) -> ReservationChange | None:
        """Save an observation with the leases that it contains.

        Claims that move on meanwhile keep their leases until the next observation, rather than holding the facts and
        the other leases back: a lease that stays open too long leaves a unit idle for a minute, and promises nothing
        twice. Raises UnreadableRowsError when the row became unreadable meanwhile.
        """
        absorbed = self._absorbable(before, observed_at)
        # The claims replace a row that was lost: the units that they hold stay promised.
        outstanding_count = (
            len(self.node_claims.list_leased(reservation.id)) if before is None else 0
        )
        for attempt in range(_ATTEMPTS_MAX):
            try:
                after = self.reservations.save_observation(
                    reservation,
                    observed_at=observed_at,
                    absorbed=absorbed,
                    expected=before,
                    outstanding_count=outstanding_count,
                )
            except ConflictError as error:
                moved = frozenset(error.rows)
                last = attempt == _ATTEMPTS_MAX - 2
                absorbed = (
                    ()
                    if last
                    else tuple(claim for claim in absorbed if claim.id not in moved)
                )
                continue
            return ReservationChange(before, after, len(absorbed))
        return None  # another discovery saved it first

    def observe_again(
        self, before: ReservationRecord, shown: ObservedReservation, observed_at: datetime
    ) -> bool:
        """Save what EC2 shows now of a known reservation; return whether it offers more units than before.

        Its changes are published first. Only discovery reads the groups of a reservation and its network nodes, so
        they are kept. Raises UnreadableRowsError as :meth:`observe` does, and AwsError.
        """
        placed = with_known_network(before.reservation, shown)
        facts = replace(placed, resource_group_arns=before.reservation.resource_group_arns)
        try:
            self.publisher.publish(news_of([(before, shown)], observed_at))
        except AwsError:  # the row can be saved without the bus
            self.observe(before, facts, observed_at)
            raise
        change = self.observe(before, facts, observed_at)
        return change is not None and change.opened(observed_at)

    def _absorbable(
        self, before: ReservationRecord | None, observed_at: datetime
    ) -> tuple[NodeClaim, ...]:
        if before is None or before.balance.outstanding_count == 0:
            return ()
        leased = self.node_claims.list_leased(before.reservation.id)
        return tuple(
            claim
            for claim in leased
            if claim.lease is not None and is_absorbed_by(claim.lease, observed_at)
        )


def with_known_network(
    before: ObservedReservation | None, shown: ObservedReservation
) -> ObservedReservation:
    """Return what EC2 shows of a reservation, with the network nodes that were known of it."""
    known = () if before is None else before.network_nodes
    return shown if shown.network_nodes else replace(shown, network_nodes=known)


def news_of(
    seen: Iterable[tuple[ReservationRecord | None, ObservedReservation]],
    observed_at: datetime,
) -> list[ReservationChanged]:
    """Return the events about changes between the stored and the seen state of reservations.

    They are published before the state is saved: a run that dies in between publishes them again. A state stored later
    is newer.
    """
    told = []
    for before, shown in seen:
        known = None if before is None else before.reservation
        is_newer = before is None or before.observed_at < observed_at
        kinds = change_kinds(known, shown, observed_at) if is_newer else ()
        if kinds:
            told.append(reservation_changed(known, shown, kinds))
    return told
