"""How demand changes from week to week, and what that leaves of units that could be given back."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.advice.lives import Life
from reservoir.core.advice.units import Ground, UnitKind

WEEK: Final = timedelta(days=7)
_WEEKS_MIN: Final = 3  # two weeks make a difference and no trend


def kept_for_growth(units: int, wanted_by_week: Sequence[int]) -> int:
    """Return how many units demand will want that grows on as it did, if it wanted so many in the last week.

    The line nearest to the weeks (least squares) is drawn on to the end of as many weeks to come, because units that
    are given back may not be had again. Where it falls, or fewer than three weeks are known, the units are returned as
    they are: giving back more than was idle is not for a line to say.
    """
    count = len(wanted_by_week)
    leaning = sum(
        (2 * week - (count - 1)) * wanted for week, wanted in enumerate(wanted_by_week)
    )
    if count < _WEEKS_MIN or leaning <= 0:
        return units
    # Both multiplied by count * (count squared less one), so that everything is whole numbers.
    level = (count * count - 1) * sum(wanted_by_week)
    in_the_last_week = level + 3 * (count - 1) * leaning
    in_the_end = level + 3 * (3 * count - 1) * leaning
    return -(-units * in_the_end // in_the_last_week)


def wanted_by_week(
    kind: UnitKind, ground: Ground, lives: Iterable[Life], since: datetime, until: datetime
) -> tuple[int, ...]:
    """Return the seconds for which whole weeks' arrivals wanted a thousandth of a unit of the kind, week by week.

    A life counts in the week in which it arrived, with all of the time that it ran.
    """
    weeks = [0] * ((until - since) // WEEK)
    for life in lives:
        week = (life.arrived_at - since) // WEEK
        milli_units = ground.fit(life.workload).milli_units.get(kind.id)
        if milli_units is None or not 0 <= week < len(weeks):
            continue
        ended_at = (
            until if life.ran_s is None else life.arrived_at + timedelta(seconds=life.ran_s)
        )
        ran_s = max(0, (ended_at - life.arrived_at) // timedelta(seconds=1))
        weeks[week] += milli_units * life.workload.replicas * ran_s
    return tuple(weeks)
