"""From planned claims to running nodes and to their end: state in memory, EC2 emulated, its own events."""

from dataclasses import replace
from datetime import timedelta

import pytest

from lab.worlds.launch_world import PRICES, on_demand
from lab.worlds.live_world import LiveWorld
from reservoir.core.capacity.unavailable_offerings import NodeClassKey, SubnetKey
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState
from reservoir.core.model.node_class import Subnet
from reservoir.core.scheduling_terms import labels


@pytest.fixture
def world() -> LiveWorld:
    return LiveWorld()


def test_from_planned_to_running_by_events(world: LiveWorld) -> None:
    cr = world.aws.cloud.reserve(3)
    world.discover(cr)
    claims = world.launched(3, world.aws.reserved(cr))
    assert {claim.state for claim in claims} == {ClaimState.LAUNCHED}
    world.events()
    world.aws.cloud.advance(minutes=2)
    world.react().run(world.events())
    assert {world.now_of(claim).state for claim in claims} == {ClaimState.RUNNING}
    assert world.aws.reservation(cr).available_count == 0


def test_from_planned_to_running_without_any_event(world: LiveWorld) -> None:
    claims = world.launched(2, world.aws.offering())
    world.aws.cloud.advance(minutes=2)
    world.expire().run()
    assert {world.now_of(claim).state for claim in claims} == {ClaimState.RUNNING}


def test_an_outsider_takes_a_unit_first(world: LiveWorld) -> None:
    cr = world.aws.cloud.reserve(3)
    world.discover(cr)
    world.aws.cloud.advance(seconds=5)
    batch = world.plan(3, world.aws.reserved(cr))
    world.aws.cloud.control("outsider_launch", capacity_reservation_id=cr)
    report = world.launch().run(batch)
    assert (report.launched_count, report.failed_count) == (2, 1)
    assert world.placed() == 2
    assert world.free_units(cr) <= 0  # S-59
    assert len(world.bus.of("Reservation Exhausted")) == 1


def test_a_lost_answer_launches_nothing_twice(world: LiveWorld) -> None:
    cr = world.aws.cloud.reserve(4)
    world.discover(cr)
    batch = world.plan(2, world.aws.reserved(cr))
    world.aws.cloud.control("lose_response", operation="CreateFleet")
    world.launch().run(batch)
    assert world.queue.launches == [replace(batch, retry_count=1)]
    world.aws.cloud.advance(seconds=15)
    world.launch().run(batch)
    assert {c.state for c in world.claims()} == {ClaimState.LAUNCHED}
    assert world.aws.reservation(cr).available_count == 2


def test_long_after_a_lost_answer_the_instances_are_adopted(world: LiveWorld) -> None:
    batch = world.plan(2, world.aws.offering())
    world.aws.cloud.control("lose_response", operation="CreateFleet")
    world.launch().run(batch)
    world.aws.cloud.advance(minutes=7)
    world.launch().run(batch)
    ids = {c.instance_id for c in world.claims()}
    assert ids == {i.id for i in world.aws.instances.list_owned()}
    assert len(ids) == 2


def test_a_spot_interruption_drains_and_returns_the_replicas_before_the_node_is_gone(
    world: LiveWorld,
) -> None:
    (claim,) = world.launched(
        1, world.aws.offering("m5.large", "us-east-1a", CapacityType.SPOT)
    )
    world.aws.cloud.advance(minutes=2)
    world.react().run(world.events())
    world.aws.cloud.control("interrupt_spot", instance_id=claim.instance_id)
    world.react().run(world.events())
    assert world.now_of(claim).state is ClaimState.DRAINING
    assert world.placed() == 0
    world.aws.cloud.advance(minutes=4)
    world.react().run(world.events())
    assert world.now_of(claim).state is ClaimState.TERMINATED
    assert world.placed() == 0
    assert len(world.bus.of("Node Terminated")) == 1


def test_a_block_is_emptied_by_us_before_ec2_begins(world: LiveWorld) -> None:
    block = world.aws.cloud.control(
        "purchase_capacity_block",
        instance_type="p5.48xlarge",
        zone="us-east-1a",
        count=2,
        end_in_s=7_200,
    )["capacity_reservation_id"]
    world.discover(block)
    claims = world.launched(2, world.aws.reserved(block))
    end = world.aws.reservation(block).end_at
    assert end is not None
    world.events()
    terminated_at = None
    while world.clock.now() < end - timedelta(minutes=30):
        world.aws.cloud.advance(minutes=1)
        world.react().run(world.events())
        world.expire().run()
        if terminated_at is None and any(
            world.now_of(c).state is ClaimState.TERMINATING for c in claims
        ):
            terminated_at = world.clock.now()
    assert terminated_at is not None
    assert terminated_at < end - timedelta(minutes=30)
    assert {world.now_of(claim).state for claim in claims} == {ClaimState.TERMINATED}
    notified = {event["notifiedAt"] for event in world.bus.of("Node Draining")}
    assert len(world.bus.of("Node Draining")) == 2
    assert notified == {(end - timedelta(minutes=40)).isoformat().replace("+00:00", "Z")}


def test_a_unit_of_a_block_that_boots_nothing_is_reported_with_ec2s_own_words(
    world: LiveWorld,
) -> None:
    bought = world.aws.cloud.control(
        "purchase_capacity_block",
        instance_type="p5.48xlarge",
        zone="us-east-1a",
        count=4,
        end_in_s=86_400,
    )
    block = bought["capacity_reservation_id"]
    world.aws.cloud.control(
        "break_units",
        capacity_reservation_id=block,
        count=3,
        interconnect_status="impaired",
    )
    world.discover(block)
    world.launched(1, world.aws.reserved(block), batch_id="b-sound")
    for number in range(2):
        (claim,) = world.launched(1, world.aws.reserved(block), batch_id=f"b-{number}")
        world.aws.cloud.advance(minutes=16)
        world.expire().run()
        assert world.now_of(claim).state is ClaimState.TERMINATING
        world.aws.cloud.advance(minutes=7)  # terminated and scrubbed
        world.expire().run()
        world.discover(block)
    (event,) = world.bus.of("Capacity Suspected")
    assert event["capacityBlockId"] == bought["capacity_block_id"]
    assert event["blockStatus"]["interconnectStatus"] == "impaired"
    assert event["blockStatus"]["totalCount"] == 4
    assert world.boot_failures.get(block).suspected_count(world.clock.now()) == 1
    assert len([c for c in world.claims() if c.state is ClaimState.RUNNING]) == 1


def test_extending_a_block_spares_its_nodes(world: LiveWorld) -> None:
    block = world.aws.cloud.control(
        "purchase_capacity_block",
        instance_type="p5.48xlarge",
        zone="us-east-1a",
        count=1,
        end_in_s=7_200,
    )["capacity_reservation_id"]
    world.discover(block)
    (claim,) = world.launched(1, world.aws.reserved(block))
    world.aws.cloud.advance(minutes=79)
    world.aws.cloud.control("extend_block", capacity_reservation_id=block, hours=24)
    world.aws.cloud.advance(minutes=2)
    world.expire().run()
    assert world.now_of(claim).state is ClaimState.RUNNING
    assert world.timers.at[block] == world.now_of(claim).drain_at


def test_a_reclaimed_interruptible_reservation_drains_within_its_notice(
    world: LiveWorld,
) -> None:
    cr = world.aws.cloud.control(
        "create_interruptible", instance_type="m5.large", zone="us-east-1a", count=2
    )
    cr_id = cr["capacity_reservation_id"]
    world.discover(cr_id)
    claims = world.launched(2, world.aws.reserved(cr_id))
    world.aws.cloud.advance(minutes=2)
    world.react().run(world.events())
    world.aws.cloud.control(
        "reclaim_interruptible", capacity_reservation_id=cr_id, target_count=0
    )
    world.react().run(world.events())
    assert {world.now_of(claim).state for claim in claims} == {ClaimState.DRAINING}
    drain = world.now_of(claims[0]).drain
    assert drain is not None
    assert drain.deadline == world.clock.now() + timedelta(minutes=2)
    world.aws.cloud.advance(minutes=5)
    world.react().run(world.events())
    assert {world.now_of(claim).state for claim in claims} == {ClaimState.TERMINATED}


# S-70, S-71
def test_a_cancelled_reservation_demotes_its_nodes_and_ends_none(world: LiveWorld) -> None:
    cr = world.aws.cloud.reserve(1)
    world.discover(cr)
    (claim,) = world.launched(1, world.aws.reserved(cr))
    world.aws.cloud.advance(minutes=2)
    world.aws.cloud.ec2.cancel_capacity_reservation(CapacityReservationId=cr)
    world.expire().run()
    after = world.now_of(claim)
    assert after.state is ClaimState.RUNNING
    assert after.offering == world.aws.offering()
    assert not labels.RESERVATION_LABELS & after.labels.keys()
    assert after.price_atto_usd_per_hour == PRICES["m5.large"] * 10**12


def test_scheduled_maintenance_is_told_by_event_or_found_by_the_sweep(
    world: LiveWorld,
) -> None:
    claims = world.launched(2, world.aws.offering())
    world.aws.cloud.advance(minutes=2)
    world.expire().run()
    world.events()
    world.aws.cloud.control(
        "schedule_maintenance", instance_ids=[claims[0].instance_id], entity_arns=True
    )
    world.react().run(world.events())
    world.aws.cloud.control(
        "schedule_maintenance", instance_ids=[claims[1].instance_id], health_event=False
    )
    world.expire().run()
    assert {world.now_of(claim).state for claim in claims} == {ClaimState.DRAINING}


def test_every_event_that_ec2_sends_can_be_read(world: LiveWorld) -> None:
    cr = world.aws.cloud.reserve(1)
    world.discover(cr)
    world.launched(1, world.aws.reserved(cr))
    world.aws.cloud.control("report_underutilized", capacity_reservation_ids=[cr])
    world.aws.cloud.control(
        "report_underutilized", capacity_reservation_ids=[cr], summary=True
    )
    world.aws.cloud.control(
        "set_reservation_state", capacity_reservation_id=cr, state="delayed"
    )
    world.aws.cloud.control(
        "set_reservation_state", capacity_reservation_id=cr, state="expired"
    )
    world.aws.cloud.advance(hours=1)
    assert {notice.kind for notice in world.events()} >= {
        "InstanceRunning",
        "ReservationUnderutilized",
    }


def test_a_blocks_unit_counts_as_free_only_after_ec2_has_scrubbed_it(
    world: LiveWorld,
) -> None:
    made = world.aws.cloud.control(
        "purchase_capacity_block", instance_type="p5.48xlarge", zone="us-east-1a", count=1
    )
    block = str(made["capacity_reservation_id"])
    world.discover(block)
    (claim,) = world.launched(1, world.aws.reserved(block))
    world.aws.cloud.advance(minutes=2)
    world.react().run(world.events())
    world.aws.cloud.control("terminate_instance", instance_id=claim.instance_id)
    world.aws.cloud.advance(seconds=30)
    world.react().run(world.events())
    assert world.now_of(claim).state is ClaimState.TERMINATED
    assert world.free_units(block) == 0
    world.aws.cloud.advance(minutes=6)
    world.freed_units().observe({block}, world.clock.now())
    assert world.free_units(block) == 1


def test_what_ec2_has_none_of_is_left_alone_until_its_rest_is_over(
    world: LiveWorld,
) -> None:
    """The catalogue's zone ids and EC2's are the same, so what rests is what EC2 refused."""
    short = on_demand("m5.large")
    world.aws.cloud.control(
        "refuse_launches",
        instance_type="m5.large",
        zone="use1-az1",
        market="on-demand",
        count=1,
    )
    (failed,) = world.launched(1, short, batch_id="b-1")
    assert failed.state is ClaimState.FAILED
    assert set(world.state.offerings.list_unavailable(world.clock.now())) == {short}

    world.launch().run(world.plan(1, short, on_demand("m5.large", 1), batch_id="b-2"))
    # EC2 would have it in the first zone by now
    assert world.claims()[-1].offering == on_demand("m5.large", 1)
    world.aws.cloud.advance(minutes=3)
    (again,) = world.launched(1, short, batch_id="b-3")
    assert (again.state, again.offering) == (ClaimState.LAUNCHED, short)


def small_subnets(world: LiveWorld, count: int = 2) -> list[str]:
    """Let the class have so many subnets of one zone, with room for eleven addresses each."""
    client = world.aws.cloud.ec2
    vpc = client.describe_vpcs()["Vpcs"][0]["VpcId"]
    made = [
        client.create_subnet(
            VpcId=vpc, CidrBlock=f"172.31.255.{16 * n}/28", AvailabilityZone="us-east-1a"
        )["Subnet"]
        for n in range(count)
    ]
    subnets = tuple(
        Subnet(
            it["SubnetId"],
            it["AvailabilityZone"],
            it["AvailabilityZoneId"],
            it["AvailableIpAddressCount"],
        )
        for it in made
    )
    node_class = world.policy.classes["default"]
    world.policy.classes["default"] = replace(
        node_class, status=replace(node_class.status, subnets=subnets)
    )
    # of equally roomy ones the first by id is asked first
    return sorted(subnet.id for subnet in subnets)


def test_fifteen_nodes_find_addresses_in_two_subnets_of_eleven(world: LiveWorld) -> None:
    first, second = small_subnets(world)
    claims = world.launched(15, on_demand("m5.large"))
    assert {claim.state for claim in claims} == {ClaimState.LAUNCHED}
    assert sorted(claim.subnet_id or "" for claim in claims) == sorted(
        [first] * 11 + [second] * 4
    )
    assert not world.state.offerings.list_unavailable(world.clock.now())


def test_outsiders_in_a_subnet_cost_a_reservation_nothing(world: LiveWorld) -> None:
    """EC2 refuses for want of an address; the units are free, and the next attempt uses them from another subnet."""
    cr = world.aws.cloud.reserve(4)
    full, other = small_subnets(world)
    world.discover(cr)
    world.aws.cloud.ec2.run_instances(
        ImageId=world.aws.cloud.image_id,
        InstanceType="m5.large",
        MinCount=11,
        MaxCount=11,
        SubnetId=full,
    )
    claims = world.launched(4, world.aws.reserved(cr))
    assert {claim.subnet_id for claim in claims} == {other}
    assert world.aws.reservation(cr).available_count == 0
    assert not world.bus.of("Reservation Exhausted")
    assert set(world.state.offerings.list_unavailable(world.clock.now())) == {
        SubnetKey(full)
    }


def test_instances_that_end_before_they_run_let_their_class_rest(world: LiveWorld) -> None:
    """As with a volume whose key the class may not use: EC2 launches, and ends what it has launched."""
    world.aws.cloud.control("fail_starts", count=4)
    claims = world.launched(4, on_demand("m5.large"))
    assert {claim.state for claim in claims} == {ClaimState.LAUNCHED}
    world.aws.cloud.advance(minutes=2)
    world.react().run(world.events())
    assert {(world.now_of(it).state, world.now_of(it).failure) for it in claims} == {
        (ClaimState.TERMINATED, "Client.InternalError")
    }
    rests = world.state.offerings.list_unavailable(world.clock.now())
    assert list(rests) == [NodeClassKey("default", claims[0].node_class_hash)]
    assert {event["code"] for event in world.bus.of("Launch Failed")} == {
        "Client.InternalError"
    }
    assert world.bus.of("Launches Blocked")[0]["nodeClass"] == "default"
