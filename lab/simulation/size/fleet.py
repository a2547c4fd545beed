"""A large fleet: reservations that are most of it, work that comes and goes, and schedules that run more seldom."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from lab.simulation.aws.ec2 import SimulatedEc2
from lab.simulation.catalogue import TEAM, ZONES, node_pool_manifest
from lab.simulation.faults import NO_FAULTS
from lab.simulation.kernel import HOUR, MINUTE, Kernel
from lab.simulation.people.outsiders import Outsiders
from lab.simulation.people.users import POOL, Users, Wanted
from lab.simulation.process import SETTINGS
from lab.simulation.world import World
from reservoir.core.launching.launch_outcome import LaunchedInstance
from reservoir.core.launching.launch_request import LaunchOverride, LaunchRequest
from reservoir.core.model.capacity_reservation import (
    ACTIVE,
    CapacityReservation,
    ReservationKind,
)
from reservoir.core.model.instance import Instance
from reservoir.runtime.settings import Settings

TYPE: Final = "m5.4xlarge"
COARSENESS: Final = 100
# one replica a node
_SPEC: Final = {"resources": {"requests": {"cpu": "14", "memory": "48Gi"}}}
_DAY: Final = 24 * HOUR


@dataclass(frozen=True)
class Size:
    """How large: nodes on average, of which ``reserved_percent`` are in as many ``reservations``."""

    nodes: int = 5_000
    reservations: int = 50
    days: int = 30
    reserved_percent: int = 80
    replicas: int = 25  # of a workload
    stay_days: int = 10  # of a workload, on average


class CountedEc2(SimulatedEc2):
    """Counts used units as instances come and go: looking at all of them each time takes minutes."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._used: Counter[str] = Counter()

    def _count(self, instance: Instance, by: int) -> None:
        if instance.capacity_reservation_id is not None and instance.state != "terminated":
            self._used[instance.capacity_reservation_id] += by

    def _start(self, request: LaunchRequest, override: LaunchOverride) -> LaunchedInstance:
        launched = super()._start(request, override)
        self._count(self._launched[launched.id].instance, 1)
        return launched

    def change(self, instance_id: str, **changes: object) -> None:
        """Change an instance."""
        self._count(self._launched[instance_id].instance, -1)
        super().change(instance_id, **changes)
        self._count(self._launched[instance_id].instance, 1)

    def used_units(self, reservation_id: str) -> int:
        """Return how many instances are in a reservation."""
        return self._used[reservation_id]


class Owners(Outsiders):
    """Make equal reservations, and leave them as they are."""

    size = Size()

    def begin(self) -> None:
        """Make them."""
        units = (
            self.size.nodes * self.size.reserved_percent // 100 // self.size.reservations
        )
        for number in range(self.size.reservations):
            zone, zone_id = ZONES[number % len(ZONES)]
            self.ec2.reserve(
                CapacityReservation(
                    id=f"cr-{number:017x}",
                    owner_id="111122223333",
                    instance_type=TYPE,
                    zone=zone,
                    zone_id=zone_id,
                    kind=ReservationKind.DEFAULT,
                    state=ACTIVE,
                    total_count=units,
                    available_count=units,
                    free_units=units,
                    tags=TEAM,
                )
            )


class Tenants(Users):
    """Workloads come at random times and stay for days; by day there are more of them than by night."""

    size = Size()

    def begin(self) -> None:
        """Want as much as on average at once, then go on."""
        for _ in range(self.size.nodes // self.size.replicas):
            self._come()
        self._next()

    def _next(self) -> None:
        """Plan the next arrival: of a Poisson process whose rate follows the time of day."""
        day = 1 + 0.5 * math.sin(2 * math.pi * self.kernel.now_us / _DAY)
        each_us = self.size.stay_days * _DAY * self.size.replicas / self.size.nodes / day
        self.kernel.after(int(self._drawn(each_us)), self._arrive)

    def _arrive(self) -> None:
        self._come()
        self._next()

    def _come(self) -> None:
        wanted = Wanted(f"job-{len(self.wanted) + 1}", _SPEC, self.size.replicas)
        self._say(wanted)
        self.kernel.after(
            int(self._drawn(self.size.stay_days * _DAY)), lambda: self._withdraw(wanted)
        )

    def _drawn(self, mean_us: float) -> float:
        return self.chance.stream("tenants").expovariate(1 / mean_us)


class Fleet(World):
    """The world of a fleet of a size."""

    coarseness = COARSENESS
    is_plain = True
    ec2_class = CountedEc2

    def __init__(self, seed: int, size: Size) -> None:
        super().__init__(seed)
        self.size = size
        self.drawn = NO_FAULTS
        send = self.users.send
        self.users = self.tenants = Tenants(self.kernel, self.chance, send)
        self.tenants.size = size
        self.users.resting = True  # what chance would have them do
        self.agents.are_there = False
        self.keeps_history = True
        owners = Owners(self.kernel, self.chance, self.faults, self.ec2, self.change_policy)
        owners.size = size
        self.outsiders = owners

    def _pool_manifest(self) -> dict[str, Any]:
        self.limits, self.budget = {}, "10%"
        disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "10m"}
        return node_pool_manifest(POOL, ("reserved", "spot", "on-demand"), disruption, {})

    def _settings(self) -> Settings:
        # in looks at the clock: there is time enough
        return replace(SETTINGS, solve_budget=timedelta(hours=1))

    def live(self) -> None:
        """Let everything begin."""
        self.begin()
        self.tenants.begin()

    def every(self, us: int, look: Callable[[], None]) -> None:
        """Look at the fleet again and again."""
        _again(self.kernel, us, look)


def _again(kernel: Kernel, us: int, look: Callable[[], None]) -> None:
    def act() -> None:
        look()
        kernel.after(us, act)

    kernel.after(us, act)


SAMPLED_EVERY: Final = COARSENESS * MINUTE
