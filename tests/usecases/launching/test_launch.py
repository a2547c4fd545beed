"""Launch: from planned claims to instances, with EC2's refusals."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lab.fakes.effects import Effects, Killed
from lab.fakes.stores.launches import MemoryPolicy
from lab.fakes.system import START
from lab.fakes.values import workload
from lab.worlds.launch_world import World, node_class, on_demand, reserved, spot
from reservoir.core.capacity.shortage import PROBE_TIME, Shortage
from reservoir.core.capacity.unavailable_offerings import Unavailable, resting
from reservoir.core.launching.launch_outcome import LaunchError, LaunchErrorKind
from reservoir.core.model.instance import Instance
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState, LeaseState
from reservoir.core.model.node_class import KubeletAmounts
from reservoir.core.model.plan import OfferingKey
from reservoir.core.scheduling_terms import labels
from reservoir.manifests.node_identity import NodeBlockDrain, node_identity
from reservoir.names import BATCH_TAG, NODE_CLAIM_TAG, OWNER_TAG
from reservoir.ports.errors import (
    AccessDeniedError,
    AwsError,
    ConfigurationError,
    RefusedError,
)
from reservoir.ports.messaging import LaunchBatch
from reservoir.runtime.composition.launch import launch_from
from reservoir.usecases.claims.claim_moves import save_claims
from reservoir.usecases.launching.launch import (
    FIRST_RETRY_DELAY_S,
    LaunchResult,
    retry_delay_s,
)


@pytest.fixture
def world() -> World:
    world = World()
    world.add_reservation("cr-1")
    world.add_workload(replicas=100)
    world.add_workload("many", replicas=600)
    return world


def test_a_batch_is_one_call_and_every_claim_gets_its_own_instance(world: World) -> None:
    batch = world.plan(4, reserved())
    report = world.launch().run(batch)
    assert (report.result, report.launched_count, report.failed_count) == (
        LaunchResult.DONE,
        4,
        0,
    )
    assert len(world.ec2.launch_calls) == 1
    assert {c.state for c in world.claims()} == {ClaimState.LAUNCHED}
    ids = [c.instance_id for c in world.claims()]
    assert sorted(i for i in ids if i) == sorted(i.id for i in world.ec2.live())
    assert {c.lease.state for c in world.claims() if c.lease} == {LeaseState.SETTLED}
    assert len(world.bus.of("Node Launched")) == 4


def test_every_instance_carries_its_claim_in_the_end(world: World) -> None:
    world.launch().run(world.plan(3, reserved()))
    assert {i.claim_id for i in world.ec2.live()} == {c.id for c in world.claims()}
    assert {(i.id, i.claim_id) for i in world.ec2.live()} == {
        (c.instance_id, c.id) for c in world.claims()
    }


def test_a_launch_whose_tags_are_refused_is_complete(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(_: Mapping[str, str], *, patient: bool) -> None:
        raise AccessDeniedError("UnauthorizedOperation", f"CreateTags, patient: {patient}")

    monkeypatch.setattr(world.ec2, "tag_claims", refuses)
    batch = world.plan(3, reserved())

    for _ in range(2):  # the message comes again
        world.launch().run(batch)

    assert len(world.ec2.live()) == 3
    assert len(world.bus.of("Node Launched")) == 3, "told once"


def test_a_single_claim_is_named_by_the_fleet_itself(world: World) -> None:
    world.launch().run(world.plan(1, on_demand("m5.large")))
    tags = world.ec2.launch_calls[0].tags
    assert tags[NODE_CLAIM_TAG] == world.claims()[0].id
    assert tags[BATCH_TAG] == "b-1"
    assert tags[OWNER_TAG] == "test"
    assert "tag_claims" not in world.effects.log


def test_what_is_launched_has_the_deployments_tags_and_its_class_may_say_others(
    world: World,
) -> None:
    world.policy.classes["default"] = node_class(tags={"team": "research"})
    launch = launch_from(
        world.outside(launch_tags={"team": "platform", "cost-center": "4711"})
    )

    launch.run(world.plan(1, on_demand("m5.large")))

    tags = world.ec2.launch_calls[0].tags
    assert (tags["team"], tags["cost-center"]) == ("research", "4711")
    (template,) = world.templates.list_owned()
    assert (template.tags["team"], template.tags["cost-center"]) == ("research", "4711")


def test_a_launch_reads_the_types_that_it_may_become_and_no_others(
    world: World, monkeypatch: Any
) -> None:
    read: list[Collection[str] | None] = []
    load = world.state.offerings.load_with_rests

    def watched(only: Collection[str] | None = None) -> Any:
        read.append(only)
        return load(only)

    monkeypatch.setattr(world.state.offerings, "load_with_rests", watched)
    world.launch().run(world.plan(2, on_demand("m5.large"), on_demand("m5.xlarge")))
    assert read == [{"m5.large", "m5.xlarge"}]
    world.ec2.refusals[("m5.large", "use1-az1")] = LaunchErrorKind.INSUFFICIENT_CAPACITY
    world.launch().run(
        world.plan(1, on_demand("m5.large"), on_demand("m5.xlarge"), batch_id="b-2")
    )
    bought = world.state.claim_rows["b-2-nc-0000"]
    assert (bought.offering, bought.labels[labels.INSTANCE_TYPE]) == (
        on_demand("m5.xlarge"),
        "m5.xlarge",
    )
    assert read[1:] == [{"m5.large", "m5.xlarge"}, {"m5.xlarge"}]


def test_a_batch_that_is_launched_at_once_reads_its_claims_once(
    world: World, monkeypatch: Any
) -> None:
    read: list[frozenset[str]] = []
    get_many = world.state.node_claims.get_many

    def watched(claim_ids: Collection[str]) -> Any:
        read.append(frozenset(claim_ids))
        return get_many(claim_ids)

    monkeypatch.setattr(world.state.node_claims, "get_many", watched)
    batch = world.plan(4, reserved())
    assert world.launch().run(batch).result is LaunchResult.DONE
    assert [ids for ids in read if ids] == [frozenset(batch.claim_ids)]


def test_the_same_message_again_does_nothing(world: World) -> None:
    batch = world.plan(4, reserved())
    world.launch().run(batch)
    before = world.state.write_count
    report = world.launch().run(batch)
    assert report.attempt_count == 0
    assert len(world.ec2.launch_calls) == 1
    assert world.state.write_count == before


def test_a_reservation_that_outsiders_filled_fails_only_what_it_lacks(world: World) -> None:
    batch = world.plan(4, reserved())
    world.clock.advance(seconds=1)
    world.ec2.reservations["cr-1"] = replace(world.ec2.reservations["cr-1"], total_count=3)
    report = world.launch().run(batch)
    assert (report.launched_count, report.failed_count) == (3, 1)
    assert world.placed() == 3
    assert world.free_units() <= 0  # nothing is free until EC2 has been asked again
    assert [
        c.lease.state for c in world.claims() if c.lease and c.state is ClaimState.FAILED
    ] == [LeaseState.RETURNED]
    assert world.queue.wake_ups
    (failed,) = world.bus.of("Launch Failed")
    assert failed["code"] == "ReservationCapacityExceeded"
    (exhausted,) = world.bus.of("Reservation Exhausted")
    assert exhausted["capacityReservationId"] == "cr-1"
    # nothing else is marked
    assert not world.state.offerings.list_unavailable(world.clock.now())


def test_a_refusal_counts_although_the_clock_that_saw_it_is_slow(world: World) -> None:
    batch = world.plan(1, reserved())
    world.observe("cr-1")
    world.clock.advance(minutes=-2)
    world.ec2.reservations["cr-1"] = replace(world.ec2.reservations["cr-1"], total_count=0)
    assert world.launch().run(batch).failed_count == 1
    assert world.free_units() <= 0, (
        "else the unit would be planned and refused again at once"
    )


def test_missing_capacity_rests_the_offering_and_returns_the_replicas(world: World) -> None:
    world.ec2.pool_sizes[("m5.large", "use1-az1", CapacityType.ON_DEMAND)] = 1
    report = world.launch().run(world.plan(3, on_demand("m5.large")))
    assert (report.launched_count, report.failed_count) == (1, 2)
    until = world.state.offerings.list_unavailable(world.clock.now())
    assert until == {
        on_demand("m5.large"): Unavailable(world.clock.now() + timedelta(minutes=3))
    }
    assert world.placed() == 1


def test_a_failed_probe_rests_twice_as_long(world: World) -> None:
    world.ec2.pool_sizes[("m5.large", "use1-az1", CapacityType.ON_DEMAND)] = 0
    for number, minutes in enumerate((3, 6, 12)):
        world.launch().run(world.plan(1, on_demand("m5.large"), batch_id=f"b-{number}"))
        until = world.state.offerings.list_unavailable(world.clock.now())[
            on_demand("m5.large")
        ].until
        assert until - world.clock.now() == timedelta(minutes=minutes)
        world.clock.set(until)


@pytest.mark.parametrize("state", [ClaimState.PLANNED, ClaimState.LAUNCHING])
def test_a_claim_that_was_given_back_meanwhile_is_not_launched(
    world: World, state: ClaimState
) -> None:
    """Somebody gave it back, and its unit, after the launch had read it; the unit may be promised again by now.

    One that is already launching waits for the attempt after the one that launched nothing.
    """
    batch = world.plan(2, reserved())
    save_claims(
        world.state.node_claims,
        world.claims(),
        lambda planned: replace(planned, state=state),
    )
    claim = world.claims()[0]
    given_back = replace(claim, state=ClaimState.FAILED, failure="its gang is not whole")

    def give_back() -> None:
        world.state.node_claims.return_replicas(
            given_back,
            expected_revision=claim.revision,
            placements={"research/train": 1},
            returned_at=world.clock.now(),
        )

    world.effects = Effects(before={2: give_back})
    report = world.launch().run(batch)
    assert world.effects.log[1] == "begin"
    assert [request.count for request in world.ec2.launch_calls] == [1]
    assert (report.launched_count, report.result) == (1, LaunchResult.DONE)
    assert len(world.ec2.all()) == 1


def rested(world: World, *offerings: OfferingKey) -> None:
    """The offerings were short, and their rest has just ended."""
    world.shortages.put({offering: Shortage(world.clock.now()) for offering in offerings})


def test_one_batch_probes_and_the_others_wait_for_what_it_finds(world: World) -> None:
    rested(world, on_demand("m5.large"))
    probe, other = (world.plan(3, on_demand("m5.large"), batch_id=f"b-{n}") for n in (1, 2))
    died = Effects(kill_before=4)
    world.effects = died
    with pytest.raises(Killed):
        world.launch().run(probe)
    assert "begin" in died.log
    world.effects = Effects()
    assert world.ec2.launch_calls == []

    assert world.launch().run(other).result is LaunchResult.DELAYED
    assert world.ec2.launch_calls == []
    # nothing is given back meanwhile: no claims are made and unmade
    assert world.placed() == 6
    assert world.launch().run(probe).launched_count == 3
    assert world.launch().run(other).launched_count == 3
    assert len(world.ec2.launch_calls) == 2
    assert world.shortages.rows == {}


def test_a_probe_that_finds_nothing_answers_for_all(world: World) -> None:
    rested(world, on_demand("m5.large"))
    world.ec2.pool_sizes[("m5.large", "use1-az1", CapacityType.ON_DEMAND)] = 0
    batches = [
        world.plan(200, on_demand("m5.large"), batch_id=f"b-{n}", workload="research/many")
        for n in range(3)
    ]
    for batch in batches:
        world.launch().run(batch)
    assert len(world.ec2.launch_calls) == 1
    assert world.placed("research/many") == 0
    assert {claim.state for claim in world.claims()} == {ClaimState.FAILED}
    (shortage,) = world.shortages.rows.values()
    assert (shortage.failure_count, shortage.probe_batch_id) == (2, None)


def test_a_batch_with_other_pools_leaves_a_probed_one_out(world: World) -> None:
    rested(world, spot("m5.large"))
    world.shortages.begin_probes([spot("m5.large")], "b-somebody", world.clock.now())
    world.launch().run(world.plan(2, spot("m5.large"), spot("m5.xlarge")))
    assert {claim.offering.instance_type for claim in world.claims()} == {"m5.xlarge"}
    assert spot("m5.large") in world.shortages.rows


def test_a_probe_whose_function_died_is_taken_over(world: World) -> None:
    rested(world, on_demand("m5.large"))
    world.shortages.begin_probes([on_demand("m5.large")], "b-died", world.clock.now())
    batch = world.plan(1, on_demand("m5.large"))
    assert world.launch().run(batch).result is LaunchResult.DELAYED
    world.clock.advance(seconds=PROBE_TIME.total_seconds())
    assert world.launch().run(batch).launched_count == 1


def test_an_offering_that_rests_is_not_asked_for(world: World) -> None:
    world.state.offerings.mark_unavailable(
        [on_demand("m5.large")], until=world.clock.now() + timedelta(minutes=3)
    )
    report = world.launch().run(world.plan(2, on_demand("m5.large")))
    assert (report.failed_count, world.ec2.launch_calls) == (2, [])
    assert world.placed() == 0


def test_alternatives_serve_when_the_first_choice_has_nothing(world: World) -> None:
    world.ec2.pool_sizes[("m5.large", "use1-az1", CapacityType.SPOT)] = 1
    world.launch().run(
        world.plan(3, spot("m5.large"), spot("m5.xlarge"), spot("m5.xlarge", 1))
    )
    found = sorted(c.offering.instance_type for c in world.claims())
    assert found == ["m5.large", "m5.xlarge", "m5.xlarge"]
    for claim in world.claims():
        instance = world.ec2.get_many([claim.instance_id or ""])[claim.instance_id or ""]
        assert claim.labels[labels.INSTANCE_TYPE] == instance.instance_type
        assert claim.labels[labels.ZONE_ID] == instance.zone_id
        assert claim.labels[
            labels.INSTANCE_FAMILY
            if claim.offering != spot("m5.large")
            else labels.NODE_POOL
        ]


@pytest.mark.parametrize(("is_readable", "pods"), [(True, 3), (False, 110)])
def test_another_type_has_what_its_class_leaves_of_it(
    world: World, is_readable: bool, pods: int
) -> None:
    kept = KubeletAmounts(max_pods=3)
    world.policy.classes["default"] = replace(world.policy.classes["default"], kubelet=kept)
    world.ec2.pool_sizes[("m5.large", "use1-az1", CapacityType.SPOT)] = 0
    batch = world.plan(1, spot("m5.large"), spot("m5.xlarge"))
    launch = world.launch()
    if not is_readable:
        policy = MemoryPolicy()
        policy.unreadable.add("default")
        recorder = replace(launch.outcomes.recorder, policy=policy)
        launch = replace(launch, outcomes=replace(launch.outcomes, recorder=recorder))
    launch.run(batch)
    (claim,) = world.claims()
    assert claim.state is ClaimState.LAUNCHED
    assert claim.offering.instance_type == "m5.xlarge"
    assert claim.allocatable["pods"] == pods


def test_throttled_calls_delay_the_batch_and_mark_nothing(world: World) -> None:
    world.ec2.throttle_count = 1
    batch = world.plan(2, on_demand("m5.large"))
    report = world.launch().run(batch)
    assert report.result is LaunchResult.DELAYED
    assert world.queue.launches == [replace(batch, throttle_count=1)]
    (delay_s,) = world.queue.delays_s
    assert 3 <= delay_s <= 6
    assert not world.state.offerings.list_unavailable(world.clock.now())
    world.clock.advance(seconds=delay_s)
    assert world.launch().run(batch).launched_count == 2
    assert len(world.ec2.live()) == 2


def test_batches_that_were_throttled_together_do_not_come_back_together() -> None:
    batches = [LaunchBatch(f"b-{number}", ("nc-1",)) for number in range(80)]
    came_back_at_s = dict.fromkeys(batches, 0)
    for count in range(1, 5):
        for batch in batches:
            again = replace(batch, throttle_count=count)
            came_back_at_s[batch] += retry_delay_s(again)
        in_a_second = Counter(came_back_at_s.values())
        assert max(in_a_second.values()) <= 30, "eighty in a second are what was throttled"
    assert max(in_a_second.values()) <= 10
    assert max(came_back_at_s.values()) <= 90, "two minutes leave time for something else"


def test_a_throttle_inside_the_answer_marks_nothing_either(world: World) -> None:
    world.ec2.whole_refusals = [
        LaunchError(
            LaunchErrorKind.TRANSIENT, "RequestLimitExceeded", "m5.large", "use1-az1"
        )
    ]
    batch = world.plan(2, on_demand("m5.large"))
    assert world.launch().run(batch).result is LaunchResult.DELAYED
    assert world.queue.delays_s[-1] <= 6
    assert not world.state.offerings.list_unavailable(world.clock.now())
    assert world.placed() == 2  # nothing was given back
    assert world.launch().run(batch).launched_count == 2
    assert world.attempts.rows["b-1"].number == 2


def test_a_template_that_was_deleted_is_made_again_at_once(world: World) -> None:
    world.launch().run(world.plan(1, on_demand("m5.large"), batch_id="b-0"))
    world.ec2.templates.clear()
    report = world.launch().run(world.plan(1, on_demand("m5.large")))
    assert (report.launched_count, report.attempt_count) == (1, 2)


def test_a_refused_configuration_stops_the_class(world: World) -> None:
    world.ec2.whole_refusals = [
        LaunchError(LaunchErrorKind.CONFIGURATION, "InvalidAMIID.NotFound")
    ]
    world.launch().run(world.plan(2, on_demand("m5.large")))
    assert (
        world.policy.classes["default"].status.launch_blocked_reason
        == "Configuration: InvalidAMIID.NotFound"
    )
    assert world.placed() == 0
    (blocked,) = world.bus.of("Launches Blocked")
    assert blocked["nodeClass"] == "default"
    calls = len(world.ec2.launch_calls)
    assert (
        world.launch()
        .run(world.plan(1, on_demand("m5.large"), batch_id="b-2"))
        .failed_count
        == 1
    )
    assert len(world.ec2.launch_calls) == calls


def test_what_a_class_asks_for_is_refused_in_one_pool_and_rests_there_longer_each_time(
    world: World,
) -> None:
    world.ec2.refusals[("m5.large", "use1-az1")] = LaunchErrorKind.CONFIGURATION
    rests = []
    for number in range(3):
        world.launch().run(world.plan(1, spot("m5.large"), batch_id=f"b-{number}"))
        rest = world.state.offerings.list_unavailable(world.clock.now())[spot("m5.large")]
        assert rest.reason == "EC2 refuses what its class asks for (Configuration)"
        rests.append(rest.until - world.clock.now())
        world.clock.advance(seconds=rests[-1].total_seconds() + 60)

    assert rests == [timedelta(minutes=3), timedelta(minutes=6), timedelta(minutes=12)]
    assert world.policy.classes["default"].status.launch_blocked_reason is None


def test_user_data_that_ec2_would_refuse_stops_the_class_without_a_call(
    world: World,
) -> None:
    world.policy.classes["default"] = replace(
        world.policy.classes["default"], user_data="x" * 20_000
    )
    assert world.launch().run(world.plan(1, on_demand("m5.large"))).failed_count == 1
    assert not world.ec2.launch_calls
    assert "user data" in (
        world.policy.classes["default"].status.launch_blocked_reason or ""
    )


def test_the_missing_role_of_spot_rests_all_spot_and_nothing_else(world: World) -> None:
    code = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
    world.ec2.whole_refusals = [LaunchError(LaunchErrorKind.SPOT_NOT_PERMITTED, code)]
    report = world.launch().run(world.plan(1, spot("m5.large")))
    unavailable = resting(world.state.offerings.load_catalogue(), world.clock.now())
    assert {key.capacity_type for key in unavailable} == {CapacityType.SPOT}
    assert len(unavailable) == 8
    # one row for some 8,000 offerings
    assert len(world.state.offerings.list_unavailable(world.clock.now())) == 1
    assert report.refused_count == 1  # somebody must make the role
    assert world.policy.classes["default"].status.launch_blocked_reason is None


def test_a_quota_rests_all_that_it_counts_in_the_market(world: World) -> None:
    world.ec2.whole_refusals = [LaunchError(LaunchErrorKind.QUOTA, "VcpuLimitExceeded")]
    report = world.launch().run(
        world.plan(1, on_demand("m5.large"), on_demand("m5.large", 1))
    )
    assert (report.quota_count, report.failed_count) == (1, 1)
    catalogue = world.state.offerings.load_catalogue()
    types = ("m5.large", "m5.xlarge", "m6g.large")  # the quota of P instances is another
    assert resting(catalogue, world.clock.now()) == {
        on_demand(name, zone) for name in types for zone in (0, 1)
    }
    reasons = {
        offering.unavailable_reason for each in catalogue for offering in each.offerings
    }
    assert reasons == {
        "",
        "the account's quota of on-demand Standard instances is used up (VcpuLimitExceeded)",
    }
    world.launch().run(world.plan(1, on_demand("m5.xlarge", 1), batch_id="b-2"))
    assert len(world.ec2.launch_calls) == 1  # neither other types nor other zones are tried
    world.clock.advance(minutes=5)
    world.launch().run(world.plan(1, on_demand("m5.xlarge", 1), batch_id="b-3"))
    assert len(world.ec2.launch_calls) == 2


def test_the_quota_of_a_type_rests_it_in_every_zone_of_the_market(world: World) -> None:
    world.ec2.refusals[("m5.large", "use1-az1")] = LaunchErrorKind.TYPE_QUOTA
    world.ec2.refusals[("m5.large", "use1-az2")] = LaunchErrorKind.TYPE_QUOTA
    report = world.launch().run(
        world.plan(1, on_demand("m5.large"), on_demand("m5.large", 1))
    )
    unavailable = world.state.offerings.list_unavailable(world.clock.now())
    assert set(unavailable) == {on_demand("m5.large"), on_demand("m5.large", 1)}
    assert report.quota_count == 1


def test_a_code_that_nobody_knows_is_not_asked_about_for_ever(world: World) -> None:
    """Three tries a quarter of a minute apart, then a rest that doubles up to an hour."""
    world.ec2.refusals[("m5.large", "use1-az1")] = LaunchErrorKind.UNKNOWN
    refused, number = 0, 0
    end = world.clock.now() + timedelta(hours=6)
    while world.clock.now() < end:
        number += 1  # the planner plans again as soon as the claims have failed
        batch = world.plan(1, on_demand("m5.large"), batch_id=f"b-{number}")
        while world.placed() and world.clock.now() < end:
            refused += world.launch().run(batch).refused_count
            world.clock.advance(seconds=FIRST_RETRY_DELAY_S)
    assert refused == len(world.ec2.launch_calls)
    assert 3 * 6 <= refused <= 3 * 12  # one every quarter of a minute would be 1,440


def test_a_code_that_nobody_knows_rests_nothing_when_it_passes(world: World) -> None:
    world.ec2.whole_refusals = [LaunchError(LaunchErrorKind.UNKNOWN, "SomethingNew")] * 2
    batch = world.plan(1, on_demand("m5.large"))
    results = [world.launch().run(batch).result for _ in range(3)]
    assert results == [LaunchResult.DELAYED, LaunchResult.DELAYED, LaunchResult.DONE]
    assert not world.state.offerings.list_unavailable(world.clock.now())
    assert world.claims()[0].state is ClaimState.LAUNCHED


@pytest.mark.parametrize("error", [AccessDeniedError, ConfigurationError])
def test_a_template_that_ec2_refuses_for_good_stops_the_class(
    world: World, error: type[AwsError]
) -> None:
    world.templates.refusal = error("SomeCode", "CreateLaunchTemplate")
    report = world.launch().run(world.plan(2, on_demand("m5.large")))
    assert (report.blocked_count, report.failed_count) == (1, 2)
    assert (
        world.policy.classes["default"].status.launch_blocked_reason
        == "CreateLaunchTemplate: SomeCode"
    )
    assert world.bus.of("Launches Blocked")
    assert not world.ec2.launch_calls


def test_a_template_that_ec2_has_no_room_for_is_tried_until_the_deadline(
    world: World,
) -> None:
    world.templates.refusal = RefusedError("TooMany", "CreateLaunchTemplate")
    batch = world.plan(1, on_demand("m5.large"))
    report = world.launch().run(batch)
    assert (report.result, report.refused_count, report.error_codes) == (
        LaunchResult.DELAYED,
        1,
        ["TooMany"],
    )
    world.clock.advance(minutes=16)
    assert world.launch().run(batch).failed_count == 1
    assert world.placed() == 0


def test_a_block_sets_its_timer_and_its_node_knows_when_it_drains_and_until_when(
    world: World,
) -> None:
    end = world.clock.now() + timedelta(days=1)
    world.add_block(end)
    world.add_workload("ckpt", replicas=4, checkpoint_period_s=1800)
    world.launch().run(world.plan(1, reserved("cr-block"), workload="research/ckpt"))
    claim = world.claims()[0]
    # 30 minutes of notice: 8 of the usual 10 count, because the node is terminated 2 minutes before EC2 begins.
    assert claim.drain_at == end - timedelta(minutes=30 + 10 + 22)
    assert world.timers.at == {"cr-block": claim.drain_at}
    told = node_identity(claim).block_drain
    assert told == NodeBlockDrain(
        starts_at=claim.drain_at, deadline=end - timedelta(minutes=30 + 2)
    )
    assert (
        node_identity(replace(claim, drain_at=None, drain_deadline=None)).block_drain
        is None
    )


def test_a_gang_that_comes_in_part_is_undone_where_ec2_cannot_promise_it_whole(
    world: World,
) -> None:
    world.add_block(world.clock.now() + timedelta(days=1))
    world.add_workload("gang", replicas=4)
    batch = world.plan(
        4, reserved("cr-block"), workload="research/gang", gang_key="research/gang"
    )
    world.ec2.reservations["cr-block"] = replace(
        world.ec2.reservations["cr-block"], total_count=3
    )
    report = world.launch().run(batch)
    assert report.launched_count == 0
    assert world.ec2.live() == []
    assert world.placed() == 0
    assert (
        sorted(c.state for c in world.claims())
        == [ClaimState.FAILED] + [ClaimState.TERMINATING] * 3
    )


def test_a_block_that_has_begun_to_drain_takes_no_new_work(world: World) -> None:
    end = world.clock.now() + timedelta(hours=1)
    world.add_block(end)
    batch = world.plan(1, reserved("cr-block"))
    world.clock.set(end - timedelta(minutes=40))
    assert world.launch().run(batch).failed_count == 1
    assert world.ec2.launch_calls == []
    assert world.free_units("cr-block") == 4


@pytest.mark.parametrize("failing_first", [False, True])
def test_a_gang_over_two_reservations_launches_whole_or_not_at_all(
    world: World, failing_first: bool
) -> None:
    world.add_reservation("cr-2")
    world.clock.advance(seconds=1)
    world.add_workload("gang", replicas=4)
    of_gang = {"workload": "research/gang", "gang_key": "research/gang"}
    batches = [
        world.plan(2, reserved("cr-1"), batch_id="b-1", **of_gang),
        world.plan(2, reserved("cr-2"), batch_id="b-2", **of_gang),
    ]
    world.ec2.reservations["cr-2"] = replace(world.ec2.reservations["cr-2"], total_count=0)
    for batch in reversed(batches) if failing_first else batches:
        world.launch().run(batch)
    assert world.ec2.live() == []
    assert world.placed("research/gang") == 0
    assert not any(
        c.state in (ClaimState.LAUNCHED, ClaimState.PLANNED) for c in world.claims()
    )


def test_a_gang_that_is_launched_whole_stays(world: World) -> None:
    world.add_workload("gang", replicas=3)
    batch = world.plan(3, reserved(), workload="research/gang", gang_key="research/gang")
    assert world.launch().run(batch).launched_count == 3
    assert len(world.ec2.live()) == 3


def test_a_gang_on_demand_launches_whole_or_not_at_all(world: World) -> None:
    world.ec2.pool_sizes[("m5.large", "use1-az1", CapacityType.ON_DEMAND)] = 3
    world.add_workload("gang", replicas=4)
    world.launch().run(
        world.plan(
            4, on_demand("m5.large"), workload="research/gang", gang_key="research/gang"
        )
    )
    assert world.ec2.all() == []
    assert {c.state for c in world.claims()} == {ClaimState.FAILED}


def test_a_claim_that_cannot_be_launched_in_time_gives_up(world: World) -> None:
    batch = world.plan(1, reserved())
    world.clock.advance(minutes=16)
    assert world.launch().run(batch).failed_count == 1
    assert world.placed() == 0
    assert world.free_units() == 4


def test_instances_that_nobody_asks_for_any_more_are_not_launched(world: World) -> None:
    batch = world.plan(3, on_demand("m5.large"))
    record = world.state.workload_rows["research/train"]
    withdrawn = replace(record, workload=replace(record.workload or workload(), replicas=2))

    def shrink() -> None:
        """Take a replica back after the attempt was recorded, before its claims are marked."""
        outer, world.effects = world.effects, Effects()
        world.state.workload_rows["research/train"] = withdrawn
        world.draining().shed_surplus(withdrawn, world.claims(), world.clock.now())
        world.effects = outer

    world.effects = Effects(before={3: shrink})
    report = world.launch().run(batch)
    assert report.launched_count == 2
    assert len(world.ec2.all()) == 2
    assert world.placed() == 2


@pytest.mark.parametrize("forgotten", [True, False])
def test_what_was_launched_before_the_tables_were_restored_is_not_launched_again(
    world: World, *, forgotten: bool
) -> None:
    """Restored to an instant between plan and launch; meanwhile the request has changed, so that its token has too."""
    batch = world.plan(2, spot("m5.large"), spot("m5.xlarge", 1))
    planned = dict(world.state.claim_rows), dict(world.state.workload_rows)
    if forgotten:
        world.launch().run(batch)
    world.state.claim_rows, world.state.workload_rows = planned
    world.attempts.rows.clear()
    world.clock.advance(minutes=5)
    rested(world, spot("m5.large"))
    world.shortages.begin_probes([spot("m5.large")], "b-somebody", world.clock.now())
    world.launch().run(batch)
    assert len(world.ec2.all()) == 2
    assert {claim.instance_id for claim in world.claims()} == {
        instance.id for instance in world.ec2.live()
    }


def test_what_one_claim_has_adopted_is_no_others_when_the_token_of_a_forgotten_launch_returns(
    world: World,
) -> None:
    batch = world.plan(2, on_demand("m5.large"))
    world.effects = Effects(kill_before=4)
    with pytest.raises(Killed):
        world.launch().run(batch)
    world.effects = Effects()
    first = world.claims()[0]
    taken = {placed.workload_key: placed.count for placed in first.placements}
    world.state.node_claims.return_replicas(
        first,
        expected_revision=first.revision,
        placements=taken,
        returned_at=world.clock.now(),
    )
    state, stored = (
        world.state,
        (dict(world.state.claim_rows), dict(world.state.workload_rows)),
    )
    attempts = dict(world.attempts.rows)
    world.clock.advance(minutes=7)
    # of the first attempt there is nothing; the second launches for who is wanted
    world.launch().run(batch)
    assert [claim.state for claim in world.claims()] == [
        ClaimState.FAILED,
        ClaimState.LAUNCHED,
    ]

    state.claim_rows, state.workload_rows = stored  # the tables are restored
    world.attempts.rows = attempts
    world.clock.advance(minutes=1)
    assert world.launch().run(batch).result is LaunchResult.DELAYED
    (instance,) = world.ec2.live()
    assert [claim.instance_id for claim in world.claims()] == [instance.id, None]
    world.launch().run(batch)  # it comes back with a delay
    ids = [claim.instance_id for claim in world.claims()]
    assert len(ids) == 2
    assert set(ids) == {instance.id for instance in world.ec2.live()}


def test_adoption_ends_what_is_too_much_and_ours(world: World) -> None:
    batch = world.plan(1, on_demand("m5.large"))
    world.effects = Effects(kill_before=4)
    with pytest.raises(Killed):
        world.launch().run(batch)
    world.effects = Effects()
    assert world.ec2.live() == []
    ours = Instance(
        "",
        "running",
        "m5.large",
        "us-east-1a",
        "use1-az1",
        START,
        "test",
        "b-1",
        launch_template_id="lt-1",
    )
    for name in ("i-first", "i-second"):
        world.ec2.add(replace(ours, id=name))
    # Somebody's "launch more like this": the tags are copied, but EC2 names no launch template.
    world.ec2.add(replace(ours, id="i-copied", launch_template_id=None))
    world.clock.advance(minutes=7)
    world.launch().run(batch)
    assert [c.instance_id for c in world.claims()] == ["i-first"]
    assert [i.id for i in world.ec2.live()] == ["i-copied", "i-first"]
    assert world.ec2.launch_calls == []


@pytest.mark.parametrize("state", [ClaimState.PLANNED, ClaimState.LAUNCHING])
def test_a_claim_that_lost_its_replicas_while_it_waited_fails_and_frees_its_unit(
    world: World, state: ClaimState
) -> None:
    batch = world.plan(3, reserved())
    empty = world.claims()[0]
    taken = {placed.workload_key: placed.count for placed in empty.placements}
    world.state.node_claims.return_replicas(
        replace(empty, state=state),
        expected_revision=1,
        placements=taken,
        returned_at=world.clock.now(),
    )
    assert world.free_units() == 1

    report = world.launch().run(batch)

    assert (report.launched_count, report.failed_count) == (2, 1)
    ended = world.claims()[0]
    assert (ended.state, ended.lease and ended.lease.state) == (
        ClaimState.FAILED,
        LeaseState.RETURNED,
    )
    assert len(world.ec2.all()) == 2
    assert world.free_units() == 2


def test_a_replacement_waits_for_its_replicas_and_is_launched_empty(world: World) -> None:
    batch = world.plan(1, on_demand("m5.large"))
    (claim,) = world.claims()
    world.state.claim_rows[claim.id] = replace(claim, placements=(), replaces=("nc-old",))
    assert world.launch().run(batch).launched_count == 1


def test_the_lease_of_an_adopted_instance_settles_when_ec2_launched_it(
    world: World,
) -> None:
    """Settled at the adoption, it would hide a unit for another minute although every observation contains it."""
    batch = world.plan(1, reserved())
    world.effects = Effects(lose_answer_of=4)
    world.launch().run(batch)
    assert world.ec2.live()
    world.clock.advance(minutes=7)
    world.launch().run(batch)
    (claim,) = world.claims()
    (instance,) = world.ec2.live()
    assert claim.lease is not None
    assert (
        claim.lease.settled_at
        == claim.launched_at
        == instance.launched_at
        < world.clock.now() - timedelta(minutes=6)
    )
