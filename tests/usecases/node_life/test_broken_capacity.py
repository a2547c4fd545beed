"""Units of a Capacity Block in which no node boots are reported and left alone."""

from datetime import timedelta

import pytest

from lab.worlds.launch_world import World, on_demand, reserved
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.ports.capacity_blocks import BlockStatus
from reservoir.ports.ec2 import InstanceHealth
from reservoir.ports.errors import AwsError

BLOCK = "cr-block"


@pytest.fixture
def world() -> World:
    world = World()
    world.add_block(world.clock.now() + timedelta(days=3), capacity_block_id="cb-1")
    world.add_workload(replicas=100)
    world.blocks.statuses["cb-1"] = BlockStatus("ok", 4, 3, 1)
    return world


def launched(world: World, batch_id: str, count: int = 1) -> list[NodeClaim]:
    batch = world.plan(count, reserved(BLOCK), batch_id=batch_id)
    world.launch().run(batch)
    return [world.state.claim_rows[claim_id] for claim_id in batch.claim_ids]


def never_start(world: World, batch_id: str, count: int = 1) -> list[NodeClaim]:
    """Launch nodes whose instances stay pending until they are given up, and let their slots be freed."""
    claims = launched(world, batch_id, count)
    world.clock.advance(minutes=16)
    world.expire().run()
    for claim in claims:
        assert world.state.claim_rows[claim.id].state is ClaimState.TERMINATING
        world.ec2.change(claim.instance_id or "", state="terminated")
    world.expire().run()
    return claims


def suspected(world: World) -> int:
    failures = world.boot_failures.get(BLOCK)
    return 0 if failures is None else failures.suspected_count(world.clock.now())


def test_the_second_node_that_does_not_boot_there_is_reported_with_what_ec2_says(
    world: World,
) -> None:
    never_start(world, "b-1")
    assert world.bus.of("Capacity Suspected") == []
    (second,) = never_start(world, "b-2")
    (event,) = world.bus.of("Capacity Suspected")
    assert (event["capacityReservationId"], event["capacityBlockId"]) == (BLOCK, "cb-1")
    assert (event["suspectedCount"], event["rounds"]) == (1, 2)
    assert (event["nodeClaims"], event["instanceIds"]) == (
        [second.id],
        [second.instance_id],
    )
    assert event["blockStatus"] == {
        "availableCount": 3,
        "interconnectStatus": "ok",
        "totalCount": 4,
        "unavailableCount": 1,
    }
    assert suspected(world) == 1
    world.clock.advance(hours=1)
    assert suspected(world) == 0  # tried again


def test_the_report_is_made_without_ec2s_word(world: World) -> None:
    world.blocks.error = AwsError("RequestLimitExceeded", "DescribeCapacityBlockStatus")
    never_start(world, "b-1")
    never_start(world, "b-2")
    (event,) = world.bus.of("Capacity Suspected")
    assert "blockStatus" not in event


def test_an_instance_that_ends_before_it_ran_counts_however_we_hear_of_it(
    world: World,
) -> None:
    never_start(world, "b-1")
    (claim,) = launched(world, "b-2")
    world.ec2.change(claim.instance_id or "", state="terminated")  # Server.InternalError
    assert world.expire().run().suspected_count == 1


def test_checks_that_fail_soon_after_the_launch_count(world: World) -> None:
    never_start(world, "b-1")
    (claim,) = world.running(1, reserved(BLOCK), batch_id="b-2")
    world.ec2.unhealthy = [
        InstanceHealth(claim.instance_id or "", impaired_since=world.clock.now())
    ]
    world.clock.advance(minutes=2)
    assert world.expire().run().suspected_count == 1


def test_a_machine_that_breaks_in_use_is_no_failed_boot(world: World) -> None:
    never_start(world, "b-1")
    (claim,) = world.running(1, reserved(BLOCK), batch_id="b-2")
    world.clock.advance(minutes=31)
    world.ec2.unhealthy = [
        InstanceHealth(claim.instance_id or "", impaired_since=world.clock.now())
    ]
    world.clock.advance(minutes=2)
    report = world.expire().run()
    assert (report.unhealthy_count, report.suspected_count) == (1, 0)


def test_nodes_that_were_launched_together_are_no_repeat(world: World) -> None:
    never_start(world, "b-1", count=3)
    assert (suspected(world), world.bus.of("Capacity Suspected")) == (0, [])


def test_outside_of_reservations_no_unit_is_suspected(world: World) -> None:
    for number in range(3):
        world.launch().run(world.plan(1, on_demand("m5.large"), batch_id=f"b-{number}"))
        world.clock.advance(minutes=16)
        assert world.expire().run().stuck_count == 1
        world.clock.advance(minutes=15)  # until the offering's rest is over
    assert world.bus.of("Capacity Suspected") == []
