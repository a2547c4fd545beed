"""The clock of the embedded AWS: it follows real time, and can be moved forward, sped up and stopped.

Emulated time = ``anchor_us`` + (real monotonic time - ``anchor_monotonic_ns``) x ``rate``, in whole microseconds.
Python's monotonic clock is system-wide on Linux and macOS, so these three numbers are all that another process needs to
compute the same time: :meth:`EmulatedClock.publish_to` keeps them in a small file that the Lambda workers map
(``lambda_worker``).

The clock never runs backwards: an advance is positive, a rate is not negative.
"""

import struct
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

# sequence (odd while a write is under way), anchor_monotonic_ns, anchor_us, rate (0 while paused)
PUBLISHED_STATE: Final = struct.Struct("<Qqqd")
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class EmulatedClock:
    """Aware UTC time that tests control; safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._anchor_monotonic_ns = time.monotonic_ns()
        self._anchor_us = time.time_ns() // 1000
        self._rate = 1.0
        self._paused = False
        self._listeners: list[Callable[[], None]] = []
        self._published: Path | None = None
        self._sequence = 0

    def now(self) -> datetime:
        """Return the emulated time, aware, in UTC."""
        with self._lock:
            return EPOCH + timedelta(microseconds=self._epoch_us())

    def epoch_s(self) -> float:
        """Return the emulated time in seconds since 1970."""
        with self._lock:
            return self._epoch_us() / 1e6

    @property
    def rate(self) -> float:
        """Emulated seconds that pass in a real second while the clock is not paused."""
        with self._lock:
            return self._rate

    @property
    def paused(self) -> bool:
        """Whether the clock stands still."""
        with self._lock:
            return self._paused

    def advance(self, step: timedelta) -> None:
        """Move the clock forward by ``step``.

        Raises
        ------
        ValueError
            When ``step`` is negative: no AWS service survives time that runs backwards.
        """
        if step < timedelta(0):
            raise ValueError("the clock only moves forward")
        self._change(step_us=step // timedelta(microseconds=1))

    def set_rate(self, factor: float) -> None:
        """Let ``factor`` emulated seconds pass in each real second from now on."""
        if not 0 < factor < float("inf"):
            raise ValueError("the rate is a positive finite number; use pause() to stop the clock")
        self._change(rate=factor)

    def pause(self) -> None:
        """Stop the clock; ``advance`` still moves it."""
        self._change(paused=True)

    def resume(self) -> None:
        """Let the clock run on at its rate."""
        self._change(paused=False)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` after every change of time, rate or pause, in the thread that made the change."""
        with self._lock:
            self._listeners.append(listener)

    def publish_to(self, path: Path) -> None:
        """Keep the clock's state in the file ``path`` from now on, for processes that map it."""
        path.write_bytes(bytes(PUBLISHED_STATE.size))
        with self._lock:
            self._published = path
            self._publish()

    def _epoch_us(self) -> int:
        rate = 0.0 if self._paused else self._rate
        return self._anchor_us + int((time.monotonic_ns() - self._anchor_monotonic_ns) * rate / 1000)

    def _change(self, *, step_us: int = 0, rate: float | None = None, paused: bool | None = None) -> None:
        with self._lock:
            self._anchor_us = self._epoch_us() + step_us
            self._anchor_monotonic_ns = time.monotonic_ns()
            if rate is not None:
                self._rate = rate
            if paused is not None:
                self._paused = paused
            self._publish()
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener()

    def _publish(self) -> None:
        if self._published is None:
            return
        rate = 0.0 if self._paused else self._rate
        state = (self._anchor_monotonic_ns, self._anchor_us, rate)
        with self._published.open("r+b", buffering=0) as file:
            file.write(PUBLISHED_STATE.pack(self._sequence + 1, *state))
            file.seek(0)
            self._sequence += 2
            file.write(PUBLISHED_STATE.pack(self._sequence, *state))
