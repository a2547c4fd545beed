"""Keep what the outbound bus tells, so that people can look back."""

from dataclasses import dataclass
from typing import Any

from reservoir.core.history.past_event import PastEvent, parse_event
from reservoir.ports.history import HistoryStore


@dataclass(frozen=True, slots=True)
class KeepEvents:
    """Keeps events by what they are about, and by time. Each may come several times and in any order."""

    history: HistoryStore

    def keep(self, event: Any) -> PastEvent:
        """Keep one event as EventBridge delivered it, and return it.

        Raises
        ------
        EventError
            It is no event of EventBridge.
        """
        told = parse_event(event)
        self.history.keep([told])
        return told
