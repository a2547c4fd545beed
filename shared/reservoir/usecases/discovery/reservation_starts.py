"""Reservations that begin, seen at that moment, whether or not EC2's event arrives.

Discovery sets a timer at the start of every future reservation that it knows. The timer calls this use case, as each
minute's sweep does. EC2 may be some seconds late, so the timer is then set again: soon at first, later less often. The
sweep also has another service call for reservations that begin before the next sweep, because timers may be late or
lost.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.model.capacity_reservation import ACTIVE, UPCOMING_STATES
from reservoir.ports.discovery import ReservationReader
from reservoir.ports.messaging import StartTimers, WorkQueue
from reservoir.ports.state import ReservationRecord, ReservationStore
from reservoir.usecases.discovery.observe_reservation import ReservationObserver

# and, from then on, after as long again as it is late
_ASK_AGAIN_AFTER: Final = timedelta(seconds=3)
# One that is later than this is delayed; each minute's discovery will find it.
_EXPECTED_WITHIN: Final = timedelta(minutes=5)
# What begins before the next sweep, or soon after that: sweeps are not on time to the second.
NEAR: Final = timedelta(seconds=75)


@dataclass(frozen=True, slots=True)
class ReservationStarts:
    """Looks for reservations whose time has come. ``timers`` are set again while EC2 is late."""

    reservations: ReservationStore
    reader: ReservationReader
    observer: ReservationObserver
    timers: StartTimers
    queue: WorkQueue

    def sweep(self, now: datetime, near: StartTimers) -> int:
        """Observe what should have begun, and set ``near`` for what begins soon; return how many offer more now.

        Raises AwsError, and UnreadableRowsError when a row became unreadable meanwhile.
        """
        records = self.reservations.list_current()
        begun = self._observe(records, now)
        for record in records:
            start_at = record.reservation.start_at
            if (
                record.reservation.is_upcoming(now)
                and start_at is not None
                and now < start_at <= now + NEAR
            ):
                near.set_start_timer(record.reservation.id, start_at)
        return begun

    def run(self, now: datetime, ids: Collection[str]) -> int:
        """Observe those of these reservations that should have begun; return how many offer more now.

        Raises AwsError, and UnreadableRowsError when one of them cannot be read.
        """
        found = [self.reservations.get(reservation_id) for reservation_id in sorted(ids)]
        return self._observe([record for record in found if record is not None], now)

    def _observe(self, records: Sequence[ReservationRecord], now: datetime) -> int:
        """Observe what should have begun; wake the planner if anything has."""
        due = {
            record.reservation.id: (record, late_by)
            for record in records
            if (late_by := _late_by(record, now)) is not None
        }
        if not due:
            return 0
        opened = 0
        for shown in self.reader.list_visible():
            if shown.id not in due:
                continue
            before, late_by = due[shown.id]
            if shown.state != ACTIVE:
                self.timers.set_start_timer(shown.id, now + max(_ASK_AGAIN_AFTER, late_by))
                continue
            opened += self.observer.observe_again(before, shown, now)
        if opened:
            self.queue.wake_planner(reason="reservation started")
        return opened


def _late_by(record: ReservationRecord, now: datetime) -> timedelta | None:
    """Return for how long it should have begun, None when it is not expected at ``now``."""
    start_at = record.reservation.start_at
    if record.reservation.state not in UPCOMING_STATES or start_at is None:
        return None
    return now - start_at if timedelta() <= now - start_at <= _EXPECTED_WITHIN else None
