"""Worlds with more reservations than are needed: types of many sizes, GPUs among them, for work on chosen markets."""

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
_MIB: Final = 2**20
_ON_DEMAND, _RESERVED = CapacityType.ON_DEMAND, CapacityType.RESERVED
# How many types of each kind a world has: without and with GPUs.
_PLAIN_TYPES: Final = 12
_GPU_TYPES: Final = 5
_UNITS_MAX: Final = 24
_MARKETS: Final = (
    (),
    (),
    (),
    (_ON_DEMAND, _RESERVED),
    (_ON_DEMAND, _RESERVED),
    (_RESERVED, CapacityType.SPOT),
    (_RESERVED,),
)


def reserved_mixed_snapshot(seed: int) -> Snapshot:
    """Draw 17 types, 6 to 14 reservations of up to 24 units, and 60 to 240 replicas of 8 to 14 workloads."""
    rng = random.Random(f"reserved-mixed-{seed}")
    catalogue = ec2_catalogue()
    sold = [item for item in catalogue.instance_types if _is_sold_here(item)]
    with_gpus = [item for item in sold if item.capacity[GPU]]
    without = [item for item in sold if not item.capacity[GPU]]
    types = rng.sample(without, _PLAIN_TYPES) + rng.sample(with_gpus, _GPU_TYPES)
    zone_id = dict(catalogue.zones)[ZONE]
    reservations = tuple(
        _reservation(number, rng.choice(types), rng.randint(1, _UNITS_MAX), zone_id)
        for number in range(rng.randint(6, 14))
    )
    workloads = [_workload(number, rng, types) for number in range(rng.randint(8, 14))]
    return Snapshot(
        instance_types=tuple(types),
        reservations=reservations,
        node_pools=(node_pool("default", one_of(labels.ZONE, ZONE)),),
        node_classes=(node_class(catalogue.zones, (item.id for item in reservations)),),
        demands=tuple(Demand(item, item.replicas, NOW) for item in workloads),
    )


def _is_sold_here(item: InstanceType) -> bool:
    """Whether a type of a usual size is sold in the zone, on demand and as spot."""
    here = {offering.capacity_type for offering in item.offerings if offering.zone == ZONE}
    is_usual = 4_000 <= item.capacity["cpu"] <= 96_000
    return is_usual and here >= {CapacityType.SPOT, _ON_DEMAND}


def _reservation(
    number: int, instance_type: InstanceType, units: int, zone_id: str
) -> CapacityReservation:
    return CapacityReservation(
        id=f"cr-{number:017x}",
        owner_id="111122223333",
        instance_type=instance_type.name,
        zone=ZONE,
        zone_id=zone_id,
        kind=ReservationKind.DEFAULT,
        state="active",
        total_count=units,
        available_count=units,
        free_units=units,
    )


def _workload(number: int, rng: random.Random, types: list[InstanceType]) -> Workload:
    """Draw a workload that one of the types holds: on GPUs where that has some, memory-heavy, tiny or balanced."""
    host = rng.choice(types)
    part = rng.choice((0.02, 0.1, 0.2, 0.3, 0.45, 0.6))
    cpu_part = part * rng.choice((0.3, 1.0, 1.0))
    cpu = int(host.allocatable["cpu"] * cpu_part)
    memory = int(host.allocatable["memory"] / _MIB * part)
    requests = {
        "pods": 1,
        "cpu": max(50, cpu // 50 * 50),
        "memory": max(64, memory // 64 * 64) * _MIB,
    }
    if host.capacity[GPU] and rng.random() < 2 / 3:
        requests[GPU] = rng.randint(1, host.capacity[GPU])
    markets = rng.choice(_MARKETS)
    selector = Requirements.of(one_of(labels.ARCH, *host.requirements[labels.ARCH].values))
    if markets:
        selector = selector.add(one_of(labels.CAPACITY_TYPE, *markets))
    return Workload(
        NAMESPACE,
        f"w-{number}",
        1,
        rng.randint(4, 20),
        Resources.of(requests),
        node_selector=selector,
    )
