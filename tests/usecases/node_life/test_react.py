"""React: what events make of claims."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from lab.fakes.effects import Effects, Killed
from lab.worlds.launch_world import World, on_demand, reserved, spot
from reservoir.core.capacity.offerings import reservation_labels
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState, DrainReason, NodeClaim
from reservoir.core.node_life.drain import InstanceStatusPolicy, RebalancePolicy
from reservoir.core.node_life.notice import Notice, NoticeKind
from reservoir.core.scheduling_terms import labels
from reservoir.names import SPLIT_FROM_TAG
from reservoir.ports.errors import ThrottledError
from reservoir.runtime.composition.parts.draining import draining_from
from reservoir.usecases.node_life.node_life import NodeLife
from reservoir.usecases.node_life.react import React


def about(
    world: World, claim: NodeClaim, kind: NoticeKind, due_at: datetime | None = None
) -> Notice:
    assert claim.instance_id is not None
    return Notice(kind, world.clock.now(), (claim.instance_id,), due_at=due_at)


def test_running_is_believed_when_ec2_confirms_it(world: World) -> None:
    world.launch().run(world.plan(1, reserved()))
    claim = world.claims()[0]
    world.react().run([about(world, claim, NoticeKind.STATE_CHANGED)])
    assert world.now_of(claim).state is ClaimState.LAUNCHED  # EC2 still says pending
    world.ec2.start_all()
    world.react().run([about(world, claim, NoticeKind.STATE_CHANGED)])
    assert world.now_of(claim).state is ClaimState.RUNNING
    assert world.now_of(claim).running_at == world.clock.now()


def test_a_node_that_was_marked_is_ended_and_no_other_that_is_named(world: World) -> None:
    marked, other = world.running(2, reserved())
    asked: list[str] = []
    marks = SimpleNamespace(terminate=asked.extend)
    draining = replace(draining_from(world.outside()), terminator=cast("Any", marks))
    draining.terminate([marked], world.clock.now())
    assert world.now_of(marked).state is ClaimState.TERMINATING
    assert asked == [marked.instance_id]

    for _ in range(2):
        world.react().run(
            [about(world, claim, NoticeKind.NODES_ENDING) for claim in (marked, other)]
        )
    assert {*itertools.chain.from_iterable(world.ec2.terminate_calls)} == {
        marked.instance_id
    }
    assert world.now_of(other).state is ClaimState.RUNNING


def test_a_terminated_instance_returns_its_replicas_once(world: World) -> None:
    (claim,) = world.running(1, reserved())
    world.ec2.change(claim.instance_id or "", state="terminated")
    notice = about(world, claim, NoticeKind.STATE_CHANGED)
    world.react().run([notice, notice])
    world.react().run([notice])
    assert world.now_of(claim).state is ClaimState.TERMINATED
    assert world.placed() == 0
    assert len(world.bus.of("Node Terminated")) == 1
    assert world.queue.wake_ups


def test_late_and_reordered_events_never_move_a_claim_backwards(world: World) -> None:
    (claim,) = world.running(1, reserved())
    world.ec2.change(claim.instance_id or "", state="terminated")
    world.react().run([about(world, claim, NoticeKind.STATE_CHANGED)])
    world.ec2.change(claim.instance_id or "", state="running")  # a view that lags
    world.react().run([about(world, claim, NoticeKind.STATE_CHANGED)])
    assert world.now_of(claim).state is ClaimState.TERMINATED


def test_a_stopped_instance_is_terminated_and_replaced(world: World) -> None:
    (claim,) = world.running(1, reserved())
    world.ec2.change(claim.instance_id or "", state="stopped")
    world.react().run([about(world, claim, NoticeKind.STATE_CHANGED)])
    assert world.now_of(claim).state is ClaimState.TERMINATING
    assert world.ec2.terminate_calls == [(claim.instance_id,)]
    assert world.placed() == 0


def test_a_spot_warning_rests_the_offering_and_drains_for_two_minutes(world: World) -> None:
    (claim,) = world.running(1, spot("m5.large"))
    world.react().run([about(world, claim, NoticeKind.SPOT_INTERRUPTION)])
    drained = world.now_of(claim)
    assert drained.state is ClaimState.DRAINING
    assert drained.drain is not None
    assert drained.drain.reason is DrainReason.INTERRUPTION
    assert drained.drain.deadline == world.clock.now() + timedelta(minutes=2)
    # S-82
    assert spot("m5.large") in world.state.offerings.list_unavailable(world.clock.now())
    assert world.placed() == 0  # its replica is demand again, before the node is gone
    (event,) = world.bus.of("Node Draining")
    assert event["workloads"] == [{"namespace": "research", "name": "train", "replicas": 1}]


def test_a_spot_offering_rests_longer_each_time_that_it_is_interrupted(
    world: World,
) -> None:
    rests = []
    for number in range(3):
        (claim,) = world.running(1, spot("m5.large"), batch_id=f"b-{number}")
        world.react().run([about(world, claim, NoticeKind.SPOT_INTERRUPTION)])
        until = world.state.offerings.list_unavailable(world.clock.now())[
            spot("m5.large")
        ].until
        rests.append(until - world.clock.now())
        world.clock.advance(seconds=rests[-1].total_seconds() + 60)

    assert rests == [timedelta(minutes=3), timedelta(minutes=6), timedelta(minutes=12)]


def test_an_interruption_hours_after_the_last_counts_as_one_more(world: World) -> None:
    rests = []
    for number, later_h in enumerate((1, 5, 8, 0)):
        (claim,) = world.running(1, spot("m5.large"), batch_id=f"b-{number}")
        world.react().run([about(world, claim, NoticeKind.SPOT_INTERRUPTION)])
        now = world.clock.now()
        rests.append(
            world.state.offerings.list_unavailable(now)[spot("m5.large")].until - now
        )
        world.clock.advance(hours=later_h)

    assert rests == [timedelta(minutes=minutes) for minutes in (3, 6, 12, 3)]


def test_a_node_that_ec2_does_not_show_yet_is_warned_all_the_same(world: World) -> None:
    (claim,) = world.running(1, spot("m5.large"))
    unseen = cast("Any", SimpleNamespace(get_many=lambda _ids: {}))
    replace(world.react(), instances=unseen).run(
        [about(world, claim, NoticeKind.SPOT_INTERRUPTION)]
    )
    assert world.now_of(claim).state is ClaimState.DRAINING
    assert spot("m5.large") in world.state.offerings.list_unavailable(world.clock.now())


def test_maintenance_of_a_node_that_ec2_does_not_show_waits_until_it_does(
    world: World,
) -> None:
    (claim,) = world.running(1, reserved())
    unseen = cast("Any", SimpleNamespace(get_many=lambda _ids: {}))
    replace(world.react(), instances=unseen).run(
        [about(world, claim, NoticeKind.SCHEDULED_CHANGE)]
    )
    assert world.now_of(claim).state is ClaimState.RUNNING


def test_a_forged_spot_warning_about_an_on_demand_instance_changes_nothing(
    world: World,
) -> None:
    (claim,) = world.running(1, on_demand("m5.large"))
    world.react().run([about(world, claim, NoticeKind.SPOT_INTERRUPTION)])
    assert world.now_of(claim).state is ClaimState.RUNNING
    assert not world.state.offerings.list_unavailable(world.clock.now())


def test_a_reservation_warning_zeroes_that_reservation_and_drains(world: World) -> None:
    world.add_reservation(
        "cr-int", kind=ReservationKind.INTERRUPTIBLE, total_count=10, available_count=10
    )
    (claim,) = world.running(1, reserved("cr-int"))
    world.clock.advance(seconds=5)
    due_at = world.clock.now() + timedelta(seconds=110)
    world.react().run([about(world, claim, NoticeKind.RESERVATION_INTERRUPTION, due_at)])
    drain = world.now_of(claim).drain
    assert drain is not None
    assert drain.deadline == due_at
    assert world.free_units("cr-int") <= 0  # S-83
    assert world.free_units("cr-1") == 4


@pytest.mark.parametrize(("minutes", "drains"), [(50, True), (7 * 24 * 60, False)])
def test_maintenance_that_is_near_drains_at_once_and_what_is_far_is_left_to_the_sweep(
    world: World, minutes: int, *, drains: bool
) -> None:
    (claim,) = world.running(1, reserved())
    due_at = world.clock.now() + timedelta(minutes=minutes)
    world.react().run([about(world, claim, NoticeKind.SCHEDULED_CHANGE, due_at)])
    drain = world.now_of(claim).drain
    assert (drain is not None) is drains
    assert drain is None or drain.deadline == due_at


@pytest.mark.parametrize(
    ("policy", "state"),
    [
        (RebalancePolicy.IGNORE, ClaimState.RUNNING),
        (RebalancePolicy.LAUNCH_BEFORE_DRAIN, ClaimState.DRAINING),
    ],
)
def test_rebalance_recommendations_follow_the_policy(
    world: World, policy: RebalancePolicy, state: ClaimState
) -> None:
    (claim,) = world.running(1, spot("m5.large"))
    world.react(policy).run([about(world, claim, NoticeKind.REBALANCE)])
    assert world.now_of(claim).state is state
    rests = spot("m5.large") in world.state.offerings.list_unavailable(world.clock.now())
    assert rests is (policy is RebalancePolicy.LAUNCH_BEFORE_DRAIN)


def test_a_warning_that_arrives_too_late_is_dropped(world: World) -> None:
    (claim,) = world.running(1, spot("m5.large"))
    notice = about(world, claim, NoticeKind.SPOT_INTERRUPTION)
    world.clock.advance(minutes=16)
    world.react().run([notice])
    assert world.now_of(claim).state is ClaimState.RUNNING


def test_instances_of_others_are_counted_and_left_alone(world: World) -> None:
    report = world.react().run(
        [Notice(NoticeKind.SPOT_INTERRUPTION, world.clock.now(), ("i-00000000ffffffff0",))]
    )
    assert report.foreign_count == 1
    assert world.ec2.describe_count == 1


def test_a_message_of_our_own_finds_a_reservation_that_begins_without_event_or_timer(
    world: World,
) -> None:
    start = world.clock.now() + timedelta(seconds=30)
    world.add_reservation(
        "cr-new", state="scheduled", start_at=start, total_count=0, available_count=0
    )
    due = Notice(NoticeKind.RESERVATION_DUE, world.clock.now(), reservation_ids=("cr-new",))
    world.clock.set(start)
    assert world.react().run([due]).started_count == 0
    # EC2 is late
    assert world.start_messages.starts == {"cr-new": start + timedelta(seconds=3)}
    begun = replace(
        world.ec2.reservations["cr-new"], state="active", total_count=4, available_count=4
    )
    world.ec2.reservations["cr-new"] = begun
    world.clock.advance(seconds=3)
    world.queue.wake_ups.clear()
    assert world.react().run([due, due]).started_count == 1
    assert world.free_units("cr-new") == 4
    assert world.queue.wake_ups == ["reservation started"]
    assert world.timers.starts == {}


def test_a_reservation_that_never_begins_is_asked_about_eight_times(world: World) -> None:
    start = world.clock.now()
    world.add_reservation(
        "cr-new", state="scheduled", start_at=start, total_count=0, available_count=0
    )
    sent: list[datetime] = []
    world.start_messages.starts["cr-new"] = start
    while world.start_messages.starts:
        world.clock.set(world.start_messages.starts.pop("cr-new"))
        due = Notice(
            NoticeKind.RESERVATION_DUE, world.clock.now(), reservation_ids=("cr-new",)
        )
        world.react().run([due])
        sent += world.start_messages.starts.values()
    assert [(at - start).total_seconds() for at in sent] == [3, 6, 12, 24, 48, 96, 192, 384]


def test_a_batch_is_through_although_starts_cannot_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = world.clock.now()
    world.add_reservation(
        "cr-new", state="scheduled", start_at=start, total_count=0, available_count=0
    )
    (claim,) = world.running(1, spot("m5.large"))

    def refused() -> NoReturn:
        raise ThrottledError("RequestLimitExceeded", "DescribeCapacityReservations")

    monkeypatch.setattr(world.ec2, "list_visible", refused)
    due = Notice(NoticeKind.RESERVATION_DUE, world.clock.now(), reservation_ids=("cr-new",))
    assert (
        world.react()
        .run([due, about(world, claim, NoticeKind.SPOT_INTERRUPTION)])
        .unread_count
        == 1
    )
    assert world.now_of(claim).state is ClaimState.DRAINING


class Lookups:
    """Claims, counting what is looked up by instance; dies after part of a batch was written when it is told to."""

    def __init__(self, world: World, *, dies: bool = False) -> None:
        self._claims = world.state.node_claims
        self._dies = dies
        self.by_instance: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._claims, name)

    def find_by_instance(self, instance_ids: Collection[str]) -> Mapping[str, NodeClaim]:
        self.by_instance += sorted(instance_ids)
        return self._claims.find_by_instance(instance_ids)

    def return_many(
        self, claims: Sequence[NodeClaim], *, returned_at: datetime
    ) -> Mapping[str, NodeClaim]:
        written = self._claims.return_many(
            claims[: len(claims) // 2 if self._dies else None], returned_at=returned_at
        )
        if self._dies:
            raise Killed("half of a batch was written")
        return written


def test_claims_are_read_by_the_tags_of_their_instances(world: World) -> None:
    tagged, untagged, lying = world.running(3, spot("m5.large"))
    world.ec2.change(untagged.instance_id or "", claim_id=None)
    world.ec2.change(lying.instance_id or "", claim_id=tagged.id)
    lookups = Lookups(world)
    react = replace(world.react(), claims=cast("Any", lookups))
    warned = (tagged, untagged, lying)
    report = react.run(
        [about(world, claim, NoticeKind.SPOT_INTERRUPTION) for claim in warned]
    )
    assert [world.now_of(claim).state for claim in warned] == [ClaimState.DRAINING] * 3
    assert (report.drained_count, report.foreign_count) == (3, 0)
    assert set(lookups.by_instance) == {untagged.instance_id, lying.instance_id}


def test_a_batch_that_dies_half_written_loses_and_doubles_nothing_when_it_comes_again(
    world: World,
) -> None:
    warned = [
        claim
        for n in range(4)
        for claim in world.running(10, spot("m5.large"), batch_id=f"b-{n}")
    ]
    gone, stopped, interrupted = warned[:10], warned[10:20], warned[20:]
    for claim in gone:
        world.ec2.change(claim.instance_id or "", state="terminated")
    for claim in stopped:
        world.ec2.change(claim.instance_id or "", state="stopped")
    notices = [about(world, claim, NoticeKind.STATE_CHANGED) for claim in (*gone, *stopped)]
    notices += [about(world, claim, NoticeKind.SPOT_INTERRUPTION) for claim in interrupted]
    dying = world.react()
    claims: Any = Lookups(world, dies=True)
    for _ in range(3):  # first among those that are gone, then further and further
        with pytest.raises(Killed):
            replace(
                dying,
                draining=replace(dying.draining, claims=claims),
                life=_with(dying, claims),
            ).run(notices)
    for _ in range(2):
        assert not world.react().run(notices).failed_instance_ids
    assert [world.now_of(claim).state for claim in gone] == [ClaimState.TERMINATED] * 10
    assert [world.now_of(claim).state for claim in stopped] == [ClaimState.TERMINATING] * 10
    assert [world.now_of(claim).state for claim in interrupted] == [
        ClaimState.DRAINING
    ] * 20
    assert world.placed() == 0
    told = {event["drainId"] for event in world.bus.of("Node Draining")}
    assert len(told) == 20
    assert {instance_id for call in world.ec2.terminate_calls for instance_id in call} == {
        claim.instance_id for claim in stopped
    }


def _with(react: React, claims: Any) -> NodeLife:
    return replace(
        react.life, claims=claims, draining=replace(react.life.draining, claims=claims)
    )


def test_a_reaction_says_for_whom_the_nodes_are(world: World) -> None:
    first, second = world.running(2, reserved(), correlation_ids={"research/train": "m-7"})
    (other,) = world.running(1, reserved(), batch_id="b-2")
    notices = [
        about(world, claim, NoticeKind.STATE_CHANGED) for claim in (first, second, other)
    ]
    assert world.react().run(notices).correlation_ids == ["m-7"]


def test_a_hundred_warnings_are_one_reading(world: World) -> None:
    world.add_reservation("cr-1", total_count=100, available_count=100)
    claims = [
        c for n in range(10) for c in world.running(10, spot("m5.large"), batch_id=f"b-{n}")
    ]
    before = world.ec2.describe_count
    world.react().run(
        [about(world, claim, NoticeKind.SPOT_INTERRUPTION) for claim in claims]
    )
    assert {world.now_of(claim).state for claim in claims} == {ClaimState.DRAINING}  # S-79
    assert world.ec2.describe_count - before == 1


def test_what_many_warnings_say_about_capacity_is_written_once_and_before_any_drain(
    world: World,
) -> None:
    world.add_reservation(
        "cr-int", kind=ReservationKind.INTERRUPTIBLE, total_count=10, available_count=10
    )
    bought = world.running(5, spot("m5.large"), batch_id="b-1")
    lent = world.running(5, reserved("cr-int"), batch_id="b-2")
    world.clock.advance(seconds=5)
    notices = [about(world, claim, NoticeKind.SPOT_INTERRUPTION) for claim in bought]
    notices += [about(world, claim, NoticeKind.RESERVATION_INTERRUPTION) for claim in lent]
    world.effects = Effects()
    world.react().run([*notices, *notices])
    assert world.effects.log[:4] == ["put", "mark_unavailable", "mark_exhausted", "publish"]
    assert (
        world.effects.log.count("mark_unavailable")
        + world.effects.log.count("mark_exhausted")
        == 2
    )
    assert {world.now_of(claim).state for claim in (*bought, *lent)} == {
        ClaimState.DRAINING
    }
    assert world.free_units("cr-int") <= 0
    assert spot("m5.large") in world.state.offerings.list_unavailable(world.clock.now())


def test_stopped_and_stuck_nodes_of_a_batch_are_terminated_in_one_call(
    world: World,
) -> None:
    (stopped,) = world.running(1, on_demand("m5.large"), batch_id="b-1")
    world.launch().run(world.plan(1, on_demand("m5.large"), batch_id="b-2"))
    stuck = world.claims()[1]
    world.clock.advance(minutes=16)
    world.ec2.change(stopped.instance_id or "", state="stopped")
    world.react().run(
        [about(world, claim, NoticeKind.STATE_CHANGED) for claim in (stopped, stuck)]
    )
    assert [world.now_of(claim).failure for claim in (stopped, stuck)] == [
        "InstanceStopped",
        "InstanceNeverStarted",
    ]
    assert len(world.ec2.terminate_calls) == 1
    assert world.ec2.live() == []


def several_that_go(world: World) -> tuple[list[NodeClaim], list[Notice]]:
    """Return nodes that are gone, stopped, and in maintenance at once, with the notices about them."""
    gone, stopped, due = claims = [
        c for n in range(3) for c in world.running(1, spot("m5.large"), batch_id=f"b-{n}")
    ]
    world.ec2.change(gone.instance_id or "", state="terminated")
    world.ec2.change(stopped.instance_id or "", state="stopped")
    notices = [about(world, claim, NoticeKind.STATE_CHANGED) for claim in (gone, stopped)]
    return claims, [
        *notices,
        about(world, due, NoticeKind.SCHEDULED_CHANGE, world.clock.now()),
    ]


def test_a_batch_ends_stopped_nodes_and_drains_that_are_over_in_one_call(
    world: World,
) -> None:
    (gone, stopped, due), notices = several_that_go(world)
    react = world.react()
    assert react.run(notices).drained_count == 1
    assert world.now_of(gone).state is ClaimState.TERMINATED
    assert [world.now_of(claim).state for claim in (stopped, due)] == [
        ClaimState.TERMINATING
    ] * 2
    assert world.ec2.terminate_calls == [
        tuple(sorted([stopped.instance_id or "", due.instance_id or ""]))
    ]
    react.run(notices)
    assert len(world.ec2.terminate_calls) == 1, "they are on their way"


def test_a_batch_that_fails_half_way_ends_what_it_committed_and_nothing_else(
    world: World,
) -> None:
    (_, stopped, due), notices = several_that_go(world)
    react = world.react()

    def throttled(*_: Any) -> NoReturn:
        raise ThrottledError("ThrottlingException", "GetItem")

    policy: Any = SimpleNamespace(node_pool=throttled)  # what drains are begun with
    with pytest.raises(ThrottledError):
        replace(react, draining=replace(react.draining, policy=policy)).run(notices)
    assert [world.now_of(it).state for it in (stopped, due)] == [
        ClaimState.TERMINATING,
        ClaimState.RUNNING,
    ]
    react.run(notices)
    assert world.ec2.terminate_calls == [(stopped.instance_id,), (due.instance_id,)]


def test_what_ec2_refuses_to_end_for_a_batch_the_sweep_asks_for_and_reports(
    world: World,
) -> None:
    (_, stopped, due), notices = several_that_go(world)
    world.ec2.protected.add(stopped.instance_id or "")
    world.react().run(notices)
    assert [world.now_of(claim).state for claim in (stopped, due)] == [
        ClaimState.TERMINATING
    ] * 2
    assert world.expire().run().refused == {stopped.instance_id: "OperationNotPermitted"}


def test_a_second_warning_shortens_the_drain_and_keeps_its_id(world: World) -> None:
    (claim,) = world.running(1, spot("m5.large"))
    world.drain(claim, DrainReason.CONSOLIDATION)
    world.react().run([about(world, claim, NoticeKind.SPOT_INTERRUPTION)])
    first, second = world.bus.of("Node Draining")
    assert first["drainId"] == second["drainId"]
    assert second["deadline"] < first["deadline"]
    assert world.placed() == 0  # and not less


def test_the_warning_that_a_block_expires_starts_its_drain(world: World) -> None:
    end = world.clock.now() + timedelta(days=1)
    world.add_block(end)
    (claim,) = world.running(1, reserved("cr-block"))
    world.clock.set(end - timedelta(minutes=40))
    notice = Notice(
        NoticeKind.RESERVATION_CHANGED, world.clock.now(), reservation_ids=("cr-block",)
    )
    world.react().run([notice])
    drain = world.now_of(claim).drain
    assert drain is not None
    assert drain.reason is DrainReason.CAPACITY_BLOCK_ENDING
    assert drain.deadline == end - timedelta(minutes=32)


def test_an_event_about_a_reservation_leaves_the_planner_to_discovery(world: World) -> None:
    """The same event wakes discovery; a pass before that has looked would only keep the useful one waiting."""
    world.queue.wake_ups.clear()
    world.react().run(
        [
            Notice(
                NoticeKind.RESERVATION_CHANGED, world.clock.now(), reservation_ids=("cr-1",)
            )
        ]
    )
    assert world.queue.wake_ups == []


def test_an_unused_reservation_is_passed_on_while_it_is_unused(world: World) -> None:
    notice = Notice(
        NoticeKind.RESERVATION_UNDERUTILIZED,
        world.clock.now(),
        reservation_ids=("cr-1", "cr-of-others"),
    )
    world.react().run([notice, notice])
    (event,) = world.bus.of("Reservation Idle")
    assert (event["capacityReservationId"], event["idleCount"], event["totalCount"]) == (
        "cr-1",
        4,
        4,
    )
    world.running(4, reserved())
    world.clock.advance(minutes=1)
    world.observe("cr-1")
    world.react().run([notice])
    assert len(world.bus.of("Reservation Idle")) == 1


def test_an_instance_whose_reservation_is_gone_becomes_on_demand_with_all_its_labels(
    world: World,
) -> None:
    (claim,) = world.running(1, reserved())
    world.ec2.change(claim.instance_id or "", capacity_reservation_id=None)
    world.expire().run()
    after = world.now_of(claim)
    assert after.offering == on_demand("p5.48xlarge")
    assert after.labels[labels.CAPACITY_TYPE] == "on-demand"
    # upstream forgets one
    assert not labels.RESERVATION_LABELS & after.labels.keys()
    assert after.price_atto_usd_per_hour == 98_320_000 * 10**12
    (event,) = world.bus.of("Node Capacity Type Changed")
    assert (event["previous"], event["previousCapacityReservationId"]) == (
        "reserved",
        "cr-1",
    )
    assert event["node"]["capacityType"] == "on-demand"


def test_an_instance_that_ec2_put_into_a_selected_reservation_is_promoted(
    world: World,
) -> None:
    (claim,) = world.running(1, on_demand("p5.48xlarge"))
    world.ec2.change(claim.instance_id or "", capacity_reservation_id="cr-1")
    world.expire().run()
    after = world.now_of(claim)
    assert after.offering == reserved()
    wanted = reservation_labels(world.state.reservation_rows["cr-1"].reservation)
    assert wanted.keys() <= after.labels.keys()
    assert after.labels[labels.CAPACITY_RESERVATION_ID] == "cr-1"
    assert after.labels[labels.CAPACITY_TYPE] == "reserved"
    assert 0 < after.price_atto_usd_per_hour < 10**12
    (event,) = world.bus.of("Node Capacity Type Changed")
    assert (event["previous"], event["node"]["priceMicroUsdPerHour"]) == ("on-demand", 0)


def test_a_node_that_ec2_moved_into_a_unit_split_off_for_it_is_told(world: World) -> None:
    world.add_reservation("cr-block", tags={SPLIT_FROM_TAG: "cr-1"})
    (claim,) = world.running(1, on_demand("p5.48xlarge"))
    world.ec2.change(claim.instance_id or "", capacity_reservation_id="cr-block")
    world.expire().run()
    (told,) = world.bus.of("Node Moved Into Reservation")
    assert told["node"]["capacityReservationId"] == "cr-block"
    assert told["previousPriceMicroUsdPerHour"] == 98_320_000
    assert told["splitFrom"] == "cr-1"
    assert [(it["name"], it["replicas"]) for it in told["workloads"]] == [("train", 1)]
    world.expire().run()
    assert len(world.bus.of("Node Moved Into Reservation")) == 1


def test_a_node_that_slides_or_is_demoted_has_not_moved_in(world: World) -> None:
    world.add_reservation("cr-block")
    slid, demoted = world.running(2, reserved())
    world.ec2.change(slid.instance_id or "", capacity_reservation_id="cr-block")
    world.ec2.change(demoted.instance_id or "", capacity_reservation_id=None)
    world.expire().run()
    assert len(world.bus.of("Node Capacity Type Changed")) == 2
    assert world.bus.of("Node Moved Into Reservation") == []


def test_an_instance_that_slides_within_a_group_keeps_its_price_and_changes_its_labels(
    world: World,
) -> None:
    world.add_reservation("cr-block")  # selected, and a plain reservation here
    (claim,) = world.running(1, reserved())
    world.expire().run()
    world.ec2.change(claim.instance_id or "", capacity_reservation_id="cr-block")
    world.expire().run()
    after = world.now_of(claim)
    assert after.offering == reserved("cr-block")
    assert after.labels[labels.CAPACITY_RESERVATION_ID] == "cr-block"
    assert after.drain_at is None
    (event,) = world.bus.of("Node Capacity Type Changed")
    assert (
        event["previousCapacityReservationId"],
        event["node"]["capacityReservationId"],
    ) == ("cr-1", "cr-block")


def test_an_instance_in_an_open_reservation_that_nobody_selected_stays_on_demand(
    world: World,
) -> None:
    (claim,) = world.running(1, on_demand("p5.48xlarge"))
    world.ec2.change(claim.instance_id or "", capacity_reservation_id="cr-of-somebody")
    world.expire().run()
    assert world.now_of(claim).offering == on_demand("p5.48xlarge")  # S-61
    assert world.bus.of("Node Capacity Type Changed") == []


def test_a_claim_keeps_the_reservation_that_its_class_stopped_selecting(
    world: World,
) -> None:
    (claim,) = world.running(1, reserved())
    node_class = world.policy.classes["default"]
    world.policy.classes["default"] = replace(
        node_class, status=replace(node_class.status, reservation_ids=())
    )
    world.expire().run()
    # S-70: unchanged while EC2 shows it; drift decides
    assert world.now_of(claim).offering == reserved()
    assert claim.offering.capacity_type is CapacityType.RESERVED


def test_a_unit_that_a_node_left_is_found_at_once(world: World) -> None:
    world.add_reservation("cr-full", total_count=1, available_count=1)
    world.clock.advance(seconds=1)
    (claim,) = world.running(1, reserved("cr-full"), batch_id="b-full")
    world.clock.advance(minutes=2)
    world.observe("cr-full")
    assert world.free_units("cr-full") == 0
    world.clock.advance(seconds=10)
    world.ec2.change(claim.instance_id or "", state="terminated")
    world.queue.wake_ups.clear()

    world.react().run(
        [Notice(NoticeKind.STATE_CHANGED, world.clock.now(), (claim.instance_id or "",))]
    )

    assert world.free_units("cr-full") == 1  # not only after the next minute's discovery
    assert "reserved units are free again" in world.queue.wake_ups


def test_a_reservation_is_read_again_when_its_node_has_ended_not_only_when_it_begins_to(
    world: World,
) -> None:
    """EC2 frees the unit of an instance only when it has terminated; its claim has ended by then."""
    read: list[set[str]] = []

    class Recording:
        def observe(self, reservation_ids: set[str], _: datetime) -> int:
            read.append(set(reservation_ids))
            return 0

    (claim,) = world.running(1, reserved())
    react = replace(world.react(), freed=Recording())  # type: ignore[arg-type] # a fake of the one call
    instance_id = claim.instance_id or ""
    for state in ("shutting-down", "terminated"):
        world.ec2.change(instance_id, state=state)
        react.run([Notice(NoticeKind.STATE_CHANGED, world.clock.now(), (instance_id,))])
    assert read == [{"cr-1"}, {"cr-1"}]


def test_without_an_answer_of_ec2_the_minutes_discovery_finds_freed_units(
    world: World,
) -> None:
    class Silent:
        def list_visible(self) -> NoReturn:
            raise ThrottledError("RequestLimitExceeded", "DescribeCapacityReservations")

    world.add_reservation("cr-full")
    units = replace(world.freed_units(), reader=Silent())  # type: ignore[arg-type] # a fake of the one call
    assert units.observe({"cr-full"}, world.clock.now()) == 0
    assert units.observe({"cr-unknown"}, world.clock.now()) == 0


def test_with_policy_report_maintenance_that_an_event_tells_of_touches_nothing(
    world: World,
) -> None:
    (claim,) = world.running(1, reserved())
    notice = about(
        world, claim, NoticeKind.SCHEDULED_CHANGE, world.clock.now() + timedelta(minutes=30)
    )

    world.react(instance_status=InstanceStatusPolicy.REPORT).run([notice])

    assert world.now_of(claim).state is ClaimState.RUNNING
    assert world.bus.of("Node Draining") == []
