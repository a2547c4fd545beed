"""A clock that tests move and ids that they can predict."""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from datetime import UTC, datetime, timedelta
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

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


class Answered(Future[T]):
    """The future of a call that is over: nobody waits for it, so it needs no lock."""

    def __init__(self, answer: T) -> None:
        self._answer = answer

    def result(self, timeout: float | None = None) -> T:
        del timeout  # nobody waits
        return self._answer

    def exception(self, timeout: float | None = None) -> None:
        del timeout

    def done(self) -> bool:
        return True

    def cancel(self) -> bool:
        return False


class InTurn(Executor):
    """Runs each call as it is submitted: one order of all that threads may bring about, and always the same."""

    def submit(
        self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        try:
            return Answered(call(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - whoever asks for the result gets it
            future: Future[T] = Future()
            future.set_exception(error)
            return future
