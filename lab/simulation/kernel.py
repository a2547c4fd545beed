"""Time, turns and chance. Nothing happens but what the kernel lets happen, one step after the other.

Code that is simulated runs in greenlets: at each call to the outside it waits for its turn, and the kernel lets happen
first whatever comes earlier.
"""

import heapq
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import Final

from greenlet import getcurrent, greenlet

START: Final = datetime.fromisoformat("2026-01-15T12:00:00+00:00")
SECOND: Final = 1_000_000  # the kernel counts microseconds since START
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE

Action = Callable[[], None]


class Kernel:
    """A clock and the queue of what is to come. ``after_step`` is called when a step is over."""

    def __init__(self) -> None:
        self.now_us = 0
        self.step_count = 0
        self.after_step: Action = _nothing
        self._queue: list[tuple[int, int, Action]] = []
        self._queued_count = 0
        self._hub = getcurrent()

    def now(self) -> datetime:
        """Return the true time."""
        return moment(self.now_us)

    def at(self, us: int, action: Action) -> None:
        """Let something happen at an instant, now at the earliest; of one instant in the order of asking."""
        self._queued_count += 1
        heapq.heappush(self._queue, (max(us, self.now_us), self._queued_count, action))

    def after(self, us: int, action: Action) -> None:
        """Let something happen a while from now."""
        self.at(self.now_us + us, action)

    def step(self) -> bool:
        """Let the next thing happen; False when nothing is to come."""
        if not self._queue:
            return False
        self.now_us, _, action = heapq.heappop(self._queue)
        self._hub = getcurrent()
        action()
        self._stepped()
        return True

    def wait(self, us: int) -> None:
        """Wait for a turn of the code that runs. Only code that a greenlet runs can wait."""
        until = self.now_us + us
        if not self._queue or self._queue[0][0] > until:
            self.now_us = until  # nothing comes before: no need to change places
            self._stepped()
            return
        me = getcurrent()
        self.at(until, lambda: _switch(me))
        self._hub.switch()

    def _stepped(self) -> None:
        self.step_count += 1
        self.after_step()


def _switch(to: greenlet) -> None:
    to.switch()


def _nothing() -> None:
    """Nobody looks at steps yet."""


def moment(us: int) -> datetime:
    """Return the time of an instant of the kernel."""
    return START + timedelta(microseconds=us)


def instant(at: datetime) -> int:
    """Return the kernel's instant of a time."""
    return (at - START) // timedelta(microseconds=1)


class Chance:
    """Chances by kind, each from a stream of its own: leaving one out does not move the others.

    Every chance that comes true is counted. ``left_out`` names those, by kind and number, that shall not.
    """

    def __init__(
        self, seed: int, left_out: frozenset[tuple[str, int]] = frozenset()
    ) -> None:
        self._seed = seed
        self._streams: dict[str, Random] = {}
        self._counts: dict[str, int] = {}
        self._left_out = left_out
        self.came_true: list[tuple[str, int]] = []

    def stream(self, kind: str) -> Random:
        """Return the stream of a kind."""
        if kind not in self._streams:
            self._streams[kind] = Random(f"{self._seed}/{kind}")  # noqa: S311 - keeps no secret
        return self._streams[kind]

    def hits(self, kind: str, probability: float) -> bool:
        """Whether a mishap of this kind happens now."""
        if probability <= 0 or self.stream(kind).random() >= probability:
            return False
        number = self._counts.get(kind, 0)
        self._counts[kind] = number + 1
        if (kind, number) in self._left_out:
            return False
        self.came_true.append((kind, number))
        return True

    def between(self, kind: str, low: int, high: int) -> int:
        """Return an integer of the range, both ends included."""
        return self.stream(kind).randint(low, high)
