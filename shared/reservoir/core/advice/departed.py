"""Namespaces whose work has all but stopped coming: past demand of theirs does not predict what will be wanted."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.advice.lives import Life

_DAY: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)
# Work has stopped if for so many days it wanted less than a tenth of what it did, which is longer than a week of
# holidays between two weekends, ...
_DAYS_MIN: Final = 10
_DAYS_BEFORE_MIN: Final = 7
_LITTLE_PERCENT: Final = 10
# ... and has never wanted as little for half as long: campaigns, weekends and month ends come back.
_TIMES_LONGER: Final = 2


def departed(
    lives: Sequence[Life], since: datetime, until: datetime
) -> Mapping[str, datetime]:
    """Return the namespaces whose work has all but stopped coming, each with the day on which that began.

    A life counts on the day on which it arrived, with all of the time that it ran. Work that came for less than a week
    before may have come by chance.
    """
    days = (until - since) // _DAY
    wanted: dict[str, Counter[int]] = {}
    for life in lives:
        day = min(days - 1, max(0, (life.arrived_at - since) // _DAY))
        ended_s = max(0, (until - life.arrived_at) // _SECOND)
        ran_s = ended_s if life.ran_s is None else life.ran_s
        by_day = wanted.setdefault(life.workload.namespace, Counter())
        by_day[day] += life.workload.replicas * ran_s
    found: dict[str, datetime] = {}
    for namespace, by_day in sorted(wanted.items()):
        first_day = min(by_day)
        stopped = _stopped([by_day[day] for day in range(first_day, days)])
        if stopped is not None:
            found[namespace] = since + (first_day + stopped) * _DAY
    return found


def without_departed(
    lives: Sequence[Life], since: datetime, until: datetime
) -> Sequence[Life]:
    """Return the lives without the departed namespaces' lives that have ended or never had a place."""
    gone = departed(lives, since, until)
    return [
        life
        for life in lives
        if life.arrived_at >= gone.get(life.workload.namespace, since)
        or (life.ran_s is None and life.gone_at is None)
    ]


def _stopped(wanted: Sequence[int]) -> int | None:
    """Return the first day from which on little is wanted."""
    for day in range(_DAYS_BEFORE_MIN, len(wanted) - _DAYS_MIN + 1):
        before, after = wanted[:day], wanted[day:]
        little_a_day = sum(before) * _LITTLE_PERCENT // (100 * len(before))
        turns = wanted[day - 1] > little_a_day >= wanted[day]
        is_little = sum(after) <= little_a_day * len(after)
        if (
            turns
            and is_little
            and not _was_quiet(before, len(after) // _TIMES_LONGER, little_a_day)
        ):
            return day
    return None


def _was_quiet(wanted: Sequence[int], days: int, little_a_day: int) -> bool:
    """Whether for so many days in a row little was wanted, or it was not there for so long."""
    if days > len(wanted):
        return True
    sums = (sum(wanted[day : day + days]) for day in range(len(wanted) - days + 1))
    return min(sums) <= little_a_day * days
