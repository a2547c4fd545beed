"""What work takes of a unit of each reservation, and whether it could be bought: asked of the real scheduler."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.advice.units import shape_of
from reservoir.core.model.capacity_reservation import (
    ACTIVE,
    CapacityReservation,
)
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.plan import Plan
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import Demand, Workload
from reservoir.core.serialisation.json_codec import dumps
from reservoir.core.start_times.queue import UNIT_MILLI

Solve = Callable[[Snapshot, datetime], Plan]
_ASKED: Final = 64  # replicas: as many of them as share a unit are seen
_PLENTY: Final = 1000
_FAR: Final = timedelta(days=1000)


@dataclass(frozen=True, slots=True)
class UnitRoom:
    """Asks the scheduler about each shape of work once; what else there is, or waits, is left out of the question."""

    world: Snapshot
    solve: Solve
    now: datetime
    _taken: dict[str, Mapping[str, int]] = field(default_factory=dict)
    _markets: dict[tuple[str, CapacityType], bool] = field(default_factory=dict)

    def taken_by(self, workload: Workload) -> Mapping[str, int]:
        """Return which part of a unit one replica takes, in thousandths, for each reservation that it may run in."""
        shape = _shape(workload)
        name = dumps(shape)
        if name not in self._taken:
            parts: dict[str, int] = {}
            for reservation in self.world.reservations:
                each = self._replicas_of_a_unit(shape, reservation)
                if each:
                    parts[reservation.id] = UNIT_MILLI // each
            self._taken[name] = parts
        return self._taken[name]

    def is_sold(self, workload: Workload, market: CapacityType) -> bool:
        """Whether the planner would buy for it on a market."""
        shape = _shape(workload)
        about = dumps(shape), market
        if about not in self._markets:
            types = []
            for item in self.world.instance_types:
                sold = tuple(
                    each for each in item.offerings if each.capacity_type is market
                )
                types.append(replace(item, offerings=sold))
            world = replace(self._empty(), instance_types=tuple(types))
            plan = self._asked(shape, world)
            self._markets[about] = bool(plan.launches)
        return self._markets[about]

    def _replicas_of_a_unit(self, shape: Workload, reservation: CapacityReservation) -> int:
        """Return how many replicas the planner puts onto one unit, if there are plenty and it lasts."""
        open_one = replace(
            reservation,
            state=ACTIVE,
            start_at=None,
            end_at=None if reservation.end_at is None else self.now + _FAR,
            total_count=_PLENTY,
            available_count=_PLENTY,
            free_units=_PLENTY,
            refusal=None,
            share=None,
        )
        types = tuple(
            item
            for item in self.world.instance_types
            if item.name == reservation.instance_type
        )
        world = replace(self._empty(), reservations=(open_one,), instance_types=types)
        counts = [0]
        for launch in self._asked(shape, world).launches:
            if launch.offering.reservation_id == reservation.id:
                counts.append(sum(placed.count for placed in launch.placements))
        return min(UNIT_MILLI, max(counts))

    def _empty(self) -> Snapshot:
        return replace(
            self.world,
            reservations=(),
            nodes=(),
            demands=(),
            workloads={},
            teams=(),
            ceiling_micro_usd_per_hour=None,
        )

    def _asked(self, shape: Workload, world: Snapshot) -> Plan:
        demand = Demand(shape, shape.replicas, self.now)
        return self.solve(
            replace(world, demands=(demand,), workloads={shape.key: shape}), self.now
        )


def _shape(workload: Workload) -> Workload:
    """Return what is the same for all that may run in the same places; that it ends by itself is part of it."""
    return replace(
        shape_of(workload),
        name="asked",
        replicas=_ASKED,
        duration_s=None if workload.duration_s is None else 1,
    )
