"""What happened within the last hour: where listing starts that has no index by time."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from reservoir.cli.stack.connection import Connection
from reservoir.core.history.past_event import PastEvent

LATE: Final = timedelta(minutes=2)  # an event may carry a time a little ahead of ours
_LATELY: Final = timedelta(hours=1)


def lately(stack: Connection) -> Iterator[PastEvent]:
    """Yield it, the oldest first."""
    now = stack.outside.clock.now()
    return stack.outside.history.timeline(now - _LATELY, now + LATE)
