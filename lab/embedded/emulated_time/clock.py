"""The clock of the embedded AWS: it follows real time, and can be moved forward, sped up, stopped and bounded.

Emulated time = ``anchor_us`` + (real monotonic time - ``anchor_monotonic_ns``) x ``speed``, in whole microseconds, and
never more than ``limit_us``. Python's monotonic clock is system-wide on Linux and macOS, so these four numbers are all
that another process needs to compute the same time: :meth:`EmulatedClock.publish_to` keeps them in a small file that
the Lambda workers map (``lab.embedded.functions.worker``).

The clock never runs backwards: an advance is positive, a rate is not negative, and a limit that has been passed already
stops the clock where it is.
"""

import mmap
import struct
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

# sequence (odd while a write is under way), anchor_monotonic_ns, anchor_us, speed (0 while paused), limit_us
PUBLISHED_STATE: Final = struct.Struct("<Qqqdq")
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NEVER_US: Final = 2**62
NO_TOP_SPEED: Final = float("inf")


class EmulatedClock:
    """Aware UTC time that tests control; safe to use from many threads.

    Parameters
    ----------
    monotonic_ns
        Real time in nanoseconds since some moment.
    start_us
        The emulated time at first, in microseconds since 1970, at which the clock stands until it is resumed; without
        it the clock runs from the real time.
    """

    def __init__(
        self,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        start_us: int | None = None,
    ) -> None:
        self._monotonic_ns = monotonic_ns
        self._lock = threading.Lock()
        self._anchor_monotonic_ns = monotonic_ns()
        self._anchor_us = time.time_ns() // 1000 if start_us is None else start_us
        self._rate = 1.0
        self._paused = start_us is not None
        self._top_speed = NO_TOP_SPEED
        self._limit_us = NEVER_US
        self._held_s = 0.0
        self._published: mmap.mmap | None = None
        self._sequence = 0

    def now(self) -> datetime:
        """Return the emulated time, aware, in UTC."""
        return EPOCH + timedelta(microseconds=self.epoch_us())

    def epoch_s(self) -> float:
        """Return the emulated time in seconds since 1970."""
        return self.epoch_us() / 1e6

    def epoch_us(self) -> int:
        """Return the emulated time in microseconds since 1970."""
        with self._lock:
            return self._epoch_us()

    @property
    def rate(self) -> float:
        """Emulated seconds that pass in a real second while the clock is neither paused nor bounded."""
        with self._lock:
            return self._rate

    @property
    def paused(self) -> bool:
        """Whether the clock stands still until it is resumed or moved."""
        with self._lock:
            return self._paused

    @property
    def held_s(self) -> float:
        """For how many real seconds the clock has stood at a limit so far."""
        with self._lock:
            return self._held_s + self._held_since_anchor_s(self._monotonic_ns())

    def advance(self, step: timedelta) -> None:
        """Move the clock forward by ``step``, also past its limit.

        Raises
        ------
        ValueError
            When ``step`` is negative: no AWS service survives time that runs backwards.
        """
        if step < timedelta(0):
            raise ValueError("the clock only moves forward")
        with self._lock:
            self._anchor()
            self._anchor_us += step // timedelta(microseconds=1)
            self._limit_us = max(self._limit_us, self._anchor_us)
            self._publish()

    def set_rate(self, factor: float) -> None:
        """Let ``factor`` emulated seconds pass in each real second from now on.

        Raises
        ------
        ValueError
            ``factor`` is not a positive finite number.
        """
        if not 0 < factor < float("inf"):
            raise ValueError(
                "the rate is a positive finite number; use pause() to stop the clock"
            )
        with self._lock:
            self._anchor()
            self._rate = factor
            self._publish()

    def pause(self) -> None:
        """Stop the clock; ``advance`` still moves it."""
        with self._lock:
            self._anchor()
            self._paused = True
            self._publish()

    def resume(self) -> None:
        """Let the clock run on at its rate."""
        with self._lock:
            self._anchor()
            self._paused = False
            self._publish()

    def bound(self, *, top_speed: float, limit_us: int) -> None:
        """From now on run no faster than ``top_speed``, and never past ``limit_us``."""
        with self._lock:
            if (top_speed, limit_us) == (self._top_speed, self._limit_us):
                return
            self._anchor()
            self._top_speed = top_speed
            self._limit_us = max(limit_us, self._anchor_us)
            self._publish()

    def real_s_until(self, instant_us: int) -> float:
        """Return in how many real seconds the clock gets to an instant if nothing changes; infinity for never."""
        with self._lock:
            now_us = self._epoch_us()
            if instant_us <= now_us:
                return 0.0
            speed = self._speed()
            if speed and instant_us <= self._limit_us:
                return (instant_us - now_us) / speed / 1e6
            return float("inf")

    def publish_to(self, path: Path) -> None:
        """Keep the clock's state in the file ``path`` from now on, for processes that map it."""
        path.write_bytes(bytes(PUBLISHED_STATE.size))
        with self._lock, path.open("r+b") as file:
            self._published = mmap.mmap(file.fileno(), PUBLISHED_STATE.size)
            self._publish()

    def _speed(self) -> float:
        return 0.0 if self._paused else min(self._rate, self._top_speed)

    def _unbounded_us(self, monotonic_ns: int) -> int:
        return self._anchor_us + int(
            (monotonic_ns - self._anchor_monotonic_ns) * self._speed() / 1000
        )

    def _epoch_us(self) -> int:
        return min(self._unbounded_us(self._monotonic_ns()), self._limit_us)

    def _held_since_anchor_s(self, monotonic_ns: int) -> float:
        beyond_us = self._unbounded_us(monotonic_ns) - self._limit_us
        return beyond_us / self._speed() / 1e6 if beyond_us > 0 else 0.0

    def _anchor(self) -> None:
        """Count from here on; to be called before anything that the speed is made of changes."""
        monotonic_ns = self._monotonic_ns()
        self._held_s += self._held_since_anchor_s(monotonic_ns)
        self._anchor_us = min(self._unbounded_us(monotonic_ns), self._limit_us)
        self._anchor_monotonic_ns = monotonic_ns

    def _publish(self) -> None:
        if self._published is None:
            return
        state = (self._anchor_monotonic_ns, self._anchor_us, self._speed(), self._limit_us)
        PUBLISHED_STATE.pack_into(self._published, 0, self._sequence + 1, *state)
        self._sequence += 2
        PUBLISHED_STATE.pack_into(self._published, 0, self._sequence, *state)
