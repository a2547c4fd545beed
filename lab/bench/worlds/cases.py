"""The cases of the scheduler bench by name: the snapshot of each, and how its cost is bounded from below."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from lab.bench.worlds import ladder
from lab.bench.worlds.common import NAMESPACE, counted, node_class, node_pool
from lab.bench.worlds.karpenter_draws import SEEDS, karpenter_snapshot
from lab.bench.worlds.mix import Mix, mix_snapshot, tuned_pools
from reservoir.core.model.capacity_reservation import CapacityReservation, ReservationKind
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.policy import PreferencePolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import AffinityTerm, LabelSelector, Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.resources import Resources

_BOUGHT: Final = (CapacityType.SPOT, CapacityType.ON_DEMAND)
_NO_SPOT: Final = (CapacityType.RESERVED, CapacityType.ON_DEMAND)
_ON_DEMAND: Final = (CapacityType.ON_DEMAND,)
_HELD_OUT: Final = range(100, 124)  # nothing is tuned with these seeds: they judge


@dataclass(frozen=True, slots=True)
class World:
    """One case. Several seeds: one run each, reported as median and worst; otherwise repeated runs of one world."""

    make: Callable[[int], Snapshot]
    seeds: Sequence[int] = (0,)
    # set: the tuned form of the port has pools for these
    markets: tuple[CapacityType, ...] = ()
    preferences: PreferencePolicy = PreferencePolicy.RESPECT
    # the last two are of whole nodes
    bound: Literal["certificate", "ladder", "catalogue"] = "certificate"
    is_certified: bool = True

    def tuned(self) -> tuple[NodePool, ...] | None:
        """Return the pools of the well-tuned port; None where the case has no such form."""
        return tuned_pools(self.markets) if self.markets else None


def _diverse(count: int, _seed: int) -> Snapshot:
    return ladder.diverse_snapshot(count)


def _karpenter(count: int, seed: int) -> Snapshot:
    return karpenter_snapshot(count, SEEDS[seed])


def _single(count: int, _seed: int) -> Snapshot:
    return ladder.diverse_snapshot(count, one_workload_a_pod=True)


def half_limited(world: Snapshot) -> Snapshot:
    """Limit each pool to half of the CPU that the whole demand asks for."""
    asked = sum(
        item.workload.requests["cpu"] * item.pending_count for item in world.demands
    )
    pools = tuple(
        replace(pool, limits=Resources.of({"cpu": asked // 2})) for pool in world.node_pools
    )
    return replace(world, node_pools=pools)


def _limited(count: int, _seed: int) -> Snapshot:
    return half_limited(ladder.diverse_snapshot(count))


def _preference(_seed: int) -> Snapshot:
    return ladder.preference_snapshot(4000)


def _mix(mix: Mix, seed: int) -> Snapshot:
    return mix_snapshot(replace(mix, seed=seed))


def _mixed(mix: Mix, seeds: int = 1) -> World:
    return World(partial(_mix, mix), seeds=range(seeds), markets=mix.markets)


def reserved_ladder(percent: int, count: int, _seed: int) -> Snapshot:
    """Return the diverse mix with this share of the ladder's types reserved."""
    return reserving(ladder.diverse_snapshot(count), percent, random.Random(percent))


def reserving(world: Snapshot, percent: int, rng: random.Random) -> Snapshot:
    """Reserve this share of a world's types in one to three zones, one to twenty units each."""
    types = rng.sample(world.instance_types, len(world.instance_types) * percent // 100)
    reservations = [
        _reservation(f"cr-{index:04d}{number}", item, zone, rng.randint(1, 20))
        for index, item in enumerate(sorted(types, key=lambda item: item.name))
        for number, zone in enumerate(rng.sample(ladder.ZONES, rng.randint(1, 3)))
    ]
    return _with_reservations(world, reservations)


def _reservation(
    name: str, item: InstanceType, zone: tuple[str, str], units: int
) -> CapacityReservation:
    return CapacityReservation(
        id=name,
        owner_id="111122223333",
        instance_type=item.name,
        zone=zone[0],
        zone_id=zone[1],
        kind=ReservationKind.DEFAULT,
        state="active",
        total_count=units,
        available_count=units,
        free_units=units,
    )


def _with_reservations(
    world: Snapshot, reservations: list[CapacityReservation]
) -> Snapshot:
    selecting = node_class(ladder.ZONES, (item.id for item in reservations))
    return replace(world, reservations=tuple(reservations), node_classes=(selecting,))


def _anti_affine(count: int) -> Snapshot:
    term = AffinityTerm(labels.HOSTNAME, LabelSelector((("app", "alone"),)))
    requests = Resources.of({"cpu": 500, "memory": 2**29, "pods": 1})
    pod = Workload(
        NAMESPACE, "", 1, 1, requests, labels={"app": "alone"}, anti_affinity=(term,)
    )
    return ladder.snapshot(counted([pod] * count, "alone"))


def _one_unit_each(count: int, _seed: int) -> Snapshot:
    """Reserve one unit of each type: Karpenter's pessimistic rule places one claim a loop here."""
    world = _anti_affine(count)
    reservations = [
        _reservation(f"cr-{index:04d}", item, ladder.ZONES[index % 3], 1)
        for index, item in enumerate(world.instance_types[:count])
    ]
    return _with_reservations(world, reservations)


def _two_pools(count: int, _seed: int) -> Snapshot:
    """Give a reserved-only pool more weight than an on-demand one, with half of the need reserved in three zones."""
    world = _anti_affine(count)
    item = world.instance_types[3]
    reservations = [
        _reservation(f"cr-{zone[0]}", item, zone, count // 6) for zone in ladder.ZONES
    ]
    pools = (
        node_pool("reserved", capacity_types=(CapacityType.RESERVED,), weight=100),
        node_pool("on-demand", capacity_types=(CapacityType.ON_DEMAND,), weight=99),
    )
    return replace(_with_reservations(world, reservations), node_pools=pools)


def _worlds() -> Mapping[str, World]:
    sizes = (50, 100, 500, 1000, 2000, 5000, 10_000, 20_000)
    on_ladder = partial(World, bound="ladder", is_certified=False)
    found = {f"diverse-{count}": on_ladder(partial(_diverse, count)) for count in sizes}
    found["diverse-10000-single"] = on_ladder(partial(_single, 10_000))
    for count in (500, 1000, 2000):
        found[f"karpenter-{count}"] = on_ladder(
            partial(_karpenter, count), seeds=range(len(SEEDS))
        )
    found["limited-10000"] = World(partial(_limited, 10_000), is_certified=False)
    found["preference-4000"] = World(_preference, is_certified=False)
    found["preference-4000-ignore"] = World(
        _preference, preferences=PreferencePolicy.IGNORE, is_certified=False
    )
    found["catalogue-10000"] = replace(_mixed(Mix(10_000), seeds=6), bound="catalogue")
    found["catalogue-10000-held-out"] = replace(found["catalogue-10000"], seeds=_HELD_OUT)
    found["catalogue-100000"] = _mixed(Mix(100_000, reserved_percent=300), seeds=3)
    found["shapes-1000"] = _mixed(Mix(10_000, shapes=1000))
    found["no-spot-10000"] = _mixed(Mix(10_000, markets=_NO_SPOT))
    found["no-reservations-10000"] = _mixed(Mix(10_000, markets=_BOUGHT))
    found["on-demand-10000"] = _mixed(Mix(10_000, markets=_ON_DEMAND))
    for percent in (1, 10):
        found[f"reserved-{percent}-percent-5000"] = World(
            partial(reserved_ladder, percent, 5000), is_certified=False
        )
    found["reserved-one-unit-each-400"] = World(
        partial(_one_unit_each, 400), is_certified=False
    )
    found["reserved-two-pools-300"] = World(partial(_two_pools, 300), is_certified=False)
    found["existing-5000"] = _mixed(Mix(1000, existing=5000))
    return found


WORLDS: Final = _worlds()
