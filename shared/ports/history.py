"""What happened, for a limited time."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Protocol

from shared.core.history.past_event import PastEvent
from shared.core.history.sample import Sample


class HistoryStore(Protocol):
    """Events of the outbound bus, by object and by time; and what there was, by time."""

    def keep(self, events: Sequence[PastEvent]) -> None:
        """Keep events; one that is already kept is left unchanged."""
        ...

    def of_object(self, name: str, since: datetime, until: datetime) -> Iterator[PastEvent]:
        """Yield what happened to one object from ``since`` to before ``until``, oldest first; may lag by moments."""
        ...

    def timeline(self, since: datetime, until: datetime) -> Iterator[PastEvent]:
        """Yield everything that happened from ``since`` to before ``until``, oldest first; may lag by moments."""
        ...

    def keep_sample(self, sample: Sample) -> None:
        """Keep what there was at an instant."""
        ...

    def samples(self, since: datetime, until: datetime) -> Iterator[Sample]:
        """Yield what there was from ``since`` to before ``until``, oldest first; may lag by moments."""
        ...
