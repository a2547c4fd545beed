"""One reading of EC2's reservations for all events of a moment.

Sixty-four nodes in a block whose end comes near bring sixty-four events at once. The first begins a reading. The others
find it in progress and ask for one more, which begins after the last of them was sent and so shows what all of them
report.

Times are those of the events, in whole seconds: an event of 12:00:05 may have happened just before 12:00:06, so only a
reading that begins then or later is certain to show it.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

# The function's own limit: a reading that is in progress for longer died with its function. Its events are lost, and
# the minute's schedule finds what they reported.
LEASE: Final = timedelta(minutes=1)
# EventBridge gives the times of events in whole seconds.
_EVENT_TIME_STEP: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class DiscoveryTurn:
    """``began_at``: of the latest reading that events asked for, None if that failed.

    ``busy_until``: None while no reading is in progress. ``asked_for``: when the next one may begin at the earliest,
    None while none is asked for.
    """

    began_at: datetime | None
    busy_until: datetime | None = None
    asked_for: datetime | None = None


# Branches: one case after the other of who reads, each with its own turn.
def after_event(
    turn: DiscoveryTurn | None, event_at: datetime, now: datetime
) -> DiscoveryTurn | None:
    """Return the turn after an event; None when a reading contains it already, or will.

    The caller reads if the turn is its own (:func:`is_taken`); otherwise another process reads now, and then once more.
    The first reading of a second begins at once, a second one when it is certain to contain all events of that second.
    """
    needed_from = min(event_at, now).replace(microsecond=0) + _EVENT_TIME_STEP
    if turn is not None and turn.began_at is not None and turn.began_at >= needed_from:
        return None
    if turn is None or turn.busy_until is None or turn.busy_until <= now:
        is_second = (
            turn is not None
            and turn.began_at is not None
            and turn.began_at >= needed_from - _EVENT_TIME_STEP
        )
        begins_at = max(now, needed_from) if is_second else now
        return DiscoveryTurn(begins_at, busy_until=begins_at + LEASE)
    if turn.asked_for is not None and turn.asked_for >= needed_from:
        return None
    return replace(turn, asked_for=needed_from)


def is_taken(turn: DiscoveryTurn, before: DiscoveryTurn | None) -> bool:
    """Whether an event that made ``turn`` of ``before`` began a reading of its own."""
    return before is None or turn.busy_until != before.busy_until


def after_reading(turn: DiscoveryTurn, now: datetime, *, failed: bool) -> DiscoveryTurn:
    """Return the turn after a reading: given back, or kept for the further reading that was asked for.

    After a failed reading it is given back at once, so that the next event reads. Only the minute's schedule retries
    the failed one.
    """
    if failed:
        return DiscoveryTurn(began_at=None)
    if turn.asked_for is None:
        return replace(turn, busy_until=None)
    begins_at = max(now, turn.asked_for)
    return DiscoveryTurn(began_at=begins_at, busy_until=begins_at + LEASE)
