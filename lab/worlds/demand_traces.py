"""Eight weeks of demand of different character, from a seed: what advice is measured on."""

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from lab.fakes import values
from reservoir.core.advice.lives import Life
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.instance_type import CapacityType, InstanceType, Offering
from reservoir.core.model.node_class import (
    CapacityReservationSelectorTerm,
    NodeClass,
    NodeClassStatus,
)
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import FallbackStep, Gang, Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources

SINCE: Final = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday
WEEK: Final = timedelta(days=7)
WEEKS: Final = 8
_HOURS: Final = WEEKS * 7 * 24
_GIB: Final = 2**30
_GPU: Final = "nvidia.com/gpu"
# Type: processors, memory in GiB, GPUs, micro-USD an hour on demand.
_TYPES: Final = {
    "p5.48xlarge": (192, 2048, 8, 55_040_000),
    "g6.12xlarge": (48, 192, 4, 4_600_000),
    "m7i.8xlarge": (32, 128, 0, 1_612_800),
}
_ZONES: Final = ("a", "b")

# of the hour: arrivals, as a part of the usual
Profile = Callable[[float, random.Random], float]


@dataclass(frozen=True)
class Stream:
    """Work of one kind: so many replicas on average at a time, each for so many hours."""

    name: str
    type_name: str
    running: float
    hours: float
    profile: Profile
    replicas: tuple[int, ...] = (1,)
    is_gang: bool = False
    market: str = "reserved"  # the pool: reserved alone, or with a ladder to what is bought


@dataclass(frozen=True)
class Trace:
    """A character: its work, and the units that are held for it."""

    name: str
    is_stationary: bool
    streams: tuple[Stream, ...]
    units: Mapping[str, int]  # by type
    reservations: int = 1  # of each type


def steady(_hour: float, _draw: random.Random) -> float:
    """As much at all times."""
    return 1.0


def weekly(hour: float, _draw: random.Random) -> float:
    """Much on working days, little at weekends."""
    return 1.3 if hour / 24 % 7 < 5 else 0.25


def office(hour: float, _draw: random.Random) -> float:
    """By day more than by night."""
    return 1 + 0.9 * math.sin(2 * math.pi * (hour - 8) / 24)


def growth(hour: float, _draw: random.Random) -> float:
    """Twice as much at the end as in the beginning."""
    return 0.67 + 0.67 * hour / _HOURS


def decline(hour: float, _draw: random.Random) -> float:
    """Half as much at the end as in the beginning."""
    return 1.33 - 0.67 * hour / _HOURS


def leaves(hour: float, _draw: random.Random) -> float:
    """A team that goes after two and a half weeks."""
    return 1.0 if hour < 2.5 * 168 else 0.02


def comes(hour: float, _draw: random.Random) -> float:
    """A team that comes after two weeks."""
    return 0.02 if hour < 2 * 168 else 1.0


def bursts(hour: float, _draw: random.Random) -> float:
    """Every third day six hours of much."""
    return 6.0 if hour % 72 < 6 else 0.5


def campaigns(hour: float, _draw: random.Random) -> float:
    """Every second week a campaign of three days."""
    return 4.0 if hour % 336 < 72 else 0.1


def snapshot_of(trace: Trace) -> Snapshot:
    """Return the world of a trace: a reservation for each type in zone a, and three pools."""
    reservations = tuple(
        values.reservation(
            f"cr-{name}" if trace.reservations == 1 else f"cr-{name}-{number}",
            count // trace.reservations,
            instance_type=name,
            zone="us-east-1a",
            zone_id="use1-aza",
        )
        for name, count in sorted(trace.units.items())
        for number in range(trace.reservations)
    )
    return Snapshot(
        instance_types=tuple(_type(name) for name in sorted(_TYPES)),
        reservations=reservations,
        node_pools=(
            _pool("reserved", CapacityType.RESERVED),
            _pool("ladder", CapacityType.RESERVED, CapacityType.ON_DEMAND),
        ),
        node_classes=(_node_class(reservations),),
    )


def lives_of(trace: Trace, seed: int) -> tuple[Life, ...]:
    """Draw the lives of eight weeks."""
    found: list[Life] = []
    for stream in trace.streams:
        draw = random.Random(f"{trace.name} {stream.name} {seed}")  # noqa: S311 - a trace, no secret
        found += _drawn(stream, draw)
    found.sort(key=lambda life: (life.arrived_at, life.workload.key))
    return tuple(replace(life, number=number) for number, life in enumerate(found, start=1))


def _drawn(stream: Stream, draw: random.Random) -> list[Life]:
    mean = sum(stream.replicas) / len(stream.replicas)
    usual = stream.running / mean / stream.hours  # arrivals an hour
    hour = 0.0
    found: list[Life] = []
    while hour < _HOURS:
        hour += draw.expovariate(usual * 8)  # thinned below
        if draw.random() * 8 > stream.profile(hour, draw):
            continue
        ran_h = draw.lognormvariate(math.log(stream.hours) - 0.32, 0.8)
        workload = _workload(
            stream, f"{stream.name}-{len(found)}", draw.choice(stream.replicas)
        )
        found.append(
            Life(
                workload,
                SINCE + timedelta(seconds=int(hour * 3600)),
                max(60, int(ran_h * 3600)),
            )
        )
    return found


def _workload(stream: Stream, name: str, replicas: int) -> Workload:
    cpus, gib, gpus, _ = _TYPES[stream.type_name]
    requests = {
        "cpu": (cpus - 4) * 1000,
        "memory": (gib - 16) * _GIB,
        **({_GPU: gpus} if gpus else {}),
    }
    ladder = (
        FallbackStep(CapacityType.RESERVED, 7200),
        FallbackStep(CapacityType.ON_DEMAND),
    )
    return Workload(
        namespace=stream.name,
        name=name,
        generation=1,
        replicas=replicas,
        requests=Resources.of(requests),
        node_selector=Requirements.of(
            values.one_of(labels.NODE_POOL, stream.market),
            values.one_of(labels.INSTANCE_TYPE, stream.type_name),
        ),
        gang=Gang() if stream.is_gang else None,
        fallback=ladder if stream.market == "ladder" else (),
    )


def _type(name: str) -> InstanceType:
    cpus, gib, gpus, price = _TYPES[name]
    offered = [
        Offering(f"us-east-1{zone}", f"use1-az{zone}", CapacityType.ON_DEMAND, price)
        for zone in _ZONES
    ]
    made = values.instance_type(
        name, cpus, gib, offered, pods=100, extra={_GPU: gpus} if gpus else {}
    )
    return replace(made, on_demand_price_micro_usd_per_hour=price)


def _pool(name: str, *markets: CapacityType) -> NodePool:
    return values.node_pool(
        name, values.one_of(labels.CAPACITY_TYPE, *(str(each) for each in markets))
    )


def _node_class(reservations: tuple[CapacityReservation, ...]) -> NodeClass:
    ids = tuple(sorted(item.id for item in reservations))
    terms = (CapacityReservationSelectorTerm(tags={"team": "research"}),)
    return NodeClass(
        "default",
        capacity_reservation_selector_terms=terms,
        status=NodeClassStatus(reservation_ids=ids),
    )


_P5: Final = "p5.48xlarge"
_G6: Final = "g6.12xlarge"
_M7: Final = "m7i.8xlarge"

# On which advice is judged; nothing was tuned on them.
JUDGING: Final = (
    Trace("steady", True, (Stream("train", _P5, 6, 9, steady),), {_P5: 14}),
    Trace("steady-scarce", True, (Stream("train", _P5, 7, 7, steady),), {_P5: 6}),
    Trace(
        "gangs",
        True,
        (Stream("train", _P5, 6, 10, steady, (2, 4), is_gang=True),),
        {_P5: 16},
    ),
    Trace(
        "weekly",
        True,
        (Stream("ci", _G6, 8, 4, weekly), Stream("train", _P5, 4, 10, steady)),
        {_G6: 6, _P5: 10},
    ),
    Trace("office", True, (Stream("notebooks", _G6, 7, 5, office, (1, 2)),), {_G6: 22}),
    Trace(
        "ladder",
        True,
        (Stream("batch", _M7, 12, 4, office, (1, 2), market="ladder"),),
        {_M7: 20},
    ),
    Trace(
        "two-teams",
        True,
        (Stream("audio", _P5, 3, 12, steady), Stream("vision", _G6, 9, 6, office)),
        {_P5: 9, _G6: 4},
    ),
    Trace(
        "bursts",
        True,
        (Stream("sweep", _M7, 8, 3, bursts, (1, 4)), Stream("serve", _P5, 2, 40, steady)),
        {_M7: 30, _P5: 6},
    ),
    Trace("growth", False, (Stream("train", _P5, 6, 8, growth),), {_P5: 14}),
    Trace("decline", False, (Stream("train", _G6, 9, 6, decline, (1, 2)),), {_G6: 20}),
    Trace(
        "team-leaves",
        False,
        (Stream("old", _P5, 5, 9, leaves), Stream("new", _P5, 4, 9, steady)),
        {_P5: 12},
    ),
    Trace(
        "team-comes",
        False,
        (Stream("old", _G6, 4, 8, steady), Stream("new", _G6, 6, 8, comes)),
        {_G6: 20},
    ),
    Trace(
        "campaigns",
        False,
        (Stream("paper", _P5, 3, 8, campaigns), Stream("base", _P5, 3, 10, steady)),
        {_P5: 12},
    ),
)
# On which the search was made; other loads, lengths and seeds.
TUNING: Final = (
    Trace("t-steady", True, (Stream("train", _P5, 9, 6, steady, (1, 2)),), {_P5: 20}),
    Trace("t-office", True, (Stream("ci", _M7, 10, 3, office),), {_M7: 30}),
    Trace("t-weekly", True, (Stream("ci", _G6, 6, 6, weekly, (1, 2)),), {_G6: 16}),
    Trace("t-growth", False, (Stream("train", _G6, 7, 10, growth),), {_G6: 5}),
    Trace(
        "t-leaves",
        False,
        (Stream("old", _G6, 6, 7, leaves), Stream("new", _G6, 5, 7, office)),
        {_G6: 18},
    ),
)


def many_reservations(count: int) -> Trace:
    """Return work of two types with so many reservations, half of each type; three in ten units are too many."""
    streams = (
        Stream("train", _P5, 14, 9, steady),
        Stream("notebooks", _G6, 14, 5, office, (1, 2)),
    )
    return Trace(
        "many", True, streams, {_P5: 2 * count, _G6: 2 * count}, reservations=count // 2
    )
