"""Hypothesis strategies for the domain types, shared by all tests.

Values are small and collide often (few names, few sizes), because conflicts are where the rules are.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st

from reservoir.core.model.capacity_reservation import CapacityReservation, ReservationKind
from reservoir.core.model.instance_type import CapacityType, InstanceType, Offering
from reservoir.core.model.node_class import MachineImage, NodeClass, NodeClassStatus, Subnet
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.snapshot import Node, PlacedReplicas, Snapshot
from reservoir.core.model.workload import (
    AffinityTerm,
    Demand,
    FallbackStep,
    Gang,
    LabelSelector,
    TopologySpreadConstraint,
    WhenUnsatisfiable,
    Workload,
)
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.scheduling_terms.taint import (
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
)

# An example of these plays minutes of a whole fleet; two fifths of what other properties try.
dear: Final = settings(max_examples=settings().max_examples * 2 // 5)

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
GIB: Final = 2**30
ZONES: Final = (("zone-1", "az1"), ("zone-2", "az2"), ("zone-3", "az3"))
SIZES: Final = (("t2", 2), ("t4", 4), ("t8", 8), ("t16", 16))
APPS: Final = ("p", "q")
NAMESPACE: Final = "ns"
_TAINT: Final = Taint("dedicated", "yes")

capacity_types = st.sampled_from(CapacityType)
zones = st.sampled_from(ZONES)
prices = st.integers(10_000, 500_000)


def one_of(key: str, values: st.SearchStrategy[str]) -> st.SearchStrategy[Requirement]:
    """Draw "In" over some of the values."""
    return st.frozensets(values, min_size=1, max_size=2).map(
        lambda drawn: Requirement.new(key, Operator.IN, drawn)
    )


def requirement_sets(*, with_types: bool = True) -> st.SearchStrategy[Requirements]:
    """Draw requirements on zone, market and (with ``with_types``) instance type; mostly none."""
    choices = [
        one_of(labels.ZONE, zones.map(lambda zone: zone[0])),
        one_of(labels.CAPACITY_TYPE, capacity_types.map(str)),
    ]
    if with_types:
        choices.append(
            one_of(labels.INSTANCE_TYPE, st.sampled_from([name for name, _ in SIZES]))
        )
    return st.lists(st.one_of(choices), max_size=2).map(
        lambda drawn: Requirements.of(*drawn)
    )


@st.composite
def offerings(draw: st.DrawFn) -> tuple[Offering, ...]:
    """Draw distinct offerings of one type; one price on demand everywhere, spot cheaper, a few of them out of stock."""
    on_demand = draw(prices)
    markets = st.tuples(zones, st.sampled_from((CapacityType.ON_DEMAND, CapacityType.SPOT)))
    found = []
    for (zone, zone_id), market in sorted(draw(st.sets(markets, max_size=6))):
        price = (
            on_demand
            if market is CapacityType.ON_DEMAND
            else on_demand * draw(st.integers(20, 90)) // 100
        )
        until = draw(st.sampled_from((None, None, None, NOW + timedelta(minutes=3))))
        found.append(Offering(zone, zone_id, market, price, until))
    return tuple(found)


@st.composite
def instance_types(draw: st.DrawFn, size: tuple[str, int]) -> InstanceType:
    """Draw one type of a size."""
    name, cpus = size
    offered = draw(offerings())
    on_demand = [
        item.price_micro_usd_per_hour
        for item in offered
        if item.capacity_type is CapacityType.ON_DEMAND
    ]
    memory = cpus * draw(st.sampled_from((2, 4))) * GIB
    facts = {labels.INSTANCE_TYPE: name, labels.ARCH: "amd64", labels.OS: "linux"}
    return InstanceType(
        name=name,
        requirements=Requirements.from_labels(facts),
        capacity=Resources.of({"cpu": cpus * 1000, "memory": memory, "pods": 10}),
        overhead=Resources.of({"cpu": 100}),
        offerings=offered,
        on_demand_price_micro_usd_per_hour=on_demand[0] if on_demand else draw(prices),
    )


@st.composite
def reservations(draw: st.DrawFn, index: int) -> CapacityReservation:
    """Draw a reservation of any kind, mostly active, some with an end, some not begun."""
    zone, zone_id = draw(zones)
    kind = draw(st.sampled_from(ReservationKind))
    total = draw(st.integers(1, 4))
    begins = draw(st.sampled_from((None, None, None, NOW + timedelta(hours=1))))
    ends = draw(
        st.sampled_from((None, NOW + timedelta(minutes=30), NOW + timedelta(hours=4)))
    )
    free = draw(st.integers(0, total))
    return CapacityReservation(
        id=f"cr-{index}",
        owner_id="111122223333",
        instance_type=draw(st.sampled_from([name for name, _ in SIZES])),
        zone=zone,
        zone_id=zone_id,
        kind=kind,
        state="active" if begins is None else "scheduled",
        total_count=total,
        available_count=free,
        free_units=free,
        start_at=begins,
        end_at=ends
        if ends is not None or kind is not ReservationKind.CAPACITY_BLOCK
        else NOW + timedelta(hours=9),
        tenancy=draw(st.sampled_from(("default", "default", "default", "dedicated"))),
    )


def node_classes(reservation_ids: tuple[str, ...]) -> st.SearchStrategy[NodeClass]:
    """Draw the class "default", ready in all zones, which selected some of the reservations."""

    def ready(selected: frozenset[str]) -> NodeClass:
        status = NodeClassStatus(
            reservation_ids=tuple(sorted(selected)),
            subnets=tuple(
                Subnet(f"subnet-{zone}", zone, zone_id, 100) for zone, zone_id in ZONES
            ),
            machine_images=(MachineImage("ami-1", "amd64"),),
        )
        return NodeClass("default", status=status)

    if not reservation_ids:
        return st.just(ready(frozenset()))
    return st.frozensets(
        st.sampled_from(reservation_ids), min_size=len(reservation_ids) // 2
    ).map(ready)


@st.composite
def node_pools(draw: st.DrawFn, name: str, *, limited: bool = True) -> NodePool:
    """Draw a pool of the class "default"."""
    drawn = draw(requirement_sets(with_types=False))
    limits = (
        draw(st.sampled_from((None, None, {"cpu": 12_000}, {"nodes": 3})))
        if limited
        else None
    )
    return NodePool(
        name=name,
        node_class_name="default",
        requirements=drawn.add(Requirement.new(labels.NODE_POOL, Operator.IN, (name,))),
        taints=draw(
            st.sampled_from(
                ((), (), (_TAINT,), (Taint("old", "", TaintEffect.PREFER_NO_SCHEDULE),))
            )
        ),
        weight=draw(st.sampled_from((0, 10))),
        limits=None if limits is None else Resources.of(limits),
    )


def selectors() -> st.SearchStrategy[LabelSelector]:
    """Draw a selector of one app."""
    return st.sampled_from(APPS).map(lambda app: LabelSelector((("app", app),)))


def spread_constraints() -> st.SearchStrategy[TopologySpreadConstraint]:
    """Draw a spread by zone, host or market."""
    return st.builds(
        TopologySpreadConstraint,
        topology_key=st.sampled_from((labels.ZONE, labels.HOSTNAME, labels.CAPACITY_TYPE)),
        max_skew=st.integers(1, 2),
        selector=selectors(),
        when_unsatisfiable=st.sampled_from(WhenUnsatisfiable),
    )


def affinity_terms() -> st.SearchStrategy[AffinityTerm]:
    """Draw an (anti-)affinity term by zone or host, required or preferred."""
    return st.builds(
        AffinityTerm,
        topology_key=st.sampled_from((labels.ZONE, labels.HOSTNAME)),
        selector=selectors(),
        weight=st.sampled_from((None, None, 1, 10)),
    )


_LADDERS: Final = (
    (),
    (),
    (
        FallbackStep(CapacityType.RESERVED, 3600),
        FallbackStep(CapacityType.SPOT, 900),
        FallbackStep(CapacityType.ON_DEMAND),
    ),
    (FallbackStep(CapacityType.RESERVED),),
)


@st.composite
def workloads(draw: st.DrawFn, name: str, *, topology: bool = True) -> Workload:
    """Draw a workload; with ``topology`` a third of them have rules about where others are."""
    cpus, gib = draw(st.integers(1, 6)), draw(st.integers(1, 8))
    rules = (
        draw(st.sampled_from(("none", "none", "none", "spread", "affinity", "anti")))
        if topology
        else "none"
    )
    return Workload(
        namespace=NAMESPACE,
        name=name,
        generation=1,
        replicas=1,
        requests=Resources.of({"cpu": cpus * 500, "memory": gib * GIB // 2, "pods": 1}),
        labels={"app": draw(st.sampled_from(APPS))},
        priority=draw(st.sampled_from((0, 0, 10))),
        node_selector=draw(requirement_sets()),
        tolerations=draw(
            st.sampled_from(((), (Toleration("dedicated", TolerationOperator.EXISTS),)))
        ),
        topology_spread=(draw(spread_constraints()),) if rules == "spread" else (),
        affinity=(draw(affinity_terms()),) if rules == "affinity" else (),
        anti_affinity=(draw(affinity_terms()),) if rules == "anti" else (),
        gang=draw(st.sampled_from((None, None, None, Gang(), Gang(labels.ZONE)))),
        duration_s=draw(st.sampled_from((None, 600, 6 * 3600))),
        fallback=draw(st.sampled_from(_LADDERS)),
        max_price_micro_usd_per_hour=draw(st.sampled_from((None, None, None, 300_000))),
    )


@st.composite
def demands(draw: st.DrawFn, name: str, *, topology: bool = True) -> Demand:
    """Draw a workload with pending replicas that wait since some time."""
    since = NOW - timedelta(seconds=draw(st.sampled_from((0, 3600, 5000))))
    count = draw(st.integers(1, 5))
    wanted = draw(workloads(name, topology=topology))
    return Demand(wanted, count, since)


@st.composite
def nodes(draw: st.DrawFn, index: int, pool: str, running: Workload) -> Node:
    """Draw an existing node that carries some replicas of ``running``."""
    name, cpus = draw(st.sampled_from(SIZES))
    zone, zone_id = draw(zones)
    market = draw(st.sampled_from((CapacityType.SPOT, CapacityType.ON_DEMAND)))
    most = min(
        cpus * 1000 // running.requests["cpu"],
        cpus * 2 * GIB // running.requests["memory"],
        3,
    )
    count = draw(st.integers(0, most))
    facts = {
        labels.NODE_POOL: pool,
        labels.INSTANCE_TYPE: name,
        labels.ARCH: "amd64",
        labels.OS: "linux",
        labels.ZONE: zone,
        labels.ZONE_ID: zone_id,
        labels.CAPACITY_TYPE: str(market),
    }
    return Node(
        claim_id=f"claim-{index}",
        node_pool_name=pool,
        node_class_name="default",
        instance_type=name,
        zone=zone,
        zone_id=zone_id,
        capacity_type=market,
        labels=facts,
        allocatable=Resources.of(
            {"cpu": cpus * 1000, "memory": cpus * 2 * GIB, "pods": 10}
        ),
        used=running.requests * count,
        placements=(PlacedReplicas(running.key, count),) if count else (),
        price_atto_usd_per_hour=draw(prices) * 10**12,
        created_at=NOW - timedelta(hours=1),
        initialized=draw(st.booleans()),
        deleting=draw(st.sampled_from((False, False, True))),
    )


@st.composite
def snapshots(draw: st.DrawFn, *, topology: bool = True, limited: bool = True) -> Snapshot:
    """Draw a small world in which everything may occur at once."""
    sizes = draw(st.lists(st.sampled_from(SIZES), min_size=1, max_size=3, unique=True))
    held = tuple(draw(reservations(index)) for index in range(draw(st.integers(0, 3))))
    pools = tuple(
        draw(node_pools(name, limited=limited))
        for name in ("a", "b")[: draw(st.integers(1, 2))]
    )
    running = draw(workloads("running", topology=topology))
    existing = tuple(
        draw(nodes(index, pools[0].name, running))
        for index in range(draw(st.integers(0, 2)))
    )
    return Snapshot(
        instance_types=tuple(draw(instance_types(size)) for size in sizes),
        reservations=held,
        node_pools=pools,
        node_classes=(draw(node_classes(tuple(item.id for item in held))),),
        nodes=existing,
        demands=tuple(
            draw(demands(name, topology=topology))
            for name in ("x", "y", "z")[: draw(st.integers(1, 3))]
        ),
        workloads={running.key: running} if existing else {},
    )
