"""The history in memory."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from reservoir.core.history.past_demand import DemandStep
from reservoir.core.history.past_event import PastEvent
from reservoir.core.history.sample import Sample


class MemoryHistory:
    """Implements ``reservoir.ports.history.HistoryStore``."""

    def __init__(self) -> None:
        self._kept: dict[str, PastEvent] = {}
        self._samples: dict[datetime, Sample] = {}
        self._steps: dict[str, DemandStep] = {}

    def keep(self, events: Sequence[PastEvent]) -> None:
        for event in events:
            self._kept.setdefault(event.id, event)

    def of_object(self, name: str, since: datetime, until: datetime) -> Iterator[PastEvent]:
        return (
            event.about(name)
            for event in self.timeline(since, until)
            if name in event.objects()
        )

    def timeline(self, since: datetime, until: datetime) -> Iterator[PastEvent]:
        kept = sorted(self._kept.values(), key=lambda event: event.order)
        return iter([event for event in kept if since <= event.at < until])

    def keep_demand(self, steps: Sequence[DemandStep]) -> None:
        self._steps |= {step.id: step for step in steps}

    def demand(self, since: datetime, until: datetime) -> Iterator[DemandStep]:
        kept = sorted(self._steps.values(), key=lambda step: (step.at, step.id))
        return (step for step in kept if since <= step.at < until)

    def keep_sample(self, sample: Sample) -> None:
        self._samples[sample.taken_at.replace(microsecond=0)] = sample

    def samples(self, since: datetime, until: datetime) -> Iterator[Sample]:
        return (
            sample for at, sample in sorted(self._samples.items()) if since <= at < until
        )
