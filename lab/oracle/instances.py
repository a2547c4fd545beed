"""Small random worlds, small enough that every plan for them can be tried."""

import random
from dataclasses import dataclass, replace
from typing import Any

from lab.oracle.world import (
    GIB,
    ON_DEMAND,
    RESERVED,
    SPOT,
    ZONES,
    demand,
    instance_type,
    node,
    node_class,
    one_of,
    pool,
    reservation,
    workload,
)
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.instance_type import CapacityType, InstanceType, Offering
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.snapshot import Node, Snapshot
from reservoir.core.model.workload import (
    AffinityTerm,
    Demand,
    FallbackStep,
    Gang,
    LabelSelector,
    TopologySpreadConstraint,
    Workload,
)
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.scheduling_terms.taint import Taint, Toleration, TolerationOperator

TAINT = Taint("dedicated", "yes")
TYPES = (("t2", 2), ("t4", 4), ("t8", 8))
LIMITS = ({"cpu": 8000}, {"nodes": 2}, {"cpu": 6000, "nodes": 3})
TIGHT_LIMITS = (
    *LIMITS,
    {"cpu": 4000},
    {"cpu": 6000},
    {"nodes": 1},
    {"cpu": 10000, "nodes": 2},
)


@dataclass(frozen=True)
class Features:
    """Which constraints the instances of a family have, apart from sizes, zones and markets."""

    topology: bool = False
    gangs: bool = False
    priorities: bool = False
    ladders: bool = False
    taints: bool = False
    limits: bool = False
    nodes: bool = False
    bought: bool = True
    tight: bool = False  # two or three pools, each of them with limits
    ranks: bool = False  # three priorities


def instance(seed: int, features: Features) -> Snapshot:
    """Return the small world of a seed: at most three types, two zones, three reservations, six replicas."""
    rng = random.Random(seed)  # noqa: S311 - reproducible, not secret
    types = tuple(
        _type(rng, name, cpus, features)
        for name, cpus in rng.sample(TYPES, rng.randint(1, 3))
    )
    reservations = tuple(
        _reservation(rng, index, types) for index in range(rng.choice((0, 1, 1, 2, 3)))
    )
    return Snapshot(
        instance_types=types,
        reservations=reservations,
        node_pools=_pools(rng, features),
        node_classes=(node_class(*(item.id for item in reservations)),),
        nodes=tuple(
            _node(rng, index) for index in range(rng.randint(0, 2) if features.nodes else 0)
        ),
        demands=_demands(rng, features),
    )


def _type(rng: random.Random, name: str, cpus: int, features: Features) -> InstanceType:
    price = cpus * rng.randint(30_000, 70_000)
    offerings = []
    for zone, zone_id in ZONES.items():
        if features.bought and rng.random() < 0.8:
            offerings.append(Offering(zone, zone_id, ON_DEMAND, price))
        if features.bought and rng.random() < 0.5:
            offerings.append(
                Offering(zone, zone_id, SPOT, price * rng.randint(20, 90) // 100)
            )
    capacity = Resources.of(
        {"cpu": cpus * 1000, "memory": cpus * rng.choice((2, 4)) * GIB, "pods": 10}
    )
    return instance_type(
        name,
        cpus,
        offerings=tuple(offerings),
        on_demand_price_micro_usd_per_hour=price,
        capacity=capacity,
    )


def _reservation(
    rng: random.Random, index: int, types: tuple[InstanceType, ...]
) -> CapacityReservation:
    zone = rng.choice(sorted(ZONES))
    units = rng.choice((0, 1, 1, 2))
    return reservation(
        id=f"cr-{index}",
        instance_type=rng.choice(types).name,
        zone=zone,
        zone_id=ZONES[zone],
        free_units=units,
        available_count=units,
        total_count=2,
    )


def _pools(rng: random.Random, features: Features) -> tuple[NodePool, ...]:
    pools = []
    for name in "abc"[: rng.choice((2, 2, 3) if features.tight else (1, 1, 2))]:
        wanted: list[Requirement] = []
        if rng.random() < 0.3:
            wanted.append(
                one_of(
                    labels.CAPACITY_TYPE,
                    *rng.sample(list(CapacityType), rng.choice((1, 2))),
                )
            )
        changes: dict[str, Any] = {"weight": rng.choice((0, 10))}
        if features.taints and rng.random() < 0.4:
            changes["taints"] = (TAINT,)
        if features.tight:
            changes["limits"] = Resources.of(rng.choice(TIGHT_LIMITS))
        elif features.limits and rng.random() < 0.6:
            changes["limits"] = Resources.of(rng.choice(LIMITS))
        pools.append(pool(*wanted, name=name, **changes))
    return tuple(pools)


def _node(rng: random.Random, index: int) -> Node:
    zone, free = rng.choice(sorted(ZONES)), rng.randint(0, 3)
    market = rng.choice((ON_DEMAND, SPOT))
    whole = node(
        f"claim-{index}",
        zone=zone,
        capacity_type=market,
        cpus=4,
        node_pool_name="a",
        instance_type="t4",
    )
    facts = {**whole.labels, labels.INSTANCE_TYPE: "t4", labels.NODE_POOL: "a"}
    used = Resources.of({"cpu": 4000 - free * 1000, "memory": (4 - free) * 4 * GIB})
    return replace(whole, labels=facts, used=used)


def _demands(rng: random.Random, features: Features) -> tuple[Demand, ...]:
    left = rng.randint(1, 6)
    demands = []
    for name in "xyz":
        count = min(left, rng.randint(1, 3))
        if count:
            demands.append(_demand(rng, name, count, features))
            left -= count
    return tuple(demands)


def _demand(rng: random.Random, name: str, count: int, features: Features) -> Demand:
    cpus, wanted = rng.choice((1, 1, 2, 2, 3, 5)), list[Requirement]()
    if rng.random() < 0.2:
        wanted.append(one_of(labels.ZONE, rng.choice(sorted(ZONES))))
    if rng.random() < 0.4:
        wanted.append(
            one_of(
                labels.CAPACITY_TYPE, *rng.sample(list(CapacityType), rng.choice((1, 2)))
            )
        )
    changes: dict[str, Any] = {
        "node_selector": Requirements.of(*wanted),
        "labels": {"app": rng.choice("pq")},
    }
    changes["requests"] = Resources.of(
        {"cpu": cpus * 1000, "memory": rng.choice((1, 2, 4)) * cpus * GIB, "pods": 1}
    )
    if features.topology:
        changes |= _topology(rng, changes["labels"]["app"])
    if features.gangs and rng.random() < 0.5:
        changes["gang"] = Gang(rng.choice((None, labels.ZONE)))
    if features.priorities:
        changes["priority"] = rng.choice((0, 0, 10))
    if features.ranks:
        changes["priority"] = rng.choice((0, 10, 20))
    if features.taints and rng.random() < 0.6:
        changes["tolerations"] = (Toleration("dedicated", TolerationOperator.EXISTS),)
    if features.ladders and rng.random() < 0.6:
        changes["fallback"] = (
            FallbackStep(RESERVED, 60),
            FallbackStep(SPOT, 60),
            FallbackStep(ON_DEMAND),
        )
    return demand(workload(name, **changes), count, waiting_s=rng.choice((0, 60, 130)))


def _topology(rng: random.Random, own: str) -> dict[str, Any]:
    selector = LabelSelector((("app", own),))
    other = LabelSelector((("app", rng.choice("pq")),))
    # Every node counts, also those that the workload cannot use: brute force knows no more than that.
    by_zone = TopologySpreadConstraint(
        labels.ZONE, 1, selector, node_affinity_policy_honor=False
    )
    return rng.choice(
        (
            {},
            {"topology_spread": (by_zone,)},
            {"topology_spread": (replace(by_zone, topology_key=labels.HOSTNAME),)},
            {"anti_affinity": (AffinityTerm(labels.HOSTNAME, other),)},
            {"anti_affinity": (AffinityTerm(labels.ZONE, other),)},
            {"affinity": (AffinityTerm(labels.ZONE, selector),)},
        )
    )


def is_topological(item: Workload) -> bool:
    """Whether the workload carries a topology rule."""
    return bool(item.topology_spread or item.affinity or item.anti_affinity)
