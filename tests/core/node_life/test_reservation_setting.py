"""``capacity-reservation-setting``: how a node came into its reservation (the first ODCR RFC's label)."""

from dataclasses import replace

import pytest

from lab.fakes.system import START
from lab.fakes.values import ZONE, ZONE_ID, node_claim, reservation
from reservoir.core.model.instance import Instance
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState
from reservoir.core.node_life.observation import rebought
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator
from tests.core.scheduler.world import (
    demand,
    fx_reserved,
    planned,
    require,
    with_demand,
    workload,
)

SETTING = labels.CAPACITY_RESERVATION_SETTING


@pytest.mark.parametrize(
    ("operator", "values", "capacity_types"),
    [
        (Operator.IN, ["target"], {CapacityType.RESERVED}),
        (Operator.EXISTS, [], {CapacityType.RESERVED}),
        (Operator.DOES_NOT_EXIST, [], {CapacityType.ON_DEMAND, CapacityType.SPOT}),
        (Operator.IN, ["open"], set()),  # nothing is launched into a reservation by luck
    ],
)
def test_a_workload_may_require_it(
    operator: Operator, values: list[str], capacity_types: set[CapacityType]
) -> None:
    wanted = replace(workload(cpu=100), node_selector=require(SETTING, operator, *values))
    plan = planned(with_demand(fx_reserved(), demand(wanted)))
    assert {launch.offering.capacity_type for launch in plan.launches} <= capacity_types
    assert bool(plan.launches) is bool(capacity_types)


def test_a_plain_launch_that_ec2_matched_to_an_open_reservation_says_so() -> None:
    plain = node_claim(
        "nc-1", state=ClaimState.RUNNING, instance_id="i-1", launched_at=START
    )
    plain = replace(
        plain,
        offering=replace(
            plain.offering, capacity_type=CapacityType.ON_DEMAND, reservation_id=None
        ),
    )
    matched = Instance(
        "i-1",
        "running",
        "p5.48xlarge",
        ZONE,
        ZONE_ID,
        START,
        capacity_reservation_id="cr-open",
    )

    found = rebought(plain, matched, {"cr-open"}, {"cr-open": reservation("cr-open")}, {})

    assert found is not None
    assert (found.offering.reservation_id, found.labels[SETTING]) == ("cr-open", "open")
    gone = rebought(
        found, replace(matched, capacity_reservation_id=None), {"cr-open"}, {}, {}
    )
    assert gone is not None
    assert SETTING not in gone.labels
