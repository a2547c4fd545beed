"""A small vocabulary for tests of the demo."""

from datetime import UTC, datetime, timedelta

from lab.demo.history import Curve

START = datetime(2026, 11, 2, 8, 0, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def curve(*levels: tuple[float, int, int]) -> Curve:
    """Return a curve from (minute, used, total)."""
    made = Curve()
    for minute, used_count, total_count in levels:
        made.note(at(minute), used_count, total_count)
    return made
