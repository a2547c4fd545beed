"""The synthetic catalogues of the scenarios, and plans told as short tables."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from lab.fakes import values
from reservoir.core.checker import check
from reservoir.core.model.capacity_reservation import CapacityReservation, ReservationKind
from reservoir.core.model.instance_type import CapacityType, InstanceType, Offering
from reservoir.core.model.node_class import NodeClass, NodeClassStatus
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import OfferingKey, Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Node, Snapshot
from reservoir.core.model.workload import (
    AffinityTerm,
    Demand,
    LabelSelector,
    TopologySpreadConstraint,
    Workload,
)
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RESERVED, SPOT, ON_DEMAND = CapacityType.RESERVED, CapacityType.SPOT, CapacityType.ON_DEMAND
POLICY = SchedulingPolicy()
MIB, GIB = 2**20, 2**30
ZONES = ("zone-1", "zone-2", "zone-3")
GPU_A, GPU_B = "vendor-a.com/gpu", "vendor-b.com/gpu"
DEFAULT_OFFERINGS = (
    (SPOT, "zone-1"),
    (SPOT, "zone-2"),
    (ON_DEMAND, "zone-1"),
    (ON_DEMAND, "zone-2"),
    (ON_DEMAND, "zone-3"),
)
one_of = values.one_of


def require(key: str, operator: Operator, *values: str) -> Requirements:
    return Requirements.of(Requirement.new(key, operator, values))


def fx_price(cpus: int, gib: int, gpus: int = 0) -> int:
    return round(100_000 * cpus + 100_000 * gib * GIB / 1e9) + 1_000_000 * gpus


def fx_type(
    name: str,
    cpus: int = 4,
    gib: int = 4,
    pods: int = 5,
    *,
    extra: Mapping[str, int] | None = None,
    arch: str = "amd64",
    systems: Sequence[str] = ("linux", "windows", "darwin"),
    offered: Iterable[tuple[CapacityType, str]] = DEFAULT_OFFERINGS,
    price: int | Mapping[CapacityType, int] | None = None,
) -> InstanceType:
    usual = fx_price(cpus, gib, len(extra or {})) if price is None else price
    prices = usual if isinstance(usual, Mapping) else {SPOT: usual, ON_DEMAND: usual}
    offerings = [
        Offering(zone, f"id-{zone}", market, prices[market]) for market, zone in offered
    ]
    whole = values.instance_type(name, cpus, gib, offerings, pods=pods, extra=extra or {})
    return replace(
        whole,
        requirements=Requirements.of(
            one_of(labels.INSTANCE_TYPE, name),
            one_of(labels.ARCH, arch),
            one_of(labels.OS, *systems),
        ),
        overhead=Resources.of({"cpu": 100, "memory": 10 * MIB}),
        on_demand_price_micro_usd_per_hour=prices.get(ON_DEMAND),
    )


def fx_catalogue() -> tuple[InstanceType, ...]:
    return (
        fx_type("default"),
        fx_type("small", 2, 2),
        fx_type("gpu-a", extra={GPU_A: 2}),
        fx_type("gpu-b", extra={GPU_B: 2}),
        fx_type("arm", 16, 128, arch="arm64"),
        fx_type("single-pod", pods=1),
    )


def fx_ladder(count: int) -> tuple[InstanceType, ...]:
    return tuple(
        fx_type(f"rung-{i + 1}", i + 1, 2 * (i + 1), 10 * (i + 1)) for i in range(count)
    )


def reservation(
    identity: str, instance_type: str, units: int, **changes: Any
) -> CapacityReservation:
    about = {"instance_type": instance_type, "zone": "zone-1", "zone_id": "id-zone-1"}
    return values.reservation(identity, units, **{**about, **changes})


def block(
    identity: str, instance_type: str, units: int, *, ends_in: timedelta, **changes: Any
) -> CapacityReservation:
    return reservation(
        identity,
        instance_type,
        units,
        kind=ReservationKind.CAPACITY_BLOCK,
        end_at=NOW + ends_in,
        **changes,
    )


def node_class(
    name: str = "default", reservations: Iterable[CapacityReservation | str] = ()
) -> NodeClass:
    ids = sorted(item if isinstance(item, str) else item.id for item in reservations)
    return NodeClass(name, status=NodeClassStatus(reservation_ids=tuple(ids)))


def pool(
    name: str = "default", *wanted: Requirement, class_name: str = "default", **changes: Any
) -> NodePool:
    return values.node_pool(name, *wanted, class_name=class_name, **changes)


def markets(*capacity_types: CapacityType) -> Requirement:
    return one_of(labels.CAPACITY_TYPE, *(str(item) for item in capacity_types))


def fx_reserved(
    *extra: CapacityReservation, pools: tuple[NodePool, ...] = (pool(),), **changes: Any
) -> Snapshot:
    """Large 6/6 without, medium 3/3 and small 2/2 with one reserved unit each."""
    reservations = (
        reservation("r-medium", "medium", 1),
        reservation("r-small", "small", 1),
        *extra,
    )
    whole = Snapshot(
        instance_types=(
            fx_type("large", 6, 6),
            fx_type("medium", 3, 3),
            fx_type("small", 2, 2),
        ),
        reservations=reservations,
        node_pools=pools,
        node_classes=(node_class(reservations=reservations),),
    )
    return replace(whole, **changes)


def plain(
    *types: InstanceType, reservations: Sequence[CapacityReservation] = (), **changes: Any
) -> Snapshot:
    whole = Snapshot(
        instance_types=types or fx_catalogue(),
        reservations=tuple(reservations),
        node_pools=(pool(),),
        node_classes=(node_class(reservations=reservations),),
    )
    return replace(whole, **changes)


def workload(name: str = "job", cpu: int = 0, memory: int = 0, **changes: Any) -> Workload:
    """``cpu`` in millicores, ``memory`` in bytes; no request where 0."""
    requests = {key: amount for key, amount in (("cpu", cpu), ("memory", memory)) if amount}
    requests |= changes.pop("extra", {})
    about = {
        "namespace": "ns",
        "replicas": 1,
        "requests": Resources.of(requests),
        "labels": {"app": name},
    }
    return values.workload(name, **{**about, **changes})


def demand(wanted: Workload, count: int = 1, *, waiting: timedelta = timedelta()) -> Demand:
    return Demand(replace(wanted, replicas=count), count, NOW - waiting)


def selecting(**pairs: str) -> LabelSelector:
    return LabelSelector(match_labels=tuple(sorted(pairs.items())))


def spread(
    key: str, skew: int = 1, *, app: str = "job", **changes: Any
) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(key, skew, selecting(app=app), **changes)


def near(key: str, *, app: str = "job", weight: int | None = None) -> AffinityTerm:
    return AffinityTerm(key, selecting(app=app), weight)


def fx_anti(count: int, **changes: Any) -> tuple[Demand, ...]:
    """``count`` replicas that share no host, of type small."""
    wanted = workload(
        anti_affinity=(near(labels.HOSTNAME),),
        node_selector=require(labels.INSTANCE_TYPE, Operator.IN, "small"),
        **changes,
    )
    return (demand(wanted, count),)


def node(
    claim_id: str,
    instance_type: InstanceType,
    holds: Mapping[str, int] | None = None,
    **changes: Any,
) -> Node:
    zone = changes.get("zone", "zone-1")
    at = OfferingKey(
        instance_type.name, zone, f"id-{zone}", changes.get("capacity_type", ON_DEMAND)
    )
    own = {
        **instance_type.requirements.labels(),
        labels.HOSTNAME: claim_id,
        **changes.pop("labels", {}),
    }
    room = {
        "allocatable": instance_type.allocatable,
        "placements": values.placed(holds or {}),
    }
    return values.node(claim_id, at, own, **{**room, **changes})


def planned(
    snapshot: Snapshot, *, policy: SchedulingPolicy = POLICY, now: datetime = NOW
) -> Plan:
    """Solve, and let the independent checker object."""
    plan = solve(snapshot, now=now, policy=policy)
    violations = check(snapshot, plan, now=now, policy=policy)
    assert not violations, violations
    return plan


def with_demand(snapshot: Snapshot, *demands: Demand) -> Snapshot:
    return replace(snapshot, demands=demands)


def launched(plan: Plan) -> Counter[str]:
    """Tell a plan's new nodes as ``type:where``: the reservation id, or the market."""
    told: Counter[str] = Counter()
    for launch in plan.launches:
        where = launch.offering.reservation_id or str(launch.offering.capacity_type)
        told[f"{launch.offering.instance_type}:{where}"] += launch.count
    return told


def types_launched(plan: Plan) -> Counter[str]:
    told: Counter[str] = Counter()
    for launch in plan.launches:
        told[launch.offering.instance_type] += launch.count
    return told


def replicas_by(plan: Plan, key: str) -> list[int]:
    """Replicas on new nodes by domain of a label, sorted."""
    told: Counter[str] = Counter()
    for index, launch in enumerate(plan.launches):
        held = sum(placed.count for placed in launch.placements)
        if key == labels.HOSTNAME:
            for number in range(launch.count):
                told[f"{index}-{number}"] += held
        else:
            told[launch.labels[key]] += held * launch.count
    return sorted(told.values())


def placed_count(plan: Plan) -> int:
    new = sum(
        placed.count * launch.count
        for launch in plan.launches
        for placed in launch.placements
    )
    return new + sum(
        placed.count for existing in plan.existing for placed in existing.placements
    )


def unplaced_count(plan: Plan) -> int:
    return sum(item.count for item in plan.unplaced)
