"""What the emulation will do later, in the order in which it becomes due."""

import heapq
from collections.abc import Callable
from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Where the emulation reads the time."""

    def now(self) -> datetime:
        """Return the current time, aware, in UTC."""
        ...


class Agenda:
    """Actions with due times, run in time order.

    While an action runs, :meth:`now` is the time at which it was due, however far the clock has been moved past it: so
    a jump of a day produces the same events, with the same times in them, as a day that passes.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: list[tuple[datetime, int, Callable[[], None]]] = []
        self._added = 0
        self._running_at: datetime | None = None

    def now(self) -> datetime:
        """Return the emulated time."""
        return self._running_at or self._clock.now()

    def next_due(self) -> datetime | None:
        """Return when the earliest action is due, or None when there is none."""
        return self._due[0][0] if self._due else None

    def at(self, due: datetime, action: Callable[[], None]) -> None:
        """Run ``action`` at ``due``; one that is already due runs at the next :meth:`catch_up`, never back in time."""
        self._added += 1
        heapq.heappush(self._due, (max(due, self.now()), self._added, action))

    def catch_up(self) -> None:
        """Run everything that is due by the clock, including what those actions add."""
        if self._running_at is not None:
            return
        limit = self._clock.now()
        try:
            while self._due and self._due[0][0] <= limit:
                due, _, action = heapq.heappop(self._due)
                self._running_at = due
                action()
        finally:
            self._running_at = None
