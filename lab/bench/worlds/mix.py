"""Demand of many shapes over the EC2 catalogue, with reservations and, for some cases, nodes that already run."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from lab.bench.worlds.catalogue import GPU, Catalogue, ec2_catalogue
from lab.bench.worlds.common import NAMESPACE, NOW, node_class, node_pool, one_of
from reservoir.core.model.capacity_reservation import CapacityReservation, ReservationKind
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.snapshot import Node, Snapshot
from reservoir.core.model.workload import Demand, Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.scheduling_terms.taint import Taint, Toleration, TolerationOperator

_MIB: Final = 2**20
_GPU_TAINT: Final = Taint("nvidia.com/gpu", "true")
_TOLERATES_GPU: Final = (Toleration("nvidia.com/gpu", TolerationOperator.EXISTS),)
_PLAIN: Final = Requirement.new(labels.INSTANCE_GPU_COUNT, Operator.DOES_NOT_EXIST)
_WITH_GPU: Final = Requirement.new(labels.INSTANCE_GPU_COUNT, Operator.EXISTS)
_RESERVED: Final = CapacityType.RESERVED
_SPOT: Final = CapacityType.SPOT
_ON_DEMAND: Final = CapacityType.ON_DEMAND
_LARGEST_TUNED_VCPUS: Final = 64


@dataclass(frozen=True, slots=True)
class Mix:
    """What to generate. ``reserved_percent`` scales the reservations' counts; 0 leaves them out."""

    replicas: int
    shapes: int = 200
    seed: int = 0
    reserved_percent: int = 100
    markets: tuple[CapacityType, ...] = (_RESERVED, _SPOT, _ON_DEMAND)
    existing: int = 0


def mix_snapshot(mix: Mix) -> Snapshot:
    """Return the whole world of a mix: catalogue, two pools (plain and GPU), reservations, nodes, demand."""
    catalogue = ec2_catalogue()
    rng = random.Random(1000 + mix.seed)
    reservations = (
        _reservations(catalogue.instance_types, mix, rng)
        if _RESERVED in mix.markets
        else ()
    )
    demands = _demands(catalogue, mix, random.Random(11 + mix.seed))
    return Snapshot(
        instance_types=catalogue.instance_types,
        reservations=reservations,
        node_pools=plain_pools(mix.markets),
        node_classes=(node_class(catalogue.zones, (item.id for item in reservations)),),
        nodes=_nodes(catalogue.instance_types, mix.existing, rng),
        demands=demands,
    )


def plain_pools(markets: Sequence[CapacityType]) -> tuple[NodePool, ...]:
    """One pool for everything, and one for work that needs a GPU."""
    return (
        node_pool("general", _PLAIN, capacity_types=markets),
        node_pool("gpu", _WITH_GPU, capacity_types=markets, taints=(_GPU_TAINT,)),
    )


def tuned_pools(markets: Sequence[CapacityType]) -> tuple[NodePool, ...]:
    """Return the pools of a well-run Karpenter: spot before on-demand, no huge machines for plain work."""
    cap = Requirement.new(labels.INSTANCE_CPU, Operator.LTE, (str(_LARGEST_TUNED_VCPUS),))
    pools: list[NodePool] = []
    for market, weight in ((_SPOT, 20), (_ON_DEMAND, 10)):
        if market in markets:
            wanted = [item for item in (_RESERVED, market) if item in markets]
            pools.append(
                node_pool(
                    f"general-{market}", _PLAIN, cap, capacity_types=wanted, weight=weight
                )
            )
            gpu = node_pool(
                f"gpu-{market}",
                _WITH_GPU,
                capacity_types=wanted,
                weight=weight,
                taints=(_GPU_TAINT,),
            )
            pools.append(gpu)
    return tuple(pools)


def _reservations(
    instance_types: Sequence[InstanceType], mix: Mix, rng: random.Random, number: int = 60
) -> tuple[CapacityReservation, ...]:
    """Reserve mid-sized machines, and a sixth of the time accelerators."""
    plain = [
        item
        for item in instance_types
        if not item.capacity[GPU] and 4000 <= item.capacity["cpu"] <= 96_000
    ]
    accelerated = [item for item in instance_types if item.capacity[GPU]]
    found = []
    for index in range(number if mix.reserved_percent else 0):
        item = rng.choice(accelerated if index % 6 == 0 else plain)
        count = rng.choice(
            (1, 2, 4) if item.capacity[GPU] else (1, 2, 3, 4, 5, 8, 10, 15, 20)
        )
        units = max(1, count * mix.reserved_percent // 100)
        where = rng.choice(
            [
                offering
                for offering in item.offerings
                if offering.capacity_type is _ON_DEMAND
            ]
        )
        found.append(
            CapacityReservation(
                id=f"cr-{index:017x}",
                owner_id="111122223333",
                instance_type=item.name,
                zone=where.zone,
                zone_id=where.zone_id,
                kind=ReservationKind.DEFAULT,
                state="active",
                total_count=units,
                available_count=units,
                free_units=units,
            )
        )
    return tuple(found)


def _demands(catalogue: Catalogue, mix: Mix, rng: random.Random) -> tuple[Demand, ...]:
    """Draw distinct shapes that something can run; a few are popular, many are rare."""
    shapes: list[Workload] = []
    weights: list[float] = []
    seen = set()
    while len(shapes) < mix.shapes:
        shape = _shape(catalogue, mix, rng)
        key = (shape.requests, shape.node_selector)
        if key in seen or not _is_possible(shape, catalogue.instance_types, mix.markets):
            continue
        seen.add(key)
        weight = (len(shapes) + 1) ** -0.6 * math.exp(rng.gauss(0, 0.8))
        weight *= 0.3 if shape.requests["cpu"] > 4000 else 1
        weight *= 0.15 if shape.requests[GPU] else 1
        shapes.append(replace(shape, name=f"shape-{len(shapes):04d}"))
        weights.append(weight)
    counts = [max(1, int(mix.replicas * weight / sum(weights))) for weight in weights]
    for index in range(mix.replicas - sum(counts)):
        counts[index % mix.shapes] += 1
    return tuple(
        Demand(replace(shape, replicas=count), count, NOW)
        for shape, count in zip(shapes, counts, strict=True)
    )


def _shape(catalogue: Catalogue, mix: Mix, rng: random.Random) -> Workload:
    """Draw one shape: log-uniform CPU and memory ratio, 8 % with GPUs, some pinned by arch, zone or market."""
    wanted: list[Requirement] = []
    requests = {"pods": 1}
    is_accelerated = rng.random() < 0.08
    if is_accelerated:
        gpus = rng.choice((1, 1, 1, 2, 4, 8))
        requests |= {"cpu": gpus * rng.choice((1000, 2000, 3000)), GPU: gpus}
        requests["memory"] = gpus * rng.choice((4096, 8192, 12_288)) * _MIB
    else:
        requests["cpu"] = (
            round(math.exp(rng.uniform(math.log(100), math.log(12_000))) / 10) * 10
        )
        ratio = math.exp(rng.uniform(math.log(0.8), math.log(10)))
        requests["memory"] = (
            max(64, int(requests["cpu"] / 1000 * ratio * 1024) // 16 * 16) * _MIB
        )
    drawn = rng.random()
    if not is_accelerated and drawn < 0.6:
        wanted.append(one_of(labels.ARCH, "amd64" if drawn < 0.5 else "arm64"))
    drawn = rng.random()
    zones = [zone for zone, _ in catalogue.zones]
    if drawn < 0.18:
        wanted.append(one_of(labels.ZONE, *rng.sample(zones, 1 if drawn < 0.12 else 2)))
    drawn = rng.random()
    markets = _markets(drawn)
    if markets and set(markets) & set(mix.markets):
        wanted.append(one_of(labels.CAPACITY_TYPE, *markets))
    return Workload(
        NAMESPACE,
        "",
        1,
        1,
        Resources.of(requests),
        node_selector=Requirements.of(*wanted),
        tolerations=_TOLERATES_GPU if is_accelerated else (),
    )


def _markets(drawn: float) -> tuple[CapacityType, ...]:
    """35 % must not be interrupted, 2 % are on demand only, 5 % spot only, the rest take anything."""
    if drawn < 0.35:
        return (_ON_DEMAND, _RESERVED)
    if drawn < 0.37:
        return (_ON_DEMAND,)
    return (_SPOT,) if drawn < 0.42 else ()


def _is_possible(
    shape: Workload, instance_types: Sequence[InstanceType], markets: Sequence[CapacityType]
) -> bool:
    """Whether some offering that can be bought runs the shape."""
    zone = shape.node_selector[labels.ZONE]
    market = shape.node_selector[labels.CAPACITY_TYPE]
    arch = shape.node_selector[labels.ARCH]
    for item in instance_types:
        fits = (
            shape.requests.fits_in(item.allocatable)
            and arch.has_intersection(item.requirements[labels.ARCH])
            and bool(item.capacity[GPU]) == bool(shape.requests[GPU])
        )
        if fits and any(
            zone.has(offering.zone)
            and market.has(offering.capacity_type)
            and offering.capacity_type in markets
            for offering in item.offerings
        ):
            return True
    return False


def _nodes(
    instance_types: Sequence[InstanceType], number: int, rng: random.Random
) -> tuple[Node, ...]:
    """Return nodes that run already, each with a random part of its resources still free."""
    plain = [item for item in instance_types if not item.capacity[GPU]]
    return tuple(_node(rng.choice(plain), index, rng) for index in range(number))


def _node(item: InstanceType, index: int, rng: random.Random) -> Node:
    offering = rng.choice(item.offerings)
    free = rng.random() ** 2
    used = {
        name: int(amount * (1 - free * rng.uniform(0.5, 1)))
        for name, amount in item.allocatable.items()
    }
    facts = {
        **item.requirements.labels(),
        labels.NODE_POOL: "general",
        labels.NODE_CLASS: "default",
        labels.ZONE: offering.zone,
        labels.ZONE_ID: offering.zone_id,
        labels.CAPACITY_TYPE: str(offering.capacity_type),
    }
    return Node(
        claim_id=f"claim-{index:05d}",
        node_pool_name="general",
        node_class_name="default",
        instance_type=item.name,
        zone=offering.zone,
        zone_id=offering.zone_id,
        capacity_type=offering.capacity_type,
        labels=facts,
        allocatable=item.allocatable,
        used=Resources.of(used),
        price_atto_usd_per_hour=offering.price_micro_usd_per_hour * ATTO_USD_PER_MICRO_USD,
        created_at=NOW,
    )
