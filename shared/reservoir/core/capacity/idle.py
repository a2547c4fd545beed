"""Reserved units without nodes: since when, and when to publish it. They are paid for all the same."""

from datetime import datetime, timedelta
from typing import Final

from reservoir.core.model.capacity_reservation import ObservedReservation

# Shorter gaps are the ordinary turnover of work.
IDLE_AFTER: Final = timedelta(minutes=30)
SAID_EVERY: Final = timedelta(days=1)


def idle_since(
    previous: datetime | None,
    reservation: ObservedReservation,
    free_units: int,
    observed_at: datetime,
) -> datetime | None:
    """Return when the present unbroken stretch with a free unit began; None if no unit is free."""
    if free_units <= 0 or not reservation.is_active(observed_at):
        return None
    return previous or observed_at


def is_to_be_published(since: datetime, said_at: datetime | None, now: datetime) -> bool:
    """Whether it is time to say that units lie idle: once in each idle time, and daily while it lasts."""
    if now - since < IDLE_AFTER:
        return False
    return said_at is None or said_at < since or now - said_at >= SAID_EVERY
