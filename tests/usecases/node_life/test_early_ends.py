"""Instances that end before they run are remembered, rest and are told, on every kind of capacity."""

from dataclasses import replace
from datetime import timedelta

import pytest

from lab.worlds.disrupt_world import DisruptWorld
from lab.worlds.launch_world import World, on_demand, spot
from lab.worlds.mishaps import FleetWorld
from reservoir.core.capacity.unavailable_offerings import NodeClassKey
from reservoir.core.model.conditions import ConditionStatus, ConditionType
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState
from reservoir.core.model.workload import Gang
from reservoir.core.node_life.early_end import Cause, cause_of
from reservoir.core.node_life.notice import Notice, NoticeKind
from reservoir.ports.policy import PolicyKind
from reservoir.usecases.node_life.expire import ExpireReport
from reservoir.usecases.node_life.react import ReactReport

KMS = "Client.InternalError"


@pytest.mark.parametrize(
    ("state_reason", "cause"),
    [
        ("Client.InternalError", Cause.NODE_CLASS),
        ("Client.VolumeLimitExceeded", Cause.NODE_CLASS),
        ("Client.InvalidSnapshot.NotFound", Cause.NODE_CLASS),
        ("Server.InternalError", Cause.HOST),
        ("Server.InsufficientInstanceCapacity", Cause.HOST),
        ("Server.SpotInstanceTermination", Cause.HOST),
        ("Client.UserInitiatedShutdown", Cause.UNKNOWN),
        ("Client.InstanceInitiatedShutdown", Cause.UNKNOWN),
        (None, Cause.UNKNOWN),
    ],
)
def test_a_state_reason_says_whose_trouble_it_was(
    state_reason: str | None, cause: Cause
) -> None:
    assert cause_of(state_reason) is cause


def dying(
    *capacity_types: str, reason: str | None = KMS, everywhere: bool = True
) -> DisruptWorld:
    """A world in which nothing that is launched ever runs."""
    world = DisruptWorld(*capacity_types)
    names = (
        ("m5.large", "m5.xlarge", "m5.4xlarge", "p5.48xlarge")
        if everywhere
        else ("m5.large",)
    )
    world.ec2.early_ends = dict.fromkeys(names, reason)
    return world


@pytest.mark.parametrize("capacity_type", ["on-demand", "spot"])
def test_a_key_that_is_denied_lets_the_class_rest(capacity_type: str) -> None:
    world = dying(capacity_type)
    world.submit("train", 4, cpus=16)
    world.minutes(2)
    assert len(world.ec2.all()) == 4  # four deaths, and no replan
    assert world.live() == []
    (blocked,) = {
        (event["nodeClass"], event["reason"]) for event in world.bus.of("Launches Blocked")
    }
    assert blocked == ("default", KMS)
    failed = world.bus.of("Launch Failed")
    assert {event["code"] for event in failed} == {KMS}
    assert all(event["unavailableUntil"] for event in failed)
    assert "KMS key" in failed[0]["message"]
    assert {claim.failure for claim in world.claims()} == {KMS}
    assert {event["reason"] for event in world.bus.of("Node Terminated")} == {KMS}
    waiting = world.bus.of("Workload Pending")[-1]
    assert waiting["reason"] == "NodeClassNotReady"
    assert KMS in waiting["message"]


def test_it_is_tried_again_more_and_more_seldom() -> None:
    world = dying("on-demand")
    world.submit("train", 1, cpus=16)
    world.minutes(120)
    assert 4 <= len(world.ec2.all()) <= 6  # after 3, 6, 12, 24, 48 minutes


def test_a_class_that_is_mended_launches_at_once() -> None:
    world = dying("on-demand")
    world.submit("train", 1, cpus=16)
    world.minutes(2)
    assert world.live() == []
    world.ec2.early_ends = {}
    stored = world.store.get(PolicyKind.NODE_CLASS, "default")
    assert stored is not None
    world.apply(
        {**stored.manifest, "spec": {**stored.manifest["spec"], "tags": {"mended": "yes"}}}
    )
    world.minutes(2)
    assert [claim.state for claim in world.live()] == [ClaimState.RUNNING]


def mended_after_a_rest(*workloads: tuple[str, int]) -> DisruptWorld:
    """A world in which a class rested for a key that may be used again, and these replicas wait, a node each."""
    world = dying("on-demand")
    world.submit("first", 1, cpus=16)
    world.minutes(2)
    assert world.live() == []
    for name, replicas in workloads:
        world.submit(name, replicas, cpus=16)
    world.clock.advance(minutes=3)
    return world


def test_after_a_rest_one_claim_goes_first_and_the_others_when_its_instance_runs() -> None:
    world = mended_after_a_rest(("more", 4))
    world.ec2.early_ends = {}
    world.plan_and_launch()
    assert len(world.ec2.live()) == 1, "of the batch, and of all other batches"
    assert len(world.live()) == 5
    world.clock.advance(seconds=20)
    world.plan_and_launch()
    assert len(world.ec2.live()) == 1, "that it was launched says nothing"
    world.ec2.start_all()
    world.expire().run()
    world.clock.advance(minutes=1)
    world.plan_and_launch()
    assert len(world.ec2.live()) == 5
    assert not world.bus.of("Launch Failed")[1:], "nobody gave up"


def test_when_the_one_that_went_first_ends_too_the_class_rests_longer_and_the_others_were_spared() -> (
    None
):
    world = mended_after_a_rest(("more", 4))
    world.minutes(2)
    assert len(world.ec2.all()) == 2  # the first, and the one that tried again
    (rest,) = world.state.offerings.list_unavailable(world.clock.now()).values()
    assert timedelta(minutes=4) < rest.until - world.clock.now() <= timedelta(minutes=6)
    assert world.live() == []


def test_a_gang_tries_again_as_a_whole() -> None:
    world = mended_after_a_rest()
    world.ec2.early_ends = {}
    world.submit("gang", 3, cpus=16, gang=Gang())
    world.scale("first", 0)
    world.plan_and_launch()
    assert len(world.ec2.live()) == 3


def test_one_unexplained_end_holds_nobody_back() -> None:
    """A person ended a node that was booting: neither does the class rest, nor must others wait for each other."""
    world = dying("on-demand", reason="Client.UserInitiatedShutdown")
    world.submit("first", 1, cpus=16)
    world.minutes(2)
    world.ec2.early_ends = {}
    world.submit("more", 4, cpus=1)
    world.clock.advance(minutes=4)
    world.plan_and_launch()
    assert {claim.state for claim in world.live()} == {ClaimState.LAUNCHED}


def test_the_conditions_of_a_class_say_that_it_rests_and_until_when() -> None:
    world = FleetWorld()
    world.ec2.early_ends = dict.fromkeys(
        ("m5.large", "m5.xlarge", "m5.4xlarge", "p5.48xlarge"), KMS
    )
    world.submit("train", 1, cpus=1)
    for _ in range(2):
        world.every_function()
    stored = world.store.get(PolicyKind.NODE_CLASS, "default")
    assert stored is not None
    conditions = {condition.type: condition for condition in stored.status.conditions}
    permitted, ready = (
        conditions[ConditionType.LAUNCHES_PERMITTED],
        conditions[ConditionType.READY],
    )
    assert (permitted.status, permitted.reason) == (ConditionStatus.FALSE, "NothingStarts")
    assert KMS in permitted.message
    assert "launched again from 12:0" in permitted.message
    assert ready.status is ConditionStatus.FALSE
    world.ec2.early_ends = {}
    world.clock.advance(minutes=3)
    world.every_function()
    stored = world.store.get(PolicyKind.NODE_CLASS, "default")
    assert stored is not None
    assert {
        c.status for c in stored.status.conditions if c.type is ConditionType.READY
    } == {ConditionStatus.TRUE}


@pytest.mark.parametrize("capacity_type", ["on-demand", "spot", "reserved"])
def test_an_early_end_whose_event_was_lost_is_found_by_the_sweep_with_the_same_consequences(
    capacity_type: str,
) -> None:
    def after(told: bool) -> tuple[list[str], list[str], int, int]:
        world = dying(capacity_type)
        world.add_reservation("cr-1", total_count=4)
        world.submit("train", 1, gpus=8)
        world.plan_and_launch()
        world.ec2.start_all()
        report: ReactReport | ExpireReport
        if told:
            ids = tuple(instance.id for instance in world.ec2.all())
            report = world.react().run(
                [Notice(NoticeKind.STATE_CHANGED, world.clock.now(), ids)]
            )
        else:
            assert world.collect().run().orphan_count == 0, (
                "the collector leaves claims to the sweep"
            )
            assert not world.bus.of("Launch Failed")
            report = world.expire().run()
        events = [
            f"{event['nodeClass']} {event['reason']}"
            for event in world.bus.of("Launches Blocked")
        ]
        rests = sorted(
            map(str, world.state.offerings.list_unavailable(world.clock.now()).items())
        )
        return events, rests, report.early_count, report.blocked_count

    assert after(told=True) == after(told=False)
    assert after(told=False)[2:] == (1, 1)  # what the alarms count


def test_batches_that_were_planned_before_are_not_launched_into_a_class_that_rests() -> (
    None
):
    world = World()
    world.add_workload(replicas=10)
    (first,) = world.claims_of(world.plan(1, on_demand("m5.large"), batch_id="b-1"))
    second = world.plan(1, on_demand("m5.xlarge"), batch_id="b-2")
    world.clock.advance(minutes=1)
    key = NodeClassKey("default", "h1")
    world.state.offerings.mark_unavailable(
        [key], until=world.clock.now() + timedelta(minutes=3), reason="it dies"
    )
    assert world.launch().run(second).failed_count == 1
    assert world.ec2.launch_calls == []
    assert "it dies" in world.bus.of("Launch Failed")[0]["message"]
    assert first.state is ClaimState.PLANNED


def test_a_host_that_fails_rests_its_offering_and_the_next_one_serves() -> None:
    world = dying("on-demand", reason="Server.InternalError", everywhere=False)
    world.submit("train", 1, cpus=1)
    world.minutes(3)
    assert [claim.offering.instance_type for claim in world.live()] != ["m5.large"]
    assert len(world.live()) == 1
    rests = world.state.offerings.list_unavailable(world.clock.now())
    assert {place.instance_type for place in rests} == {"m5.large"}  # type: ignore[union-attr] # offerings alone
    assert not world.bus.of("Launches Blocked")


def test_an_offering_whose_instances_end_rests_longer_each_time_although_its_launches_succeed() -> (
    None
):
    world = World()
    world.add_workload(replicas=10)
    world.ec2.early_ends = {"m5.large": "Server.InternalError"}
    for number, minutes in enumerate((3, 6, 12)):
        world.launch().run(world.plan(1, on_demand("m5.large"), batch_id=f"b-{number}"))
        world.ec2.start_all()
        world.expire().run()
        until = world.state.offerings.list_unavailable(world.clock.now())[
            on_demand("m5.large")
        ].until
        assert until - world.clock.now() == timedelta(minutes=minutes)
        world.clock.set(until)


def test_spot_that_is_taken_back_before_it_runs_rests_that_pool_alone() -> None:
    world = World()
    world.add_workload(replicas=10)
    world.ec2.early_ends = {"m5.large": "Server.SpotInstanceTermination"}
    world.launch().run(world.plan(2, spot("m5.large")))
    world.ec2.start_all()
    world.expire().run()
    assert set(world.state.offerings.list_unavailable(world.clock.now())) == {
        spot("m5.large")
    }
    assert len(world.bus.of("Launch Failed")) == 2


@pytest.mark.parametrize("reason", ["Client.UserInitiatedShutdown", None])
def test_a_class_whose_instances_somebody_ends_again_and_again_rests_too(
    reason: str | None,
) -> None:
    """A guardian of the account, say, that ends what has no tag of its own: other offerings would fare no better."""
    world = dying("on-demand", reason=reason)
    world.submit("train", 1, cpus=1)
    world.minutes(120)
    assert len(world.ec2.all()) <= 12
    assert world.bus.of("Launches Blocked")


@pytest.mark.parametrize("reason", ["Server.InternalError", None])
def test_units_of_a_reservation_rest_one_after_the_other(reason: str | None) -> None:
    world = dying("reserved", reason=reason)
    world.add_reservation("cr-1", total_count=4)
    world.submit("train", 1, gpus=8)
    world.minutes(55)
    # the first failure says little; then each unit is tried once
    assert 4 <= len(world.ec2.all()) <= 6
    assert world.bus.of("Capacity Suspected")[-1]["capacityReservationId"] == "cr-1"
    assert not world.bus.of("Launches Blocked")


def test_a_key_that_is_denied_suspects_no_unit() -> None:
    world = dying("reserved")
    world.add_reservation("cr-1", total_count=4)
    world.submit("train", 1, gpus=8)
    world.minutes(30)
    assert len(world.ec2.all()) <= 4
    assert not world.bus.of("Capacity Suspected")
    assert world.boot_failures.list_remembered() == {}


def test_the_same_end_seen_twice_rests_no_longer() -> None:
    world = World()
    world.add_workload(replicas=10)
    world.ec2.early_ends = {"m5.large": "Server.InternalError"}
    (claim,) = world.claims_of(world.plan(1, on_demand("m5.large")))
    world.launch().run(world.batch_of(claim))
    world.ec2.start_all()
    launched = world.state.claim_rows[claim.id]
    shown = world.ec2.get_many([launched.instance_id or ""])
    for _ in range(3):  # as a function does that dies before the claim moves on
        world.life().apply([launched], shown, world.clock.now())
        world.state.claim_rows[claim.id] = replace(
            launched, revision=world.state.claim_rows[claim.id].revision
        )
    rests = world.state.offerings.list_unavailable(world.clock.now())
    assert rests[on_demand("m5.large")].until - world.clock.now() == timedelta(minutes=3)
    assert {it.capacity_type for it in rests} == {CapacityType.ON_DEMAND}  # type: ignore[union-attr] # offerings alone
