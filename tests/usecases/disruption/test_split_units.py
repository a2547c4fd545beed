"""Units that are split off for nodes that run on demand: EC2 moves these in, and what was split off goes back."""

import pytest

from lab.fakes.effects import Effects, mishaps
from lab.worlds.disrupt_world import DisruptWorld
from reservoir.core.model.node_claim import NodeClaim
from reservoir.names import (
    MOVABLE_TAG,
    MOVABLE_VALUE,
    OWNER_TAG,
    SPLIT_FROM_TAG,
    SPLIT_GROUP_TAG,
)

GROUP = "arn:aws:resource-groups:us-east-1:111122223333:group/reservoir-default"
TAGS = {MOVABLE_TAG: MOVABLE_VALUE, "team": "research"}


def overflowing(replicas: int = 2, total: int = 1, units: int = 4) -> DisruptWorld:
    """A reservation that is full, and nodes that run on demand beside it; then it has ``units``."""
    world = DisruptWorld("reserved", "on-demand")
    world.launch_at(GROUP)
    world.add_reservation("cr-1", total_count=total, tags=TAGS)
    world.submit("train", replicas=replicas, gpus=8)
    world.plan_and_launch()
    world.ec2.start_all()
    world.expire().run()
    world.resize("cr-1", units)
    return world


def paid(world: DisruptWorld) -> list[NodeClaim]:
    return [it for it in world.live() if it.offering.reservation_id is None]


def units(world: DisruptWorld) -> int:
    """Units that EC2 has reserved for us, wherever they are."""
    return sum(
        it.total_count for it in world.ec2.reservations.values() if it.state == "active"
    )


def test_nodes_that_run_on_demand_move_into_free_units_without_a_restart() -> None:
    world = overflowing(replicas=3)
    before = {claim.instance_id for claim in world.live()}
    assert len(paid(world)) == 2
    world.minutes(4)
    assert len(world.splitter.made) == 2
    assert {claim.instance_id for claim in world.live()} == before, "nothing restarted"
    assert paid(world) == []
    where = {claim.offering.reservation_id for claim in world.live()}
    assert where == {"cr-1", *world.splitter.made}
    assert sum(report.units_split_off for report in world.reports) == 2
    assert units(world) == 4


def test_what_is_split_off_says_whose_it_is_and_is_selected_by_the_same_tags() -> None:
    world = overflowing()
    world.minutes(2)
    (made,) = world.splitter.made
    tags = world.ec2.reservations[made].tags
    assert tags[SPLIT_FROM_TAG] == "cr-1"
    assert tags[SPLIT_GROUP_TAG] == GROUP
    assert tags["team"] == "research"
    assert OWNER_TAG in tags


def test_a_unit_goes_back_when_its_node_has_ended() -> None:
    world = overflowing()
    world.minutes(20)
    (made,) = world.splitter.made
    world.scale("train", 0)
    world.minutes(9)
    assert world.ec2.reservations[made].state == "cancelled"
    assert world.ec2.reservations["cr-1"].total_count == 4
    assert sum(report.units_given_back for report in world.reports) == 1
    world.minutes(2)
    assert world.free_units("cr-1") == 4


def test_a_unit_that_no_node_moves_into_goes_back_after_a_quarter_of_an_hour() -> None:
    world = overflowing()
    world.ec2_moves_in = False
    world.minutes(14)
    assert len(world.splitter.made) == 1, "nothing more is split off meanwhile"
    assert units(world) == 4
    world.ec2_moves_in = False
    world.minutes(3)
    assert world.ec2.reservations[world.splitter.made[0]].state == "cancelled"


def test_nothing_is_launched_into_what_was_split_off() -> None:
    world = overflowing()
    world.ec2_moves_in = False
    world.minutes(3)
    (made,) = world.splitter.made
    world.submit("more", replicas=3, gpus=8)
    world.minutes(3)
    assert world.ec2.free_units(made) == 1
    assert made not in {claim.offering.reservation_id for claim in world.live()}


def test_a_node_is_left_alone_while_a_unit_is_on_its_way() -> None:
    world = overflowing()
    world.ec2_moves_in = False
    world.minutes(5)
    (claim,) = paid(world)
    assert claim.disruption is None
    assert "EC2 moves one of them in" in world.reports[-1].refusals[claim.id]


def test_without_the_owners_tag_nothing_is_split_off_and_nodes_are_replaced() -> None:
    world = DisruptWorld("reserved", "on-demand")
    world.launch_at(GROUP)
    world.add_reservation("cr-1", total_count=1)
    world.submit("train", replicas=2, gpus=8)
    world.minutes(2)
    world.resize("cr-1", 4)
    world.minutes(6)
    assert world.splitter.made == []
    assert paid(world) == []


def test_what_ec2_refuses_is_given_back_said_and_asked_later() -> None:
    world = overflowing()
    world.splitter.refuses = True
    world.minutes(1)
    assert world.reports[-1].splits_refused == {"cr-1": "InvalidParameterValue"}
    world.minutes(2)
    assert world.free_units("cr-1") == 3
    assert sum(bool(report.splits_refused) for report in world.reports) < 3


def test_a_group_that_refuses_costs_a_unit_for_a_while_and_no_more() -> None:
    world = overflowing()
    world.splitter.refuses_to_join = True
    world.minutes(18)
    assert world.ec2.reservations[world.splitter.made[0]].state == "cancelled"
    assert units(world) == 4


def test_killed_anywhere_no_unit_is_lost_or_promised_twice() -> None:
    calm = overflowing(replicas=3)
    calm.armed = Effects()
    effects = calm.armed
    calm.minutes(3)
    count = effects.count
    assert {"split", "join"} <= {name.rpartition(".")[2] for name in effects.log}
    for mishap in mishaps(range(1, count + 1)):
        world = overflowing(replicas=3)
        instances = {claim.instance_id for claim in world.live()}
        world.armed = mishap
        for _ in range(8):
            world.minute()
            assert units(world) == 4
            assert min(world.ec2.free_units(it) for it in world.ec2.reservations) >= 0
        assert paid(world) == [], mishap
        assert {claim.instance_id for claim in world.live()} == instances
        world.scale("train", 0)
        world.minutes(30)
        assert world.ec2.reservations["cr-1"].total_count == 4, mishap
        assert world.free_units("cr-1") == 4
        assert [
            it.id for it in world.ec2.reservations.values() if it.state == "active"
        ] == ["cr-1"]


@pytest.mark.parametrize("throttled", [1, 3])
def test_a_throttled_split_is_asked_again(throttled: int) -> None:
    world = overflowing()
    world.splitter.throttle_count = throttled
    world.minutes(6)
    assert paid(world) == []
    assert units(world) == 4


def ended(minutes: int = 16) -> DisruptWorld:
    """A unit that was split off, and whose node has ended; other nodes stay."""
    world = overflowing()
    world.minutes(minutes)
    world.submit("other", gpus=8)
    world.minutes(2)
    world.scale("train", 0)
    return world


def test_killed_while_units_go_back_none_is_lost() -> None:
    calm = ended()
    calm.armed = effects = Effects()
    calm.minutes(8)
    assert "move" in {name.rpartition(".")[2] for name in effects.log}
    for mishap in mishaps(range(1, effects.count + 1)):
        world = ended()
        world.armed = mishap
        for _ in range(16):
            world.minute()
            assert units(world) == 4
        assert world.ec2.reservations["cr-1"].total_count == 4, mishap
