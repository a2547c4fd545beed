"""Keeps the events of the outbound bus, so that people can look back."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from reservoir.core.history.past_demand import DemandStep, DemandStepKind, steps_of
from reservoir.core.history.past_event import PastEvent, parse_event
from reservoir.ports.history import HistoryStore
from reservoir.ports.state import UnreadableRowsError, WorkloadStore


@dataclass(frozen=True, slots=True)
class KeepEvents:
    """Keeps events by the objects they concern, and by time. Each may come several times and in any order.

    Events about demand are kept for longer, with the demand itself.
    """

    history: HistoryStore
    workloads: WorkloadStore

    def keep(self, event: Any) -> PastEvent:
        """Keep one event as EventBridge delivered it, and return it.

        Raises
        ------
        EventError
            It is no event of EventBridge.
        """
        told = parse_event(event)
        self.history.keep([told])
        steps = tuple(self._steps(told))
        if steps:
            self.history.keep_demand(steps)
        return told

    def _steps(self, told: PastEvent) -> Iterator[DemandStep]:
        """Yield the steps of demand with their generation: the stored demand may be a later one than the event's."""
        for step in steps_of(told):
            if step.kind is not DemandStepKind.WANTED:
                yield step
                continue
            try:
                record = self.workloads.get(step.workload_key)
            except UnreadableRowsError:
                # a newer release's: that something was wanted is kept all the same
                record = None
            workload = None if record is None or record.withdrawn else record.workload
            yield (
                step
                if workload is None
                else replace(step, generation=workload.generation, workload=workload)
            )
