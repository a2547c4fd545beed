"""The minute's sweep: block ends, deadlines, ages, nodes that never came up or fell ill."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from lab.fakes.effects import Effects, Killed
from lab.fakes.system import ManualClock
from lab.worlds.launch_world import World, on_demand, reserved, spot
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.node_claim import (
    ClaimState,
    DisruptionMark,
    DrainReason,
    NodeClaim,
)
from reservoir.core.model.node_pool import Budget, Disruption
from reservoir.core.node_life.drain import InstanceStatusPolicy
from reservoir.core.node_life.notice import Notice, NoticeKind
from reservoir.core.scheduling_terms.labels import DO_NOT_DISRUPT
from reservoir.ports.ec2 import InstanceHealth
from reservoir.ports.errors import AccessDeniedError, ThrottledError


@pytest.fixture
def end(world: World) -> datetime:
    end = world.clock.now() + timedelta(days=1)
    world.add_block(end)
    return end


def reasons(world: World) -> set[DrainReason]:
    return {claim.drain.reason for claim in world.claims() if claim.drain is not None}


@pytest.mark.parametrize(
    ("minutes", "drained"), [(39, True), (40, True), (41, False), (60, False)]
)
def test_a_block_drains_from_forty_minutes_before_its_end(
    world: World, end: datetime, minutes: int, drained: bool
) -> None:  # S-68
    world.running(2, reserved("cr-block"))
    world.clock.set(end - timedelta(minutes=minutes))
    report = world.expire().run()
    assert report.block_drain_count == (2 if drained else 0)
    assert report.block_drain_late_s == ((40 - minutes) * 60 if drained else None)
    assert ({c.state for c in world.claims()} == {ClaimState.DRAINING}) is drained


@pytest.mark.parametrize(("minutes", "drained"), [(70, True), (71, False)])
def test_an_ultra_server_drains_from_seventy_minutes_before(
    world: World, minutes: int, drained: bool
) -> None:
    end = world.clock.now() + timedelta(days=1)
    world.add_block(end, ultra_server=True)
    world.running(1, reserved("cr-block"))
    world.clock.set(end - timedelta(minutes=minutes))
    assert bool(world.expire().run().block_drain_count) is drained


def test_a_block_is_empty_before_ec2_begins_to_reclaim(world: World, end: datetime) -> None:
    world.running(2, reserved("cr-block"))
    world.clock.set(end - timedelta(minutes=40))
    while world.clock.now() < end - timedelta(minutes=30):
        world.expire().run()
        if not world.ec2.live():
            break
        world.clock.advance(minutes=1)
    assert world.ec2.live() == []
    assert world.clock.now() < end - timedelta(minutes=30)


def test_an_extension_moves_drain_and_timer_although_nothing_announced_it(
    world: World, end: datetime
) -> None:
    world.running(1, reserved("cr-block"))
    later = end + timedelta(days=1)
    world.ec2.reservations["cr-block"] = replace(
        world.ec2.reservations["cr-block"], end_at=later
    )
    # what was discovered still says the old end
    world.clock.set(end - timedelta(minutes=40))
    assert world.expire().run().block_drain_count == 0
    (claim,) = world.claims()
    assert (claim.drain_at, claim.drain_deadline) == (
        later - timedelta(minutes=40),
        later - timedelta(minutes=32),
    )
    assert world.timers.at == {"cr-block": later - timedelta(minutes=40)}


def test_a_claim_of_a_release_that_did_not_know_deadlines_gets_its_own(
    world: World, end: datetime
) -> None:
    (claim,) = world.running(1, reserved("cr-block"))
    world.state.claim_rows[claim.id] = replace(
        world.state.claim_rows[claim.id], drain_deadline=None
    )
    world.expire().run()
    assert world.claims()[0].drain_deadline == end - timedelta(minutes=32)


def test_within_a_block_the_workload_that_needs_more_notice_goes_first(
    world: World, end: datetime
) -> None:
    world.add_workload("slow", replicas=1, checkpoint_period_s=3600)
    world.running(1, reserved("cr-block"), batch_id="b-1")
    world.running(1, reserved("cr-block"), batch_id="b-2", workload="research/slow")
    first = end - timedelta(minutes=30 + 10 + 52)
    assert world.timers.at["cr-block"] == first
    world.clock.set(first)
    assert world.expire().run().block_drain_count == 1
    # the timer belongs to the next one now
    assert world.timers.at["cr-block"] == end - timedelta(minutes=40)
    slow = world.state.claim_rows["b-2-nc-0000"]
    assert slow.drain is not None
    assert slow.drain.deadline - slow.drain.notified_at == timedelta(hours=1)


def test_the_timer_is_right_whichever_batch_was_launched_last(
    world: World, end: datetime
) -> None:
    """A launch sets the block's timer for its own claims; shortly before the first drain the sweep puts that right."""
    world.add_workload("slow", replicas=1, checkpoint_period_s=3600)
    world.running(1, reserved("cr-block"), batch_id="b-1", workload="research/slow")
    world.running(1, reserved("cr-block"), batch_id="b-2")
    first = end - timedelta(minutes=30 + 10 + 52)
    assert world.timers.at["cr-block"] == end - timedelta(minutes=40)
    world.clock.set(first - timedelta(seconds=90))
    world.expire().run()
    assert world.timers.at["cr-block"] == first


def no_answer() -> tuple[CapacityReservation, ...]:
    raise ThrottledError("RequestLimitExceeded", "DescribeCapacityReservations")


def test_blocks_drain_by_what_was_discovered_when_ec2_does_not_answer(
    world: World, end: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.running(2, reserved("cr-block"))
    world.clock.set(end - timedelta(minutes=40))
    monkeypatch.setattr(world.ec2, "list_visible", no_answer)
    report = world.expire().run()
    assert (report.block_drain_count, report.unread_count) == (2, 1)


def test_drains_begin_before_timers_are_set(world: World, end: datetime) -> None:
    world.add_workload("slow", replicas=1, checkpoint_period_s=3600)
    world.running(1, reserved("cr-block"), batch_id="b-1")
    world.running(1, reserved("cr-block"), batch_id="b-2", workload="research/slow")
    world.clock.set(end - timedelta(minutes=80))
    # announced, saved, the planner was woken; then the function dies
    world.effects = Effects(kill_before=4)
    with pytest.raises(Killed, match="set_timer"):
        world.expire().run()
    assert world.state.claim_rows["b-2-nc-0000"].state is ClaimState.DRAINING
    world.effects = Effects()
    world.clock.set(end - timedelta(minutes=41))
    world.expire().run()
    assert world.timers.at["cr-block"] == end - timedelta(minutes=40)


def coming(world: World) -> datetime:
    """Let a reservation be known that begins in half an hour; the clock stands there."""
    start = world.clock.now() + timedelta(minutes=30)
    world.add_reservation(
        "cr-new", state="scheduled", start_at=start, total_count=0, available_count=0
    )
    return start


def test_a_reservation_that_begins_is_seen_without_its_event(world: World) -> None:
    start = coming(world)
    world.clock.set(start - timedelta(seconds=1))
    world.expire().run()
    assert world.timers.starts == {}
    world.clock.set(start)
    assert world.expire().run().started_count == 0
    # EC2 is late: look again soon
    assert world.timers.starts == {"cr-new": start + timedelta(seconds=3)}
    world.clock.set(start + timedelta(seconds=3))
    world.expire().run()
    assert world.timers.starts == {"cr-new": start + timedelta(seconds=6)}
    world.clock.set(start + timedelta(seconds=24))
    world.expire().run()
    # ever less often
    assert world.timers.starts == {"cr-new": start + timedelta(seconds=48)}
    begun = replace(
        world.ec2.reservations["cr-new"], state="active", total_count=4, available_count=4
    )
    world.ec2.reservations["cr-new"] = begun
    world.clock.advance(seconds=10)
    world.queue.wake_ups.clear()
    assert world.expire().run().started_count == 1
    assert world.free_units("cr-new") == 4
    assert world.queue.wake_ups == ["reservation started"]
    world.clock.advance(seconds=10)
    assert world.expire().run().started_count == 0


def test_a_sweep_sends_ahead_for_what_begins_before_the_next_one(world: World) -> None:
    start = coming(world)
    world.clock.set(start - timedelta(minutes=2))
    world.expire().run()
    assert world.start_messages.starts == {}
    world.clock.set(start - timedelta(minutes=1))
    world.expire().run()
    assert world.start_messages.starts == {"cr-new": start}
    assert world.timers.starts == {}  # discovery sets those, long before


def test_timers_of_blocks_that_end_together_each_drain_their_own_and_tell_of_it_once(
    world: World, end: datetime
) -> None:
    world.add_block(end, "cr-other")
    world.running(2, reserved("cr-block"), batch_id="b-1")
    world.running(1, reserved("cr-other"), batch_id="b-2")
    world.clock.set(end - timedelta(minutes=40))
    sweeps = []

    def another() -> None:
        world.effects = Effects()
        sweeps.append(world.expire().run_for("cr-other"))

    world.effects = Effects(before={1: another})  # just before the first one's announcement
    sweeps.append(world.expire().run_for("cr-block"))
    assert [sweep.block_drain_count for sweep in sweeps] == [1, 2]
    assert len(world.bus.of("Node Draining")) == 3
    assert {claim.state for claim in world.claims()} == {ClaimState.DRAINING}
    assert world.placed() == 0


def test_a_blocks_timer_moves_when_the_block_was_extended(
    world: World, end: datetime
) -> None:
    world.running(1, reserved("cr-block"))
    world.ec2.reservations["cr-block"] = replace(
        world.ec2.reservations["cr-block"], end_at=end + timedelta(days=1)
    )
    world.clock.set(end - timedelta(minutes=40))
    assert world.expire().run_for("cr-block").block_drain_count == 0
    assert world.timers.at == {"cr-block": end + timedelta(days=1) - timedelta(minutes=40)}


def test_a_start_timer_looks_at_its_own_reservation(world: World) -> None:
    start = coming(world)
    world.add_reservation(
        "cr-late", state="scheduled", start_at=start, total_count=0, available_count=0
    )
    begun = replace(
        world.ec2.reservations["cr-new"], state="active", total_count=4, available_count=4
    )
    world.ec2.reservations["cr-new"] = begun
    world.clock.set(start)
    assert world.expire().run_for("cr-unknown").started_count == 0
    assert world.expire().run_for("cr-new").started_count == 1
    assert (world.free_units("cr-new"), world.timers.starts) == (4, {})
    assert world.expire().run_for("cr-late").started_count == 0
    assert world.timers.starts == {"cr-late": start + timedelta(seconds=3)}


def test_a_sweep_is_through_although_starts_cannot_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.clock.set(coming(world))
    monkeypatch.setattr(world.ec2, "list_visible", no_answer)
    assert world.expire().run().unread_count == 1


def test_reservations_that_end_never_drain_their_nodes(world: World) -> None:
    soon = world.clock.now() + timedelta(minutes=1)
    world.ec2.reservations["cr-1"] = replace(world.ec2.reservations["cr-1"], end_at=soon)
    world.clock.advance(seconds=1)
    world.observe("cr-1")
    world.running(1, reserved("cr-1"))
    world.clock.advance(minutes=1)
    world.expire().run()
    assert world.claims()[0].state is ClaimState.RUNNING


def test_an_instance_that_never_comes_up_is_replaced(world: World) -> None:
    world.launch().run(world.plan(1, on_demand("m5.large")))
    world.clock.advance(minutes=15)
    world.expire().run()
    assert world.claims()[0].state is ClaimState.LAUNCHED
    world.clock.advance(minutes=1)
    world.expire().run()
    assert world.claims()[0].state is ClaimState.TERMINATING
    assert world.placed() == 0
    world.ec2.change(world.claims()[0].instance_id or "", state="terminated")
    world.expire().run()
    assert [event["reason"] for event in world.bus.of("Node Terminated")] == [
        "InstanceNeverStarted"
    ]


def test_work_of_a_node_that_never_started_is_planned_at_once(world: World) -> None:
    world.launch().run(world.plan(1, on_demand("m5.large")))
    world.clock.advance(minutes=16)
    world.queue.wake_ups.clear()
    assert world.expire().run().stuck_count == 1
    assert world.queue.wake_ups == ["node ended"]
    world.expire().run()
    # EC2 is asked again; who was on it waits already
    assert world.queue.wake_ups == ["node ended"]


def test_an_instance_that_ec2_does_not_show_yet_is_waited_for(world: World) -> None:
    world.launch().run(world.plan(1, on_demand("m5.large")))
    world.ec2.forget(world.claims()[0].instance_id or "")
    world.clock.advance(minutes=4)
    world.expire().run()
    assert world.claims()[0].state is ClaimState.LAUNCHED
    world.clock.advance(minutes=2)
    world.expire().run()
    assert world.claims()[0].state is ClaimState.TERMINATED
    assert world.placed() == 0


def test_failed_checks_count_after_two_minutes(world: World) -> None:
    (claim,) = world.running(1, on_demand("m5.large"))
    world.ec2.unhealthy = [
        InstanceHealth(claim.instance_id or "", impaired_since=world.clock.now())
    ]
    world.clock.advance(seconds=119)
    world.expire().run()
    assert world.claims()[0].state is ClaimState.RUNNING
    world.clock.advance(seconds=1)
    world.expire().run()
    assert reasons(world) == {DrainReason.UNHEALTHY}
    assert world.ec2.live() == []  # it does not wait for a machine that is broken


# S-85
def test_with_policy_report_each_episode_is_counted_once_and_nothing_is_touched(
    world: World,
) -> None:
    (claim,) = world.running(1, on_demand("m5.large"))

    def sweep() -> int:
        world.clock.advance(minutes=1)
        return world.expire(InstanceStatusPolicy.REPORT).run().unhealthy_count

    world.ec2.unhealthy = [
        InstanceHealth(claim.instance_id or "", impaired_since=world.clock.now())
    ]
    assert [sweep(), sweep(), sweep()] == [0, 1, 0]  # after two minutes, and once
    world.ec2.unhealthy = []
    assert sweep() == 0
    world.ec2.unhealthy = [
        InstanceHealth(claim.instance_id or "", impaired_since=world.clock.now())
    ]
    assert [sweep(), sweep(), sweep()] == [0, 1, 0]  # a relapse is another episode
    assert world.claims()[0].state is ClaimState.RUNNING
    assert world.bus.of("Node Draining") == []


def test_two_sweeps_at_once_count_an_episode_once(world: World) -> None:
    (claim,) = world.running(1, on_demand("m5.large"))
    world.ec2.unhealthy = [
        InstanceHealth(claim.instance_id or "", impaired_since=world.clock.now())
    ]
    world.clock.advance(minutes=3)
    inner: list[int] = []

    def another() -> None:
        world.effects = Effects()
        inner.append(world.expire(InstanceStatusPolicy.REPORT).run().unhealthy_count)

    world.effects = Effects(before={1: another})  # just before the first one's write
    outer = world.expire(InstanceStatusPolicy.REPORT).run().unhealthy_count
    assert (outer, inner) == (0, [1])


def test_planned_maintenance_is_found_without_its_event(world: World) -> None:
    (claim,) = world.running(1, on_demand("m5.large"))
    soon = world.clock.now() + timedelta(days=3)
    health = InstanceHealth(
        claim.instance_id or "",
        scheduled_event_code="instance-retirement",
        scheduled_at=soon,
    )
    world.ec2.unhealthy = [health]
    world.expire().run()
    assert reasons(world) == {DrainReason.SCHEDULED_CHANGE}


def maintained(world: World, claim: NodeClaim, begins_at: datetime) -> None:
    world.ec2.unhealthy = [
        InstanceHealth(claim.instance_id or "", None, "instance-retirement", begins_at)
    ]
    world.expire().run()


@pytest.mark.parametrize(
    ("terms", "is_kept", "stays_until"),
    [
        ({"do_not_disrupt": True}, False, timedelta(days=21, hours=-1)),
        (
            {"do_not_disrupt": True, "checkpoint_period_s": 3600},
            False,
            timedelta(days=21, hours=-2),
        ),
        ({"duration_s": 7200}, False, timedelta(days=21, hours=-1)),
        ({"duration_s": 30 * 86_400}, False, timedelta()),  # it would not be through
        ({}, True, timedelta(days=21, hours=-1)),
        ({}, False, timedelta()),
    ],
)
def test_maintenance_weeks_ahead_waits_for_work_that_bears_no_interruption_or_ends_by_itself(
    world: World, terms: dict[str, Any], *, is_kept: bool, stays_until: timedelta
) -> None:
    world.add_workload("job", replicas=1, **terms)
    world.policy.pools["gpu"] = replace(
        world.pool, annotations={DO_NOT_DISRUPT: "true"} if is_kept else {}
    )
    (claim,) = world.running(1, on_demand("m5.large"), workload="research/job")
    found_at = world.clock.now()
    begins_at = found_at + timedelta(days=21)
    maintained(world, claim, begins_at)
    assert (world.now_of(claim).drain is None) is bool(stays_until)
    if stays_until:
        assert world.now_of(claim).cordoned, "new replicas would have to move again"
        world.clock.set(found_at + stays_until - timedelta(minutes=1))
        maintained(world, claim, begins_at)
        assert world.now_of(claim).drain is None
    world.clock.set(found_at + stays_until)
    maintained(world, claim, begins_at)
    assert reasons(world) == {DrainReason.SCHEDULED_CHANGE}


def test_a_node_takes_replicas_again_when_its_maintenance_is_called_off(
    world: World,
) -> None:
    world.add_workload("job", replicas=1, do_not_disrupt=True)
    (claim,) = world.running(1, on_demand("m5.large"), workload="research/job")
    maintained(world, claim, world.clock.now() + timedelta(days=21))
    world.ec2.unhealthy = []
    world.expire().run()
    again = world.now_of(claim)
    assert (again.cordoned, again.drain, [each.verb for each in again.operations]) == (
        False,
        None,
        ["cordon", "uncordon"],
    )


def test_old_nodes_go_a_budget_at_a_time(world: World) -> None:
    world.policy.pools["gpu"] = replace(
        world.pool, expire_after_s=3600, disruption=Disruption(budgets=(Budget(nodes="2"),))
    )
    world.running(5, on_demand("m5.large"))
    world.clock.advance(hours=1)
    assert world.expire().run().aged_count == 2
    assert world.expire().run().aged_count == 0  # two are on their way already
    world.clock.advance(minutes=15)
    world.expire().run()
    for instance in world.ec2.all():
        if instance.is_gone:
            world.ec2.change(instance.id, state="terminated")
    assert world.expire().run().aged_count == 0  # this sweep still saw them going
    assert world.expire().run().aged_count == 2
    assert reasons(world) == {DrainReason.EXPIRED}


def test_nodes_that_are_being_replaced_use_the_budget_of_old_ones_up(world: World) -> None:
    disruption = Disruption(budgets=(Budget(nodes="1"),))
    world.policy.pools["gpu"] = replace(
        world.pool, expire_after_s=3600, disruption=disruption
    )
    marked, _ = world.running(2, on_demand("m5.large"))
    mark = DisruptionMark("c-1", DrainReason.DRIFT, world.clock.now(), 1)
    world.state.claim_rows[marked.id] = replace(marked, disruption=mark)
    world.clock.advance(hours=1)
    # the marked one is old, too, but its replacement is on its way
    assert world.expire().run().aged_count == 0
    world.state.claim_rows[marked.id] = marked
    assert world.expire().run().aged_count == 1


def test_a_slot_that_is_being_refilled_uses_the_budget_of_old_nodes_up(
    world: World,
) -> None:
    disruption = Disruption(budgets=(Budget(nodes="1"),))
    world.policy.pools["gpu"] = replace(
        world.pool, expire_after_s=3600, disruption=disruption
    )
    old, filling = world.running(2, on_demand("m5.large"))
    filling = replace(
        filling,
        state=ClaimState.PLANNED,
        instance_id=None,
        replaces=("nc-gone",),
        waits_for_slot=True,
    )
    world.state.claim_rows[filling.id] = filling
    world.clock.advance(hours=1)
    assert world.expire().run().aged_count == 0
    assert world.state.claim_rows[old.id].state is ClaimState.RUNNING


def test_nodes_that_this_sweep_drains_for_their_health_use_the_budget_of_old_ones_up(
    world: World,
) -> None:
    disruption = Disruption(budgets=(Budget(nodes="1"),))
    world.policy.pools["gpu"] = replace(
        world.pool, expire_after_s=3600, disruption=disruption
    )
    old, ill = world.running(2, on_demand("m5.large"))
    world.clock.advance(hours=1)
    impaired_since = world.clock.now() - timedelta(minutes=3)
    world.ec2.unhealthy = [
        InstanceHealth(ill.instance_id or "", impaired_since=impaired_since)
    ]
    report = world.expire().run()
    assert (report.unhealthy_count, report.aged_count) == (1, 0)
    assert world.state.claim_rows[old.id].state is ClaimState.RUNNING


@pytest.mark.parametrize("policy", list(InstanceStatusPolicy))
def test_nodes_grow_old_and_episodes_stay_where_ec2_does_not_say_who_is_ill(
    world: World, monkeypatch: pytest.MonkeyPatch, policy: InstanceStatusPolicy
) -> None:
    disruption = Disruption(budgets=(Budget(nodes="1"),))
    world.policy.pools["gpu"] = replace(
        world.pool, expire_after_s=3600, disruption=disruption
    )
    old, ill = world.running(2, on_demand("m5.large"))
    world.state.claim_rows[ill.id] = replace(
        world.state.claim_rows[ill.id], unhealthy_since=world.clock.now()
    )
    world.clock.advance(hours=1)

    def denied() -> None:
        raise AccessDeniedError("UnauthorizedOperation", "DescribeInstanceStatus")

    monkeypatch.setattr(world.ec2, "list_unhealthy", denied)
    report = replace(world.expire(), instance_status=policy).run()
    assert (report.health_unread_count, report.unhealthy_count, report.aged_count) == (
        1,
        0,
        1,
    )
    assert world.state.claim_rows[old.id].state is ClaimState.DRAINING
    assert world.state.claim_rows[ill.id].unhealthy_since is not None


def test_a_pool_that_never_expires_is_left_alone(world: World) -> None:
    world.policy.pools["gpu"] = replace(world.pool, expire_after_s=None)
    world.running(1, on_demand("m5.large"))
    world.clock.advance(days=400)
    assert world.expire().run().aged_count == 0


def test_the_sweep_finds_what_lost_events_would_have_told(world: World) -> None:
    claims = world.running(3, on_demand("m5.large"))
    world.ec2.change(claims[0].instance_id or "", state="terminated")
    world.ec2.change(claims[1].instance_id or "", state="stopping")
    world.expire().run()
    states = [world.state.claim_rows[claim.id].state for claim in claims]
    assert states == [ClaimState.TERMINATED, ClaimState.TERMINATING, ClaimState.RUNNING]
    assert world.placed() == 1


def test_a_terminate_that_did_not_happen_is_asked_again(world: World) -> None:
    (claim,) = world.running(1, on_demand("m5.large"))
    world.state.claim_rows[claim.id] = replace(
        claim, state=ClaimState.TERMINATING, placements=()
    )
    world.expire().run()
    assert world.ec2.live() == []


def test_a_quiet_sweep_writes_nothing(world: World) -> None:
    world.running(10, on_demand("m5.large"))
    before = world.state.write_count
    world.expire().run()
    assert world.state.write_count == before


def test_the_deadline_of_a_drain_has_an_exact_timer_that_ends_it_without_a_sweep(
    world: World, end: datetime
) -> None:
    world.running(2, reserved("cr-block"))
    world.clock.set(end - timedelta(minutes=40))
    # the timer of the drain's start; no sweep runs from here on
    world.expire().run_for("cr-block")
    deadline = end - timedelta(minutes=32)
    assert world.timers.deadline == deadline

    world.clock.set(deadline)
    report = world.expire().run_deadlines()

    assert report.deadline_count == 2
    assert world.ec2.live() == []


def test_the_deadline_that_an_event_brought_has_its_exact_timer_from_the_next_sweep_on(
    world: World,
) -> None:
    (claim,) = world.running(1, spot("m5.large"))
    told_at = world.clock.now()
    world.react().run(
        [Notice(NoticeKind.SPOT_INTERRUPTION, told_at, (claim.instance_id or "",))]
    )
    world.clock.advance(seconds=40)
    world.expire().run()
    assert world.timers.deadline == told_at + timedelta(minutes=2)

    world.clock.set(told_at + timedelta(minutes=2))
    world.expire().run_deadlines()

    assert world.ec2.live() == []


def test_the_timer_goes_from_one_deadline_to_the_next(world: World) -> None:
    (first,) = world.running(1, on_demand("m5.large"), batch_id="b-1")
    (second,) = world.running(1, on_demand("m5.large"), batch_id="b-2")
    soon, later = (world.clock.now() + timedelta(minutes=minutes) for minutes in (5, 9))
    world.drain(first, DrainReason.SCHEDULED_CHANGE, soon)
    world.drain(second, DrainReason.SCHEDULED_CHANGE, later)
    world.expire().run()
    assert world.timers.deadline == soon

    world.clock.set(soon)
    world.expire().run_deadlines()

    assert world.timers.deadline == later
    assert [claim.state for claim in world.claims()] == [
        ClaimState.TERMINATING,
        ClaimState.DRAINING,
    ]


def test_a_node_that_fails_while_it_drains_for_maintenance_goes_at_once(
    world: World,
) -> None:
    (claim,) = world.running(1, on_demand("m5.large"))
    retired_at = world.clock.now() + timedelta(days=3)
    health = InstanceHealth(
        claim.instance_id or "",
        scheduled_event_code="instance-retirement",
        scheduled_at=retired_at,
    )
    world.ec2.unhealthy = [health]
    world.expire().run()
    assert reasons(world) == {DrainReason.SCHEDULED_CHANGE}

    world.ec2.unhealthy = [
        InstanceHealth(claim.instance_id or "", impaired_since=world.clock.now())
    ]
    world.clock.advance(minutes=2)
    world.expire().run()

    assert reasons(world) == {DrainReason.UNHEALTHY}
    assert world.ec2.live() == []
    first, second = world.bus.of("Node Draining")
    assert first["drainId"] == second["drainId"]


def test_a_blocks_end_hurries_a_drain_whose_deadline_is_later(
    world: World, end: datetime
) -> None:
    world.add_workload("slow", replicas=1, checkpoint_period_s=3600)
    (claim,) = world.running(1, reserved("cr-block"), workload="research/slow")
    world.clock.set(end - timedelta(minutes=60))
    world.drain(claim, DrainReason.DRIFT)  # an hour of grace: until the block's end

    world.clock.set(end - timedelta(minutes=40))
    counts = [world.expire().run().block_drain_count for _ in range(2)]

    assert counts == [1, 0]  # and once only
    drained = world.claims()[0].drain
    assert drained is not None
    assert (drained.reason, drained.deadline) == (
        DrainReason.CAPACITY_BLOCK_ENDING,
        end - timedelta(minutes=32),
    )


def test_later_maintenance_does_not_cut_a_checkpoint_short(world: World) -> None:
    world.add_workload("slow", replicas=1, checkpoint_period_s=3600)
    (claim,) = world.running(1, on_demand("m5.large"), workload="research/slow")
    world.drain(claim, DrainReason.DRIFT)
    promised = world.claims()[0].drain
    assert promised is not None

    in_a_week = world.clock.now() + timedelta(days=7)
    world.ec2.unhealthy = [
        InstanceHealth(
            claim.instance_id or "",
            scheduled_event_code="system-reboot",
            scheduled_at=in_a_week,
        )
    ]
    world.expire().run()

    assert world.claims()[0].drain == promised


class HeldUpClock(ManualClock):
    """Moves on once it has been looked at: whoever looked was held up."""

    def __init__(self, now: datetime, held_up_for: timedelta) -> None:
        super().__init__(now)
        self._held_up_for = held_up_for

    def now(self) -> datetime:
        looked_at = super().now()
        self.set(looked_at + self._held_up_for)
        self._held_up_for = timedelta()
        return looked_at


def test_a_sweep_that_was_held_up_announces_no_deadline_that_has_passed(
    world: World, end: datetime
) -> None:
    world.running(1, reserved("cr-block"))
    world.clock.set(end - timedelta(minutes=40))
    world.clock = HeldUpClock(world.clock.now(), timedelta(minutes=20))

    world.expire().run()

    (notice,) = world.bus.of("Node Draining")
    assert datetime.fromisoformat(notice["deadline"]) >= end - timedelta(minutes=20)
