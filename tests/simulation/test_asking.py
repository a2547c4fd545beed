"""What EC2 may not be asked for is found out, and the mishaps that lead there happen."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from lab.fakes.values import node_claim, reservation
from lab.simulation.aws.lambdas import Run
from lab.simulation.aws.scheduler import Schedules
from lab.simulation.faults import NO_FAULTS
from lab.simulation.invariants.asking import NothingIsAskedForTooLate, WhatWasShortRests
from lab.simulation.invariants.base import Violation
from lab.simulation.invariants.reservations import NothingTakenCountsAsFree
from lab.simulation.kernel import MINUTE, SECOND, START, Chance, Kernel
from lab.simulation.world import World
from reservoir.core.launching.launch_outcome import (
    LaunchError,
    LaunchErrorKind,
    LaunchOutcome,
)
from reservoir.core.launching.launch_request import (
    LaunchConfig,
    LaunchOverride,
    LaunchRequest,
)
from reservoir.core.launching.launch_template import LaunchTemplate, ReservationTarget
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.instance import Instance
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import NodeClaim
from reservoir.names import Function

CLAIM: NodeClaim = node_claim("nc-1", created_at=START)
INSTANCE = Instance(
    id="i-1",
    state="running",
    instance_type="m5.large",
    zone="us-east-1a",
    zone_id="use1-az1",
    launched_at=START,
)
REQUEST: Any = SimpleNamespace(target=None, offerings=("p5 in zone a",))


def began(*claim_ids: str, request: Any = REQUEST) -> Any:
    return SimpleNamespace(claim_ids=claim_ids, request=request)


def run_of(number: int, began_us: int) -> Any:
    return SimpleNamespace(run=Run(number, Function.LAUNCH, began_us, 0))


@pytest.mark.parametrize(("minutes", "is_late"), [(16, False), (17, True)])
def test_a_launch_long_after_its_plan(minutes: int, *, is_late: bool) -> None:
    world = World(1)
    world.state.claim_rows["nc-1"] = CLAIM
    world.kernel.now_us = minutes * MINUTE
    seen: Any = NothingIsAskedForTooLate(world)
    if not is_late:
        seen.called(None, "launch_attempts.begin", began("nc-1"))
        return
    with pytest.raises(Violation, match="nc-1 was planned at"):
        seen.called(None, "launch_attempts.begin", began("nc-1"))


@pytest.mark.parametrize(("minutes", "is_late"), [(21, False), (22, True)])
def test_a_launch_into_a_block_that_drains(minutes: int, *, is_late: bool) -> None:
    world = World(1)
    block = reservation(
        "cr-1", kind=ReservationKind.CAPACITY_BLOCK, end_at=START + timedelta(hours=1)
    )
    world.ec2.reserve(block)
    world.kernel.now_us = minutes * MINUTE
    request = SimpleNamespace(
        target=ReservationTarget("cr-1", ReservationKind.CAPACITY_BLOCK), offerings=()
    )
    seen: Any = NothingIsAskedForTooLate(world)
    if not is_late:
        seen.called(None, "launch_attempts.begin", began(request=request))
        return
    with pytest.raises(Violation, match="cr-1 drains since"):
        seen.called(None, "launch_attempts.begin", began(request=request))


@pytest.mark.parametrize(
    ("began_us", "now_us", "is_too_soon"),
    [
        (3 * SECOND, 4 * SECOND, True),
        (SECOND, 4 * SECOND, False),
        (3 * SECOND, 4 * MINUTE, False),
    ],
    ids=["a launch that knows", "one that began before", "minutes later"],
)
def test_an_offering_that_was_short_is_asked_for_again(
    began_us: int, now_us: int, *, is_too_soon: bool
) -> None:
    world = World(1)
    seen: Any = WhatWasShortRests(world)
    short = LaunchError(
        LaunchErrorKind.INSUFFICIENT_CAPACITY,
        "InsufficientInstanceCapacity",
        "m5.large",
        "use1-az1",
    )
    world.ec2.launch_calls.append(request())
    world.kernel.now_us = SECOND
    seen.called(run_of(1, 0), "ec2.launch", LaunchOutcome((), (short,), START))
    world.kernel.now_us = 2 * SECOND
    seen.called(run_of(1, 0), "launch_attempts.complete", None)
    world.kernel.now_us = now_us
    if not is_too_soon:
        seen.called(run_of(2, began_us), "launch_attempts.begin", began(request=request()))
        return
    with pytest.raises(Violation, match="3 s ago, and is asked for it again"):
        seen.called(run_of(2, began_us), "launch_attempts.begin", began(request=request()))


def test_a_unit_that_is_used_counts_as_free() -> None:
    world = World(1)
    world.ec2.reserve(reservation("cr-1", total_count=2))
    world.ec2.add(replace(INSTANCE, capacity_reservation_id="cr-1"))
    seen: Any = NothingTakenCountsAsFree(world)
    observed = world.state.reservations.save_observation
    one = observed(
        reservation("cr-1", total_count=2, available_count=1),
        observed_at=START,
        absorbed=(),
        expected=None,
    )
    seen.row_written("cr-1", None, one)
    later = START + timedelta(minutes=1)
    two = observed(reservation("cr-1", 2), observed_at=later, absorbed=(), expected=None)
    with pytest.raises(
        Violation,
        match=r"cr-1 has 2 units, 1 are used, \[\] shall have more and 2 count as free",
    ):
        seen.row_written("cr-1", one, two)
    world.ec2.touched.add("cr-1")
    seen.row_written("cr-1", one, two)


def request(count: int = 1) -> LaunchRequest:
    override = LaunchOverride("m5.large", "us-east-1a", "use1-az1", "subnet-a", 0)
    template = LaunchTemplate("template", {}, {})
    return LaunchRequest(
        "default", (LaunchConfig(template, (override,)),), count, CapacityType.SPOT, {}
    )


def test_a_part_is_launched_and_nothing_said_of_the_rest() -> None:
    world = World(1)
    world._now = replace(NO_FAULTS, partly_launched=1.0)
    world.ec2.ensure(request().configs[0].template)
    outcome = world.ec2.launch(request(3), "token")
    assert (0 < len(outcome.instances) < 3, outcome.errors) == (True, ())
    assert world.ec2.launch(request(3), "token") == outcome


def test_capacity_runs_out_where_it_is_asked_for_and_comes_back() -> None:
    world = World(1)
    world._now = replace(NO_FAULTS, runs_dry=1.0)
    world.ec2.ensure(request().configs[0].template)
    outcome = world.ec2.launch(request(3), "token")
    assert len(outcome.instances) <= 1
    assert [error.kind for error in outcome.errors] == [
        LaunchErrorKind.INSUFFICIENT_CAPACITY
    ]
    while world.ec2.pool_sizes:
        assert world.kernel.step()
    assert world.kernel.now_us <= 15 * MINUTE


def test_a_schedule_fires_twice() -> None:
    kernel, fired = Kernel(), list[Any]()
    faults = replace(NO_FAULTS, schedule_doubled=1.0)
    Schedules(kernel, Chance(1), lambda: faults).begin(Function.DISRUPT, fired.append, 1)
    while kernel.now_us < 2 * MINUTE:
        kernel.step()
    assert [event["id"] for event in fired[:4]] == [
        "minute-1",
        "minute-1",
        "minute-2",
        "minute-2",
    ]
