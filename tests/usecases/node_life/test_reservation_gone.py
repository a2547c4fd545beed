"""A reservation that is gone under its nodes: they become on-demand before anybody judges them (Karpenter's S-73)."""

from dataclasses import replace

import pytest

from lab.worlds.disrupt_world import DisruptWorld
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState


@pytest.fixture
def world() -> DisruptWorld:
    """One node in the only unit of a reservation."""
    world = DisruptWorld("reserved", "on-demand")
    world.add_reservation("cr-1", total_count=1)
    world.submit("train", gpus=8)
    world.minutes(2)
    assert world.types() == ["p5.48xlarge reserved"]
    return world


def cancel(world: DisruptWorld) -> None:
    """EC2 cancels the reservation, which leaves the instance running; discovery is the first to see it."""
    world.ec2.reservations["cr-1"] = replace(
        world.ec2.reservations["cr-1"], state="cancelled", total_count=0
    )
    for instance in world.ec2.live():
        world.ec2.change(instance.id, capacity_reservation_id=None)
    world.clock.advance(seconds=10)
    world.observe("cr-1")
    world.select()


def test_a_node_whose_reservation_is_gone_does_not_drift_before_it_is_demoted(
    world: DisruptWorld,
) -> None:
    cancel(world)
    world.disruption_pass()
    (claim,) = world.live()
    assert (claim.state, claim.disruption) == (ClaimState.RUNNING, None)
    world.minutes(3)
    assert [claim.id for claim in world.live()] == [claim.id]
    assert world.types() == ["p5.48xlarge on-demand"]
    assert world.live()[0].offering.capacity_type is CapacityType.ON_DEMAND
