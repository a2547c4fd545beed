"""No loop of the product runs without back-off: what goes on failing is tried more and more seldom.

Each test lets hours pass, minute by minute, in a world in which something never works, and counts what was tried. The
loops and their back-off are listed in docs/runbook.md.
"""

import copy
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lab.fakes.stores.safety import MemoryTallies
from lab.worlds.disrupt_world import DisruptWorld
from lab.worlds.launch_world import World, on_demand, reserved
from reservoir.core.launching.launch_outcome import LaunchErrorKind
from reservoir.core.model.node_claim import ClaimState, DrainReason, NodeClaim
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.policy import MinValuesPolicy, SchedulingPolicy
from reservoir.core.model.workload import Gang
from reservoir.core.safety.endings import EndingKind
from reservoir.core.safety.tally import Tally
from reservoir.ports.errors import RefusedError
from reservoir.ports.policy import PolicyKind
from reservoir.ports.state import ConflictError
from reservoir.usecases.claims.claim_moves import save_claim
from reservoir.usecases.launching.launch import LaunchResult
from reservoir.usecases.policy.stored_policy import StoredPolicy

BEST_EFFORT = SchedulingPolicy(min_values_policy=MinValuesPolicy.BEST_EFFORT)


def with_min_values(world: DisruptWorld, least: int) -> None:
    """Let the pool ask for so many instance types."""
    variety = {
        "key": "node.kubernetes.io/instance-type",
        "operator": "Exists",
        "minValues": least,
    }
    stored = world.store.get(PolicyKind.NODE_POOL, "gpu")
    assert stored is not None
    manifest: dict[str, Any] = copy.deepcopy(dict(stored.manifest))
    manifest["spec"]["template"]["spec"]["requirements"].append(variety)
    world.apply(manifest)


def failures(world: DisruptWorld) -> int:
    return len(world.bus.of("Launch Failed"))


def test_best_effort_launches_what_was_planned_and_says_what_it_gave_up() -> None:
    """Five types where there are four: Karpenter's BestEffort takes what there is (R-53)."""
    world = DisruptWorld("on-demand", policy=BEST_EFFORT)
    with_min_values(world, 5)
    world.submit("train", 1, cpus=1)
    world.plan_and_launch()
    (claim,) = world.live()
    assert (claim.state, len(world.ec2.launch_calls)) == (ClaimState.LAUNCHED, 1)
    assert claim.relaxed == ("minValues of node.kubernetes.io/instance-type: 4 of 5",)
    assert not world.bus.of("Launch Failed")
    launched_as = {
        override.instance_type
        for config in world.ec2.launch_calls[0].configs
        for override in config.overrides
    }
    assert len(launched_as) == 4


def test_strict_leaves_the_workload_waiting_and_asks_ec2_for_nothing() -> None:
    world = DisruptWorld("on-demand")
    with_min_values(world, 5)
    world.submit("train", 1, cpus=1)
    world.minutes(5)
    assert world.claims() == []
    assert world.bus.of("Workload Pending")[0]["reason"] == "MinValues"


class _OtherImages(StoredPolicy):
    """The launch function's view of the classes, which finds only images for Arm in them."""

    def node_class(self, name: str) -> NodeClass | None:
        found = super().node_class(name)
        if found is None:
            return None
        images = tuple(
            image for image in found.status.machine_images if image.architecture == "arm64"
        )
        return replace(found, status=replace(found.status, machine_images=images))


def test_what_fails_before_ec2_is_asked_rests_longer_each_time() -> None:
    """Planner and launch do not agree, by whatever mistake: here about the images that there are."""
    world = DisruptWorld("on-demand")
    world.policy = _OtherImages(world.store, world.clock)
    world.submit("train", 1, cpus=1)
    world.minutes(2 * 60)
    assert world.ec2.launch_calls == []
    # All offerings that could have served rest together: for 3, 6, 12, 24, 48 minutes.
    assert 4 <= failures(world) <= 6
    failed = world.bus.of("Launch Failed")[-1]
    assert "no AMI for the architecture" in failed["message"]
    assert failed["unavailableUntil"] is not None
    waiting = world.bus.of("Workload Pending")[-1]
    assert waiting["reason"] == "OfferingUnavailable"
    assert "the launch could not be requested" in waiting["message"]


@pytest.mark.parametrize(
    "kind",
    [
        LaunchErrorKind.RESERVATION_EXHAUSTED,
        LaunchErrorKind.UNSUPPORTED,
        LaunchErrorKind.QUOTA,
    ],
)
def test_a_reservation_that_refuses_what_it_shows_as_free_rests_longer_each_time(
    kind: LaunchErrorKind,
) -> None:
    world = DisruptWorld("reserved")
    world.add_reservation("cr-1", total_count=4)
    world.ec2.refusals[("p5.48xlarge", "use1-az1")] = kind
    world.submit("train", 1, gpus=8)
    world.minutes(2 * 60)
    assert 5 <= len(world.ec2.launch_calls) <= 10  # one a minute would be 120


def test_a_reservation_that_was_taken_once_is_used_within_a_minute() -> None:
    world = DisruptWorld("reserved")
    world.add_reservation("cr-1", total_count=4)
    world.ec2.refusals[("p5.48xlarge", "use1-az1")] = LaunchErrorKind.RESERVATION_EXHAUSTED
    world.submit("train", 1, gpus=8)
    world.plan_and_launch()
    world.ec2.refusals.clear()
    world.minutes(2)
    assert [claim.offering.reservation_id for claim in world.live()] == ["cr-1"]


def test_a_launch_that_cannot_be_asked_for_is_sent_again_after_longer_and_longer() -> None:
    world = DisruptWorld("on-demand")
    world.templates.refusal = RefusedError("LaunchTemplateLimit", "CreateLaunchTemplate")
    world.submit("train", 1, cpus=1)
    world.provision().run()
    (batch,) = world.queue.launches
    while world.launch().run(batch).result is LaunchResult.DELAYED:
        batch = world.queue.launches[-1]
        world.clock.advance(seconds=world.queue.delays_s[-1])
    told = zip(world.queue.delays_s, [0, 15, 30, 60, 120, *[150] * 5], strict=True)
    assert all(least_s <= delay_s <= least_s * 1.1 for delay_s, least_s in told)
    (claim,) = world.claims()
    assert (claim.state, claim.failure) == (
        ClaimState.FAILED,
        "no launch succeeded in time",
    )
    rests = world.state.offerings.list_unavailable(world.clock.now())
    assert set(rests) == {claim.offering, *claim.alternatives}


def test_a_launch_that_never_gets_through_is_planned_more_and_more_seldom() -> None:
    world = DisruptWorld("on-demand")
    world.templates.refusal = RefusedError("LaunchTemplateLimit", "CreateLaunchTemplate")
    world.submit("train", 1, cpus=1)
    world.minutes(2 * 60)
    # each takes a quarter of an hour, and then a rest: 3, 6, 12, 24 minutes
    assert failures(world) <= 5


# --- endings, races and listings


def test_what_ec2_refuses_to_end_is_asked_for_once_a_minute_in_one_call() -> None:
    world = World()
    world.add_workload(replicas=10)
    claims = world.running(3, on_demand("m5.large"))
    world.ec2.protected = {claim.instance_id or "" for claim in claims}
    for claim in claims:
        world.drain(claim, DrainReason.EXPIRED, world.clock.now())
    asked = len(world.ec2.terminate_calls)
    for _ in range(60):
        world.clock.advance(minutes=1)
        assert set(world.expire().run().refused) == world.ec2.protected
    assert len(world.ec2.terminate_calls) - asked == 60
    assert {len(call) for call in world.ec2.terminate_calls[asked:]} == {3}


def test_the_deadline_timer_is_not_set_again_for_what_ec2_refuses_to_end() -> None:
    world = World()
    world.add_workload(replicas=10)
    (claim,) = world.running(1, on_demand("m5.large"))
    world.ec2.protected = {claim.instance_id or ""}
    world.drain(claim, DrainReason.INTERRUPTION, world.clock.now() + timedelta(minutes=2))
    world.clock.advance(minutes=2)
    for _ in range(5):
        world.expire().run_deadlines()
    assert world.timers.deadline is None


@pytest.mark.parametrize("behind", [timedelta(), timedelta(minutes=4)])
def test_no_timer_is_set_again_for_what_it_has_just_fired_for_by_a_clock_that_is_behind(
    behind: timedelta,
) -> None:
    world = World()
    world.add_workload(replicas=10)
    end = world.clock.now() + timedelta(days=1)
    world.add_block(end)
    world.running(1, reserved("cr-block"))
    world.expire().run()
    (begins,) = world.timers.at.values()

    world.clock.set(begins - behind)
    world.timers.at.clear()
    assert world.expire().run_for("cr-block", begins).block_drain_count == 1
    assert world.timers.at == {}

    deadline = world.timers.deadline
    assert deadline is not None
    world.clock.set(deadline - behind)
    world.timers.deadline = None
    assert world.expire().run_deadlines(deadline).deadline_count == 1
    assert world.timers.deadline is None


def test_what_is_to_come_is_not_taken_for_a_clock_that_is_behind() -> None:
    world = World()
    world.add_workload(replicas=10)
    (claim,) = world.running(1, on_demand("m5.large"))
    deadline = world.clock.now() + timedelta(minutes=6)
    world.drain(claim, DrainReason.EXPIRED, deadline)
    assert world.expire().run_deadlines(deadline).deadline_count == 0
    assert len(world.ec2.live()) == 1


def test_who_goes_on_losing_a_race_gives_up_after_six_tries() -> None:
    world = World()
    world.add_workload(replicas=10)
    (claim,) = world.running(1, on_demand("m5.large"))
    tries: list[str] = []

    class AlwaysLost:
        def __getattr__(self, name: str) -> Any:
            return getattr(world.state.node_claims, name)

        def save(self, claim: NodeClaim, *, expected_revision: int) -> NodeClaim:
            del expected_revision
            tries.append(claim.id)
            raise ConflictError([claim.id])

    with pytest.raises(ConflictError):
        save_claim(
            AlwaysLost(),
            claim,
            lambda current: replace(current, unhealthy_since=world.clock.now()),
        )
    assert tries == [claim.id] * 6


def test_a_tally_that_others_keep_writing_lets_nothing_end() -> None:
    world = World()
    world.add_workload(replicas=10)
    (claim,) = world.running(1, on_demand("m5.large"))
    tries: list[int | None] = []

    class AlwaysWritten(MemoryTallies):
        def put(self, tally: Tally, *, expected_revision: int | None) -> None:
            tries.append(expected_revision)
            raise ConflictError([tally.kind])

    world.tallies = AlwaysWritten()
    admission = world.envelope().admit(EndingKind.EXPIRY, [claim.id], world.clock.now())
    assert admission.admitted == frozenset()
    assert len(tries) == 6


def test_a_listing_that_goes_on_lagging_is_read_three_times() -> None:
    """Where the replicas of a gang run matters to its plan; the list of claims may not show them yet."""
    world = DisruptWorld("on-demand")
    world.submit("gang", 3, cpus=1, gang=Gang())
    world.plan_and_launch()
    world.scale("gang", 4)
    readings: list[int] = []

    class Lagging:
        def __getattr__(self, name: str) -> Any:
            return getattr(world.state.node_claims, name)

        def list_live(self) -> tuple[NodeClaim, ...]:
            readings.append(1)
            return ()

    replace(world.gatherer(), node_claims=Lagging()).gather(world.clock.now())
    assert len(readings) == 3
