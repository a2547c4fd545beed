"""What comes at its time: one-time schedules, each within the minute that follows, then deleted, and rules' rates."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from lab.simulation.faults import Faults
from lab.simulation.kernel import MINUTE, SECOND, Chance, Kernel, instant
from reservoir.names import Function
from reservoir.ports.errors import RefusedError

_LATE_MAX: Final = 40 * SECOND


class Scheduler:
    """The schedules, and as much of boto3's client as the adapter uses. ``fire`` gets the target's input."""

    def __init__(
        self,
        kernel: Kernel,
        chance: Chance,
        faults: Callable[[], Faults],
        fire: Callable[[str], None],
    ) -> None:
        self._kernel = kernel
        self._chance = chance
        self._faults = faults
        self._fire = fire
        self.requests: dict[str, Mapping[str, Any]] = {}

    def create_schedule(self, **request: Any) -> None:
        """CreateSchedule."""
        if request["Name"] in self.requests:
            raise RefusedError("ConflictException", "CreateSchedule")
        self._set(request)

    def update_schedule(self, **request: Any) -> None:
        """UpdateSchedule."""
        self._set(request)

    def _set(self, request: Mapping[str, Any]) -> None:
        self.requests[request["Name"]] = request
        at = datetime.fromisoformat(request["ScheduleExpression"][3:-1] + "+00:00")
        late = self._chance.between("timer", 0, _LATE_MAX)
        self._kernel.at(instant(at) + late, lambda: self._due(request))

    def _due(self, request: Mapping[str, Any]) -> None:
        if self.requests.get(request["Name"]) is not request:
            return  # it was moved meanwhile
        del self.requests[request["Name"]]
        if not self._chance.hits("timer_lost", self._faults().timer_lost):
            self._fire(request["Target"]["Input"])


@dataclass
class Schedules:
    """The rules that invoke functions again and again; they stop for minutes, and fire twice."""

    kernel: Kernel
    chance: Chance
    faults: Callable[[], Faults]
    stopped_until: dict[Function, int] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def begin(
        self, function: Function, fire: Callable[[dict[str, Any]], None], every_min: int
    ) -> None:
        """Let a function's schedule begin within its first period."""

        def tick() -> None:
            now, faults = self.kernel.now_us, self.faults()
            if self.chance.hits("schedule_stops", faults.schedule_stops):
                self.stopped_until[function] = now + self.chance.between(
                    "schedule", MINUTE, 15 * MINUTE
                )
            if self.stopped_until.get(function, 0) <= now:
                event = {"source": "aws.events", "id": f"minute-{next(self._numbers)}"}
                fire(event)
                if self.chance.hits("schedule_doubled", faults.schedule_doubled):
                    self.kernel.after(
                        self.chance.between("doubled", 0, 2 * SECOND), lambda: fire(event)
                    )
            self.kernel.after(every_us, tick)

        every_us = every_min * MINUTE
        self.kernel.after(self.chance.between("schedule", SECOND, every_us), tick)
