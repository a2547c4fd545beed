"""What the accounts say of some whole days: by market, by team, and all of it. Money in micro-USD.

The meter is exact and complete, to the second; samples are neither. So whatever was paid comes from here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from reservoir.core.model.instance_type import CapacityType
from reservoir.core.sharing.accounts import AccountLine, Amount

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Days:
    """Whole days (UTC), the last included."""

    first: date
    last: date

    @classmethod
    def between(cls, since: datetime, until: datetime) -> "Days":
        """Return the days that a time touches; ``until`` itself is no part of it."""
        last = max(since, until - timedelta(microseconds=1))
        return cls(since.astimezone(UTC).date(), last.astimezone(UTC).date())

    @classmethod
    def of_month(cls, month: str) -> "Days":
        """Return the days of a month such as ``2026-01``. Raises ValueError for a text that is none."""
        first = date.fromisoformat(f"{month}-01")
        return cls(first, (first + 32 * _DAY).replace(day=1) - _DAY)

    @property
    def count(self) -> int:
        """How many there are."""
        return (self.last - self.first).days + 1

    @property
    def since(self) -> datetime:
        """When the first begins."""
        return datetime(self.first.year, self.first.month, self.first.day, tzinfo=UTC)

    @property
    def until(self) -> datetime:
        """When the last is over."""
        return self.since + self.count * _DAY

    def over(self, now: datetime) -> "Days | None":
        """Return the days that are over; None where none is."""
        yesterday = now.astimezone(UTC).date() - _DAY
        last = min(self.last, yesterday)
        return Days(self.first, last) if self.first <= last else None

    def before(self) -> "Days":
        """Return the days before: a month before a month, otherwise as many days."""
        if self == Days.of_month(f"{self.first:%Y-%m}"):
            return Days.of_month(f"{self.first - _DAY:%Y-%m}")
        return Days(self.first - self.count * _DAY, self.first - _DAY)


@dataclass(frozen=True, slots=True)
class TeamUse:
    """What instances ran and cost for a namespace of a team; an empty name: without a team, or without a namespace."""

    team: str
    namespace: str
    capacity_type: str
    unit_s: int
    spent_micro_usd: int


@dataclass(frozen=True, slots=True)
class Spent:
    """What instances ran and cost for one name: how long by market, and the money of all of them."""

    name: str
    unit_s: Mapping[str, int]
    spent_micro_usd: int


@dataclass(frozen=True, slots=True)
class Metered:
    """What the accounts have of whole days, the last included, up to ``until``.

    ``begins`` is the first day that they have anything of.
    """

    first_day: str  # 2026-01-31, UTC
    last_day: str
    since: datetime
    until: datetime
    is_over: bool  # the last day
    begins: str
    total: Spent
    markets: tuple[TeamUse, ...]  # summed over teams, whose names are empty
    teams: tuple[Spent, ...]  # the largest amount first
    namespaces: tuple[TeamUse, ...]

    @property
    def micro_usd_per_day(self) -> int:
        """What a day of it cost; a day that is not over counts by its part."""
        passed_s = max(1, int((self.until - self.since).total_seconds()))
        return self.total.spent_micro_usd * 86_400 // passed_s


def _of_team(
    name: str, lines: Mapping[AccountLine, Amount]
) -> Mapping[AccountLine, Amount]:
    return {line: amount for line, amount in lines.items() if line.team == name}


def metered(
    days: Days, accounts: Mapping[AccountLine, Amount], now: datetime
) -> Metered | None:
    """Return the accounts of these days; None where they have nothing, which is not the same as zero."""
    lines = {
        it: amount
        for it, amount in accounts.items()
        if days.first.isoformat() <= it.day <= days.last.isoformat()
    }
    if not lines:
        return None
    by_namespace = _added_up(
        ((line.team, line.namespace, line.capacity_type.value), amount)
        for line, amount in lines.items()
    )
    by_market = _added_up(
        (("", "", line.capacity_type.value), amount) for line, amount in lines.items()
    )
    names = sorted({line.team for line in lines})
    teams = [_spent(name, _of_team(name, lines)) for name in names]
    in_order = [market.value for market in CapacityType]
    return Metered(
        first_day=days.first.isoformat(),
        last_day=days.last.isoformat(),
        since=days.since,
        until=min(now, days.until),
        is_over=days.until <= now,
        begins=min(line.day for line in lines),
        total=_spent("", lines),
        markets=tuple(sorted(by_market, key=lambda use: in_order.index(use.capacity_type))),
        teams=tuple(sorted(teams, key=lambda team: (-team.spent_micro_usd, team.name))),
        namespaces=by_namespace,
    )


def _added_up(parts: Iterable[tuple[tuple[str, str, str], Amount]]) -> tuple[TeamUse, ...]:
    totals: dict[tuple[str, str, str], Amount] = {}
    for key, amount in parts:
        totals[key] = totals.get(key, Amount()) + amount
    return tuple(
        TeamUse(*key, totals[key].seconds, totals[key].micro_usd) for key in sorted(totals)
    )


def _spent(name: str, lines: Mapping[AccountLine, Amount]) -> Spent:
    unit_s = {market.value: 0 for market in CapacityType}
    for line, amount in lines.items():
        unit_s[line.capacity_type.value] += amount.seconds
    total = sum(lines.values(), Amount())
    return Spent(name, unit_s, total.micro_usd)
