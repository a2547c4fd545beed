"""A gang runs whole or not at all: what it is told is how many of it there is room for, and what limits that."""

from typing import Any

import pytest

from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import ReasonCode
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import Gang, Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.resources import Resources
from tests.core.scheduler.test_reasons import Situation
from tests.core.scheduler.world import (
    RESERVED,
    demand,
    fx_type,
    markets,
    near,
    node,
    plain,
    planned,
    pool,
    reservation,
    spread,
    with_demand,
    workload,
)

SMALL = fx_type("small", 2, 2)  # holds five replicas of 0.1 CPU, one of 1.8
TWO = reservation("cr-1", "small", 2)
ELSEWHERE = reservation("cr-2", "small", 2, zone="zone-2", zone_id="id-zone-2")
ONLY_RESERVED = pool("default", markets(RESERVED))


def limited(name: str = "default", **limits: int) -> NodePool:
    return pool(name, limits=Resources.of(limits))


def reserved(*units: CapacityReservation, pool: NodePool = ONLY_RESERVED) -> Snapshot:
    return plain(SMALL, reservations=units, node_pools=(pool,))


def buying(*pools: NodePool) -> Snapshot:
    return plain(SMALL, node_pools=pools or (pool(),))


def large(**changes: Any) -> Workload:
    return workload(cpu=1800, **{"gang": Gang(), **changes})


def small(**changes: Any) -> Workload:
    return workload(cpu=100, gang=Gang(), **changes)


def gang(
    name: str, snapshot: Snapshot, wanted: Workload, replicas: int, sentence: str
) -> Situation:
    whole = f"all {replicas} replicas need a place together: {sentence}"
    return Situation(name, snapshot, wanted, ReasonCode.GANG_INCOMPLETE, whole, replicas)


SITUATIONS = (
    gang(
        "units for some of it only",
        reserved(TWO, ELSEWHERE),
        large(),
        5,
        "the free reserved units hold 4 of them (2 in cr-1, 2 in cr-2)",
    ),
    gang(
        "replicas that share no host: one a unit, though five would fit",
        reserved(TWO),
        small(anti_affinity=(near(labels.HOSTNAME),)),
        3,
        "the free reserved units hold 2 of them (2 in cr-1)",
    ),
    gang(
        "replicas spread over hosts",
        reserved(TWO, ELSEWHERE),
        small(topology_spread=(spread(labels.HOSTNAME),)),
        5,
        "the free reserved units hold 4 of them (2 in cr-1, 2 in cr-2)",
    ),
    gang(
        "a node that is there beside the units",
        plain(
            SMALL,
            reservations=[TWO],
            node_pools=(ONLY_RESERVED,),
            nodes=(node("n1", SMALL),),
        ),
        large(),
        4,
        "existing nodes and the free reserved units hold 3 of them (2 in cr-1, 1 on existing nodes)",
    ),
    gang(
        "units enough, but not in one zone",
        reserved(TWO, ELSEWHERE),
        large(gang=Gang(labels.ZONE)),
        4,
        "no single topology.kubernetes.io/zone holds all of them (2 in zone-1, 2 in zone-2)",
    ),
    gang(
        "units enough, but the pool may not have as many nodes",
        reserved(
            TWO, pool=pool("default", markets(RESERVED), limits=Resources.of({"nodes": 1}))
        ),
        large(),
        2,
        "the nodes limit of pool default (1 left) leaves room for 1 of them",
    ),
    gang(
        "a limit on CPU",
        buying(limited(cpu=5000)),
        large(),
        3,
        "the cpu limit of pool default (5 left) leaves room for 2 of them",
    ),
    gang(
        "two pools, each with a limit",
        buying(limited("a", nodes=1), limited("b", nodes=1)),
        large(),
        3,
        "the nodes limit of pool a (1 left) leaves room for 1 of them, and the nodes limit of pool b (1 left) leaves "
        "room for 1 of them",
    ),
    gang(
        "a price cap that one replica would keep",
        buying(),
        large(max_price_micro_usd_per_hour=800_000),
        2,
        "nodes for all of them cost 0.829496 USD an hour, and maxPricePerHour leaves 0.80 USD",
    ),
)


@pytest.mark.parametrize("it", SITUATIONS, ids=lambda it: it.name)
def test_a_gang_is_told_what_leaves_room_for_a_part_of_it_only(it: Situation) -> None:
    plan = planned(
        with_demand(it.snapshot, demand(it.wanted, it.replicas)), policy=it.policy
    )

    (refusal,) = plan.unplaced
    assert (refusal.code, refusal.message) == (it.code, it.sentence)
