"""Which reservation goes on where another ends: named by a tag, or told by being of the same kind.

What policy selects, it selects by tags. So a reservation of the same type, kind and owner's tags is what the same
policy goes on with when ids change, if it ends later and has begun, or will, within two weeks of the end.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from reservoir.core.model.capacity_reservation import ENDED_STATES, ObservedReservation

SUCCEEDS_TAG: Final = "reservoir:succeeds"  # of the successor: the id of the reservation before it
_WITHIN: Final = timedelta(days=14)
_NOT_OF_THE_OWNER: Final = ("aws:", "reservoir:")


def successors(reservations: Iterable[ObservedReservation]) -> Mapping[str, ObservedReservation]:
    """Return, by the id of a reservation that ends, the one that goes on for it; of several, the first to begin."""
    living = [each for each in reservations if each.state not in ENDED_STATES]
    known = sorted(living, key=lambda each: (_begins(each), each.id))
    following = {ending.id: _following(ending, known) for ending in known}
    return {key: each for key, each in following.items() if each is not None}


def _following(ending: ObservedReservation, known: Sequence[ObservedReservation]) -> ObservedReservation | None:
    if ending.end_at is None:
        return None
    named = [each for each in known if each.tags.get(SUCCEEDS_TAG) == ending.id]
    alike = [each for each in known if _goes_on_for(each, ending)]
    return next(iter(named or alike), None)


def gap(ending: ObservedReservation, successor: ObservedReservation | None) -> timedelta | None:
    """Return for how long neither is there; None: nothing follows, or is known to."""
    if successor is None or ending.end_at is None:
        return None
    begins_at = successor.start_at
    return timedelta() if begins_at is None else max(timedelta(), begins_at - ending.end_at)


def _goes_on_for(each: ObservedReservation, ending: ObservedReservation) -> bool:
    if each.id == ending.id or ending.end_at is None or SUCCEEDS_TAG in each.tags:
        return False
    is_alike = (each.kind, each.instance_type, _tags(each)) == (ending.kind, ending.instance_type, _tags(ending))
    ends_later = each.end_at is None or each.end_at > ending.end_at
    begins_in_time = each.start_at is None or each.start_at <= ending.end_at + _WITHIN
    return is_alike and bool(_tags(ending)) and ends_later and begins_in_time


def _tags(reservation: ObservedReservation) -> tuple[tuple[str, str], ...]:
    return tuple(
        sorted((key, value) for key, value in reservation.tags.items() if not key.startswith(_NOT_OF_THE_OWNER))
    )


def _begins(reservation: ObservedReservation) -> str:
    return "" if reservation.start_at is None else reservation.start_at.isoformat()
