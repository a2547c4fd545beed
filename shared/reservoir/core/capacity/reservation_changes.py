"""How a reservation changed between two observations, for the people who pay for it.

Only what EC2 itself shows counts. The number of units in use changes all the time, and is not reported.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from reservoir.core.model.capacity_reservation import (
    ACTIVE,
    CANCELLED,
    CANCELLING,
    ENDED_STATES,
    GONE,
    ObservedReservation,
)


class ReservationChangeKind(StrEnum):
    """What happened to a reservation."""

    # bought or made, shared with the account, or selected by a class for the first time
    APPEARED = "appeared"
    BEGAN = "began"
    RESIZED = "resized"
    EXTENDED = "extended"  # it ends later, or not at all any more
    SHORTENED = "shortened"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    FAILED = "failed"  # it was not paid, or EC2 cannot deliver it
    # EC2 lists it no more although it had not ended: its owner shares it no more
    UNSHARED = "unshared"
    STATE_CHANGED = "state-changed"  # on its way to its beginning: paid, assessed, delayed


@dataclass(frozen=True, slots=True)
class ChangedField:
    """A fact of a reservation before and after. None: there was none, or is none any more."""

    field: str
    old: str | None
    new: str | None


_OF_STATE = {
    ACTIVE: ReservationChangeKind.BEGAN,
    CANCELLED: ReservationChangeKind.CANCELLED,
    CANCELLING: ReservationChangeKind.CANCELLED,
    "expired": ReservationChangeKind.EXPIRED,
    "failed": ReservationChangeKind.FAILED,
    "payment-failed": ReservationChangeKind.FAILED,
    "unsupported": ReservationChangeKind.FAILED,
}


def change_kinds(
    before: ObservedReservation | None, after: ObservedReservation, now: datetime
) -> tuple[ReservationChangeKind, ...]:
    """Return the kinds of changes, in order; none for changes that are not reported."""
    if before is None:
        return (ReservationChangeKind.APPEARED,)
    if before.state in ENDED_STATES:
        return ()
    return tuple(
        sorted(set(_kinds(before, after, now)), key=list(ReservationChangeKind).index)
    )


def changed_fields(
    before: ObservedReservation | None, after: ObservedReservation
) -> tuple[ChangedField, ...]:
    """Return the facts that differ, by name; of a new reservation, all facts."""
    old = {} if before is None else _facts(before)
    new = _facts(after)
    return tuple(
        ChangedField(name, old.get(name), new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    )


# Branches: one fact after the other.
def _kinds(
    before: ObservedReservation, after: ObservedReservation, now: datetime
) -> Iterator[ReservationChangeKind]:
    if after.state == GONE:
        is_over = after.end_at is not None and after.end_at <= now
        yield ReservationChangeKind.EXPIRED if is_over else ReservationChangeKind.UNSHARED
        return
    if (before.state, after.state) == (CANCELLING, CANCELLED):
        # the cancellation was reported when it began; now the commitment is paid
        yield ReservationChangeKind.STATE_CHANGED
    elif after.state != before.state:
        yield _OF_STATE.get(after.state, ReservationChangeKind.STATE_CHANGED)
    if after.state in ENDED_STATES:
        return
    if before.size and after.size != before.size:
        yield ReservationChangeKind.RESIZED
    if after.end_at != before.end_at:
        is_later = after.end_at is None or (
            before.end_at is not None and after.end_at > before.end_at
        )
        yield (
            ReservationChangeKind.EXTENDED if is_later else ReservationChangeKind.SHORTENED
        )


def _facts(reservation: ObservedReservation) -> dict[str, str]:
    facts = {
        "state": reservation.state,
        "size": str(reservation.size),
        "startAt": _text(reservation.start_at),
        "endAt": _text(reservation.end_at),
    }
    return {name: fact for name, fact in facts.items() if fact}


def _text(at: datetime | None) -> str:
    return "" if at is None else f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
