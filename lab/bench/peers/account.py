"""The account that both play in: EC2's types and prices, boots, interruptions, and what is counted of it."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, Protocol

from lab.bench.peers.trace import Job, Trace
from lab.bench.worlds.catalogue import ec2_catalogue
from lab.simulation.aws.ec2 import SUBNETS, SimulatedEc2
from lab.simulation.catalogue import TEAM, ZONES
from lab.simulation.faults import NO_FAULTS
from lab.simulation.kernel import HOUR, MINUTE, SECOND, Chance, Kernel
from reservoir.core.capacity.catalogue import Discovered, DiscoveredType, compose
from reservoir.core.launching.launch_outcome import LaunchedInstance
from reservoir.core.launching.launch_request import LaunchOverride, LaunchRequest
from reservoir.core.model.capacity_reservation import (
    ACTIVE,
    CapacityReservation,
    ReservationKind,
)
from reservoir.core.model.instance import RUNNING, SPOT_LIFECYCLE, Instance
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.names import LENDABLE_TAG, LENDABLE_VALUE
from reservoir.ports.discovery import ZoneOfferings

_SIZES: Final = ("large", "xlarge", "2xlarge", "4xlarge", "8xlarge")
_NAMES: Final = tuple(f"{family}6i.{size}" for family in "cmr" for size in _SIZES)
_MARKETS: Final = frozenset({CapacityType.ON_DEMAND, CapacityType.SPOT})
_ZONE_NAMES: Final = {zone_id: zone for zone, zone_id in ZONES}
_NOTICE_US: Final = 2 * MINUTE


@dataclass(frozen=True, slots=True)
class Market:
    """What can be bought: fifteen types in two zones, on demand and as spot, as both discover them."""

    types: tuple[DiscoveredType, ...]
    offered: ZoneOfferings
    on_demand: Mapping[str, int]
    spot: Mapping[tuple[str, str], int]

    def composed(self) -> tuple[InstanceType, ...]:
        """Return the types with their offerings, put together as discovery does."""
        found = Discovered(
            self.types, self.offered.zone_ids, _ZONE_NAMES, self.on_demand, self.spot
        )
        return compose(found, ()).instance_types

    def price(self, instance: Instance) -> int:
        """Return micro-USD an hour of an instance outside reservations."""
        if instance.lifecycle == SPOT_LIFECYCLE:
            return self.spot[instance.instance_type, instance.zone]
        return self.on_demand[instance.instance_type]


@cache
def market() -> Market:
    """Take the types from EC2's catalogue, with its modelled prices and drawn spot prices."""
    by_name = {each.name: each for each in ec2_catalogue(largest=10_000).instance_types}
    chosen = [by_name[name] for name in _NAMES]
    spot = {
        (each.name, offering.zone): offering.price_micro_usd_per_hour
        for each in chosen
        for offering in each.offerings
        if offering.capacity_type is CapacityType.SPOT and offering.zone_id in _ZONE_NAMES
    }
    return Market(
        tuple(DiscoveredType(replace(each, offerings=()), _MARKETS) for each in chosen),
        ZoneOfferings({each.name: tuple(_ZONE_NAMES) for each in chosen}, _ZONE_NAMES),
        {each.name: each.on_demand_price_micro_usd_per_hour or 0 for each in chosen},
        spot,
    )


class Account(SimulatedEc2):
    """EC2 without mishaps, but that it takes spot instances back; the n-th launch has the same fate for both."""

    def __init__(
        self, kernel: Kernel, chance: Chance, faults: Any, emit: Callable[[str, Any], None]
    ) -> None:
        super().__init__(kernel, chance, faults, emit)
        self.spot_life_s = float(HOUR)
        self.version = 0  # of what instances are

    def open(self, trace: Trace) -> None:
        """Let the trace's reservations come and go."""
        self.spot_life_s = trace.spot_life_s
        for number, units in enumerate(trace.reservations):
            key = f"cr-{number:017x}"
            zone, zone_id = ZONES[units.zone]
            reservation = CapacityReservation(
                id=key,
                owner_id="111122223333",
                instance_type=units.instance_type,
                zone=zone,
                zone_id=zone_id,
                kind=ReservationKind.DEFAULT,
                state=ACTIVE,
                total_count=units.count,
                available_count=units.count,
                free_units=units.count,
                tags={**TEAM, LENDABLE_TAG: LENDABLE_VALUE},
            )
            self._kernel.at(
                round(units.from_s * SECOND), _calling(self.reserve, reservation)
            )
            if units.until_s is not None:
                self._kernel.at(round(units.until_s * SECOND), _cancelling(self, key))

    def run(self, place: "Place") -> str | None:
        """Launch one instance for a caller that asks for a single place; None when the reservation has no unit."""
        if place.reservation_id is not None and self.free_units(place.reservation_id) < 1:
            return None
        self._started_count += 1
        instance = Instance(
            id=f"i-{self._started_count:017x}",
            state="pending",
            instance_type=place.instance_type,
            zone=place.zone,
            zone_id=place.zone_id,
            launched_at=self._kernel.now(),
            lifecycle=SPOT_LIFECYCLE if place.capacity_type is CapacityType.SPOT else "",
            capacity_reservation_id=place.reservation_id,
            subnet_id=next(key for key, at in SUBNETS.items() if at[1] == place.zone_id),
        )
        self.add(instance)
        self._boot(instance.id)
        self._expect_interruption(instance.id)
        self.note_counts()
        return instance.id

    def _start(self, request: LaunchRequest, override: LaunchOverride) -> LaunchedInstance:
        launched = super()._start(request, override)
        self._expect_interruption(launched.id)
        return launched

    def _expect_interruption(self, instance_id: str) -> None:
        self.version += 1
        if self._launched[instance_id].instance.lifecycle == SPOT_LIFECYCLE:
            life_s = self._chance.stream("spot-life").expovariate(1 / self.spot_life_s)
            self._kernel.after(round(life_s * SECOND), lambda: self._take_back(instance_id))

    def _take_back(self, instance_id: str) -> None:
        if (
            instance_id in self._launched
            and not self._launched[instance_id].instance.is_gone
        ):
            self.tell_of_interruption(instance_id)
            self._kernel.after(
                _NOTICE_US, lambda: self.end(instance_id, "Server.SpotInstanceTermination")
            )

    def change(self, instance_id: str, **changes: object) -> None:
        """Change an instance."""
        super().change(instance_id, **changes)
        self.version += 1

    def put(self, reservation: CapacityReservation) -> None:
        """Let units be lent or come back."""
        super().put(reservation)
        self.version += 1


@dataclass(frozen=True, slots=True)
class Place:
    """One offering to launch from."""

    instance_type: str
    zone: str
    zone_id: str
    capacity_type: CapacityType
    reservation_id: str | None = None


class Player(Protocol):
    """Whoever plays the trace, as far as it is counted."""

    kernel: Kernel
    ec2: Account

    @property
    def version(self) -> int:
        """Grow with each change of what runs where."""
        ...

    def running(self) -> Counter[str]:
        """Count replicas on instances that run, by workload."""
        ...

    def busy(self) -> Collection[str]:
        """Return the instances that have replicas."""
        ...


@dataclass(slots=True)
class Meter:
    """Counts what users and payers see, alike for whoever plays; looks whenever something has changed."""

    player: Player
    jobs: Mapping[str, Job]
    until_us: int
    # of each replica, until it ran first
    waits_s: list[float] = field(default_factory=list)
    bought_usd: float = 0.0
    used_unit_h: float = 0.0
    unit_h: float = 0.0
    lent_unit_h: float = 0.0
    node_h: float = 0.0
    empty_node_h: float = 0.0  # of nodes that run and have no replica
    wanted_h: float = 0.0
    lacking_h: float = 0.0  # of replicas that are wanted and run nowhere
    _looked_us: int = 0
    _seen: tuple[int, int] = (-1, -1)
    _now: "_State" = field(default_factory=lambda: _State())
    _most: Counter[str] = field(default_factory=Counter)
    _wanted: Counter[str] = field(default_factory=Counter)

    def comes(self, job: Job) -> None:
        """Hear that somebody wants replicas."""
        self._wanted[job.name] = job.replicas
        self._seen = (-1, -1)

    def goes(self, job: Job) -> None:
        """Hear that nobody wants them any more; who never ran does not count as having waited."""
        del self._wanted[job.name]
        self._seen = (-1, -1)

    def look(self) -> None:
        """Add up what held until now, and see what holds from now on."""
        now = min(self.player.kernel.now_us, self.until_us)
        hours = (now - self._looked_us) / HOUR
        self._looked_us = now
        self.bought_usd += self._now.usd_per_hour * hours
        self.used_unit_h += self._now.used_units * hours
        self.unit_h += self._now.units * hours
        self.lent_unit_h += self._now.lent_units * hours
        self.node_h += self._now.nodes * hours
        self.empty_node_h += self._now.empty_nodes * hours
        self.lacking_h += self._now.lacking * hours
        self.wanted_h += self._wanted.total() * hours
        seen = (self.player.version, self.player.ec2.version)
        if seen != self._seen:
            self._seen = seen
            self._now = self._found(now)

    def _found(self, now: int) -> "_State":
        running, busy = self.player.running(), self.player.busy()
        lacking = 0
        for key, wanted in self._wanted.items():
            count = min(wanted, running[key])
            lacking += wanted - count
            if count > self._most[key]:
                self.waits_s += [now / SECOND - self.jobs[key].at_s] * (
                    count - self._most[key]
                )
                self._most[key] = count
        live = self.player.ec2.live()
        empty = {each.id for each in live if each.state == RUNNING and each.id not in busy}
        return _State(
            usd_per_hour=sum(
                market().price(each)
                for each in live
                if each.capacity_reservation_id is None
            )
            / 10**6,
            used_units=sum(
                each.capacity_reservation_id is not None and each.id not in empty
                for each in live
            ),
            units=sum(
                each.total_count
                for each in self.player.ec2.reservations.values()
                if each.state == ACTIVE
            ),
            lent_units=sum(
                each.total_count
                for each in self.player.ec2.reservations.values()
                if each.kind is ReservationKind.INTERRUPTIBLE
            ),
            nodes=len(live),
            empty_nodes=len(empty),
            lacking=lacking,
        )


@dataclass(frozen=True, slots=True)
class _State:
    """What holds until something changes."""

    usd_per_hour: float = 0.0
    used_units: int = 0
    units: int = 0
    lent_units: int = 0
    nodes: int = 0
    empty_nodes: int = 0
    lacking: int = 0


def quiet_account(
    trace: Trace, emit: Callable[[str, Any], None]
) -> tuple[Kernel, Chance, Account]:
    """Return an account of its own for the trace."""
    kernel, chance = Kernel(), Chance(trace.seed)
    return kernel, chance, Account(kernel, chance, lambda: NO_FAULTS, emit)


def play(
    player: Player, trace: Trace, submit: Callable[[Job], None], end: Callable[[Job], None]
) -> Meter:
    """Let everything in the trace happen, to its last second."""
    until = round(trace.hours * HOUR)
    meter = Meter(player, {job.name: job for job in trace.jobs}, until)
    kernel = player.kernel
    for job in trace.jobs:
        kernel.at(round(job.at_s * SECOND), _both(meter.comes, submit, job))
        if job.ends_s < trace.hours * 3600:
            kernel.at(round(job.ends_s * SECOND), _both(meter.goes, end, job))
    kernel.after_step = meter.look
    while kernel.now_us < until and kernel.step():
        pass
    meter.look()
    return meter


def _both(
    first: Callable[[Job], None], then: Callable[[Job], None], job: Job
) -> Callable[[], None]:
    def act() -> None:
        first(job)
        then(job)

    return act


def _calling(
    act: Callable[[CapacityReservation], None], what: CapacityReservation
) -> Callable[[], None]:
    return lambda: act(what)


def _cancelling(account: Account, key: str) -> Callable[[], None]:
    return lambda: account.alter(key, state="cancelled")
