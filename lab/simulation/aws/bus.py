"""EventBridge: EC2's events on their way in, and the product's own on their way out."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from lab.simulation.faults import Faults
from lab.simulation.kernel import MINUTE, SECOND, Chance, Kernel
from reservoir.ports.errors import ThrottledError

Detail = Mapping[str, Any]
_ABOUT_RESERVATIONS: Final = ("EC2 Capacity Reservation", "Capacity Block")


def told_at(now: datetime) -> str:
    """Return a time as events have it."""
    # a tenth of strftime's time
    return now.isoformat(timespec="seconds").replace("+00:00", "Z")


class EventsIn:
    """The default bus with the stack's rules: to the reactions queue, and to the discovery of reservations."""

    def __init__(
        self,
        kernel: Kernel,
        chance: Chance,
        faults: Callable[[], Faults],
        react: Callable[[str], None],
        discover: Callable[[dict[str, Any]], None],
    ) -> None:
        self._kernel = kernel
        self._chance = chance
        self._faults = faults
        self._react = react
        self._discover = discover
        self._count = 0

    def emit(self, detail_type: str, detail: Detail) -> None:
        """Let EC2 tell something, at best soon and once."""
        self._count += 1
        event = {
            "version": "0",
            "id": f"event-{self._count}",
            "detail-type": detail_type,
            "source": "aws.ec2",
            "time": told_at(self._kernel.now()),
            "detail": dict(detail),
        }
        faults = self._faults()
        if self._chance.hits("event_lost", faults.event_lost):
            return
        for _ in range(
            2 if self._chance.hits("event_doubled", faults.event_doubled) else 1
        ):
            late = self._chance.between("event", SECOND // 10, 2 * SECOND)
            if self._chance.hits("event_late", faults.event_late):
                late = self._chance.between("event", SECOND, 10 * MINUTE)
            self._kernel.after(late, lambda: self._deliver(event))

    def _deliver(self, event: dict[str, Any]) -> None:
        self._react(json.dumps(event))
        if (
            event["detail-type"].startswith(_ABOUT_RESERVATIONS)
            and "instance-id" not in event["detail"]
        ):
            self._discover(event)


class EventsOut:
    """The outbound bus, and as much of boto3's client as the adapter uses. ``heard`` gets each event.

    ``keep`` gets it as EventBridge delivers it, for the history.
    """

    def __init__(
        self,
        kernel: Kernel,
        refuses: Callable[[], bool],
        heard: Callable[[str, Detail], None],
        keep: Callable[[Detail], None],
    ) -> None:
        self._kernel = kernel
        self._refuses = refuses
        self._heard = heard
        self._keep = keep
        self.count = 0

    def put_events(self, **request: Any) -> Mapping[str, Any]:
        """PutEvents; ``refuses`` says whether this request is refused as a whole."""
        if self._refuses():
            raise ThrottledError("ThrottlingException", "PutEvents")
        for entry in request["Entries"]:
            self.count += 1
            detail = json.loads(entry["Detail"])
            told = {
                "version": "0",
                "id": f"told-{self.count}",
                "detail-type": entry["DetailType"],
                "source": entry["Source"],
                "time": told_at(self._kernel.now()),
                "detail": detail,
            }
            self._keep(told)
            self._heard(entry["DetailType"], detail)
        return {"FailedEntryCount": 0, "Entries": []}
