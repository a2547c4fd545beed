"""Each rule about one node: a plan that keeps it, and one that breaks it."""

# ruff: noqa: E501 - one case a line reads as a table

from dataclasses import replace
from datetime import timedelta

import pytest

from lab.oracle.world import (
    LARGE,
    NOW,
    ON_DEMAND,
    POLICY,
    RESERVED,
    SMALL,
    SPOT,
    Case,
    demand,
    existing,
    found,
    instance_type,
    launch,
    node,
    node_class,
    offering,
    one_of,
    plan,
    pool,
    refused,
    reservation,
    reserved,
    snapshot,
    workload,
)
from reservoir.core.checker import ViolationCode as V
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.instance_type import Offering
from reservoir.core.model.plan import OfferingKey, Plan, PlannedNodes
from reservoir.core.model.policy import MinValuesPolicy, NoDurationPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import FallbackStep
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

ONE = snapshot(demand(workload()))
BOUGHT = launch(offering(), {"job": 1})
BLOCK = reservation(kind=ReservationKind.CAPACITY_BLOCK, end_at=NOW + timedelta(hours=3))
IN_BLOCK = launch(reserved(), {"job": 1})
TOLD_EARLY = launch(reserved(), {"job": 1, "saves-long": 1})
TAINTED = pool(taints=(Taint("dedicated", "gpu"),))
UNAVAILABLE = instance_type(
    SMALL,
    2,
    offerings=(Offering("zone-1", "az1", ON_DEMAND, 100_000, NOW + timedelta(seconds=1)),),
)


def beside_a_notice(duration_s: int) -> Snapshot:
    """Work of this duration, and some that is short and asks for ten minutes of notice."""
    saving = workload("saves-long", duration_s=60, checkpoint_period_s=600)
    return replace(
        snapshot(demand(workload(duration_s=duration_s)), demand(saving)),
        reservations=(BLOCK,),
    )


CASES = [
    Case("one replica on one node", ONE, plan(BOUGHT)),
    Case("a node that is bought although the pool is unknown", ONE, plan(replace(BOUGHT, node_pool_name="x")), V.UNKNOWN_NAME),
    Case("a class that is not the pool's", ONE, plan(replace(BOUGHT, node_class_name="x")), V.UNKNOWN_NAME),
    Case("an unknown type", ONE, plan(launch(offering("x9.large"), {"job": 1})), V.UNKNOWN_NAME),
    Case("an unknown reservation", ONE, plan(launch(reserved("cr-9"), {"job": 1})), V.UNKNOWN_NAME),
    Case("nodes for nothing", snapshot(), plan(launch(offering(), {})), V.REPLICA_COUNT),
    Case("a workload that is not pending", ONE, plan(BOUGHT, launch(offering(), {"other": 1})), V.UNKNOWN_NAME),
    Case("a static pool", replace(ONE, node_pools=(pool(replicas=3),)), plan(BOUGHT), V.OFFERING),
    Case("two replicas where one fits", snapshot(demand(workload(cpus=2), 2)), plan(launch(offering(), {"job": 2})), V.RESOURCES),
    Case("two replicas that fit", snapshot(demand(workload(), 2)), plan(launch(offering(), {"job": 2}))),
    Case(
        "an accelerator that the type lacks",
        snapshot(demand(workload(requests=Resources.of({"cpu": 1, "nvidia.com/gpu": 1})))),
        plan(BOUGHT),
        V.RESOURCES,
    ),
    Case(
        "more pods than the type serves, though the requests do not name pods",
        snapshot(demand(workload(requests=Resources.of({"cpu": 1})), 30)),
        plan(launch(offering(), {"job": 30})),
        V.RESOURCES,
    ),
    # offerings
    Case("a zone where the type is not sold", ONE, plan(launch(offering(zone="zone-9"), {"job": 1})), V.OFFERING),
    Case("an offering that ran out", replace(ONE, instance_types=(UNAVAILABLE,)), plan(BOUGHT), V.OFFERING),
    Case(
        "a zone in which the class has no subnet",
        replace(ONE, node_classes=(replace(node_class(), status=replace(node_class().status, subnets=node_class().status.subnets[1:])),)),
        plan(BOUGHT),
        V.OFFERING,
    ),
    Case(
        "a class that may not launch",
        replace(ONE, node_classes=(replace(node_class(), status=replace(node_class().status, launch_blocked_reason="no role")),)),
        plan(BOUGHT),
        V.OFFERING,
    ),
    Case(
        "a type for which the class has no image",
        replace(ONE, instance_types=(instance_type(SMALL, 2, requirements=Requirements.of(one_of(labels.ARCH, "arm64"))),)),
        plan(BOUGHT),
        V.OFFERING,
    ),
    Case("a market that the pool excludes", replace(ONE, node_pools=(pool(one_of(labels.CAPACITY_TYPE, "spot")),)), plan(BOUGHT), V.OFFERING),
    Case("a wrong price", ONE, plan(replace(BOUGHT, price_atto_usd_per_hour=7)), V.PRICE),
    Case("a reserved unit for nothing", replace(ONE, reservations=(reservation(),)), plan(replace(IN_BLOCK, price_atto_usd_per_hour=0)), V.PRICE),
    Case(
        "a reserved unit at its on-demand price",
        replace(ONE, reservations=(reservation(),)),
        plan(replace(IN_BLOCK, price_atto_usd_per_hour=10**17)),
        V.PRICE,
    ),
    # reservations
    Case("a reserved unit", replace(ONE, reservations=(reservation(),)), plan(IN_BLOCK)),
    Case("a reservation of another zone", replace(ONE, reservations=(reservation(zone="zone-2", zone_id="az2"),)), plan(IN_BLOCK), V.RESERVATION_UNUSABLE),
    Case("a reservation that has not begun", replace(ONE, reservations=(reservation(state="scheduled"),)), plan(IN_BLOCK), V.RESERVATION_UNUSABLE),
    Case("a block that drains", replace(ONE, reservations=(replace(BLOCK, end_at=NOW + timedelta(minutes=40)),)), plan(IN_BLOCK), V.RESERVATION_UNUSABLE),
    Case("a block a second before it drains", replace(ONE, reservations=(replace(BLOCK, end_at=NOW + timedelta(minutes=40, seconds=1)),)), plan(IN_BLOCK)),
    Case("an UltraServer block 65 minutes before its end", replace(ONE, reservations=(replace(BLOCK, ultra_server=True, end_at=NOW + timedelta(minutes=65)),)), plan(IN_BLOCK), V.RESERVATION_UNUSABLE),
    Case("a reservation that the class did not select", replace(ONE, reservations=(reservation(),), node_classes=(node_class(),)), plan(IN_BLOCK), V.RESERVATION_UNUSABLE),
    Case("another platform", replace(ONE, reservations=(reservation(platform="Windows"),)), plan(IN_BLOCK), V.RESERVATION_UNUSABLE),
    Case("another tenancy", replace(ONE, reservations=(reservation(tenancy="dedicated"),)), plan(IN_BLOCK), V.RESERVATION_UNUSABLE),
    # requirements and taints
    Case("a wanted zone", snapshot(demand(workload(node_selector=Requirements.of(one_of(labels.ZONE, "zone-1"))))), plan(BOUGHT)),
    Case("an unwanted zone", snapshot(demand(workload(node_selector=Requirements.of(one_of(labels.ZONE, "zone-2"))))), plan(BOUGHT), V.REQUIREMENTS),
    Case("an unwanted architecture", snapshot(demand(workload(node_selector=Requirements.of(one_of(labels.ARCH, "arm64"))))), plan(BOUGHT), V.REQUIREMENTS),
    Case("a label that nobody defines", snapshot(demand(workload(node_selector=Requirements.of(one_of("team", "a"))))), plan(BOUGHT), V.REQUIREMENTS),
    Case(
        "one of two terms",
        snapshot(demand(workload(required_node_terms=(Requirements.of(one_of(labels.ZONE, "zone-2")), Requirements.of(one_of(labels.ZONE, "zone-1")))))),
        plan(BOUGHT),
    ),
    Case(
        "a reservation by name, bought instead",
        replace(snapshot(demand(workload(node_selector=Requirements.of(one_of(labels.CAPACITY_RESERVATION_ID, "cr-1"))))), reservations=(reservation(),)),
        plan(BOUGHT),
        V.REQUIREMENTS,
    ),
    Case(
        "a reservation by name",
        replace(snapshot(demand(workload(node_selector=Requirements.of(one_of(labels.CAPACITY_RESERVATION_ID, "cr-1"))))), reservations=(reservation(),)),
        plan(IN_BLOCK),
    ),
    Case(
        "two workloads that want different values of a label that the pool leaves open",
        replace(
            snapshot(
                demand(workload("a", node_selector=Requirements.of(one_of("tier", "1")))),
                demand(workload("b", node_selector=Requirements.of(one_of("tier", "2")))),
            ),
            node_pools=(pool(one_of("tier", "1", "2")),),
        ),
        plan(launch(offering(), {"a": 1, "b": 1})),
        V.REQUIREMENTS,
    ),
    Case("a taint", replace(ONE, node_pools=(TAINTED,)), plan(BOUGHT), V.TAINT),
    Case(
        "a tolerated taint",
        replace(snapshot(demand(workload(tolerations=(Toleration("dedicated", TolerationOperator.EXISTS),)))), node_pools=(TAINTED,)),
        plan(BOUGHT),
    ),
    Case("a startup taint", replace(ONE, node_pools=(pool(startup_taints=(Taint("wait"),)),)), plan(BOUGHT)),
    Case("a taint that only prefers", replace(ONE, node_pools=(pool(taints=(Taint("old", "", TaintEffect.PREFER_NO_SCHEDULE),)),)), plan(BOUGHT)),
    # time
    Case("a step that is not reached", snapshot(demand(workload(fallback=(FallbackStep(RESERVED, 60), FallbackStep(ON_DEMAND))), waiting_s=59)), plan(BOUGHT), V.FALLBACK),
    Case("a step that is reached", snapshot(demand(workload(fallback=(FallbackStep(RESERVED, 60), FallbackStep(ON_DEMAND))), waiting_s=60)), plan(BOUGHT)),
    Case("a market that is no step", snapshot(demand(workload(fallback=(FallbackStep(RESERVED, 60), FallbackStep(SPOT))), waiting_s=99)), plan(BOUGHT), V.FALLBACK),
    Case("work that outlasts the block", replace(snapshot(demand(workload(duration_s=3 * 3600 - 40 * 60 + 1))), reservations=(BLOCK,)), plan(IN_BLOCK), V.DURATION),
    Case("work that just fits the block", replace(snapshot(demand(workload(duration_s=3 * 3600 - 40 * 60))), reservations=(BLOCK,)), plan(IN_BLOCK)),
    Case("work that a neighbour's notice cuts short", beside_a_notice(duration_s=3 * 3600 - 42 * 60 + 1), plan(TOLD_EARLY), V.DURATION),
    Case("work that just fits before a neighbour's notice", beside_a_notice(duration_s=3 * 3600 - 42 * 60), plan(TOLD_EARLY)),
    Case("work without a hint in a block", replace(ONE, reservations=(BLOCK,)), plan(IN_BLOCK)),
    Case(
        "work without a hint in a block, against the policy",
        replace(ONE, reservations=(BLOCK,)),
        plan(IN_BLOCK),
        V.DURATION,
        replace(POLICY, no_duration_policy=NoDurationPolicy.AVOID),
    ),
    # existing nodes
    Case("an existing node", snapshot(demand(workload()), nodes=(node(),)), plan(existing=(existing("claim-1", {"job": 1}),))),
    Case("an existing node that is full", snapshot(demand(workload()), nodes=(node(content={"old": 2}),), workloads={"ns/old": workload("old")}), plan(existing=(existing("claim-1", {"job": 1}),)), V.RESOURCES),
    Case("a node that does not exist", ONE, plan(existing=(existing("claim-9", {"job": 1}),)), V.UNKNOWN_NAME),
    Case("a node that goes", snapshot(demand(workload()), nodes=(node(deleting=True),)), plan(existing=(existing("claim-1", {"job": 1}),)), V.UNKNOWN_NAME),
    Case("a node that drains", snapshot(demand(workload()), nodes=(node(drain_at=NOW),)), plan(existing=(existing("claim-1", {"job": 1}),)), V.DURATION),
    Case("a node that drains too soon", snapshot(demand(workload(duration_s=61)), nodes=(node(drain_at=NOW + timedelta(seconds=60)),)), plan(existing=(existing("claim-1", {"job": 1}),)), V.DURATION),
    Case("a node whose work is through before the notice", snapshot(demand(workload(duration_s=60, checkpoint_period_s=600)), nodes=(node(drain_at=NOW + timedelta(hours=1), leaves_at=NOW + timedelta(minutes=58)),)), plan(existing=(existing("claim-1", {"job": 1}),))),
    Case("a node whose work the notice cuts short", snapshot(demand(workload(duration_s=60, checkpoint_period_s=600)), nodes=(node(drain_at=NOW + timedelta(hours=1), leaves_at=NOW + timedelta(minutes=59)),)), plan(existing=(existing("claim-1", {"job": 1}),)), V.DURATION),
    Case("an existing node lacks a well-known label", snapshot(demand(workload(node_selector=Requirements.of(one_of(labels.INSTANCE_FAMILY, "m5")))), nodes=(node(),)), plan(existing=(existing("claim-1", {"job": 1}),)), V.REQUIREMENTS),
    Case("a tainted existing node", snapshot(demand(workload()), nodes=(node(taints=(Taint("x"),)),)), plan(existing=(existing("claim-1", {"job": 1}),)), V.TAINT),
    Case("an existing node on a step that is not reached", snapshot(demand(workload(fallback=(FallbackStep(RESERVED),))), nodes=(node(),)), plan(existing=(existing("claim-1", {"job": 1}),)), V.FALLBACK),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_a_rule_about_one_node(case: Case) -> None:
    assert found(case) == ({case.breaks} if case.breaks else set())


def alternatives(*keys: OfferingKey, first: PlannedNodes = BOUGHT) -> Plan:
    return plan(replace(first, alternatives=keys))


SPOT_FIRST = launch(offering(market=SPOT), {"job": 1})
MANY = replace(
    ONE, node_pools=(pool(Requirement.new(labels.INSTANCE_TYPE, Operator.EXISTS, (), 2)),)
)
ZONAL = snapshot(
    demand(workload(node_selector=Requirements.of(one_of(labels.ZONE, "zone-1"))))
)

ALTERNATIVES = [
    Case("dearer offerings in order", ONE, alternatives(offering(zone="zone-2"), offering(LARGE), first=SPOT_FIRST)),
    Case("a cheaper one", ONE, alternatives(offering(market=SPOT)), V.ALTERNATIVE),
    Case("the offering itself", ONE, alternatives(offering()), V.ALTERNATIVE),
    Case("the same one twice", ONE, alternatives(offering(LARGE), offering(LARGE)), V.ALTERNATIVE),
    Case("one of a zone that a replica excludes", ZONAL, alternatives(offering(zone="zone-2")), V.ALTERNATIVE),
    Case("one that is not sold", ONE, alternatives(offering(zone="zone-9")), V.ALTERNATIVE),
    Case(
        "one that is too small",
        snapshot(demand(workload(cpus=4))),
        alternatives(offering(SMALL, zone="zone-2"), first=launch(offering(LARGE, SPOT), {"job": 1})),
        V.ALTERNATIVE,
    ),
    Case("more than the policy wants", ONE, alternatives(offering(LARGE)), V.ALTERNATIVE, replace(POLICY, alternatives_max=0)),
    Case("beside a reserved unit", replace(ONE, reservations=(reservation(),)), alternatives(offering(), first=IN_BLOCK), V.ALTERNATIVE),
    Case("a reserved unit", replace(ONE, reservations=(reservation(),)), alternatives(reserved()), V.ALTERNATIVE),
    Case("two types where the pool wants two", MANY, alternatives(offering(LARGE))),
    Case("one type where the pool wants two", MANY, alternatives(offering(zone="zone-2")), V.MIN_VALUES),
    Case("one type where two are only a wish", MANY, plan(BOUGHT), None, replace(POLICY, min_values_policy=MinValuesPolicy.BEST_EFFORT)),
    Case("a reserved unit where two types could serve", replace(MANY, reservations=(reservation(),)), plan(IN_BLOCK)),
    Case(
        "a reserved unit where one type could serve",
        replace(MANY, reservations=(reservation(),), instance_types=(instance_type(SMALL, 2, on_demand_price_micro_usd_per_hour=800_000),)),
        plan(replace(IN_BLOCK, price_atto_usd_per_hour=40_000_000_000)),
        V.MIN_VALUES,
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", ALTERNATIVES, ids=lambda case: case.title)
def test_alternatives(case: Case) -> None:
    assert found(case) == ({case.breaks} if case.breaks else set())


def test_a_refusal_of_everything_is_no_violation_when_nothing_is_offered() -> None:
    nothing = snapshot(demand(workload()), instance_types=())
    assert found(Case("", nothing, plan(unplaced=(refused("job"),)))) == set()
