"""Interruptible allocations in memory: free units only, an answer that repeats, and two minutes' notice."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from lab.fakes.ec2 import FakeEc2
from reservoir.core.model.capacity_reservation import LentUnits, ReservationKind
from reservoir.names import OWNER_TAG
from reservoir.ports.errors import IdempotencyMismatchError, RefusedError, ThrottledError

_CREATE: Final = "CreateInterruptibleCapacityReservationAllocation"
_UPDATE: Final = "UpdateInterruptibleCapacityReservationAllocation"


class FakeUnitLender:
    """Implements ``reservoir.ports.ec2.UnitLender`` on the reservations of a ``FakeEc2``."""

    def __init__(self, ec2: FakeEc2) -> None:
        self._ec2 = ec2
        self._done: dict[str, tuple[str, int, dict[str, str]]] = {}
        self.throttle_count = 0  # the next calls are throttled
        self.refuses = False
        self.borrowed: dict[str, int] = {}  # units in which others run, by source
        self.calls: list[tuple[str, int]] = []  # that changed something

    def lent(self, source_id: str) -> LentUnits | None:
        stored = self._ec2.reservations.get(source_id)
        if stored is None:
            raise RefusedError("InvalidCapacityReservationId.NotFound", _UPDATE)
        return stored.lent

    def begin(
        self, source_id: str, count: int, tags: Mapping[str, str], client_token: str
    ) -> None:
        self._throttle(_CREATE)
        asked = (source_id, count, dict(tags))
        if client_token in self._done:
            if self._done[client_token] != asked:
                raise IdempotencyMismatchError("IdempotentParameterMismatch", _CREATE)
            return
        source = self._ec2.reservations[source_id]
        if self.refuses or source.lent is not None:
            raise RefusedError("OperationNotPermitted", _CREATE)
        self._take_free(source_id, count)
        self._done[client_token] = asked
        lent_id = f"{source_id}-lent"
        lent_by = tags.get(OWNER_TAG)
        changed = self._ec2.reservations[source_id]
        self._ec2.put(replace(changed, lent=LentUnits(lent_id, count, count, lent_by)))
        self._ec2.put(
            replace(
                source,
                id=lent_id,
                kind=ReservationKind.INTERRUPTIBLE,
                total_count=count,
                tags=dict(tags),
            )
        )
        self.calls.append((source_id, count))

    def change(self, source_id: str, target_count: int) -> None:
        self._throttle(_UPDATE)
        source = self._ec2.reservations[source_id]
        lent = source.lent
        if self.refuses or lent is None:
            raise RefusedError("OperationNotPermitted", _UPDATE)
        if target_count > lent.target_count:
            if lent.is_changing:
                raise RefusedError("OperationNotPermitted", _UPDATE)
            self._take_free(source_id, target_count - lent.count)
        self.calls.append((source_id, target_count))
        changed = self._ec2.reservations[source_id]
        count = max(lent.count, target_count)
        self._ec2.put(
            replace(changed, lent=replace(lent, count=count, target_count=target_count))
        )
        self._resize(lent.reservation_id, count)
        self._give_back(source_id)

    def give_all_back(self) -> None:
        """Let the notice be over: what runs in units that are taken back has ended."""
        for source_id in sorted(self._ec2.reservations):
            lent = self._ec2.reservations[source_id].lent
            if lent is None or not lent.is_changing:
                continue
            used = self.borrowed.get(source_id, 0)
            self.borrowed[source_id] = min(used, lent.target_count)
            self._give_back(source_id)

    def _give_back(self, source_id: str) -> None:
        """Give free units back to the source, as many as it has asked for."""
        source = self._ec2.reservations[source_id]
        lent = source.lent
        if lent is None:
            return
        free = lent.count - self.borrowed.get(source_id, 0)
        back = min(free, lent.count - lent.target_count)
        self._ec2.put(
            replace(
                source,
                total_count=source.total_count + back,
                lent=replace(lent, count=lent.count - back),
            )
        )
        self._resize(lent.reservation_id, lent.count - back)

    def _resize(self, lent_id: str, count: int) -> None:
        self._ec2.put(replace(self._ec2.reservations[lent_id], total_count=count))

    def _take_free(self, source_id: str, count: int) -> None:
        if self._ec2.free_units(source_id) < count:
            raise RefusedError("InvalidParameterValue", _CREATE)
        source = self._ec2.reservations[source_id]
        self._ec2.put(replace(source, total_count=source.total_count - count))

    def _throttle(self, call: str) -> None:
        if self.throttle_count:
            self.throttle_count -= 1
            raise ThrottledError("RequestLimitExceeded", call)
