"""Time and identity."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """Return the present instant, aware, in UTC."""
        ...


class IdFactory(Protocol):
    """Makes identities."""

    def new_id(self, prefix: str) -> str:
        """Return a new id that starts with ``prefix`` and a hyphen, unique over all functions."""
        ...
