"""Which reservation follows when another ends: it is named by a tag, or is of the same kind.

Policy selects reservations by tags. So the same policy continues with a reservation of the same type, kind and owner's
tags under another id, if that ends later and has begun, or will begin, within two weeks of the end.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.model.capacity_reservation import ENDED_STATES, ObservedReservation

# of the successor: the id of the reservation before it
SUCCEEDS_TAG: Final = "reservoir:succeeds"
NOTICE_DAYS: Final = (14, 7, 1)  # before the end of a reservation
_WITHIN: Final = timedelta(days=14)
_NOT_OF_THE_OWNER: Final = ("aws:", "reservoir:")


def successors(
    reservations: Iterable[ObservedReservation],
) -> Mapping[str, ObservedReservation]:
    """Return, by the id of a reservation that ends, the one that goes on for it; of several, the first to begin."""
    living = [each for each in reservations if each.state not in ENDED_STATES]
    known = sorted(living, key=lambda each: (_begins(each), each.id))
    following = {ending.id: _following(ending, known) for ending in known}
    return {key: each for key, each in following.items() if each is not None}


def _following(
    ending: ObservedReservation, known: Sequence[ObservedReservation]
) -> ObservedReservation | None:
    if ending.end_at is None:
        return None
    named = [each for each in known if each.tags.get(SUCCEEDS_TAG) == ending.id]
    alike = [each for each in known if _goes_on_for(each, ending)]
    return next(iter(named or alike), None)


def due_notice(
    reservation: ObservedReservation, said: str | None, now: datetime
) -> int | None:
    """Return how many days before its end a notice about a reservation is due now, None when none is.

    ``said`` is the key (:func:`notice_key`) of the last notice. An end that is known late, or was moved, is published
    as soon as it is known; of several due notices, only the last is.
    """
    if (
        reservation.end_at is None
        or reservation.state in ENDED_STATES
        or reservation.end_at <= now
    ):
        return None
    due = [days for days in NOTICE_DAYS if reservation.end_at - now <= timedelta(days=days)]
    return due[-1] if due and notice_key(reservation, due[-1]) != said else None


def notice_key(reservation: ObservedReservation, days: int) -> str:
    """Return the key of a notice of an end, so that each is published once; another end has notices of its own."""
    return f"{days} {'' if reservation.end_at is None else reservation.end_at.isoformat()}"


def gap(
    ending: ObservedReservation, successor: ObservedReservation | None
) -> timedelta | None:
    """Return for how long neither is there; None: nothing follows, or is known to."""
    if successor is None or ending.end_at is None:
        return None
    begins_at = successor.start_at
    return timedelta() if begins_at is None else max(timedelta(), begins_at - ending.end_at)


def _goes_on_for(each: ObservedReservation, ending: ObservedReservation) -> bool:
    if each.id == ending.id or ending.end_at is None or SUCCEEDS_TAG in each.tags:
        return False
    is_alike = (each.kind, each.instance_type, _tags(each)) == (
        ending.kind,
        ending.instance_type,
        _tags(ending),
    )
    ends_later = each.end_at is None or each.end_at > ending.end_at
    begins_in_time = each.start_at is None or each.start_at <= ending.end_at + _WITHIN
    return is_alike and bool(_tags(ending)) and ends_later and begins_in_time


def _tags(reservation: ObservedReservation) -> tuple[tuple[str, str], ...]:
    return tuple(
        sorted(
            (key, value)
            for key, value in reservation.tags.items()
            if not key.startswith(_NOT_OF_THE_OWNER)
        )
    )


def _begins(reservation: ObservedReservation) -> str:
    return "" if reservation.start_at is None else reservation.start_at.isoformat()
