"""Commands that ask again until something has come about."""

from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Final, TypeVar

import typer
from pydantic_core import PydanticCustomError

from reservoir.cli.stack.connection import Connection
from reservoir.manifests.parsing.fields import check_duration, duration_s

T = TypeVar("T")

NOT_YET: Final = 1  # exit code: what was waited for has not come about
_PAUSE_S: Final = 1.0


def _checked(text: str) -> str:
    try:
        return check_duration(text)
    except PydanticCustomError as error:
        raise typer.BadParameter(error.message()) from None


Timeout = Annotated[
    str,
    typer.Option(
        metavar="DURATION",
        callback=_checked,
        help="How long to wait, such as 90s or 1h30m.",
    ),
]


def span(duration: str) -> timedelta:
    """Return the time that an option means."""
    return timedelta(seconds=duration_s(duration))


def until(
    stack: Connection, timeout: timedelta, answer: Callable[[], T | None]
) -> T | None:
    """Ask once a second until there is an answer; None when there is none in time."""
    end = stack.outside.clock.now() + timeout
    while (found := answer()) is None and stack.outside.clock.now() < end:
        stack.pause(_PAUSE_S)
    return found
