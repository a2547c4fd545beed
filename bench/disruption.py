"""One pass of consolidation over a fleet in the shape of Karpenter's consolidation benchmark, nodes in the snapshot.

Node i is of type ladder[i mod 100] in zone i mod 3, on demand, 16 vCPU / 64 GiB / 110 pods allocatable, with ten
replicas of 100 to 499 millicores and 128 to 639 MiB (every replica a workload of its own); seed 42. A budget of 100 %.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

from bench.harness import Figures, peak_rss_mib, repeated
from bench.ladder import ZONES, ladder
from bench.world import NAMESPACE, NODE_CLASS, NOW, node_class, node_pool
from shared.core import labels
from shared.core.disruption.command import launch_cost
from shared.core.disruption.decide import DisruptionInput, decide_disruption
from shared.core.instance_type import CapacityType, InstanceType
from shared.core.money import ATTO_USD_PER_MICRO_USD
from shared.core.node_claim import ClaimState, NodeClaim
from shared.core.node_pool import DisruptionReason
from shared.core.plan import OfferingKey
from shared.core.policy import SchedulingPolicy
from shared.core.resources import Resources
from shared.core.scheduler import solve
from shared.core.snapshot import Node, PlacedReplicas, Snapshot
from shared.core.workload import Demand, Workload

_POOL = "pool-0"
_SIZES = (100, 500, 2000, 5000)
_REPLICAS_A_NODE = 10
_MIB = 2**20
_ALLOCATABLE = Resources.of({"cpu": 16_000, "memory": 64 * 1024 * _MIB, "pods": 110})
_MICRO = 1_000_000


def cases() -> Sequence[str]:
    """Name the fleet sizes."""
    return [f"nodes-{size}" for size in _SIZES]


def run(case: str) -> Figures:
    """Measure one size; times are medians of fresh processes."""
    return repeated("bench.disruption:measure", case.removeprefix("nodes-"))


def measure(size: str) -> Figures:
    """Decide one pass, and compare what it saves with packing everything anew."""
    given = fleet(int(size))
    policy = SchedulingPolicy()
    started = time.process_time()
    decision = decide_disruption(given, partial(solve, now=NOW, policy=policy), now=NOW)
    pass_s = time.process_time() - started
    before = sum(node.price_atto_usd_per_hour for node in given.snapshot.nodes)
    saved = sum(command.savings_atto_usd_per_hour for command in decision.commands)
    repacked = launch_cost(solve(_as_demand(given.snapshot), now=NOW, policy=policy))
    return {
        "pass_cpu_s": pass_s,
        "peak_rss_mib": peak_rss_mib(),
        "commands": len(decision.commands),
        "nodes_removed": sum(len(command.claim_ids) for command in decision.commands),
        "nodes_launched": sum(nodes.count for command in decision.commands for nodes in command.replacements),
        "cost_before_usd_per_hour": round(before / ATTO_USD_PER_MICRO_USD / _MICRO, 2),
        "saved_share_of_full_repacking": round(saved / (before - repacked), 4),
    }


def fleet(size: int) -> DisruptionInput:
    """Make the fleet."""
    rng = random.Random(42)  # noqa: S311 - a workload, not a secret
    types = ladder(100)
    nodes, claims, workloads = [], {}, {}
    for index in range(size):
        names = []
        for position in range(_REPLICAS_A_NODE):
            workload = _workload(index, position, rng)
            workloads[workload.key] = workload
            names.append(workload.key)
        claim = _claim(index, types[index % len(types)], names)
        claims[claim.id] = claim
        nodes.append(_node(claim, workloads))
    snapshot = Snapshot(types, (), (node_pool(_POOL),), (node_class(ZONES),), tuple(nodes), (), workloads)
    return DisruptionInput(snapshot, claims, {(_POOL, reason): size for reason in DisruptionReason})


def _workload(index: int, position: int, rng: random.Random) -> Workload:
    requests = {"cpu": rng.randrange(100, 500), "memory": rng.randrange(128, 640) * _MIB, "pods": 1}
    return Workload(
        NAMESPACE, f"w-{index}-{position}", 1, 1, Resources.of(requests), labels={"app": f"bench-{position % 5}"}
    )


def _claim(index: int, kind: InstanceType, keys: Sequence[str]) -> NodeClaim:
    zone, zone_id = ZONES[index % len(ZONES)]
    price = kind.on_demand_price_micro_usd_per_hour or 0
    return NodeClaim(
        id=f"nc-{index:05d}",
        state=ClaimState.RUNNING,
        revision=1,
        node_pool_name=_POOL,
        node_class_name=NODE_CLASS,
        batch_id="b",
        attempt=0,
        offering=OfferingKey(kind.name, zone, zone_id, CapacityType.ON_DEMAND),
        price_atto_usd_per_hour=price * ATTO_USD_PER_MICRO_USD,
        placements=tuple(PlacedReplicas(key, 1) for key in sorted(keys)),
        allocatable=_ALLOCATABLE,
        created_at=NOW - timedelta(days=1),
        running_at=NOW - timedelta(days=1),
        labels={
            labels.NODE_POOL: _POOL,
            labels.INSTANCE_TYPE: kind.name,
            labels.ARCH: "amd64",
            labels.OS: "linux",
            labels.ZONE: zone,
            labels.ZONE_ID: zone_id,
            labels.CAPACITY_TYPE: CapacityType.ON_DEMAND.value,
        },
    )


def _node(claim: NodeClaim, workloads: dict[str, Workload]) -> Node:
    requests = (workloads[placed.workload_key].requests for placed in claim.placements)
    return Node(
        claim_id=claim.id,
        node_pool_name=claim.node_pool_name,
        node_class_name=claim.node_class_name,
        instance_type=claim.offering.instance_type,
        zone=claim.offering.zone,
        zone_id=claim.offering.zone_id,
        capacity_type=claim.offering.capacity_type,
        labels=claim.labels,
        allocatable=claim.allocatable,
        used=sum(requests, start=Resources.of({})),
        placements=claim.placements,
        price_atto_usd_per_hour=claim.price_atto_usd_per_hour,
        created_at=claim.created_at,
    )


def _as_demand(snapshot: Snapshot) -> Snapshot:
    demands = tuple(Demand(workload, 1, NOW) for _, workload in sorted(snapshot.workloads.items()))
    return replace(snapshot, nodes=(), demands=demands)
