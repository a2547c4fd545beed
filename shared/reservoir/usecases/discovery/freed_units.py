"""Units that instances have just left: their reservations are read again at once instead of at the next minute."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from reservoir.ports.discovery import ReservationReader
from reservoir.ports.errors import AwsError
from reservoir.ports.messaging import WorkQueue
from reservoir.ports.state import ReservationStore
from reservoir.usecases.claims import unreadable
from reservoir.usecases.discovery.observe_reservation import ReservationObserver


@dataclass(frozen=True, slots=True)
class FreedUnits:
    """Observes reservations whose instances ended."""

    reader: ReservationReader
    reservations: ReservationStore
    observer: ReservationObserver
    queue: WorkQueue

    def observe(self, reservation_ids: Collection[str], now: datetime) -> int:
        """Read the reservations and wake the planner if one has more free units; return how many have.

        A hint only: a unit of a block that EC2 still scrubs, or a count that lags, is found by the minute's discovery,
        and so is everything when EC2 does not answer. Raises UnreadableRowsError when a row became unreadable
        meanwhile.
        """
        records = [
            record
            for key in sorted(reservation_ids)
            if (record := unreadable.reservation(self.reservations, key)) is not None
        ]
        if not records:
            return 0
        try:
            visible = {
                reservation.id: reservation for reservation in self.reader.list_visible()
            }
        except AwsError:
            return 0
        opened = 0
        for before in records:
            shown = visible.get(before.reservation.id)
            opened += shown is not None and self.observer.observe_again(before, shown, now)
        if opened:
            self.queue.wake_planner(reason="reserved units are free again")
        return opened
