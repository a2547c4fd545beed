"""The clock and the ids of a running function, and the clock of a command line on another machine."""

import uuid
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

# Answers say whole seconds, and take a moment: a clock that is no further off than this is right.
_RIGHT_WITHIN: Final = timedelta(seconds=2)


class SystemClock:
    """Implements ``reservoir.ports.system.Clock``."""

    def now(self) -> datetime:
        """Return the present instant, aware, in UTC."""
        return datetime.now(UTC)


class AwsClock:
    """Implements ``reservoir.ports.system.Clock``: the time as AWS says it in its answers.

    It is right where this machine's clock is wrong, and it is the emulated time on an embedded AWS.
    """

    def __init__(self) -> None:
        self._ahead = timedelta(0)

    def now(self) -> datetime:
        """Return the present instant, aware, in UTC; this machine's until AWS has answered."""
        return datetime.now(UTC) + self._ahead

    def hear(self, date: str) -> None:
        """Take in the ``Date`` of an answer."""
        ahead = parsedate_to_datetime(date) - datetime.now(UTC)
        if abs(ahead - self._ahead) > _RIGHT_WITHIN:
            self._ahead = ahead


class RandomIds:
    """Implements ``reservoir.ports.system.IdFactory``."""

    def new_id(self, prefix: str) -> str:
        """Return a new id; 80 random bits, short enough for tags, labels and deduplication ids."""
        return f"{prefix}-{uuid.uuid4().hex[:20]}"
