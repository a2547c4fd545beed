"""Addresses are counted: launches spread over the subnets of a zone, and a full subnet is nobody else's trouble."""

from dataclasses import replace
from typing import Any

import pytest

from lab.worlds.disrupt_world import DisruptWorld
from lab.worlds.launch_world import ZONES
from reservoir.core.capacity.unavailable_offerings import SubnetKey
from reservoir.core.model.node_claim import ClaimState
from reservoir.core.model.node_class import Subnet
from reservoir.core.model.workload import Gang
from reservoir.ports.policy import PolicyKind, PolicyStatus


def with_subnets(
    world: DisruptWorld, *sizes: int, counted: int | None = None, zone: int = 0
) -> None:
    """Give the class subnets of these sizes in one zone; ``counted``: what EC2 last said of each, if it lags."""
    subnets = tuple(
        Subnet(f"s-{n}", *ZONES[zone], size if counted is None else counted)
        for n, size in enumerate(sizes)
    )
    stored = world.store.get(PolicyKind.NODE_CLASS, "default")
    assert stored is not None
    status = replace(stored.status.node_class, subnets=subnets)
    world.store.save_status(
        PolicyKind.NODE_CLASS, "default", PolicyStatus(node_class=status)
    )
    world.ec2.subnet_sizes = {
        subnet.id: size for subnet, size in zip(subnets, sizes, strict=True)
    }


def used(world: DisruptWorld) -> dict[str, int]:
    found: dict[str, int] = {}
    for instance in world.ec2.live():
        found[instance.subnet_id or ""] = found.get(instance.subnet_id or "", 0) + 1
    return found


def whole_nodes(world: DisruptWorld, count: int, **changes: Any) -> None:
    """Ask for replicas of which each fills an m5.4xlarge."""
    world.submit("train", count, cpus=16, **changes)


def test_fifteen_nodes_find_addresses_in_two_subnets_of_eleven() -> None:
    world = DisruptWorld("on-demand")
    with_subnets(world, 11, 11)
    whole_nodes(world, 15)
    world.plan_and_launch()
    assert {claim.state for claim in world.claims()} == {ClaimState.LAUNCHED}
    assert used(world) == {"s-0": 11, "s-1": 4}
    assert not world.bus.of("Launch Failed")
    assert not world.state.offerings.list_unavailable(world.clock.now())


def test_a_subnet_that_is_fuller_than_ec2_last_said_rests_alone() -> None:
    world = DisruptWorld("on-demand")
    with_subnets(world, 3, 11, counted=11)
    whole_nodes(world, 12)
    world.plan_and_launch()
    assert {claim.state for claim in world.claims()} == {ClaimState.LAUNCHED}
    assert used(world) == {"s-0": 3, "s-1": 9}
    assert set(world.state.offerings.list_unavailable(world.clock.now())) == {
        SubnetKey("s-0")
    }


def test_units_of_a_reservation_are_used_from_the_second_subnet() -> None:
    """Not one unit is taken for exhausted, and nothing is bought while units are free."""
    world = DisruptWorld("reserved", "on-demand")
    with_subnets(world, 2, 11, counted=11)
    world.add_reservation("cr-1", total_count=4)
    with_subnets(world, 2, 11, counted=11)
    world.submit("train", 4, gpus=8)
    world.plan_and_launch()
    assert [claim.offering.reservation_id for claim in world.live()] == ["cr-1"] * 4
    assert used(world) == {"s-0": 2, "s-1": 2}
    assert world.bus.of("Launch Failed") == []


def test_a_zone_rests_only_when_all_its_subnets_are_full() -> None:
    world = DisruptWorld("on-demand")
    with_subnets(world, 1, 1, counted=9)
    whole_nodes(world, 3)
    world.plan_and_launch()
    world.minute()
    assert used(world) == {"s-0": 1, "s-1": 1}
    waiting = world.bus.of("Workload Pending")[-1]
    assert (waiting["reason"], waiting["replicas"]) == ("OfferingUnavailable", 1)
    assert (
        "no subnet of class default in us-east-1a has a free address" in waiting["message"]
    )
    assert waiting["earliestAt"] is not None


def test_where_ec2_counts_no_address_nothing_is_asked_for() -> None:
    world = DisruptWorld("on-demand")
    with_subnets(world, 0, 0)
    whole_nodes(world, 1)
    world.minutes(3)
    assert world.ec2.launch_calls == []
    assert world.bus.of("Workload Pending")[-1]["reason"] == "OfferingUnavailable"


def test_nodes_in_a_full_subnet_do_not_drift() -> None:
    world = DisruptWorld("on-demand")
    with_subnets(world, 2, 2)
    whole_nodes(world, 4)
    world.minutes(2)
    with_subnets(world, 2, 2, counted=0)
    world.minutes(10)
    assert used(world) == {"s-0": 2, "s-1": 2}
    assert {claim.state for claim in world.claims()} == {ClaimState.RUNNING}


@pytest.mark.parametrize("counted", [None, 50])
def test_a_gang_in_two_subnets_is_whole_or_nothing(counted: int | None) -> None:
    world = DisruptWorld("on-demand")
    with_subnets(world, 3, 1, counted=counted)
    whole_nodes(world, 5, gang=Gang())
    world.minutes(3)
    assert world.ec2.live() == []
    assert {claim.state for claim in world.claims()} <= {
        ClaimState.FAILED,
        ClaimState.TERMINATED,
    }


def test_a_full_subnet_that_ec2_counts_addresses_in_is_tried_more_and_more_seldom() -> None:
    world = DisruptWorld("on-demand")
    with_subnets(world, 0, counted=9)
    whole_nodes(world, 1)
    world.minutes(60)
    assert 4 <= len(world.ec2.launch_calls) <= 6  # after 3, 6, 12, 24 minutes
