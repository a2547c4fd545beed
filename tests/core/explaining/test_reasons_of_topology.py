"""Rules about neighbours: which one leaves no place, whose it is, and what keeps the place away that it would leave."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from reservoir.core.model.plan import ReasonCode
from reservoir.core.model.snapshot import Node, Snapshot
from reservoir.core.model.workload import Gang, Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.resources import Resources
from tests.core.scheduler.test_reasons import Situation
from tests.core.scheduler.world import (
    GPU_A,
    GPU_B,
    NOW,
    RESERVED,
    demand,
    fx_type,
    markets,
    near,
    node,
    one_of,
    plain,
    planned,
    pool,
    reservation,
    spread,
    with_demand,
    workload,
)

ZONE, HOST = labels.ZONE, labels.HOSTNAME
ONE = fx_type("one-pod", pods=1)
SPREAD = "spread over topology.kubernetes.io/zone with maxSkew 1: "
ONLY_ALL_4 = "all 4 replicas need a place together: "
JOB = workload(cpu=100, topology_spread=(spread(ZONE),))
ZONES_1_AND_2 = pool("a", one_of(ZONE, "zone-1", "zone-2"))
ONE_NODE_IN_ZONE_3 = pool("c", one_of(ZONE, "zone-3"), limits=Resources.of({"nodes": 1}))
RESTING_IN_ZONE_3 = replace(
    ONE,
    offerings=tuple(
        replace(
            it,
            unavailable_until=NOW + timedelta(minutes=3),
            unavailable_reason="InsufficientInstanceCapacity",
        )
        if it.zone == "zone-3"
        else it
        for it in ONE.offerings
    ),
)
UNEVEN = (
    reservation("cr-1", "one-pod", 5),
    reservation("cr-2", "one-pod", 1, zone="zone-2", zone_id="id-zone-2"),
)
ONLY_RESERVED = (pool("default", markets(RESERVED)),)


def full(claim_id: str, holds: str, zone: str = "zone-1") -> Node:
    """A node without room beside one replica."""
    return node(
        claim_id,
        ONE,
        {holds: 1},
        zone=zone,
        allocatable=Resources.of({"cpu": 0, "memory": 0, "pods": 1}),
    )


def beside(*nodes: Node, **changes: Any) -> Snapshot:
    """An account in which these nodes run workloads without any rule of their own, if not said otherwise."""
    running = {
        placed.workload_key: workload(placed.workload_key[3:])
        for it in nodes
        for placed in it.placements
    }
    return plain(ONE, nodes=nodes, **{"workloads": running, **changes})


def lonely(name: str, app: str) -> Workload:
    return workload(name, anti_affinity=(near(ZONE, app=app),))


SITUATIONS = (
    Situation(
        "a spread that the limit of the third zone's pool holds back",
        plain(ONE, node_pools=(ZONES_1_AND_2, ONE_NODE_IN_ZONE_3)),
        JOB,
        ReasonCode.TOPOLOGY,
        SPREAD
        + "zone-3 has 1 of these replicas and can get none (one-pod on-demand in zone-3 would exceed the nodes "
        "limit of pool c (0 left))",
        replicas=9,
    ),
    Situation(
        "a spread that a full reservation holds back",
        plain(ONE, reservations=UNEVEN, node_pools=ONLY_RESERVED),
        JOB,
        ReasonCode.TOPOLOGY,
        SPREAD
        + "zone-2 has 1 of these replicas and can get none (one-pod reserved in zone-2 of cr-2 has no free unit "
        "(1 in all))",
        replicas=6,
    ),
    Situation(
        "a spread over markets, of which one has a single unit",
        plain(ONE, reservations=[reservation("cr-1", "one-pod", 1)]),
        workload(cpu=100, topology_spread=(spread(labels.CAPACITY_TYPE),)),
        ReasonCode.TOPOLOGY,
        "spread over karpenter.sh/capacity-type with maxSkew 1: reserved has 1 of these replicas and can get none "
        "(one-pod reserved in zone-1 of cr-1 has no free unit (1 in all))",
        replicas=6,
    ),
    Situation(
        "a spread that a zone without capacity holds back",
        plain(RESTING_IN_ZONE_3),
        JOB,
        ReasonCode.TOPOLOGY,
        SPREAD
        + "zone-3 has 0 of these replicas and can get none (one-pod on-demand in zone-3 rests: "
        "InsufficientInstanceCapacity)",
        replicas=9,
    ),
    Situation(
        "a spread whose emptiest zone the same work avoids",
        beside(full("n1", "cache")),
        replace(JOB, anti_affinity=(near(ZONE, app="cache"),)),
        ReasonCode.TOPOLOGY,
        SPREAD
        + "zone-1 has 0 of these replicas and can get none (its own anti-affinity keeps it out of there)",
        replicas=4,
    ),
    Situation(
        "a spread of replicas that must be together",
        plain(ONE),
        replace(JOB, affinity=(near(ZONE),)),
        ReasonCode.TOPOLOGY,
        SPREAD
        + "zone-2, zone-3 has 0 of these replicas and can get none (its own affinity keeps it out of there)",
        replicas=3,
    ),
    Situation(
        "a spread over a label that nothing has",
        plain(ONE),
        workload(cpu=100, topology_spread=(spread("example.com/rack"),)),
        ReasonCode.TOPOLOGY,
        "spread over example.com/rack: no capacity that it may use has this label",
    ),
    Situation(
        "a gang that is spread over more zones than there are",
        plain(ONE),
        workload(cpu=100, gang=Gang(), topology_spread=(spread(ZONE, min_domains=4),)),
        ReasonCode.GANG_INCOMPLETE,
        ONLY_ALL_4
        + "spread over topology.kubernetes.io/zone: minDomains asks for 4, and there are 3 (zone-1, zone-2, "
        "zone-3), which take 3 with maxSkew 1",
        replicas=4,
    ),
    Situation(
        "a gang of more replicas that avoid each other than there are zones",
        plain(ONE),
        workload(cpu=100, gang=Gang(), anti_affinity=(near(ZONE),)),
        ReasonCode.GANG_INCOMPLETE,
        ONLY_ALL_4
        + "anti-affinity: each replica needs a topology.kubernetes.io/zone for itself, and there are 3 "
        "(zone-1, zone-2, zone-3)",
        replicas=4,
    ),
    Situation(
        "a gang whose spread the units of one zone hold back",
        plain(ONE, reservations=UNEVEN, node_pools=ONLY_RESERVED),
        replace(JOB, gang=Gang()),
        ReasonCode.GANG_INCOMPLETE,
        ONLY_ALL_4 + SPREAD + "zone-2 has 0 of these replicas and can get 1 more only",
        replicas=4,
    ),
    Situation(
        "affinity to what runs on a full node",
        beside(full("n1", "cache")),
        workload(cpu=100, affinity=(near(HOST, app="cache"),)),
        ReasonCode.TOPOLOGY,
        "affinity: no node with replicas that it must be near has room for it (n1)",
    ),
    Situation(
        "affinity by host to what runs nowhere",
        plain(ONE),
        workload(cpu=100, affinity=(near(HOST, app="cache"),)),
        ReasonCode.TOPOLOGY,
        "affinity: no replica that it must be near runs on any node",
    ),
    Situation(
        "more of the same, which runs where no pool sells",
        beside(
            full("n1", "job", "zone-3"),
            node_pools=(pool("default", one_of(ZONE, "zone-1")),),
        ),
        workload(cpu=100, affinity=(near(ZONE),)),
        ReasonCode.TOPOLOGY,
        "affinity: the replicas that it must be near run only in zone-3, where it gets no capacity"
        " (no pool offers capacity there)",
    ),
    Situation(
        "two that it must be near, in two zones",
        beside(full("n1", "api"), full("n2", "cache", "zone-2")),
        workload(cpu=100, affinity=(near(ZONE, app="api"), near(ZONE, app="cache"))),
        ReasonCode.TOPOLOGY,
        "no place meets all of these at once: affinity to app=api (zone-1); affinity to app=cache (zone-2)",
    ),
    Situation(
        "others that avoid it",
        beside(
            full("n1", "shy"),
            workloads={"ns/shy": lonely("shy", "job")},
            node_pools=(pool("default", one_of(ZONE, "zone-1")),),
        ),
        workload(cpu=100),
        ReasonCode.TOPOLOGY,
        "anti-affinity of ns/shy: a replica that avoids it runs in every topology.kubernetes.io/zone where it may run"
        " (zone-1)",
    ),
    Situation(
        "GPUs of two makes, each of which some type has",
        plain(),
        workload(cpu=100, extra={GPU_A: 1, GPU_B: 1}),
        ReasonCode.TOO_LARGE,
        "no type of pool default that would fit has vendor-a.com/gpu and vendor-b.com/gpu at once",
    ),
)


@pytest.mark.parametrize("it", SITUATIONS, ids=lambda it: it.name)
def test_the_rule_that_binds_is_told_with_what_holds_it_back(it: Situation) -> None:
    plan = planned(
        with_demand(it.snapshot, demand(it.wanted, it.replicas)), policy=it.policy
    )

    (refusal,) = plan.unplaced
    assert (refusal.code, refusal.message) == (it.code, it.sentence)
