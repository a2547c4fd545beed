"""A gang that cannot be launched whole is ended as its rows say, however old the listing that names its members is."""

from dataclasses import replace
from datetime import timedelta

import pytest

from lab.worlds.launch_world import World, reserved
from reservoir.core.model.node_claim import ClaimState, DrainReason, NodeClaim

OF_GANG = {"workload": "research/gang", "gang_key": "research/gang"}


class HalfLaunched(World):
    """A gang of which one member has its instance, whose listings stay as they are, and one cannot be launched."""

    def __init__(self) -> None:
        super().__init__()
        self.add_reservation()
        self.add_reservation("cr-2")
        self.ec2.reservations["cr-2"] = replace(
            self.ec2.reservations["cr-2"], total_count=0
        )
        self.add_workload("gang", replicas=2)
        first = self.plan(1, reserved(), batch_id="b-1", **OF_GANG)
        self.rest = self.plan(1, reserved("cr-2"), batch_id="b-2", **OF_GANG)
        self.launch().run(first)
        (self.member,) = self.claims_of(first)
        listed = self.state.node_claims.list_live()
        self.state.node_claims.list_live = lambda: listed  # type: ignore[method-assign] # the index lags

    @property
    def row(self) -> NodeClaim:
        return self.state.claim_rows[self.member.id]


@pytest.fixture
def world() -> HalfLaunched:
    return HalfLaunched()


def test_a_member_that_drains_by_now_has_the_time_that_was_announced(
    world: HalfLaunched,
) -> None:
    world.drain(
        world.member, DrainReason.INTERRUPTION, world.clock.now() + timedelta(minutes=2)
    )
    world.launch().run(world.rest)
    assert world.row.state is ClaimState.DRAINING
    assert [instance.id for instance in world.ec2.live()] == [world.member.instance_id]


def test_any_other_member_is_ended(world: HalfLaunched) -> None:
    world.launch().run(world.rest)
    assert world.row.state is ClaimState.TERMINATING
    assert world.ec2.live() == []
