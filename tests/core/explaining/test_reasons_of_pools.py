"""What a pool is, or asks for itself, may be why work waits; and may not be blamed where it is not."""

from dataclasses import replace
from typing import Any

import pytest

from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.node_class import MachineImage, NodeClassStatus, Subnet
from reservoir.core.model.plan import ReasonCode
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from tests.core.scheduler.test_reasons import Situation
from tests.core.scheduler.world import (
    ON_DEMAND,
    RESERVED,
    demand,
    fx_type,
    markets,
    near,
    node_class,
    one_of,
    plain,
    planned,
    pool,
    reservation,
    with_demand,
    workload,
)

SMALL, LARGE = fx_type("small", 2, 2), fx_type("large", 8, 8)
CHOOSY = pool(
    "default",
    Requirement.new(labels.INSTANCE_TYPE, Operator.IN, ("small", "large"), min_values=2),
)

MIN_VALUES = (
    Situation(
        "minValues that replicas of this size leave no room for",
        plain(SMALL, LARGE, node_pools=(CHOOSY,)),
        workload(cpu=4000),
        ReasonCode.MIN_VALUES,
        "pool default: minValues cannot be met",
    ),
    Situation(
        "minValues that only a unit would meet which the pool's limit rules out",
        plain(
            SMALL,
            LARGE,
            reservations=[reservation("cr-1", "large", 1)],
            node_pools=(replace(CHOOSY, limits=Resources.of({"cpu": 3000})),),
        ),
        workload(cpu=100),
        ReasonCode.MIN_VALUES,
        "pool default: minValues cannot be met",
    ),
    Situation(
        "minValues that are met, and a rule that is not",
        plain(SMALL, LARGE, node_pools=(CHOOSY,)),
        workload(cpu=100, affinity=(near(labels.ZONE, app="cache"),)),
        ReasonCode.TOPOLOGY,
        "affinity: no replica that it must be near runs in a topology.kubernetes.io/zone where it may run",
    ),
    Situation(
        "minValues, and nothing to choose from but a reservation that is full",
        plain(
            fx_type("small", 2, 2, offered=()),
            fx_type("large", 8, 8, offered=()),
            reservations=[reservation("cr-1", "small", 1, available_count=0, free_units=0)],
            node_pools=(CHOOSY,),
        ),
        workload(cpu=100),
        ReasonCode.RESERVATION_FULL,
        "small reserved in zone-1 of cr-1 has no free unit (1 in all)",
    ),
)


IN_ZONE_2 = reservation("cr-1", "small", 4, zone="zone-2", zone_id="id-zone-2")
WINDOWS = reservation("cr-1", "small", 4, platform="Windows")
FILTERED = "the requirements of pool default filtered out all available instance types: "


def selling(
    *wanted: Requirement, unit: CapacityReservation = IN_ZONE_2, **of_class: Any
) -> Snapshot:
    """A pool with these requirements whose class selects the reservation."""
    of_pool = pool("default", *wanted)
    class_ = replace(node_class(reservations=[unit]), **of_class)
    return plain(SMALL, reservations=[unit], node_pools=(of_pool,), node_classes=(class_,))


ONE_SUBNET = NodeClassStatus(
    reservation_ids=("cr-1",), subnets=(Subnet("subnet-1", "zone-1", "id-zone-1", 100),)
)

NOTHING_SOLD = (
    Situation(
        "a reservation in a zone in which its class has no subnet",
        selling(markets(RESERVED), status=ONE_SUBNET),
        workload(cpu=100),
        ReasonCode.INCOMPATIBLE,
        "class default has no subnet in zone-2, where cr-1 is",
    ),
    Situation(
        "the same asked for by the work, of a pool that buys elsewhere",
        selling(status=ONE_SUBNET),
        workload(cpu=100, node_selector=Requirements.of(markets(RESERVED))),
        ReasonCode.INCOMPATIBLE,
        "class default has no subnet in zone-2, where cr-1 is",
    ),
    Situation(
        "a reservation for another platform than its class has",
        selling(markets(RESERVED), unit=WINDOWS),
        workload(cpu=100),
        ReasonCode.INCOMPATIBLE,
        "cr-1 is for Windows with default tenancy, and class default launches Linux/UNIX with default tenancy",
    ),
    Situation(
        "a zone that the pool asks for, and no reservation there",
        selling(markets(RESERVED), one_of(labels.ZONE, "zone-3")),
        workload(cpu=100),
        ReasonCode.INCOMPATIBLE,
        FILTERED
        + "none has topology.kubernetes.io/zone In [zone-3] as reserved (there is zone-2; did you mean zone-2?)",
    ),
    Situation(
        "a zone that does not exist, in the pool's own requirements",
        selling(one_of(labels.ZONE, "zone-9")),
        workload(cpu=100),
        ReasonCode.INCOMPATIBLE,
        FILTERED
        + "none has topology.kubernetes.io/zone In [zone-9] (there is zone-1, zone-2, zone-3; did you mean zone-3?)",
    ),
    Situation(
        "a reservation that the class does not select",
        selling(one_of(labels.CAPACITY_RESERVATION_ID, "vpc-7")),
        workload(cpu=100),
        ReasonCode.INCOMPATIBLE,
        FILTERED
        + "none has karpenter.k8s.aws/capacity-reservation-id In [vpc-7] (there is cr-1)",
    ),
    Situation(
        "a market that the zone has not, though both are to be had by themselves",
        selling(
            markets(ON_DEMAND, RESERVED),
            one_of(labels.ZONE, "zone-3"),
            one_of(labels.CAPACITY_RESERVATION_ID, "cr-1"),
        ),
        workload(cpu=100),
        ReasonCode.INCOMPATIBLE,
        FILTERED
        + "no type meets all that it requires together, although each requirement is met by some",
    ),
    Situation(
        "an operating system that no type runs",
        selling(one_of(labels.OS, "plan9")),
        workload(cpu=100),
        ReasonCode.INCOMPATIBLE,
        FILTERED + "none has kubernetes.io/os In [plan9]",
    ),
    Situation(
        "images for another architecture",
        selling(status=NodeClassStatus(machine_images=(MachineImage("ami-1", "arm64"),))),
        workload(cpu=100),
        ReasonCode.INCOMPATIBLE,
        "class default has no image that an instance type of pool default runs",
    ),
)


@pytest.mark.parametrize("it", [*MIN_VALUES, *NOTHING_SOLD], ids=lambda it: it.name)
def test_a_pool_is_told_as_the_reason_where_it_is_one(it: Situation) -> None:
    plan = planned(
        with_demand(it.snapshot, demand(it.wanted, it.replicas)), policy=it.policy
    )

    (refusal,) = plan.unplaced
    assert (refusal.code, refusal.message) == (it.code, it.sentence)


def test_the_reason_is_that_of_the_offering_that_came_furthest() -> None:
    """One type is too small; the other would fit, but its reservation is full and the pool buys nothing."""
    types = fx_type("two", 2, 4, offered=()), fx_type("four", 4, 16, offered=())
    full = reservation("cr-1", "four", 1, free_units=0)

    (unplaced,) = planned(
        with_demand(plain(*types, reservations=(full,)), demand(workload(cpu=3000)))
    ).unplaced

    assert unplaced.code is ReasonCode.RESERVATION_FULL
    assert "no free unit (1 in all)" in unplaced.message
