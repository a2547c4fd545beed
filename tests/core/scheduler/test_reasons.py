"""Forty situations in which something waits, and the sentence that tells its owner what to act on.

One small account: a pool for everything, one for GPUs behind a taint, and one that uses a team's reservations only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from reservoir.core.model.capacity_reservation import LentUnits, RefusedUnits
from reservoir.core.model.instance_type import InstanceType
from reservoir.core.model.node_class import (
    CapacityReservationSelectorTerm,
    MarketRest,
    NodeClass,
    NodeClassStatus,
    Subnet,
)
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import ReasonCode
from reservoir.core.model.policy import NoDurationPolicy, SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import FallbackStep, Gang, Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.scheduling_terms.taint import Taint, Toleration
from tests.core.scheduler.world import (
    GIB,
    NOW,
    ON_DEMAND,
    POLICY,
    RESERVED,
    SPOT,
    block,
    demand,
    fx_type,
    markets,
    near,
    node_class,
    one_of,
    planned,
    pool,
    require,
    reservation,
    spread,
    with_demand,
    workload,
)

GPU = "nvidia.com/gpu"
GPU_TAINT = Taint(GPU, "present")
TOLERATES_GPU = (Toleration(GPU, value="present"),)
M5 = fx_type("m5.4xlarge", 16, 64, pods=100, price={ON_DEMAND: 768_000, SPOT: 256_000})
C6 = fx_type("c6i.16xlarge", 64, 128, pods=100, price={ON_DEMAND: 2_720_000, SPOT: 900_000})
G5 = fx_type(
    "g5.48xlarge",
    192,
    768,
    pods=100,
    extra={GPU: 8},
    price={ON_DEMAND: 16_288_000, SPOT: 5_000_000},
)
P5 = fx_type(
    "p5.48xlarge",
    192,
    2048,
    pods=100,
    extra={GPU: 8},
    price={ON_DEMAND: 98_320_000, SPOT: 30_000_000},
)
TYPES = (M5, C6, G5, P5)
GENERAL = pool(
    "general", one_of(labels.INSTANCE_TYPE, M5.name, C6.name), markets(ON_DEMAND, SPOT)
)
GPUS = pool(
    "gpus", one_of(labels.INSTANCE_TYPE, G5.name), markets(ON_DEMAND), taints=(GPU_TAINT,)
)
TEAM = pool("team", one_of(labels.INSTANCE_TYPE, P5.name, G5.name), markets(RESERVED))


def gpu_job(count: int = 8, **changes: Any) -> Workload:
    return workload(cpu=90_000, memory=1000 * GIB, extra={GPU: count}, **changes)


def account(
    *pools: NodePool,
    types: Sequence[InstanceType] = TYPES,
    reservations: Sequence[object] = (),
    classes: Sequence[NodeClass] = (),
    **changes: Any,
) -> Snapshot:
    whole = Snapshot(
        instance_types=tuple(types),
        reservations=tuple(reservations),  # type: ignore[arg-type]  # reservations, of any builder
        node_pools=pools,
        node_classes=tuple(classes) or (node_class(reservations=reservations),),  # type: ignore[arg-type]  # as above
    )
    return replace(whole, **changes)


def in_zones(whole: NodePool, *zones: str) -> NodePool:
    return replace(
        whole,
        requirements=Requirements.of(
            *whole.requirements.values(), one_of(labels.ZONE, *zones)
        ),
    )


REFUSED = NodeClass(
    "default",
    status=NodeClassStatus(launch_blocked_reason="Permission: UnauthorizedOperation"),
)
ONE_SUBNET = NodeClass(
    "default",
    status=NodeClassStatus(subnets=(Subnet("subnet-1", "zone-1", "id-zone-1", 100),)),
)


@dataclass(frozen=True)
class Situation:
    """Demand in an account; what it must be told."""

    name: str
    snapshot: Snapshot
    wanted: Workload
    code: ReasonCode
    sentence: str
    replicas: int = 1
    policy: SchedulingPolicy = POLICY


def resting(kind: InstanceType) -> InstanceType:
    until = NOW + timedelta(minutes=3)
    return replace(
        kind,
        offerings=tuple(
            replace(
                it,
                unavailable_until=until,
                unavailable_reason="InsufficientInstanceCapacity",
            )
            for it in kind.offerings
        ),
    )


BLOCKS_AND_MORE = pool(
    "team", one_of(labels.INSTANCE_TYPE, P5.name), markets(RESERVED, ON_DEMAND)
)
ANYTHING = pool("anything", one_of(labels.INSTANCE_TYPE, P5.name, M5.name))
BLOCK_ENDS = block("cr-block", P5.name, 2, ends_in=timedelta(minutes=35))
BLOCK_LASTS = block("cr-block", P5.name, 2, ends_in=timedelta(hours=3))
ZONE_3_ONLY_GPUS = (
    replace(
        GENERAL,
        requirements=Requirements.of(
            *GENERAL.requirements.values(), one_of(labels.ZONE, "zone-1", "zone-2")
        ),
    ),
    replace(
        GPUS,
        requirements=Requirements.of(
            *GPUS.requirements.values(), one_of(labels.ZONE, "zone-3")
        ),
    ),
)

SITUATIONS = (
    Situation(
        "no pool",
        account(),
        workload(cpu=1000),
        ReasonCode.NO_NODE_POOL,
        "there is no NodePool",
    ),
    Situation(
        "zone with a typing error, beside a pool with a taint",
        account(GENERAL, GPUS),
        workload(cpu=1000, node_selector=require(labels.ZONE, Operator.IN, "zone-11")),
        ReasonCode.INCOMPATIBLE,
        "pool general offers nothing with topology.kubernetes.io/zone In [zone-11] (it has zone-1, "
        "zone-2, zone-3; did you mean zone-1?)",
    ),
    Situation(
        "GPUs without the toleration",
        account(GENERAL, GPUS),
        workload(cpu=1000, extra={GPU: 1}),
        ReasonCode.INCOMPATIBLE,
        "pool gpus would fit, but has the taint nvidia.com/gpu=present:NoSchedule, which is not tolerated",
    ),
    Situation(
        "GPUs that no pool has",
        account(GENERAL),
        workload(cpu=1000, extra={GPU: 1}),
        ReasonCode.TOO_LARGE,
        "no type of pool general that would fit has nvidia.com/gpu",
    ),
    Situation(
        "more GPUs than a node has",
        account(GENERAL, GPUS),
        workload(cpu=1000, extra={GPU: 16}, tolerations=TOLERATES_GPU),
        ReasonCode.TOO_LARGE,
        "g5.48xlarge, the nearest type of pool gpus, is too small: it lacks nvidia.com/gpu 8",
    ),
    Situation(
        "too much CPU",
        account(GENERAL),
        workload(cpu=100_000),
        ReasonCode.TOO_LARGE,
        "c6i.16xlarge, the nearest type of pool general, is too small: it lacks cpu 36100m",
    ),
    Situation(
        "too much of two things",
        account(GENERAL),
        workload(cpu=100_000, memory=999 * GIB),
        ReasonCode.TOO_LARGE,
        "c6i.16xlarge, the nearest type of pool general, is too small: it lacks cpu 36100m, memory 891914Mi",
    ),
    Situation(
        "a block that is ending",
        account(TEAM, reservations=[BLOCK_ENDS]),
        gpu_job(),
        ReasonCode.DURATION_DOES_NOT_FIT,
        "p5.48xlarge reserved in zone-1 of cr-block ends at 2026-01-01T00:35:00+00:00 and takes no new "
        "work: its nodes drain",
    ),
    Situation(
        "work that is longer than a block",
        account(TEAM, reservations=[BLOCK_LASTS]),
        gpu_job(duration_s=3 * 3600),
        ReasonCode.DURATION_DOES_NOT_FIT,
        "the work would not finish before p5.48xlarge reserved in zone-1 of cr-block drains at "
        "2026-01-01T02:20:00+00:00",
    ),
    Situation(
        "work without a duration where that must be said",
        account(TEAM, reservations=[BLOCK_LASTS]),
        gpu_job(),
        ReasonCode.DURATION_DOES_NOT_FIT,
        "it has no duration, and noDurationPolicy Avoid keeps such work out of p5.48xlarge reserved in "
        "zone-1 of cr-block, which ends at 2026-01-01T03:00:00+00:00",
        policy=SchedulingPolicy(no_duration_policy=NoDurationPolicy.AVOID),
    ),
    Situation(
        "a reservation that is full",
        account(
            TEAM,
            reservations=[reservation("cr-1", P5.name, 4, available_count=0, free_units=0)],
        ),
        gpu_job(),
        ReasonCode.RESERVATION_FULL,
        "p5.48xlarge reserved in zone-1 of cr-1 has no free unit (4 in all)",
    ),
    Situation(
        "a reservation of which a unit is lent, and another is being taken back",
        account(
            TEAM,
            reservations=[
                reservation(
                    "cr-1",
                    P5.name,
                    2,
                    available_count=0,
                    free_units=0,
                    lent=LentUnits("cr-2", 2, 1),
                )
            ],
        ),
        gpu_job(),
        ReasonCode.RESERVATION_FULL,
        "p5.48xlarge reserved in zone-1 of cr-1 has no free unit "
        "(2 in all, 2 more lent as cr-2, 1 being taken back)",
    ),
    Situation(
        "a reservation that EC2 shows as free and refuses",
        account(
            TEAM,
            reservations=[
                replace(
                    reservation("cr-1", P5.name, 4, available_count=0, free_units=0),
                    refusal=RefusedUnits(
                        "EC2 refuses it (VcpuLimitExceeded)", 4, NOW + timedelta(minutes=1)
                    ),
                )
            ],
        ),
        gpu_job(),
        ReasonCode.OFFERING_UNAVAILABLE,
        "p5.48xlarge reserved in zone-1 of cr-1 rests: EC2 refuses it (VcpuLimitExceeded); EC2 shows 4 of its units "
        "as free",
    ),
    Situation(
        "a gang whose block is to come, and nothing to buy until then",
        account(
            BLOCKS_AND_MORE,
            types=(resting(P5),),
            reservations=[
                reservation(
                    "cr-late",
                    P5.name,
                    2,
                    state="scheduled",
                    start_at=NOW + timedelta(days=2),
                ),
                reservation(
                    "cr-soon",
                    P5.name,
                    2,
                    state="scheduled",
                    start_at=NOW + timedelta(hours=1),
                ),
            ],
        ),
        gpu_job(gang=Gang()),
        ReasonCode.GANG_INCOMPLETE,
        "all 2 replicas need a place together: p5.48xlarge on-demand in zone-1 rests: InsufficientInstanceCapacity; "
        "p5.48xlarge reserved in zone-1 of cr-soon starts at 2026-01-01T01:00:00+00:00",
        replicas=2,
    ),
    Situation(
        "a price cap, and a block to come",
        account(
            BLOCKS_AND_MORE,
            reservations=[
                reservation(
                    "cr-1", P5.name, 2, state="scheduled", start_at=NOW + timedelta(hours=1)
                )
            ],
        ),
        gpu_job(max_price_micro_usd_per_hour=1_000_000),
        ReasonCode.MAX_PRICE,
        "p5.48xlarge on-demand in zone-1 costs 98.32 USD an hour, and maxPricePerHour leaves 1.00 USD; "
        "p5.48xlarge reserved in zone-1 of cr-1 starts at 2026-01-01T01:00:00+00:00",
    ),
    Situation(
        "a zone with a typing error, and a pool that was made for such work behind one that was not",
        account(GENERAL, replace(GPUS, taints=())),
        gpu_job(node_selector=require(labels.ZONE, Operator.IN, "zone-11")),
        ReasonCode.INCOMPATIBLE,
        "pool gpus offers nothing with topology.kubernetes.io/zone In [zone-11] (it has zone-1, zone-2, zone-3; did "
        "you mean zone-1?)",
    ),
    Situation(
        "a pool that is asked for by its label and has no type, behind one with another value",
        account(
            pool(
                "alpha",
                one_of("story", "alpha"),
                one_of(labels.INSTANCE_TYPE, M5.name),
                markets(ON_DEMAND),
            ),
            pool(
                "beta",
                one_of("story", "beta"),
                one_of(labels.INSTANCE_TYPE, "m5.3xlarge"),
                markets(ON_DEMAND),
            ),
        ),
        workload(cpu=1000, node_selector=require("story", Operator.IN, "beta")),
        ReasonCode.INCOMPATIBLE,
        "the requirements of pool beta filtered out all available instance types: none has"
        " node.kubernetes.io/instance-type In [m5.3xlarge]; did you mean m5.4xlarge?",
    ),
    Situation(
        "a zone without reserved units, and a pool for reserved units behind one for anything",
        account(
            replace(ANYTHING, name="anything"),
            TEAM,
            reservations=[reservation("cr-1", P5.name, 4, available_count=0, free_units=0)],
        ),
        gpu_job(
            node_selector=Requirements.of(
                one_of(labels.CAPACITY_TYPE, "reserved"), one_of(labels.ZONE, "zone-11")
            )
        ),
        ReasonCode.INCOMPATIBLE,
        "pool team offers nothing with topology.kubernetes.io/zone In [zone-11] (it has zone-1; did you mean zone-1?)",
    ),
    Situation(
        "a reservation that starts tomorrow",
        account(
            TEAM,
            reservations=[
                reservation(
                    "cr-1", P5.name, 4, state="scheduled", start_at=NOW + timedelta(days=1)
                )
            ],
        ),
        gpu_job(),
        ReasonCode.RESERVATION_NOT_STARTED,
        "p5.48xlarge reserved in zone-1 of cr-1 starts at 2026-01-02T00:00:00+00:00",
    ),
    Situation(
        "a reservation that has expired",
        account(TEAM, reservations=[reservation("cr-1", P5.name, 4, state="expired")]),
        gpu_job(),
        ReasonCode.INCOMPATIBLE,
        "p5.48xlarge reserved in zone-1 of cr-1 is expired",
    ),
    Situation(
        "a reservation id with a typing error",
        account(TEAM, reservations=[reservation("cr-0123", P5.name, 4)]),
        gpu_job(
            node_selector=require(labels.CAPACITY_RESERVATION_ID, Operator.IN, "cr-0124")
        ),
        ReasonCode.INCOMPATIBLE,
        "pool team offers nothing with karpenter.k8s.aws/capacity-reservation-id In [cr-0124] (it has "
        "cr-0123; did you mean cr-0123?)",
    ),
    Situation(
        "a pool for reserved capacity that selects none",
        account(TEAM),
        gpu_job(),
        ReasonCode.INCOMPATIBLE,
        "pool team uses reserved capacity only, and class default selects no reservation of its instance types",
    ),
    Situation(
        "a pool for reserved capacity whose class names one that EC2 does not show",
        account(
            TEAM,
            classes=[
                NodeClass(
                    "default",
                    capacity_reservation_selector_terms=(
                        CapacityReservationSelectorTerm(id="cr-gone"),
                        CapacityReservationSelectorTerm(tags={"team": "a"}),
                    ),
                )
            ],
        ),
        gpu_job(),
        ReasonCode.INCOMPATIBLE,
        "pool team uses reserved capacity only, and class default selects no reservation of its instance types"
        " (cr-gone: gone, not shared, or of another platform or tenancy)",
    ),
    Situation(
        "spot in a pool that has none",
        account(GPUS),
        workload(
            cpu=1000,
            tolerations=TOLERATES_GPU,
            node_selector=require(labels.CAPACITY_TYPE, Operator.IN, "spot"),
        ),
        ReasonCode.INCOMPATIBLE,
        "pool gpus: karpenter.sh/capacity-type In [on-demand] does not meet karpenter.sh/capacity-type In [spot]",
    ),
    Situation(
        "an architecture that nothing has",
        account(GENERAL),
        workload(cpu=1000, node_selector=require(labels.ARCH, Operator.IN, "arm64")),
        ReasonCode.INCOMPATIBLE,
        "c6i.16xlarge of pool general: kubernetes.io/arch In [amd64] does not meet kubernetes.io/arch In "
        "[arm64]; did you mean amd64?",
    ),
    Situation(
        "an instance type with a typing error",
        account(GENERAL),
        workload(
            cpu=1000, node_selector=require(labels.INSTANCE_TYPE, Operator.IN, "m5.4xlrage")
        ),
        ReasonCode.INCOMPATIBLE,
        "pool general: node.kubernetes.io/instance-type In [c6i.16xlarge, m5.4xlarge] does not meet "
        "node.kubernetes.io/instance-type In [m5.4xlrage]; did you mean m5.4xlarge?",
    ),
    Situation(
        "a label that nobody defines",
        account(GENERAL),
        workload(cpu=1000, node_selector=require("example.com/rack", Operator.IN, "7")),
        ReasonCode.INCOMPATIBLE,
        "pool general: label example.com/rack has no known values",
    ),
    Situation(
        "two things wrong with every pool",
        account(GPUS),
        workload(cpu=1000, node_selector=require(labels.ZONE, Operator.IN, "zone-9")),
        ReasonCode.INCOMPATIBLE,
        "pool gpus has the taint nvidia.com/gpu=present:NoSchedule, which is not tolerated; besides, "
        "pool gpus offers nothing with topology.kubernetes.io/zone In [zone-9] (it has zone-1, zone-2, "
        "zone-3; did you mean zone-3?)",
    ),
    Situation(
        "capacity that was refused just now",
        account(GENERAL, types=(resting(M5), resting(C6))),
        workload(cpu=1000),
        ReasonCode.OFFERING_UNAVAILABLE,
        "m5.4xlarge spot in zone-1 rests: InsufficientInstanceCapacity",
    ),
    Situation(
        "a pool at its limit",
        account(replace(GENERAL, limits=Resources.of({"cpu": 10_000}))),
        workload(cpu=1000),
        ReasonCode.LIMIT_EXCEEDED,
        "m5.4xlarge spot in zone-1 would exceed the cpu limit of pool general (10 left)",
    ),
    Situation(
        "a price cap",
        account(GENERAL),
        workload(cpu=1000, max_price_micro_usd_per_hour=100_000),
        ReasonCode.MAX_PRICE,
        "m5.4xlarge spot in zone-1 costs 0.256 USD an hour, and maxPricePerHour leaves 0.10 USD",
    ),
    Situation(
        "a ladder that has not come to on-demand",
        account(GENERAL),
        workload(
            cpu=1000, fallback=(FallbackStep(RESERVED, 7200), FallbackStep(ON_DEMAND))
        ),
        ReasonCode.FALLBACK_NOT_YET,
        "m5.4xlarge on-demand in zone-1 would fit, but the fallback ladder has not reached on-demand",
    ),
    Situation(
        "part of a gang",
        account(TEAM, reservations=[reservation("cr-1", P5.name, 4)]),
        gpu_job(gang=Gang()),
        ReasonCode.GANG_INCOMPLETE,
        "all 5 replicas need a place together: the free reserved units hold 4 of them (4 in cr-1)",
        replicas=5,
    ),
    Situation(
        "a spread that a tainted pool's zone holds back",
        account(*ZONE_3_ONLY_GPUS),
        workload(cpu=1000, topology_spread=(spread(labels.ZONE),)),
        ReasonCode.TOPOLOGY,
        "spread over topology.kubernetes.io/zone with maxSkew 1: zone-3 has 0 of these replicas and can "
        "get none (only pool gpus offers capacity there, and its taint nvidia.com/gpu=present:NoSchedule is not "
        "tolerated; nodeTaintsPolicy: Honor would leave such domains out)",
        replicas=9,
    ),
    Situation(
        "more domains than there are",
        account(GENERAL),
        workload(cpu=1000, topology_spread=(spread(labels.ZONE, min_domains=5),)),
        ReasonCode.TOPOLOGY,
        "spread over topology.kubernetes.io/zone: minDomains asks for 5, and there are 3 (zone-1, zone-2, zone-3)",
        replicas=9,
    ),
    Situation(
        "affinity to what runs nowhere",
        account(GENERAL),
        workload(cpu=1000, affinity=(near(labels.ZONE, app="cache"),)),
        ReasonCode.TOPOLOGY,
        "affinity: no replica that it must be near runs in a topology.kubernetes.io/zone where it may run",
    ),
    Situation(
        "anti-affinity in every zone",
        account(GENERAL),
        workload(cpu=1000, anti_affinity=(near(labels.ZONE),)),
        ReasonCode.TOPOLOGY,
        "anti-affinity: a replica that it avoids runs in every topology.kubernetes.io/zone where it may run "
        "(zone-1, zone-2, zone-3)",
        replicas=4,
    ),
    Situation(
        "a class that EC2 refuses",
        account(
            GENERAL,
            classes=[
                NodeClass(
                    "default",
                    status=NodeClassStatus(
                        launch_blocked_reason="Permission: UnauthorizedOperation"
                    ),
                )
            ],
        ),
        workload(cpu=1000),
        ReasonCode.NODE_CLASS_NOT_READY,
        "general: EC2NodeClass default launches nothing: Permission: UnauthorizedOperation",
    ),
    Situation(
        "classes that EC2 refuses, of which one is meant",
        account(
            replace(GENERAL, node_class_name="refused"),
            replace(pool("another"), node_class_name="missing"),
            classes=[
                NodeClass(
                    "refused",
                    status=NodeClassStatus(
                        launch_blocked_reason="Permission: UnauthorizedOperation"
                    ),
                ),
            ],
        ),
        workload(cpu=1000, node_selector=require(labels.NODE_POOL, Operator.IN, "general")),
        ReasonCode.NODE_CLASS_NOT_READY,
        "general: EC2NodeClass refused launches nothing: Permission: UnauthorizedOperation",
    ),
    Situation(
        "a class that EC2 refuses, beside a pool of another kind",
        account(
            replace(GENERAL, node_class_name="refused"),
            TEAM,
            classes=[
                NodeClass("default"),
                NodeClass(
                    "refused",
                    status=NodeClassStatus(
                        launch_blocked_reason="Permission: UnauthorizedOperation",
                        launch_blocked_until=NOW + timedelta(minutes=9),
                    ),
                ),
            ],
        ),
        workload(cpu=1000, node_selector=require(labels.NODE_POOL, Operator.IN, "general")),
        ReasonCode.NODE_CLASS_NOT_READY,
        f"NodePool general: EC2NodeClass refused launches nothing: Permission: UnauthorizedOperation; "
        f"it is looked at again at {NOW + timedelta(minutes=9):%H:%M} UTC",
    ),
    Situation(
        "a class that EC2 refuses on one market, whatever it asks for there",
        account(
            GENERAL,
            classes=[
                NodeClass(
                    "default",
                    status=NodeClassStatus(
                        resting_markets={
                            "spot": MarketRest(
                                "Configuration: InvalidParameterValue",
                                NOW + timedelta(minutes=3),
                            )
                        }
                    ),
                )
            ],
        ),
        workload(
            cpu=1000, node_selector=require(labels.CAPACITY_TYPE, Operator.IN, "spot")
        ),
        ReasonCode.OFFERING_UNAVAILABLE,
        "m5.4xlarge spot in zone-1 rests with all spot launches of class default: Configuration: InvalidParameterValue",
    ),
    Situation(
        "a class that does not exist, beside a pool of another kind",
        account(replace(GENERAL, node_class_name="gone"), TEAM),
        workload(cpu=1000, node_selector=require(labels.NODE_POOL, Operator.IN, "general")),
        ReasonCode.NODE_CLASS_NOT_READY,
        "NodePool general: EC2NodeClass gone does not exist",
    ),
    Situation(
        "a class that does not exist",
        account(replace(GENERAL, node_class_name="gone")),
        workload(cpu=1000),
        ReasonCode.NODE_CLASS_NOT_READY,
        "general: EC2NodeClass gone does not exist",
    ),
    Situation(
        "a zone without a subnet",
        account(
            GENERAL,
            classes=[
                NodeClass(
                    "default",
                    status=NodeClassStatus(
                        subnets=(Subnet("subnet-1", "zone-1", "id-zone-1", 100),)
                    ),
                )
            ],
        ),
        workload(cpu=1000, node_selector=require(labels.ZONE, Operator.IN, "zone-2")),
        ReasonCode.INCOMPATIBLE,
        "class default has no subnet in zone-2",
    ),
    Situation(
        "minValues that cannot be met",
        account(
            replace(
                GENERAL,
                requirements=Requirements.of(
                    *(
                        it
                        for key, it in GENERAL.requirements.items()
                        if key != labels.INSTANCE_TYPE
                    ),
                    Requirement.new(
                        labels.INSTANCE_TYPE, Operator.IN, (M5.name, C6.name), min_values=2
                    ),
                ),
            )
        ),
        workload(cpu=60_000),
        ReasonCode.MIN_VALUES,
        "pool general: minValues cannot be met",
    ),
)


@pytest.mark.parametrize("it", SITUATIONS, ids=lambda it: it.name)
def test_the_reason_is_the_one_to_act_on(it: Situation) -> None:
    plan = planned(
        with_demand(it.snapshot, demand(it.wanted, it.replicas)), policy=it.policy
    )

    (refusal,) = plan.unplaced
    assert (refusal.code, refusal.message) == (it.code, it.sentence)


def test_what_ec2_refuses_could_serve_when_it_is_asked_again() -> None:
    (it,) = [
        it
        for it in SITUATIONS
        if it.name == "a reservation that EC2 shows as free and refuses"
    ]
    (refusal,) = planned(with_demand(it.snapshot, demand(it.wanted, 1))).unplaced
    assert refusal.earliest_at == NOW + timedelta(minutes=1)


def test_a_blocked_class_could_serve_when_it_is_looked_at_again() -> None:
    (it,) = [
        it
        for it in SITUATIONS
        if it.name == "a class that EC2 refuses, beside a pool of another kind"
    ]
    (refusal,) = planned(with_demand(it.snapshot, demand(it.wanted, 1))).unplaced
    assert refusal.earliest_at == NOW + timedelta(minutes=9)
