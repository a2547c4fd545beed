"""Disruption budgets in time: cron windows and what they leave to be disrupted (R-189)."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import chain
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from reservoir.core.model.node_pool import Budget, DisruptionReason, WarmReserved

UNLIMITED: Final = 2**31 - 1  # what Karpenter reports when no budget is active

MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS: Final = (
    "JAN",
    "FEB",
    "MAR",
    "APR",
    "MAY",
    "JUN",
    "JUL",
    "AUG",
    "SEP",
    "OCT",
    "NOV",
    "DEC",
)
_WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_LONGEST_TEXT: Final = 200
# 29 February on one given weekday comes every 28 years at worst, and 40 years across 2100.
_FARTHEST_DAYS: Final = 41 * 366


class ScheduleError(ValueError):
    """A cron expression, a time zone or a budget's node count cannot be read."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    lowest: int
    highest: int
    names: tuple[str, ...] = ()
    first_name: int = 0

    def parse(self, text: str) -> frozenset[int]:
        """Read one field: a list of values, ranges and steps."""
        return frozenset(chain.from_iterable(map(self._part, text.split(","))))

    def _part(self, part: str) -> range:
        span, slash, step_text = part.partition("/")
        step = self._number(step_text, 1, self.highest) if slash else 1
        if span in ("*", "?"):
            return range(self.lowest, self.highest + 1, step)
        low_text, dash, high_text = span.partition("-")
        low = self._value(low_text)
        # a step without an end goes on to the last value
        high = self.highest if slash else low
        if dash:
            high = self._value(high_text)
        if high < low:
            raise ScheduleError(f"{self.name}: the range {span} runs backwards")
        return range(low, high + 1, step)

    def _value(self, text: str) -> int:
        if text.upper() in self.names:
            return self.names.index(text.upper()) + self.first_name
        return self._number(text, self.lowest, self.highest)

    def _number(self, text: str, lowest: int, highest: int) -> int:
        if re.fullmatch(r"[0-9]{1,4}", text) is None or not lowest <= int(text) <= highest:
            raise ScheduleError(
                f"{self.name}: {text[:20]!a} is not a number from {lowest} to {highest}"
            )
        return int(text)


_MINUTE: Final = _Field("minute", 0, 59)
_HOUR: Final = _Field("hour", 0, 23)
_DAY: Final = _Field("day of month", 1, 31)
_MONTH: Final = _Field("month", 1, 12, _MONTHS, 1)
_WEEKDAY: Final = _Field("day of week", 0, 7, _WEEKDAYS)


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """Five cron fields in a time zone.

    Where both days are restricted, either is enough. A start that daylight saving skips happens as much later as the
    clocks jump; one that it repeats happens at the first of the two.
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday
    either_day: bool
    zone: ZoneInfo

    @classmethod
    def parse(cls, text: str, time_zone: str = "UTC") -> "CronSchedule":
        """Read "minute hour day-of-month month day-of-week", or @daily and its like.

        Raises
        ------
        ScheduleError
            The expression or the time zone cannot be read, or no date ever matches.
        """
        fields = MACROS.get(text, text).split() if len(text) <= _LONGEST_TEXT else []
        if text.startswith(("TZ=", "CRON_TZ=")):
            raise ScheduleError("the time zone belongs into timeZone")
        if len(fields) != 5:
            raise ScheduleError(
                f"a schedule has five fields, or is one of {', '.join(MACROS)}"
            )
        minute, hour, day, month, weekday = fields
        schedule = cls(
            minutes=_MINUTE.parse(minute),
            hours=_HOUR.parse(hour),
            days=_DAY.parse(day),
            months=_MONTH.parse(month),
            weekdays=frozenset(number % 7 for number in _WEEKDAY.parse(weekday)),
            either_day=day not in ("*", "?") and weekday not in ("*", "?"),
            zone=_zone(time_zone),
        )
        schedule._check_possible()
        return schedule

    def _check_possible(self) -> None:
        longest = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}
        if not self.either_day and all(
            min(self.days) > longest.get(month, 31) for month in self.months
        ):
            raise ScheduleError("no date ever matches the day of month and the month")

    def latest_start(self, now: datetime, not_before: datetime) -> datetime | None:
        """Return the last start in (``not_before``, ``now``], in UTC; None when there is none."""
        today = now.astimezone(self.zone).date()
        # a start can move past midnight only where the clocks jump at midnight, hence one day of slack
        oldest = max(
            not_before.astimezone(self.zone).date() - timedelta(days=1),
            today - timedelta(_FARTHEST_DAYS),
        )
        day = today
        while day >= oldest:
            start = max((at for at in self._starts(day) if at <= now), default=None)
            if start is not None:
                return start if start > not_before else None
            day -= timedelta(days=1)
        return None

    def _starts(self, day: date) -> Iterator[datetime]:
        if not self._matches(day):
            return
        for hour in self.hours:
            for minute in self.minutes:
                yield datetime.combine(day, time(hour, minute), self.zone).astimezone(UTC)

    def _matches(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_day or by_weekday if self.either_day else by_day and by_weekday


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ScheduleError(
            f"{name[:60]!a} is not a known time zone, such as UTC or Europe/Berlin"
        ) from error


def budget_nodes(nodes: str, node_count: int) -> int:
    """Read a budget's count, or its percentage of ``node_count`` rounded up.

    Raises
    ------
    ScheduleError
        It is neither "5" nor "10%".
    """
    match = re.fullmatch(r"([0-9]{1,9})(%?)", nodes)
    if match is None or (match[2] and int(match[1]) > 100):
        raise ScheduleError(
            f"{nodes[:20]!a} is neither a count nor a percentage up to 100%"
        )
    return -(-node_count * int(match[1]) // 100) if match[2] else int(match[1])


def is_active(windowed: Budget | WarmReserved, now: datetime) -> bool:
    """Whether it holds at ``now``: always without a schedule, else for the duration after each start.

    Raises
    ------
    ScheduleError
        The schedule or the time zone cannot be read.
    """
    if windowed.schedule is None or windowed.duration_s is None:
        return True
    schedule = CronSchedule.parse(windowed.schedule, windowed.time_zone)
    return (
        schedule.latest_start(now, now - timedelta(seconds=windowed.duration_s)) is not None
    )


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many nodes may be disrupted, and what could not be read (each such budget allows none)."""

    nodes: int
    errors: tuple[str, ...] = ()


def allowed_disruptions(
    budgets: Sequence[Budget],
    reason: DisruptionReason,
    *,
    node_count: int,
    unavailable_count: int,
    now: datetime,
) -> Allowance:
    """Return how many of a pool's ``node_count`` nodes may now be disrupted for ``reason``.

    The most restrictive of the active budgets that list the reason, or no reason, counts; ``unavailable_count`` nodes
    that are already going or not ready use it up. ``UNLIMITED`` when no budget is active.
    """
    errors: list[str] = []
    nodes = min(_limits(budgets, reason, node_count, now, errors), default=UNLIMITED)
    return Allowance(
        nodes if nodes == UNLIMITED else max(0, nodes - unavailable_count), tuple(errors)
    )


def _limits(
    budgets: Iterable[Budget],
    reason: DisruptionReason,
    node_count: int,
    now: datetime,
    errors: list[str],
) -> Iterator[int]:
    for budget in budgets:
        if budget.reasons and reason not in budget.reasons:
            continue
        try:
            if is_active(budget, now):
                yield budget_nodes(budget.nodes, node_count)
        except ScheduleError as error:
            errors.append(str(error))
            yield 0
