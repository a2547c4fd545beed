"""Who sent how much of late, and what waits, in memory."""

from collections import Counter
from collections.abc import Collection
from datetime import datetime, timedelta

from reservoir.adapters.dynamodb.demand_census import beginning
from reservoir.ports.state import WorkloadStore
from reservoir.ports.system import Clock


class MemoryDemandCensus:
    """Implements ``DemandCensus``."""

    def __init__(self, workloads: WorkloadStore, clock: Clock) -> None:
        self._workloads = workloads
        self._clock = clock
        self._counts: Counter[tuple[str, timedelta, datetime]] = Counter()

    def add(self, whose: str, span: timedelta) -> int:
        key = whose, span, beginning(self._clock.now(), span)
        self._counts[key] += 1
        return self._counts[key]

    def waiting_keys(self) -> Collection[str]:
        return [record.key for record in self._workloads.list_needing_planning()]
