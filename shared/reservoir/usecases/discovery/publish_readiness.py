"""Warns of what would make the first launch into a reservation fail, while there is time to fix it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from reservoir.core.launching.start_readiness import is_near, is_news, notice_key
from reservoir.ports.messaging import EventPublisher
from reservoir.ports.policy import PolicyStore
from reservoir.ports.state import OfferingStore, ReservationRecord, ReservationStore
from reservoir.usecases.claims.announce import reservation_readiness
from reservoir.usecases.policy.start_readiness import missing_for_starts


@dataclass(frozen=True, slots=True)
class PublishReadiness:
    """Looks at the reservations that begin within a day. Where none does, it reads nothing."""

    policy: PolicyStore
    offerings: OfferingStore
    reservations: ReservationStore
    publisher: EventPublisher

    def publish(self, records: Sequence[ReservationRecord], now: datetime) -> int:
        """Publish what has newly been found missing; return for how many reservations.

        Raises AwsError and UnreadableRowsError.
        """
        said = {
            record.reservation.id: record.readiness_said
            for record in records
            if is_near(record.reservation, now)
        }
        if not said:
            return 0
        near = [record.reservation for record in records if record.reservation.id in said]
        found = missing_for_starts(near, self.policy.list_all(), self.offerings, now)
        news = {
            key: notice
            for key, (reservation, problems) in found.items()
            if is_news(notice := notice_key(reservation, problems, now), said[key])
        }
        if not news:
            return 0
        self.publisher.publish([reservation_readiness(*found[key]) for key in news])
        # Afterwards: a run that dies in between publishes it again.
        self.reservations.mark_readiness_said(news)
        return sum(bool(found[key][1]) for key in news)
