"""The process that a function runs in: what is outside it, and the parts that were composed with that."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, cached_property, wraps
from typing import Any, Final, TypeVar, cast

from reservoir.ports.messaging import EventPublisher, WorkQueue
from reservoir.runtime.composition.parts.aws_outside import AwsOutside
from reservoir.runtime.correlation import LoggedBus, LoggedQueue
from reservoir.runtime.outside import Outside
from reservoir.runtime.settings import Settings

T = TypeVar("T")


class Process:
    """A warm process. A part is composed when first used, and kept as long as the process lives."""

    def __init__(self, outside: Outside) -> None:
        self.outside = outside
        self.parts: dict[Callable[[], Any], Any] = {}


class _FunctionOutside(AwsOutside):
    """What is outside a function: as for any process, and a log."""

    @cached_property
    def publisher(self) -> EventPublisher:
        """The outbound bus; events that are published are logged too."""
        return LoggedBus(super().publisher)

    @cached_property
    def queue(self) -> WorkQueue:
        """The planning and the launch queue; which launches are sent is in the log too."""
        return LoggedQueue(super().queue)


_given: Final[ContextVar[Process | None]] = ContextVar("process", default=None)


@cache
def _own() -> Process:
    return Process(_FunctionOutside(Settings.from_environment()))


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


def process_outside() -> Outside:
    """Return what is outside the process; raises SettingsError when the environment lacks settings."""
    return _process().outside


def once(make: Callable[[], T]) -> Callable[[], T]:
    """Make a part once a process."""

    @wraps(make)
    def made() -> T:
        parts = _process().parts
        if make not in parts:
            parts[make] = make()
        return cast("T", parts[make])

    return made
