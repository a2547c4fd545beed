"""MoveCapacityReservationInstances in memory: free units only, and an answer that repeats."""

from dataclasses import replace

from lab.fakes.ec2 import FakeEc2
from reservoir.ports.errors import IdempotencyMismatchError, RefusedError, ThrottledError

_CALL = "MoveCapacityReservationInstances"


class FakeUnitMover:
    """Implements ``reservoir.ports.ec2.UnitMover`` on the reservations of a ``FakeEc2``."""

    def __init__(self, ec2: FakeEc2) -> None:
        self._ec2 = ec2
        self._done: dict[str, tuple[str, str, int]] = {}
        self.throttle_count = 0  # the next calls are throttled
        self.refuses = False

    @property
    def moved_count(self) -> int:
        return sum(count for _, _, count in self._done.values())

    def move(
        self, source_id: str, destination_id: str, count: int, client_token: str
    ) -> None:
        wanted = (source_id, destination_id, count)
        if self.throttle_count:
            self.throttle_count -= 1
            raise ThrottledError("RequestLimitExceeded", _CALL)
        if client_token in self._done:
            if self._done[client_token] != wanted:
                raise IdempotencyMismatchError("IdempotentParameterMismatch", _CALL)
            return
        are_active = all(
            it in self._ec2.reservations and self._ec2.reservations[it].state == "active"
            for it in (source_id, destination_id)
        )
        if self.refuses or not are_active or self._ec2.free_units(source_id) < count:
            raise RefusedError("InvalidParameterValue", _CALL)
        self._done[client_token] = wanted
        for reservation_id, change in ((source_id, -count), (destination_id, count)):
            stored = self._ec2.reservations[reservation_id]
            total = stored.total_count + change
            self._ec2.put(
                replace(
                    stored,
                    total_count=total,
                    state=stored.state if total else "cancelled",
                )
            )
