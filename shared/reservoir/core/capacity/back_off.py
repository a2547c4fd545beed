"""How long to wait after failures in a row."""

from datetime import timedelta


def doubled(first: timedelta, failure_count: int, *, longest: timedelta) -> timedelta:
    """Return ``first``, twice as long for each failure after the first, and never more than ``longest``."""
    return min(longest, first * (1 << min(max(0, failure_count - 1), 10)))
