"""A small world for hand-written plans: two types, two zones, one reservation, one pool."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from lab.fakes import values
from lab.oracle.plain_checker import broken_rules
from reservoir.core.checker import Violation, ViolationCode, check
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_class import MachineImage, NodeClass, NodeClassStatus, Subnet
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import (
    ExistingPlacement,
    OfferingKey,
    Plan,
    PlannedNodes,
    ReasonCode,
    UnplacedReplicas,
)
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Node, Snapshot
from reservoir.core.model.workload import Demand, Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.core.scheduling_terms.requirement import Requirement
from reservoir.core.scheduling_terms.resources import Resources

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GIB = 2**30
POLICY = SchedulingPolicy(node_overhead_micro_usd_per_hour=0)
RESERVED, SPOT, ON_DEMAND = CapacityType.RESERVED, CapacityType.SPOT, CapacityType.ON_DEMAND
SMALL, LARGE = "m5.large", "m5.4xlarge"
PRICES = {SMALL: 100_000, LARGE: 800_000}
ZONES = {"zone-1": "az1", "zone-2": "az2"}
one_of = values.one_of


def instance_type(name: str, cpus: int, **changes: Any) -> InstanceType:
    """A type with 4 GiB a vCPU; spot costs two fifths."""
    price = PRICES.get(name, cpus * 50_000)
    offered = values.sold({ON_DEMAND: price, SPOT: price * 4 // 10}, ZONES.items())
    return replace(values.instance_type(name, cpus, 4 * cpus, offered, pods=29), **changes)


def reservation(**changes: Any) -> CapacityReservation:
    about = {"instance_type": SMALL, "zone": "zone-1", "zone_id": "az1"}
    return values.reservation("cr-1", 2, **{**about, **changes})


def node_class(*reservation_ids: str, **changes: Any) -> NodeClass:
    status = NodeClassStatus(
        reservation_ids=reservation_ids,
        subnets=tuple(
            Subnet(f"subnet-{zone}", zone, zone_id, 100) for zone, zone_id in ZONES.items()
        ),
        machine_images=(MachineImage("ami-1", "amd64"),),
    )
    return replace(NodeClass("default", status=status), **changes)


def pool(*requirements: Requirement, name: str = "default", **changes: Any) -> NodePool:
    return values.node_pool(name, *requirements, **changes)


def workload(name: str = "job", cpus: int = 1, **changes: Any) -> Workload:
    requests = Resources.of({"cpu": cpus * 1000, "memory": cpus * GIB})
    return values.workload(
        name, **{"namespace": "ns", "replicas": 1, "requests": requests, **changes}
    )


def demand(wanted: Workload, count: int = 1, *, waiting_s: int = 0) -> Demand:
    return Demand(wanted, count, NOW - timedelta(seconds=waiting_s))


def snapshot(*demands: Demand, **changes: Any) -> Snapshot:
    whole = Snapshot(
        instance_types=(instance_type(SMALL, 2), instance_type(LARGE, 16)),
        node_pools=(pool(),),
        node_classes=(node_class("cr-1"),),
        demands=demands,
    )
    return replace(whole, **changes)


def offering(
    name: str = SMALL,
    market: CapacityType = ON_DEMAND,
    zone: str = "zone-1",
    reservation_id: str | None = None,
) -> OfferingKey:
    return OfferingKey(name, zone, ZONES.get(zone, "az9"), market, reservation_id)


def reserved(
    reservation_id: str = "cr-1", zone: str = "zone-1", name: str = SMALL
) -> OfferingKey:
    return offering(name, RESERVED, zone, reservation_id)


def price_of(key: OfferingKey) -> int:
    if key.capacity_type is RESERVED:
        # Dearest on-demand 800,000 over cheapest spot 40,000 is 20; times a million is the divisor.
        return PRICES.get(key.instance_type, 0) * ATTO_USD_PER_MICRO_USD // 20_000_000
    price = PRICES.get(key.instance_type, 0)
    return (
        price if key.capacity_type is ON_DEMAND else price * 4 // 10
    ) * ATTO_USD_PER_MICRO_USD


def launch(
    key: OfferingKey, content: dict[str, int], count: int = 1, **changes: Any
) -> PlannedNodes:
    whole = PlannedNodes(
        node_pool_name="default",
        node_class_name="default",
        offering=key,
        price_atto_usd_per_hour=price_of(key),
        count=count,
        placements=values.placed(content),
    )
    return replace(whole, **changes)


def existing(claim_id: str, content: dict[str, int]) -> ExistingPlacement:
    return ExistingPlacement(claim_id, values.placed(content))


def refused(
    name: str, count: int = 1, code: ReasonCode = ReasonCode.INCOMPATIBLE, **changes: Any
) -> UnplacedReplicas:
    return replace(UnplacedReplicas(f"ns/{name}", count, code, "because"), **changes)


def plan(*launches: PlannedNodes, **changes: Any) -> Plan:
    cost = sum(item.price_atto_usd_per_hour * item.count for item in launches)
    return replace(Plan(launches=launches, cost_atto_usd_per_hour=cost), **changes)


def node(
    claim_id: str = "claim-1",
    content: dict[str, int] | None = None,
    cpus: int = 2,
    **changes: Any,
) -> Node:
    at = offering(
        SMALL, changes.get("capacity_type", ON_DEMAND), changes.get("zone", "zone-1")
    )
    count = sum((content or {}).values())
    holds = {
        "allocatable": Resources.of(
            {"cpu": cpus * 1000, "memory": cpus * 4 * GIB, "pods": 29}
        ),
        "used": Resources.of({"cpu": count * 1000, "memory": count * GIB}),
        "placements": values.placed(content or {}),
    }
    return values.node(
        claim_id,
        at,
        {labels.INSTANCE_TYPE: SMALL, labels.ARCH: "amd64"},
        **{**holds, **changes},
    )


@dataclass(frozen=True)
class Case:
    """A snapshot with a plan, and the one rule that the plan breaks (None: none)."""

    title: str
    snapshot: Snapshot
    plan: Plan
    breaks: ViolationCode | None = None
    policy: SchedulingPolicy = POLICY


def found(case: Case) -> set[ViolationCode]:
    """Return the rules that the checker finds broken, once the plain checker finds the same that forbid the plan."""
    told = violations(case)
    hard = {violation.code for violation in told if violation.forbids_commit}
    plain = broken_rules(case.snapshot, case.plan, now=NOW, policy=case.policy)
    has_quotas = any(team.quotas or team.resource_quotas for team in case.snapshot.teams)
    is_comparable = not has_quotas and ViolationCode.UNKNOWN_NAME not in hard & plain
    assert hard == plain or not is_comparable, (
        f"{case.title}: {sorted(hard)}, by the plain checker {sorted(plain)}"
    )
    return {violation.code for violation in told}


def violations(case: Case) -> tuple[Violation, ...]:
    return check(case.snapshot, case.plan, now=NOW, policy=case.policy)
