"""The record function."""

from shared.runtime.adapters import Adapters
from shared.runtime.composition.outside import adapters, once
from shared.usecases.history.keep_events import KeepEvents


@once
def keep_events() -> KeepEvents:
    """Return what keeps events."""
    return keep_events_from(adapters())


def keep_events_from(outside: Adapters) -> KeepEvents:
    """Wire what keeps events."""
    return KeepEvents(outside.history)
