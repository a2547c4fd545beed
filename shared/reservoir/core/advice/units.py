"""Units that could be held, and what one of them does for demand: asked of the real scheduler, once for each shape."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Final

from reservoir.core.advice.lives import Life
from reservoir.core.model.capacity_reservation import (
    ACTIVE,
    CapacityReservation,
    ReservationKind,
)
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.plan import Plan, PlannedNodes
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import Demand, Workload
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.core.serialisation.json_codec import dumps
from reservoir.core.what_if.added_capacity import AddedCapacity
from reservoir.core.what_if.edits import ADDED_PREFIX, WorldEdits, edited

Solve = Callable[[Snapshot, datetime], Plan]
MILLI: Final = 1000  # parts of a unit: what shares a node with others needs less than one
_PLENTY: Final = 100_000
_ASKED_MAX: Final = 20  # replicas of a shape that the scheduler is asked to place
_ALTERNATIVES_MAX: Final = 4  # of a launch, whose types are played with


@dataclass(frozen=True, slots=True)
class UnitKind:
    """Units that are interchangeable: one reservation, or one that could be made."""

    id: str
    instance_type: str
    zone: str
    micro_usd_per_hour: int  # of one, used or not
    held: int  # units that are for us now
    exists: bool
    class_names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Fit:
    """What demand of one shape takes: parts of a unit for a replica by kind, and what a replica costs elsewhere.

    ``bought_micro_usd_per_hour`` by market; a market that is not there cannot serve. ``worth_micro_usd_per_hour`` is
    what the capacity of a replica costs on demand, wherever it may run.
    """

    milli_units: Mapping[str, int]
    bought_micro_usd_per_hour: Mapping[CapacityType, int]
    bought_types: frozenset[str]
    worth_micro_usd_per_hour: int

    @property
    def fits(self) -> bool:
        """Whether it could ever run."""
        return bool(self.milli_units or self.bought_micro_usd_per_hour)


@dataclass(frozen=True, slots=True)
class Ground:
    """The world for a play, with every kind of unit in it, all free, and how much of a unit demand takes."""

    world: Snapshot
    kinds: tuple[UnitKind, ...]
    fits: Mapping[str, Fit]  # by the name of a shape

    def fit(self, workload: Workload) -> Fit:
        """Return what a workload takes."""
        return self.fits[shape_name(workload)]


def shape_of(workload: Workload) -> Workload:
    """Return what is the same for all workloads that may run in the same places."""
    alone = replace(
        workload,
        namespace="",
        name="",
        generation=0,
        replicas=1,
        priority=0,
        annotations={},
        gang=None,
        fallback=(),
        duration_s=None,
        checkpoint_period_s=None,
        unknown={},
    )
    return alone if workload.has_topology_terms else replace(alone, labels={})


def shape_name(workload: Workload) -> str:
    """Return a name that shapes have in common which differ in nothing."""
    return dumps(shape_of(workload))


def ground_of(
    snapshot: Snapshot, lives: Sequence[Life], solve: Solve, now: datetime
) -> Ground:
    """Return the ground for these lives.

    Kinds are the on-demand reservations that are there, and one that could be made for each type and zone in which
    demand would be bought. Capacity Blocks and interruptible reservations come and go by themselves and are left out.
    """
    empty = replace(
        snapshot,
        nodes=(),
        demands=(),
        workloads={},
        reservations=(),
        ceiling_micro_usd_per_hour=None,
    )
    shapes = {shape_name(life.workload): shape_of(life.workload) for life in lives}
    open_world = replace(empty, teams=())
    bought = {name: _asked(open_world, shapes[name], solve, now) for name in sorted(shapes)}
    prices = {
        item.name: item.on_demand_price_micro_usd_per_hour or 0
        for item in snapshot.instance_types
    }
    held = [item for item in snapshot.reservations if _counts(item, now)]
    world = replace(empty, reservations=tuple(replace(item, free_units=0) for item in held))
    world = _with_new(world, _new_places(bought.values(), held, snapshot), now)
    kinds = tuple(_kind(item, world, snapshot, prices) for item in world.reservations)
    trimmed = replace(
        world,
        instance_types=_trimmed(
            snapshot.instance_types, bought.values(), world.reservations
        ),
    )
    fits = {
        name: _fit(trimmed, shapes[name], bought[name], kinds, solve, now)
        for name in sorted(shapes)
    }
    return Ground(trimmed, kinds, fits)


def _counts(reservation: CapacityReservation, now: datetime) -> bool:
    is_lasting = reservation.end_at is None or reservation.end_at > now
    return (
        reservation.kind is ReservationKind.DEFAULT
        and reservation.state == ACTIVE
        and is_lasting
    )


def _asked(world: Snapshot, shape: Workload, solve: Solve, now: datetime) -> Plan:
    """Return where the scheduler would put some replicas of a shape."""
    workload = replace(shape, name="asked", replicas=_ASKED_MAX)
    demand = Demand(workload, _ASKED_MAX, now)
    return solve(replace(world, demands=(demand,), workloads={workload.key: workload}), now)


def _new_places(
    plans: Iterable[Plan], held: Sequence[CapacityReservation], snapshot: Snapshot
) -> list[tuple[str, str, str]]:
    """Return type, zone and class of reservations that could be made; those that there are need not be."""
    there = {(item.instance_type, item.zone) for item in held}
    selecting = {
        item.name
        for item in snapshot.node_classes
        if item.capacity_reservation_selector_terms
    }
    found: set[tuple[str, str, str]] = set()
    for launch in chain.from_iterable(plan.launches for plan in plans):
        bought = (launch.offering.instance_type, launch.offering.zone)
        if launch.node_class_name in selecting and bought not in there:
            found.add((*bought, launch.node_class_name))
    return sorted(found)


def _with_new(
    world: Snapshot, places: Sequence[tuple[str, str, str]], now: datetime
) -> Snapshot:
    added = tuple(
        AddedCapacity(1, name, zone, node_class_name=class_name)
        for name, zone, class_name in places
    )
    if not added:
        return world
    made = edited(world, WorldEdits(added=added), now).snapshot
    return replace(
        made, reservations=tuple(replace(item, free_units=0) for item in made.reservations)
    )


def _kind(
    item: CapacityReservation,
    world: Snapshot,
    snapshot: Snapshot,
    prices: Mapping[str, int],
) -> UnitKind:
    exists = not item.id.startswith(ADDED_PREFIX)
    ours = sum(node.reservation_id == item.id for node in snapshot.nodes)
    units = item.total_count - item.units_of_others(ours) if exists else 0
    users = frozenset(
        each.name for each in world.node_classes if item.id in each.status.reservation_ids
    )
    return UnitKind(
        item.id,
        item.instance_type,
        item.zone,
        prices.get(item.instance_type, 0),
        units,
        exists,
        users,
    )


def _trimmed(
    types: Sequence[InstanceType],
    plans: Iterable[Plan],
    reservations: Iterable[CapacityReservation],
) -> tuple[InstanceType, ...]:
    """Return the types that matter: thousands of plans are made with them."""
    named = {item.instance_type for item in reservations}
    for plan in plans:
        for launch in plan.launches:
            named.add(launch.offering.instance_type)
            named |= {key.instance_type for key in launch.alternatives[:_ALTERNATIVES_MAX]}
    return tuple(item for item in types if item.name in named)


# Branches: comprehensions of a line each, for every kind and market.
def _fit(
    world: Snapshot,
    shape: Workload,
    bought: Plan,
    kinds: Sequence[UnitKind],
    solve: Solve,
    now: datetime,
) -> Fit:
    prices = {
        item.name: item.on_demand_price_micro_usd_per_hour or 0
        for item in world.instance_types
    }
    milli: dict[str, int] = {}
    worth: list[int] = []
    for kind in kinds:
        replicas, nodes = _held_by(world, shape, kind, solve, now)
        if nodes:
            milli[kind.id] = -(-MILLI * nodes // replicas)
            worth.append(kind.micro_usd_per_hour * nodes // replicas)
    markets: dict[CapacityType, int] = {}
    types: set[str] = set()
    for market in (CapacityType.SPOT, CapacityType.ON_DEMAND):
        plan = (
            bought
            if _all_of(bought, market)
            else _asked(_only(world, market), shape, solve, now)
        )
        replicas = _replica_count(plan.launches)
        if not replicas:
            continue
        atto = sum(
            launch.count * launch.price_atto_usd_per_hour for launch in plan.launches
        )
        on_demand = sum(
            launch.count * prices.get(launch.offering.instance_type, 0)
            for launch in plan.launches
        )
        markets[market] = atto // ATTO_USD_PER_MICRO_USD // replicas
        types |= {launch.offering.instance_type for launch in plan.launches}
        worth.append(on_demand // replicas)
    return Fit(milli, markets, frozenset(types), min(worth, default=0))


def _held_by(
    world: Snapshot, shape: Workload, kind: UnitKind, solve: Solve, now: datetime
) -> tuple[int, int]:
    """Return how many replicas the scheduler puts onto how many units of a kind, if there are plenty."""
    only = tuple(
        replace(item, free_units=_PLENTY, total_count=_PLENTY, available_count=_PLENTY)
        for item in world.reservations
        if item.id == kind.id
    )
    types = tuple(item for item in world.instance_types if item.name == kind.instance_type)
    plan = _asked(
        replace(world, reservations=only, instance_types=types, teams=()), shape, solve, now
    )
    launches = [
        launch for launch in plan.launches if launch.offering.reservation_id == kind.id
    ]
    return _replica_count(launches), sum(launch.count for launch in launches)


def _replica_count(launches: Iterable[PlannedNodes]) -> int:
    count = 0
    for launch in launches:
        count += launch.count * sum(placed.count for placed in launch.placements)
    return count


def _all_of(plan: Plan, market: CapacityType) -> bool:
    return bool(plan.launches) and all(
        launch.offering.capacity_type is market for launch in plan.launches
    )


def _only(world: Snapshot, market: CapacityType) -> Snapshot:
    types: list[InstanceType] = []
    for item in world.instance_types:
        offerings = tuple(each for each in item.offerings if each.capacity_type is market)
        types.append(replace(item, offerings=offerings))
    return replace(world, reservations=(), instance_types=tuple(types), teams=())
