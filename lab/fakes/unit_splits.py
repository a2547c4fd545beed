"""CreateCapacityReservationBySplitting and GroupResources in memory: free units only, and an answer that repeats."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from lab.fakes.ec2 import FakeEc2
from reservoir.ports.errors import IdempotencyMismatchError, RefusedError, ThrottledError

_CALL: Final = "CreateCapacityReservationBySplitting"
_JOIN: Final = "GroupResources"


class FakeUnitSplitter:
    """Implements ``reservoir.ports.ec2.UnitSplitter`` on the reservations of a ``FakeEc2``."""

    def __init__(self, ec2: FakeEc2) -> None:
        self._ec2 = ec2
        self._done: dict[str, tuple[str, dict[str, str], str]] = {}
        self.throttle_count = 0  # the next calls are throttled
        self.refuses = False
        self.refuses_to_join = False

    @property
    def made(self) -> list[str]:
        """The reservations that were split off, in turn."""
        return [made for _, _, made in self._done.values()]

    def split(self, source_id: str, tags: Mapping[str, str], client_token: str) -> str:
        if self.throttle_count:
            self.throttle_count -= 1
            raise ThrottledError("RequestLimitExceeded", _CALL)
        if client_token in self._done:
            source, known, made = self._done[client_token]
            if (source, known) != (source_id, dict(tags)):
                raise IdempotencyMismatchError("IdempotentParameterMismatch", _CALL)
            return made
        stored = self._ec2.reservations.get(source_id)
        if stored is None:
            raise RefusedError("InvalidCapacityReservationId.NotFound", _CALL)
        may = stored.state == "active" and stored.total_count > 1
        if self.refuses or not may or self._ec2.free_units(source_id) < 1:
            raise RefusedError("InvalidParameterValue", _CALL)
        made = f"cr-split-{len(self._done)}"
        self._done[client_token] = (source_id, dict(tags), made)
        self._ec2.put(replace(stored, total_count=stored.total_count - 1))
        self._ec2.put(replace(stored, id=made, total_count=1, tags=dict(tags)))
        return made

    def join(self, reservation_id: str, group_arn: str) -> None:
        stored = self._ec2.reservations.get(reservation_id)
        if self.refuses_to_join or stored is None or stored.state != "active":
            raise RefusedError("InvalidResource", _JOIN)
        self._ec2.join(reservation_id, group_arn)
