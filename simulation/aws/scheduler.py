"""EventBridge Scheduler: one-time schedules, each within the minute that follows its time, then deleted."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from shared.ports.errors import RefusedError
from simulation.faults import Faults
from simulation.kernel import SECOND, Chance, Kernel, instant

_LATE_MAX: Final = 40 * SECOND


class Scheduler:
    """The schedules, and as much of boto3's client as the adapter uses. ``fire`` gets the target's input."""

    def __init__(
        self, kernel: Kernel, chance: Chance, faults: Callable[[], Faults], fire: Callable[[str], None]
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
