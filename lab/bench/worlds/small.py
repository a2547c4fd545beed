"""Worlds small enough for an exact program: a few types, reservations and workloads, one pool, one zone."""

import random
from typing import Final

from lab.bench.worlds.catalogue import GPU, ZONES, ec2_catalogue
from lab.bench.worlds.common import NAMESPACE, NOW, node_class, node_pool, one_of
from reservoir.core.model.capacity_reservation import CapacityReservation, ReservationKind
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import Demand, Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources

ZONE: Final = ZONES[0]
_ON_DEMAND, _RESERVED = CapacityType.ON_DEMAND, CapacityType.RESERVED
_LARGEST_VCPUS: Final = 64
_MIB: Final = 2**20


def small_snapshot(seed: int) -> Snapshot:
    """Draw 3 to 6 types, 1 to 4 reservations of a few units, and 5 to 25 replicas of up to 10 workloads."""
    rng = random.Random(f"small-{seed}")
    catalogue = ec2_catalogue()
    known = [item for item in catalogue.instance_types if _is_candidate(item)]
    types = rng.sample(known, rng.randint(3, 6))
    zone_ids = dict(catalogue.zones)
    reservations = tuple(
        _reservation(number, rng, types, zone_ids[ZONE])
        for number in range(rng.randint(1, 4))
    )
    replicas = rng.randint(5, 25)
    demands: list[Demand] = []
    while replicas:
        count = min(replicas, rng.choice((1, 1, 1, 2, 3, 5)))
        replicas -= count
        demands.append(Demand(_workload(len(demands), count, rng, types), count, NOW))
    return Snapshot(
        instance_types=tuple(types),
        reservations=reservations,
        node_pools=(node_pool("default", one_of(labels.ZONE, ZONE)),),
        node_classes=(node_class(catalogue.zones, (item.id for item in reservations)),),
        demands=tuple(demands),
    )


def _is_candidate(item: InstanceType) -> bool:
    """Whether a type of a usual size is sold in the zone, on demand and as spot."""
    here = {offering.capacity_type for offering in item.offerings if offering.zone == ZONE}
    return (
        here >= {CapacityType.SPOT, _ON_DEMAND}
        and 2_000 <= item.capacity["cpu"] <= _LARGEST_VCPUS * 1_000
    )


def _reservation(
    number: int, rng: random.Random, types: list[InstanceType], zone_id: str
) -> CapacityReservation:
    units = rng.randint(1, 4)
    return CapacityReservation(
        id=f"cr-{number:017x}",
        owner_id="111122223333",
        instance_type=rng.choice(types).name,
        zone=ZONE,
        zone_id=zone_id,
        kind=ReservationKind.DEFAULT,
        state="active",
        total_count=units,
        available_count=units,
        free_units=units,
    )


def _workload(
    number: int, count: int, rng: random.Random, types: list[InstanceType]
) -> Workload:
    """Draw a workload that one of the types holds; a third of those on accelerators ask for some."""
    host = rng.choice(types)
    part = rng.uniform(0.08, 0.7)
    requests = {
        "pods": 1,
        "cpu": max(
            50, int(host.allocatable["cpu"] * part * rng.uniform(0.4, 1)) // 50 * 50
        ),
        "memory": max(
            64,
            int(host.allocatable["memory"] / _MIB * part * rng.uniform(0.4, 1)) // 64 * 64,
        )
        * _MIB,
    }
    if host.capacity[GPU] and rng.random() < 1 / 3:
        requests[GPU] = rng.randint(1, host.capacity[GPU])
    markets = rng.choice(((), (), (_ON_DEMAND, _RESERVED), (_RESERVED, CapacityType.SPOT)))
    selector = Requirements.of(one_of(labels.ARCH, *host.requirements[labels.ARCH].values))
    if markets:
        selector = selector.add(one_of(labels.CAPACITY_TYPE, *markets))
    return Workload(
        NAMESPACE, f"w-{number}", 1, count, Resources.of(requests), node_selector=selector
    )
