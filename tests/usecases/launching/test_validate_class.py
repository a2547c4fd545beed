"""Dry runs of classes: what is asked, what is remembered of the answer, and that launches never wait for it."""

from dataclasses import replace
from typing import Any

import pytest

from lab.worlds.launch_world import World, launchable, node_class, on_demand, reserved
from reservoir.core.launching.class_validation import is_due, validated
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_class import Validation, ValidationOutcome
from reservoir.core.model.node_pool import NodePool
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.names import NODE_POOL_TAG
from reservoir.ports.errors import (
    AccessDeniedError,
    AwsError,
    ConfigurationError,
    NotFoundError,
    ThrottledError,
)

ALL_CALLS = ["CreateLaunchTemplate", "CreateFleet", "RunInstances"]


@pytest.fixture
def world() -> World:
    return World()


def only(name: str, *markets: CapacityType) -> NodePool:
    wanted = Requirement.new(
        labels.CAPACITY_TYPE, Operator.IN, [str(market) for market in markets]
    )
    return NodePool(name, "default", Requirements.of(wanted))


def remembered(world: World) -> Validation | None:
    return world.policy.classes["default"].status.validation


def refuse(world: World, error: AwsError) -> None:
    world.dry_runs.refusals[error.operation] = error


def test_all_three_calls_are_asked_for_the_cheapest_launch_of_the_class(
    world: World,
) -> None:
    found = world.validate_class().run("default")
    assert found is not None
    assert (found.outcome, found.reason) == (
        ValidationOutcome.SUCCEEDED,
        "ValidationSucceeded",
    )
    assert world.dry_runs.asked == ALL_CALLS
    request = world.dry_runs.requests[0]
    assert [each.instance_type for each in request.offerings] == ["m6g.large"]
    assert request.tags[NODE_POOL_TAG] == "gpu"
    assert remembered(world) == found
    assert world.ec2.all() == []


def test_the_request_carries_the_tags_of_the_deployment_as_a_launch_does(
    world: World,
) -> None:
    world.validate_class(launch_tags={"cost-center": "4711"}).run("default")
    assert world.dry_runs.requests[0].tags["cost-center"] == "4711"


@pytest.mark.parametrize(
    ("markets", "expected"),
    [
        ([CapacityType.ON_DEMAND, CapacityType.SPOT], CapacityType.ON_DEMAND),
        ([CapacityType.SPOT, CapacityType.RESERVED], CapacityType.SPOT),
        ([CapacityType.RESERVED], CapacityType.RESERVED),
    ],
)
def test_it_asks_for_what_the_pools_of_the_class_allow(
    world: World, markets: list[CapacityType], expected: CapacityType
) -> None:
    world.add_reservation("cr-1")
    world.policy.pools = {"gpu": only("gpu", *markets)}
    assert world.validate_class().run("default") is not None
    assert world.dry_runs.requests[0].capacity_type is expected


def test_a_class_whose_pools_can_have_nothing_is_not_known_to_work(world: World) -> None:
    world.policy.pools = {"gpu": only("gpu", CapacityType.RESERVED)}
    found = world.validate_class().run("default")
    assert found is not None
    assert (found.outcome, found.reason) == (ValidationOutcome.UNKNOWN, "NothingToLaunch")
    assert world.dry_runs.asked == []


@pytest.mark.parametrize("operation", ALL_CALLS)
def test_a_refusal_counts_when_it_comes_twice_and_says_which_call(
    world: World, operation: str
) -> None:
    refuse(
        world,
        AccessDeniedError(
            "UnauthorizedOperation",
            operation,
            "an explicit deny in a service control policy",
        ),
    )
    first = world.validate_class().run("default")
    assert first is not None
    assert first.outcome is ValidationOutcome.SUSPECTED
    assert world.validate_class().run("default") is None  # not before a minute has passed
    world.clock.advance(seconds=60)
    second = world.validate_class().run("default")
    assert second is not None
    assert second.outcome is ValidationOutcome.REFUSED
    assert second.reason == f"{operation}AuthCheckFailed"
    assert "service control policy" in second.message
    world.clock.advance(seconds=15 * 60)
    assert world.validate_class().run("default") is None  # asked, and nothing new
    world.dry_runs.refusals.clear()
    world.clock.advance(seconds=15 * 60)
    mended = world.validate_class().run("default")
    assert mended is not None
    assert mended.outcome is ValidationOutcome.SUCCEEDED


def test_a_template_that_is_not_visible_yet_is_no_refusal(world: World) -> None:
    refuse(world, AccessDeniedError("UnauthorizedOperation", "RunInstances"))
    world.validate_class().run("default")
    world.dry_runs.refusals.clear()
    world.clock.advance(seconds=60)
    found = world.validate_class().run("default")
    assert found is not None
    assert found.outcome is ValidationOutcome.SUCCEEDED


@pytest.mark.parametrize(
    "error",
    [
        ThrottledError("RequestLimitExceeded", "CreateFleet"),
        NotFoundError("InvalidLaunchTemplateName.NotFoundException", "CreateFleet"),
    ],
)
def test_what_could_not_be_asked_is_unknown_however_often(
    world: World, error: AwsError
) -> None:
    refuse(world, error)
    for _ in range(3):
        world.validate_class().run("default")
        found = remembered(world)
        assert found is not None
        assert (found.outcome, found.reason) == (ValidationOutcome.UNKNOWN, "NotAnswered")
        world.clock.advance(seconds=15 * 60)


def test_what_ec2_can_never_accept_is_said_without_asking(world: World) -> None:
    world.policy.classes["default"] = node_class(tags={"aws:mine": "x"})
    world.validate_class().run("default")
    world.clock.advance(seconds=60)
    found = world.validate_class().run("default")
    assert found is not None
    assert (found.outcome, found.reason) == (ValidationOutcome.REFUSED, "Unlaunchable")
    assert world.dry_runs.asked == []


@pytest.mark.parametrize(
    "error_type", [AccessDeniedError, ConfigurationError, ThrottledError]
)
def test_launches_go_on_whatever_a_dry_run_says(
    world: World, error_type: type[AwsError]
) -> None:
    refuse(world, error_type("Refused", "CreateFleet"))
    world.validate_class().run("default")
    world.clock.advance(seconds=60)
    world.validate_class().run("default")
    world.add_workload(replicas=1)
    batch = world.plan(1, on_demand("m5.large"))
    assert world.launch().run(batch).launched_count == 1


def test_a_class_is_due_when_it_or_what_it_selects_is_another_and_once_a_day(
    world: World,
) -> None:
    assert is_due(node_class(), world.clock.now())
    world.validate_class().run("default")
    asked = world.policy.classes["default"]
    assert not is_due(asked, world.clock.now())

    def changed(**status: Any) -> bool:
        return is_due(
            replace(asked, status=replace(asked.status, **status)), world.clock.now()
        )

    assert is_due(replace(asked, static_hash="h2"), world.clock.now())
    assert changed(security_group_ids=("sg-2",))
    assert changed(instance_profile="other")
    assert not changed(
        subnets=tuple(replace(each, available_ip_count=1) for each in asked.status.subnets)
    )
    assert not changed(reservation_ids=())
    assert not changed(security_group_ids=())  # nothing can be asked for without one
    world.clock.advance(seconds=24 * 3600)
    assert is_due(asked, world.clock.now())


def test_an_answer_is_about_the_class_that_was_read(world: World) -> None:
    found = world.validate_class().run("default")
    assert found is not None
    assert found.of == validated(node_class())
    assert found.of != validated(node_class(user_data="#!/bin/sh"))


def test_a_class_that_is_gone_is_passed_over(world: World) -> None:
    assert world.validate_class().run("gone") is None


def test_reserved_units_of_a_type_that_no_image_runs_are_not_asked_for(
    world: World,
) -> None:
    world.state.offerings.save_catalogue((launchable("p5.48xlarge", 1, arch="riscv"),))
    world.add_reservation("cr-1")
    world.policy.pools = {"gpu": only("gpu", CapacityType.RESERVED)}
    assert reserved().instance_type == "p5.48xlarge"
    found = world.validate_class().run("default")
    assert found is not None
    assert found.reason == "NothingToLaunch"
