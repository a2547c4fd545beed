"""Reservations that begin: seen the moment they do, whether or not EC2's event arrives.

Discovery sets a timer at the start of every reservation that it knows to come. The timer, like each minute's sweep,
asks here; EC2 may be some seconds late, so the timer is then set again: soon at first, later less often.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from shared.core.model.capacity_reservation import ACTIVE, UPCOMING_STATES
from shared.ports.discovery import ReservationReader
from shared.ports.messaging import DrainTimers, WorkQueue
from shared.ports.state import ReservationRecord, ReservationStore
from shared.usecases.discovery.observe_reservation import ReservationObserver

_ASK_AGAIN_AFTER: Final = timedelta(seconds=3)  # and, from then on, after as long again as it is late
# One that is later than this is delayed; each minute's discovery will find it.
_EXPECTED_WITHIN: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class ReservationStarts:
    """Looks for reservations whose time has come."""

    reservations: ReservationStore
    reader: ReservationReader
    observer: ReservationObserver
    timers: DrainTimers
    queue: WorkQueue

    def run(self, now: datetime, only_id: str | None = None) -> int:
        """Observe what should have begun (``only_id``: if it is that one); wake the planner if anything has.

        Raises AwsError.
        """
        due = {
            record.reservation.id: (record, late_by)
            for record in self._records(only_id)
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

    def _records(self, only_id: str | None) -> Sequence[ReservationRecord]:
        if only_id is None:
            return self.reservations.list_current()
        record = self.reservations.get(only_id)
        return () if record is None else (record,)


def _late_by(record: ReservationRecord, now: datetime) -> timedelta | None:
    """Return for how long it should have begun, None when it is not expected at ``now``."""
    start_at = record.reservation.start_at
    if record.reservation.state not in UPCOMING_STATES or start_at is None:
        return None
    return now - start_at if timedelta() <= now - start_at <= _EXPECTED_WITHIN else None
