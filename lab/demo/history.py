"""What is remembered of the demo: units in use over time, and from when to when each instance ran."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Level:
    """From this moment on, so many of so many."""

    at: datetime
    used_count: int
    total_count: int


@dataclass
class Curve:
    """A number of units in use, which stays as it is until the next observation says otherwise."""

    levels: list[Level] = field(default_factory=list)

    def note(self, at: datetime, used_count: int, total_count: int) -> None:
        """Take an observation; one that says what the last one said changes nothing."""
        last = self.levels[-1] if self.levels else None
        if last is None or (last.used_count, last.total_count) != (used_count, total_count):
            self.levels.append(Level(at, used_count, total_count))

    @property
    def peak_count(self) -> int:
        """The most that was ever in use."""
        return max((level.used_count for level in self.levels), default=0)

    def used(self, since: datetime, until: datetime) -> timedelta:
        """Return the unit-time in use between two moments."""
        return _sum(
            level.used_count * lasted for level, lasted in self._parts(since, until)
        )

    def available(self, since: datetime, until: datetime) -> timedelta:
        """Return the unit-time that was there to be used."""
        return _sum(
            level.total_count * lasted for level, lasted in self._parts(since, until)
        )

    def _parts(self, since: datetime, until: datetime) -> Sequence[tuple[Level, timedelta]]:
        if not self.levels:
            return []
        first = max(0, bisect_right(self.levels, since, key=lambda level: level.at) - 1)
        ends = [level.at for level in self.levels[first + 1 :]] + [until]
        spans = zip(self.levels[first:], ends, strict=True)
        return [
            (level, min(end, until) - max(level.at, since))
            for level, end in spans
            if min(end, until) > max(level.at, since)
        ]


@dataclass(frozen=True, slots=True)
class Stay:
    """The time for which one instance is charged: from running to shutting down, or until now."""

    instance_type: str
    zone: str
    market: str  # reserved, spot or on-demand
    started_at: datetime
    ended_at: datetime

    @property
    def lasted(self) -> timedelta:
        """How long it ran."""
        return self.ended_at - self.started_at


def _sum(spans: Iterable[timedelta]) -> timedelta:
    return sum(spans, timedelta())
