"""Every error code that EC2 is known to answer a launch with, by the market that it is said of: what serves instead.

Codes are those of EC2's own list (docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html), and those that
people met in the answers of fleets: ``InvalidFleetConfiguration`` and ``InvalidFleetConfig`` of a type that its zone
has not (aws/karpenter-provider-aws 2243 and 6483, hashicorp/terraform-provider-aws 41272), ``InvalidParameterValue`` of
an image that does not boot there (aws/karpenter-provider-aws 5850), ``ReservationCapacityExceeded`` of a full
reservation (scylladb/scylla-cluster-tests 8839), ``InternalError`` that keeps on-demand from being asked
(aws/karpenter-provider-aws 9616).
"""

import re
from pathlib import Path
from typing import Final

import pytest

from lab.worlds.disrupt_world import DisruptWorld, priced
from reservoir.adapters import aws_errors
from reservoir.core.launching.launch_outcome import OF_THE_CLASS, TROUBLE_OF_A_POOL
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState, NodeClaim

SPOT, ON_DEMAND, RESERVED = CapacityType.SPOT, CapacityType.ON_DEMAND, CapacityType.RESERVED
FAMILIES: Final = ("c5", "m5", "m6i", "r5")
TYPES: Final = tuple(
    priced(f"{family}.2xlarge", 8, 400_000 + number)
    for number, family in enumerate(FAMILIES)
)
UNIT: Final = TYPES[0].name
WITHIN: Final = 2  # minutes
RUNBOOK: Final = Path(__file__).parents[3] / "docs" / "runbook.md"

OF_RESERVATIONS: Final = (
    aws_errors.RESERVATION_EXHAUSTED_CODES | aws_errors.RESERVATION_UNUSABLE_CODES
)
# Throttling says nothing about capacity, whatever it is said of: it is asked again. So is trouble of AWS's own that is
# said of the whole call; here it is said of pools.
CODES: Final = sorted(
    aws_errors.INSUFFICIENT_CAPACITY_CODES
    | aws_errors.QUOTA_CODES
    | aws_errors.TYPE_QUOTA_CODES
    | aws_errors.UNSUPPORTED_CODES
    | aws_errors.CONFIGURATION_CODES
    | aws_errors.PERMISSION_CODES
    | TROUBLE_OF_A_POOL
    | {"SomethingThatNobodyKnows"}
)


def world_of(*capacity_types: str) -> DisruptWorld:
    world = DisruptWorld(*capacity_types)
    world.state.offerings.save_catalogue(TYPES)
    return world


def refused(
    world: DisruptWorld, market: CapacityType, code: str, instance_type: str | None = None
) -> None:
    world.ec2.refused_codes[market, instance_type] = code


def nodes(world: DisruptWorld, minutes: int = WITHIN) -> list[NodeClaim]:
    """Let minutes pass; return what was launched."""
    world.plan_and_launch()
    for _ in range(minutes):
        world.minute()
    return [
        claim
        for claim in world.live()
        if claim.state in (ClaimState.LAUNCHED, ClaimState.RUNNING)
    ]


def markets(claims: list[NodeClaim]) -> set[CapacityType]:
    return {claim.offering.capacity_type for claim in claims}


def class_is_blocked(world: DisruptWorld) -> bool:
    node_class = world.policy.node_class("default")
    return node_class.status.launch_blocked_reason is not None


@pytest.mark.parametrize("code", sorted(aws_errors.SPOT_NOT_PERMITTED_CODES.union(CODES)))
def test_what_spot_refuses_runs_on_demand_and_reserved_units_go_on(code: str) -> None:
    world = world_of("reserved", "spot", "on-demand")
    world.add_reservation("cr-1", instance_type=UNIT, total_count=1)
    refused(world, SPOT, code)
    world.submit("job", replicas=2, cpus=6)
    launched = nodes(world)
    if code in OF_THE_CLASS:
        assert class_is_blocked(world), "it would fail on every market"
        return
    assert markets(launched) == {RESERVED, ON_DEMAND}
    assert not class_is_blocked(world)


@pytest.mark.parametrize("code", sorted(set(CODES) - OF_THE_CLASS))
def test_what_one_type_refuses_runs_as_another(code: str) -> None:
    world = world_of("spot", "on-demand")
    refused(world, SPOT, code, TYPES[0].name)  # the cheapest
    world.submit("job", replicas=1, cpus=6)
    (node,) = nodes(world)
    assert (node.offering.instance_type, node.offering.capacity_type) != (
        TYPES[0].name,
        SPOT,
    )
    assert node.offering.capacity_type is SPOT
    assert not class_is_blocked(world)


@pytest.mark.parametrize("code", sorted(OF_RESERVATIONS.union(CODES) - OF_THE_CLASS))
def test_what_a_reservation_refuses_is_bought_and_never_told_as_full(code: str) -> None:
    world = world_of("reserved", "on-demand")
    world.add_reservation("cr-1", instance_type=UNIT, total_count=2)
    refused(world, RESERVED, code)
    world.submit("job", replicas=1, cpus=6)
    assert markets(nodes(world)) == {ON_DEMAND}
    told_as_full = bool(world.bus.of("Reservation Exhausted"))
    assert told_as_full == (code in aws_errors.RESERVATION_EXHAUSTED_CODES)


@pytest.mark.parametrize("code", ["InvalidFleetConfiguration", "UnauthorizedOperation"])
def test_a_market_that_refuses_unlike_families_is_asked_more_and_more_seldom(
    code: str,
) -> None:
    world = world_of("spot")
    refused(world, SPOT, code)
    world.submit("job", replicas=1, cpus=6)
    nodes(world, minutes=120)
    assert 4 <= len(world.ec2.launch_calls) <= 8  # after 3, 6, 12 … 60 minutes
    (waits,) = world.state.workloads.get("research/job").unplaced  # type: ignore[union-attr]  # it was submitted
    assert "rests with all spot launches of class default: " in waits.message
    assert waits.message.endswith(code)
    assert waits.earliest_at is not None
    world.ec2.refused_codes.clear()
    assert markets(nodes(world, minutes=65)) == {SPOT}


def test_a_pool_that_is_in_trouble_is_asked_more_and_more_seldom() -> None:
    world = world_of("spot")
    refused(world, SPOT, "InternalError")
    world.submit("job", replicas=1, cpus=6)
    nodes(world, minutes=120)
    in_the_first_hours = len(world.ec2.launch_calls)
    nodes(world, minutes=120)
    assert len(world.ec2.launch_calls) - in_the_first_hours < in_the_first_hours / 2
    world.ec2.refused_codes.clear()
    assert markets(nodes(world, minutes=65)) == {SPOT}


def test_throttling_rests_no_pool_although_ec2_names_it() -> None:
    world = world_of("spot", "on-demand")
    refused(world, SPOT, "RequestLimitExceeded")
    world.submit("job", replicas=1, cpus=6)
    assert nodes(world, minutes=5) == []
    world.ec2.refused_codes.clear()
    assert markets(nodes(world, minutes=5)) == {SPOT}


def test_the_runbook_says_of_each_code_what_it_leads_to() -> None:
    """A row of the page is a set of the code: whoever sorts a code anew is shown that the page is not."""
    section = (
        RUNBOOK.read_text(encoding="utf-8").split("| codes | lead to |")[1].split("\n\n")[0]
    )
    rows = [
        frozenset(re.findall(r"`([^`]+)`", line))
        for line in section.splitlines()
        if line.startswith("| `")
    ]
    blocking = aws_errors.CONFIGURATION_CODES | aws_errors.PERMISSION_CODES
    assert rows == [
        aws_errors.INSUFFICIENT_CAPACITY_CODES,
        aws_errors.RESERVATION_EXHAUSTED_CODES,
        aws_errors.RESERVATION_UNUSABLE_CODES,
        aws_errors.QUOTA_CODES,
        aws_errors.TYPE_QUOTA_CODES,
        aws_errors.UNSUPPORTED_CODES,
        aws_errors.SPOT_NOT_PERMITTED_CODES,
        blocking - OF_THE_CLASS,
        TROUBLE_OF_A_POOL,
        (aws_errors.SERVICE_TROUBLE_CODES - TROUBLE_OF_A_POOL)
        | aws_errors.IDEMPOTENCY_CODES,
        aws_errors.SUBNET_FULL_CODES,
        OF_THE_CLASS,
        aws_errors.TEMPLATE_MISSING_CODES,
        aws_errors.THROTTLE_CODES,
    ]
