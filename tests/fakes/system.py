"""A clock that tests move and ids that they can predict."""

import threading
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)


class ManualClock:
    """Stands still until it is moved."""

    def __init__(self, start: datetime = START) -> None:
        self._now = start

    def now(self) -> datetime:
        return self._now

    def advance(self, **amount: float) -> datetime:
        self._now += timedelta(**amount)
        return self._now

    def set(self, now: datetime) -> None:
        self._now = now


class SequentialIds:
    """Counts: ``nc-000001``, ``nc-000002`` ... one sequence over all prefixes, safe under threads."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def new_id(self, prefix: str) -> str:
        with self._lock:
            self._last += 1
            return f"{prefix}-{self._last:06d}"
