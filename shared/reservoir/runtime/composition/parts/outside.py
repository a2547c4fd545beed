"""The process that a function runs in: its adapters, and the parts that were composed of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, cached_property, wraps
from typing import Any, Final, TypeVar, cast

from reservoir.ports.messaging import EventPublisher, WorkQueue
from reservoir.runtime.adapters import Adapters
from reservoir.runtime.correlation import SentInTheLog, ToldInTheLog
from reservoir.runtime.settings import Settings

T = TypeVar("T")


class Process:
    """A warm process. What is composed of its adapters is made when first used, and kept as long as it lives."""

    def __init__(self, adapters: Adapters) -> None:
        self.adapters = adapters
        self.parts: dict[Callable[[], Any], Any] = {}


class _FunctionAdapters(Adapters):
    """Those of a function, which has a log."""

    @cached_property
    def publisher(self) -> EventPublisher:
        """The outbound bus; what is told there is in the log too."""
        return ToldInTheLog(super().publisher)

    @cached_property
    def queue(self) -> WorkQueue:
        """The planning and the launch queue; which launches are sent is in the log too."""
        return SentInTheLog(super().queue)


_given: Final[ContextVar[Process | None]] = ContextVar("process", default=None)


@cache
def _own() -> Process:
    return Process(_FunctionAdapters(Settings.from_environment()))


def _process() -> Process:
    return _given.get() or _own()


@contextmanager
def running_in(process: Process) -> Iterator[None]:
    """Let everything inside be composed of, and kept in, this process instead of the interpreter's own."""
    token = _given.set(process)
    try:
        yield
    finally:
        _given.reset(token)


def adapters() -> Adapters:
    """Return the process's adapters; raises SettingsError when the environment lacks settings."""
    return _process().adapters


def once(make: Callable[[], T]) -> Callable[[], T]:
    """Make a part once a process."""

    @wraps(make)
    def made() -> T:
        parts = _process().parts
        if make not in parts:
            parts[make] = make()
        return cast("T", parts[make])

    return made
