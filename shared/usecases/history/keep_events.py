"""Keep what the outbound bus tells, so that people can look back."""

from dataclasses import dataclass
from typing import Any

from shared.core.history.past_event import parse_event
from shared.ports.history import HistoryStore


@dataclass(frozen=True, slots=True)
class KeepEvents:
    """Keeps events by what they are about, and by time. Each may come several times and in any order."""

    history: HistoryStore

    def keep(self, event: Any) -> None:
        """Keep one event as EventBridge delivered it.

        Raises
        ------
        EventError
            It is no event of EventBridge.
        """
        self.history.keep([parse_event(event)])
