"""What happened lately; ``reservoir events`` looks further back, and at one object."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from reservoir.commands.see.events import LISTING
from reservoir.nouns.noun import Facts, Noun, Selection
from reservoir.output import Listing
from reservoir.stack.connection import Connection
from shared.core.history.past_event import PastEvent

_LATELY: Final = timedelta(hours=1)
_LATE: Final = timedelta(minutes=2)  # an event may carry a time a little ahead of ours


def _read(stack: Connection, selection: Selection) -> Sequence[PastEvent]:
    """Read the last hour; an event has no key of its own to be read by."""
    now = stack.clock.now()
    told = stack.history.timeline(now - _LATELY, now + _LATE)
    return [event for event in told if not selection.names or event.id in selection.names]


def _facts(row: PastEvent) -> Facts:
    return Facts(frozenset({row.id}))


def _listing(now: datetime) -> Listing[PastEvent]:
    del now
    return LISTING


NOUN: Final = Noun("events", "event", frozenset(), _read, _facts, _listing)
