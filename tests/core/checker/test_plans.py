"""Rules about the plan as a whole, and about what it leaves over."""

# ruff: noqa: E501 - one case a line reads as a table

from dataclasses import replace
from datetime import timedelta
from typing import Any

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
from reservoir.core.model.plan import ReasonCode
from reservoir.core.model.policy import PreferencePolicy
from reservoir.core.model.workload import FallbackStep, Gang, PreferredNodeTerm, Workload
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources


def gang(name: str = "job", **changes: Any) -> Workload:
    return workload(name, **{"cpus": 2, "gang": Gang(), **changes})


def zoned(**changes: Any) -> Workload:
    return gang(gang=Gang(labels.ZONE), **changes)


def only(market: str) -> Requirements:
    return Requirements.of(one_of(labels.CAPACITY_TYPE, market))


TWO = snapshot(demand(workload(cpus=2), 2))
TOTALS = [
    Case("two nodes of one replica each", TWO, plan(launch(offering(), {"job": 1}, 2))),
    Case("a forgotten replica", TWO, plan(launch(offering(), {"job": 1})), V.REPLICA_COUNT),
    Case("a replica too many", TWO, plan(launch(offering(), {"job": 1}, 3)), V.REPLICA_COUNT),
    Case("placed and refused", TWO, plan(launch(offering(), {"job": 1}, 2), unplaced=(refused("job"),)), V.REPLICA_COUNT),
    Case("a refusal of no replicas", TWO, plan(launch(offering(), {"job": 1}, 2), unplaced=(refused("job", 0),)), V.REPLICA_COUNT),
    Case("a refusal of a stranger", TWO, plan(launch(offering(), {"job": 1}, 2), unplaced=(refused("who"),)), V.UNKNOWN_NAME),
    Case("two demands of one workload", snapshot(demand(workload(cpus=2)), demand(workload(cpus=2))), plan(launch(offering(), {"job": 1}, 2))),
    Case("one existing node filled twice", snapshot(demand(workload(), 3), nodes=(node(),)), plan(existing=(existing("claim-1", {"job": 2}), existing("claim-1", {"job": 1}))), V.RESOURCES),
    # reservations
    Case("as many claims as units", replace(TWO, reservations=(reservation(),)), plan(launch(reserved(), {"job": 1}, 2))),
    Case("more claims than units", replace(TWO, reservations=(reservation(free_units=1),)), plan(launch(reserved(), {"job": 1}, 2)), V.RESERVATION_OVERCOMMITTED),
    Case("more claims than units, in two launches", replace(TWO, reservations=(reservation(free_units=1),)), plan(launch(reserved(), {"job": 1}), launch(reserved(), {"job": 1})), V.RESERVATION_OVERCOMMITTED),
    # gangs
    Case("a whole gang", snapshot(demand(gang(), 2)), plan(launch(offering(), {"job": 1}), launch(offering(zone="zone-2"), {"job": 1}))),
    Case("half a gang", snapshot(demand(gang(), 2)), plan(launch(offering(), {"job": 1}), unplaced=(refused("job", 1, ReasonCode.GANG_INCOMPLETE),)), V.GANG),
    Case("a gang in one zone", snapshot(demand(zoned(), 2)), plan(launch(offering(), {"job": 1}, 2))),
    Case("a gang in two zones", snapshot(demand(zoned(), 2)), plan(launch(offering(), {"job": 1}), launch(offering(zone="zone-2"), {"job": 1})), V.GANG),
    Case("a gang that follows its running replicas", snapshot(demand(zoned()), nodes=(node(content={"job": 1}),)), plan(launch(offering(zone="zone-1"), {"job": 1}))),
    Case("a gang that leaves its running replicas", snapshot(demand(zoned()), nodes=(node(content={"job": 1}),)), plan(launch(offering(zone="zone-2"), {"job": 1})), V.GANG),
    # limits
    Case("at the limit", replace(TWO, node_pools=(pool(limits=Resources.of({"cpu": 4000, "nodes": 2})),)), plan(launch(offering(), {"job": 1}, 2))),
    Case("over the limit", replace(TWO, node_pools=(pool(limits=Resources.of({"cpu": 3000})),)), plan(launch(offering(), {"job": 1}, 2)), V.LIMIT),
    Case("over the node limit", replace(TWO, node_pools=(pool(limits=Resources.of({"nodes": 1})),)), plan(launch(offering(), {"job": 1}, 2)), V.LIMIT),
    Case("over the limit with nodes that exist", snapshot(demand(workload(cpus=2)), nodes=(node(content={"old": 2}),), workloads={"ns/old": workload("old")}, node_pools=(pool(limits=Resources.of({"cpu": 3000})),)), plan(launch(offering(), {"job": 1})), V.LIMIT),
    Case("at the limit with a node that goes", snapshot(demand(workload()), nodes=(node(deleting=True),), node_pools=(pool(limits=Resources.of({"nodes": 1})),)), plan(launch(offering(), {"job": 1}))),
    Case("a limit that an alternative would break", replace(TWO, node_pools=(pool(limits=Resources.of({"cpu": 4000})),)), plan(launch(offering(), {"job": 1}, 2, alternatives=(offering(LARGE),))), V.LIMIT),
    # money
    Case("within the price", snapshot(demand(workload(cpus=2, max_price_micro_usd_per_hour=200_000), 2)), plan(launch(offering(), {"job": 1}, 2))),
    Case("over the price as what it may be launched as", snapshot(demand(workload(cpus=2, max_price_micro_usd_per_hour=200_000), 2)), plan(launch(offering(), {"job": 1}, 2, alternatives=(offering(LARGE),))), V.MAX_PRICE),
    Case("over the price", snapshot(demand(workload(cpus=2, max_price_micro_usd_per_hour=199_999), 2)), plan(launch(offering(), {"job": 1}, 2)), V.MAX_PRICE),
    Case("a wrong total", TWO, plan(launch(offering(), {"job": 1}, 2), cost_atto_usd_per_hour=1), V.COST),
    Case("a total that includes each node's overhead", TWO, plan(launch(offering(), {"job": 1}, 2), cost_atto_usd_per_hour=2 * 100_007 * 10**12), None, replace(POLICY, node_overhead_micro_usd_per_hour=7)),
    Case("a bound above the cost", TWO, plan(launch(offering(), {"job": 1}, 2), lower_bound_atto_usd_per_hour=10**18), V.COST),
    Case("a spot pool with half of the nodes", snapshot(demand(workload(cpus=2), 10)), plan(launch(offering(market=SPOT), {"job": 1}, 5), launch(offering(market=SPOT, zone="zone-2"), {"job": 1}, 5)), None, replace(POLICY, spot_pool_share_percent=50)),
    Case("a spot pool with more than half", snapshot(demand(workload(cpus=2), 10)), plan(launch(offering(market=SPOT), {"job": 1}, 6), launch(offering(market=SPOT, zone="zone-2"), {"job": 1}, 4)), V.SPOT_SHARE, replace(POLICY, spot_pool_share_percent=50)),
    Case("too few nodes for a share", snapshot(demand(workload(cpus=2), 9)), plan(launch(offering(market=SPOT), {"job": 1}, 9)), None, replace(POLICY, spot_pool_share_percent=50)),
]  # fmt: skip


@pytest.mark.parametrize("case", TOTALS, ids=lambda case: case.title)
def test_a_rule_about_the_plan(case: Case) -> None:
    assert found(case) == ({case.breaks} if case.breaks else set())


FREE = reservation()
ROOMY = reservation(id="cr-1", instance_type=LARGE, free_units=1, total_count=1)
IN_ZONE_2 = Requirements.of(one_of(labels.ZONE, "zone-2"))
TINY = snapshot(demand(workload()), reservations=(FREE,))
BOUGHT = plan(launch(offering(), {"job": 1}))
ON_ROOMY = plan(launch(reserved(name=LARGE), {"job": 1}))
FLOOR = replace(POLICY, reserved_floor_percent=20)


def preferring(wanted: Requirements, **changes: Any) -> Workload:
    return workload(**changes, preferred_node_terms=(PreferredNodeTerm(10, wanted),))


RULE_3 = [
    Case("paid beside a free unit", TINY, BOUGHT, V.PAID_WHILE_FREE),
    Case("paid, no unit free", replace(TINY, reservations=(reservation(free_units=0),)), BOUGHT),
    Case("paid, the free unit not selected", replace(TINY, node_classes=(node_class(),)), BOUGHT),
    Case("paid, the free unit too small", snapshot(demand(workload(cpus=3)), reservations=(FREE,)), plan(launch(offering(LARGE), {"job": 1}))),
    Case("paid, four replicas that two free units would take", snapshot(demand(workload(), 4), reservations=(FREE,)), plan(launch(offering(LARGE), {"job": 4})), V.PAID_WHILE_FREE),
    Case("paid, five replicas that two free units would not take", snapshot(demand(workload(), 5), reservations=(FREE,)), plan(launch(offering(LARGE), {"job": 5}))),
    Case("paid, a replica that may not be reserved", snapshot(demand(workload(node_selector=only("on-demand"))), reservations=(FREE,)), BOUGHT),
    Case("paid, another zone wanted", snapshot(demand(workload(node_selector=IN_ZONE_2)), reservations=(FREE,)), plan(launch(offering(zone="zone-2"), {"job": 1}))),
    Case("paid in the pool of more weight", replace(TINY, node_pools=(pool(one_of(labels.CAPACITY_TYPE, "on-demand"), weight=9), pool(name="other"))), BOUGHT, V.PAID_WHILE_FREE),
    Case("paid, the other pool's limit reached", replace(TINY, node_pools=(pool(one_of(labels.CAPACITY_TYPE, "on-demand")), pool(name="other", limits=Resources.of({"cpu": 1000})))), BOUGHT),
    Case("paid, the limit freed by not paying", replace(TINY, node_pools=(pool(limits=Resources.of({"cpu": 2000})),)), BOUGHT, V.PAID_WHILE_FREE),
    Case("paid, the work would outlast the block", snapshot(demand(workload(duration_s=99999)), reservations=(reservation(kind=ReservationKind.CAPACITY_BLOCK, end_at=NOW + timedelta(hours=3)),)), BOUGHT),
    Case("paid, on-demand preferred", snapshot(demand(preferring(only("on-demand"))), reservations=(FREE,)), BOUGHT),
    Case("paid, another zone preferred", snapshot(demand(preferring(IN_ZONE_2)), reservations=(FREE,)), plan(launch(offering(zone="zone-2"), {"job": 1}))),
    Case("paid, what the free unit would meet preferred", snapshot(demand(preferring(only("reserved"))), reservations=(FREE,)), BOUGHT, V.PAID_WHILE_FREE),
    Case("paid, preferences ignored", snapshot(demand(preferring(only("on-demand"))), reservations=(FREE,)), BOUGHT, V.PAID_WHILE_FREE, replace(POLICY, preference_policy=PreferencePolicy.IGNORE)),
    Case("paid, below the floor of the free slot", replace(TINY, reservations=(ROOMY,)), BOUGHT, None, replace(POLICY, reserved_floor_percent=10)),
    Case("paid, a slot that is large but free", replace(TINY, reservations=(ROOMY,)), BOUGHT, V.PAID_WHILE_FREE),
    Case("below the floor of a slot", replace(TINY, reservations=(ROOMY,)), ON_ROOMY, V.BELOW_FLOOR, FLOOR),
    Case("below the floor, and nothing else is sold", snapshot(demand(workload(node_selector=only("reserved"))), reservations=(ROOMY,)), ON_ROOMY, None, FLOOR),
    Case("below the floor, and the limit allows no other", replace(TINY, reservations=(ROOMY,), node_pools=(pool(limits=Resources.of({"nodes": 1})),)), ON_ROOMY, None, FLOOR),
    Case("enough for the floor", snapshot(demand(workload(), 4), reservations=(ROOMY,)), plan(launch(reserved(name=LARGE), {"job": 4})), None, FLOOR),
]  # fmt: skip

URGENT, CASUAL = workload("urgent", cpus=2, priority=10), workload("casual", cpus=2)
RACE = snapshot(demand(URGENT), demand(CASUAL), reservations=(reservation(free_units=1),))
TWO_TYPES = pool(Requirement.new(labels.INSTANCE_TYPE, Operator.EXISTS, (), 2))
STRICT = Requirements.of(one_of(labels.CAPACITY_TYPE, "reserved"))

PRIORITY = [
    Case("the urgent one reserved", RACE, plan(launch(reserved(), {"urgent": 1}), launch(offering(), {"casual": 1}))),
    Case("the casual one reserved", RACE, plan(launch(reserved(), {"casual": 1}), launch(offering(), {"urgent": 1})), V.PRIORITY_INVERSION),
    Case(
        "the casual one reserved, the urgent one waiting",
        replace(RACE, demands=(demand(replace(URGENT, node_selector=STRICT)), demand(CASUAL))),
        plan(launch(reserved(), {"casual": 1}), unplaced=(refused("urgent", code=ReasonCode.RESERVATION_FULL),)),
        V.PRIORITY_INVERSION,
    ),
    Case(
        "the urgent one prefers what it pays for",
        replace(RACE, demands=(demand(preferring(only("on-demand"), name="urgent", cpus=2, priority=10)), demand(CASUAL))),
        plan(launch(reserved(), {"casual": 1}), launch(offering(), {"urgent": 1})),
    ),
    Case(
        "the urgent one waits, whatever it prefers",
        replace(RACE, demands=(demand(preferring(only("spot"), name="urgent", cpus=2, priority=10, node_selector=STRICT)), demand(CASUAL))),
        plan(launch(reserved(), {"casual": 1}), unplaced=(refused("urgent", code=ReasonCode.RESERVATION_FULL),)),
        V.PRIORITY_INVERSION,
    ),
    Case(
        "the urgent one is so large that it would leave too few types",
        snapshot(demand(workload("urgent", cpus=10, priority=10, node_selector=STRICT)), demand(workload("casual")), reservations=(ROOMY,), node_pools=(TWO_TYPES,)),
        plan(launch(reserved(name=LARGE), {"casual": 1}), unplaced=(refused("urgent", code=ReasonCode.MIN_VALUES),)),
    ),
    Case(
        "the urgent one cannot use it",
        replace(RACE, demands=(demand(replace(URGENT, node_selector=IN_ZONE_2)), demand(CASUAL))),
        plan(launch(reserved(), {"casual": 1}), launch(offering(zone="zone-2"), {"urgent": 1})),
    ),
]  # fmt: skip

LADDER = (FallbackStep(RESERVED, 60), FallbackStep(ON_DEMAND))
REFUSALS = [
    Case("refused without need", snapshot(demand(workload())), plan(unplaced=(refused("job"),)), V.UNPLACED_WITHOUT_CAUSE),
    Case("refused, a free unit", replace(snapshot(demand(workload(node_selector=STRICT))), reservations=(FREE,)), plan(unplaced=(refused("job"),)), V.UNPLACED_WITHOUT_CAUSE),
    Case("refused, room on an existing node", snapshot(demand(workload(node_selector=Requirements.of(one_of(labels.INSTANCE_TYPE, SMALL)))), nodes=(node(),), instance_types=()), plan(unplaced=(refused("job"),)), V.UNPLACED_WITHOUT_CAUSE),
    Case("refused, room on a planned node", snapshot(demand(workload(), 2), node_pools=(pool(limits=Resources.of({"nodes": 1})),)), plan(launch(offering(), {"job": 1}), unplaced=(refused("job", 1, ReasonCode.LIMIT_EXCEEDED),)), V.UNPLACED_WITHOUT_CAUSE),
    Case("refused at the limit", snapshot(demand(workload(cpus=2), 2), node_pools=(pool(limits=Resources.of({"nodes": 1, "cpu": 2000})),)), plan(launch(offering(), {"job": 1}), unplaced=(refused("job", 1, ReasonCode.LIMIT_EXCEEDED),))),
    Case("refused at a limit that a node which goes still fills", snapshot(demand(workload()), nodes=(node(deleting=True),), node_pools=(pool(limits=Resources.of({"nodes": 1})),)), plan(unplaced=(refused("job", 1, ReasonCode.LIMIT_EXCEEDED),))),
    Case("refused, too large", snapshot(demand(workload(cpus=99))), plan(unplaced=(refused("job", 1, ReasonCode.TOO_LARGE),))),
    Case("refused, all units taken", snapshot(demand(workload(cpus=2, node_selector=STRICT), 3), reservations=(FREE,)), plan(launch(reserved(), {"job": 1}, 2), unplaced=(refused("job", 1, ReasonCode.RESERVATION_FULL),))),
    Case("refused for a ladder", snapshot(demand(workload(fallback=LADDER))), plan(unplaced=(refused("job", 1, ReasonCode.FALLBACK_NOT_YET, earliest_at=NOW + timedelta(seconds=60)),))),
    Case("refused for a ladder that it has not", snapshot(demand(workload(cpus=99))), plan(unplaced=(refused("job", 1, ReasonCode.FALLBACK_NOT_YET),)), V.UNPLACED_WITHOUT_CAUSE),
    Case("refused for a reservation that does not exist", snapshot(demand(workload(cpus=99))), plan(unplaced=(refused("job", 1, ReasonCode.RESERVATION_NOT_STARTED),)), V.UNPLACED_WITHOUT_CAUSE),
    Case("refused without a word", snapshot(demand(workload(cpus=99))), plan(unplaced=(refused("job", 1, ReasonCode.TOO_LARGE, message=""),)), V.UNPLACED_WITHOUT_CAUSE),
    Case("refused until now", snapshot(demand(workload(cpus=99))), plan(unplaced=(refused("job", 1, ReasonCode.TOO_LARGE, earliest_at=NOW),)), V.UNPLACED_WITHOUT_CAUSE),
    Case("refused, out of time", snapshot(demand(workload())), plan(unplaced=(refused("job", 1, ReasonCode.OUT_OF_TIME),))),
    Case("refused for topology without any", snapshot(demand(workload(cpus=99))), plan(unplaced=(refused("job", 1, ReasonCode.TOPOLOGY),)), V.UNPLACED_WITHOUT_CAUSE),
    Case("refused for its price", snapshot(demand(workload(max_price_micro_usd_per_hour=1))), plan(unplaced=(refused("job", 1, ReasonCode.MAX_PRICE),))),
    Case("a gang refused without need", snapshot(demand(gang(), 3)), plan(unplaced=(refused("job", 3, ReasonCode.GANG_INCOMPLETE),)), V.UNPLACED_WITHOUT_CAUSE),
    Case("a gang refused for one unit too few", snapshot(demand(gang(node_selector=STRICT), 3), reservations=(FREE,)), plan(unplaced=(refused("job", 3, ReasonCode.GANG_INCOMPLETE),))),
    Case("a gang refused for one unit too few that two pools may use", snapshot(demand(gang(node_selector=STRICT), 3), reservations=(FREE,), node_pools=(pool(), pool(name="other"))), plan(unplaced=(refused("job", 3, ReasonCode.GANG_INCOMPLETE),))),
    Case("a gang refused although the units suffice", snapshot(demand(gang(node_selector=STRICT), 2), reservations=(FREE,)), plan(unplaced=(refused("job", 2, ReasonCode.GANG_INCOMPLETE),)), V.UNPLACED_WITHOUT_CAUSE),
    Case("a gang refused for want of one zone", snapshot(demand(zoned(node_selector=STRICT), 2), reservations=(reservation(free_units=1), reservation(id="cr-2", zone="zone-2", zone_id="az2", free_units=1)), node_classes=(node_class("cr-1", "cr-2"),)), plan(unplaced=(refused("job", 2, ReasonCode.GANG_INCOMPLETE),))),
    Case("a reason of distinct values", replace(snapshot(demand(workload())), node_pools=(pool(Requirement.new(labels.INSTANCE_TYPE, Operator.EXISTS, (), 9)),)), plan(unplaced=(refused("job", 1, ReasonCode.MIN_VALUES),))),
    Case("a type that came too late", snapshot(demand(workload()), instance_types=(instance_type(SMALL, 2, offerings=()),)), plan(unplaced=(refused("job"),))),
]  # fmt: skip


@pytest.mark.parametrize(
    "case", [*RULE_3, *PRIORITY, *REFUSALS], ids=lambda case: case.title
)
def test_what_is_left_over(case: Case) -> None:
    assert found(case) == ({case.breaks} if case.breaks else set())
