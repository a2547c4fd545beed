"""Every point between two effects: kill the function there, repeat it, and nothing is launched or returned twice.

The effects (AWS calls and commits) of a scenario are counted in a run that nothing disturbs. Then the scenario is run
once for each of them and each kind of mishap, and what must hold is checked after recovery. ``-s`` prints the counts.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

import pytest

from lab.fakes.effects import Effects, Killed, mishaps
from lab.worlds.launch_world import World, on_demand, reserved, spot
from reservoir.core.capacity.shortage import Shortage
from reservoir.core.launching.launch_outcome import LaunchError, LaunchErrorKind
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import OPEN_LEASE_STATES, ClaimState, DrainReason
from reservoir.core.node_life.notice import Notice, NoticeKind
from reservoir.ports.errors import TransientError
from reservoir.ports.messaging import LaunchBatch
from reservoir.usecases.discovery.observe_reservation import ReservationObserver
from tests.conftest import Cover

REPLICAS = 12
Prepare = Callable[[World], list[LaunchBatch]]


@dataclass(frozen=True)
class Scenario:
    """``prepare`` plans batches; the launches of all of them are the run under test."""

    prepare: Prepare
    instances: int  # that must exist in the end, however often the run was killed
    # that were launched and ended again, because their gang did not come whole
    undone: int = 0


def _reserved(world: World) -> list[LaunchBatch]:
    return [world.plan(3, reserved())]


def _outsider(world: World) -> list[LaunchBatch]:
    batch = world.plan(4, reserved())
    world.ec2.reservations["cr-1"] = replace(world.ec2.reservations["cr-1"], total_count=2)
    return [batch]


def _block(world: World) -> list[LaunchBatch]:
    world.add_block(world.clock.now() + timedelta(days=1))
    return [world.plan(2, reserved("cr-block"))]


def _mixed(world: World) -> list[LaunchBatch]:
    world.ec2.pool_sizes[("m5.large", "use1-az1", CapacityType.SPOT)] = 1
    return [
        world.plan(2, spot("m5.large"), spot("m5.xlarge", 1), batch_id="b-1"),
        world.plan(2, reserved(), batch_id="b-2"),
        world.plan(1, on_demand("m5.large"), batch_id="b-3"),
    ]


def _shortage(world: World) -> list[LaunchBatch]:
    world.ec2.pool_sizes[("m5.large", "use1-az1", CapacityType.ON_DEMAND)] = 1
    return [world.plan(3, on_demand("m5.large"))]


def _configuration(world: World) -> list[LaunchBatch]:
    world.ec2.refusals[("m5.large", "use1-az1")] = LaunchErrorKind.CONFIGURATION
    return [world.plan(2, on_demand("m5.large"))]


def _quota(world: World) -> list[LaunchBatch]:
    world.ec2.refusals[("m5.large", "use1-az1")] = LaunchErrorKind.QUOTA
    return [
        world.plan(2, on_demand("m5.large"), batch_id="b-1"),
        world.plan(1, spot("m6g.large", 1), batch_id="b-2"),  # another market: it goes on
    ]


def _template_deleted(world: World) -> list[LaunchBatch]:
    world.ec2.whole_refusals = [
        LaunchError(LaunchErrorKind.TEMPLATE_MISSING, "InvalidLaunchTemplateId.NotFound")
    ]
    return [world.plan(2, on_demand("m5.large"))]


def _throttled_answer(world: World) -> list[LaunchBatch]:
    world.ec2.whole_refusals = [
        LaunchError(LaunchErrorKind.TRANSIENT, "RequestLimitExceeded")
    ]
    return [world.plan(2, on_demand("m5.large"))]


def _partial_gang(world: World) -> list[LaunchBatch]:
    world.add_block(world.clock.now() + timedelta(days=1))
    world.add_workload("gang", replicas=4)
    batch = world.plan(
        4, reserved("cr-block"), workload="research/gang", gang_key="research/gang"
    )
    world.ec2.reservations["cr-block"] = replace(
        world.ec2.reservations["cr-block"], total_count=3
    )
    return [batch]


def _gang_in_two_calls(world: World) -> list[LaunchBatch]:
    world.add_reservation("cr-2")
    world.clock.advance(seconds=1)
    world.add_workload("gang", replicas=4)
    of_gang = {"workload": "research/gang", "gang_key": "research/gang"}
    batches = [
        world.plan(2, reserved("cr-1"), batch_id="b-1", **of_gang),
        world.plan(2, reserved("cr-2"), batch_id="b-2", **of_gang),
    ]
    world.ec2.reservations["cr-2"] = replace(world.ec2.reservations["cr-2"], total_count=1)
    return batches


def _probe(world: World) -> list[LaunchBatch]:
    """Two batches of which one may ask EC2 whether an offering that was short has capacity again."""
    world.shortages.put({on_demand("m5.large"): Shortage(world.clock.now())})
    return [
        world.plan(2, on_demand("m5.large"), batch_id="b-1"),
        world.plan(1, on_demand("m5.large"), batch_id="b-2"),
    ]


def _failed_probe(world: World) -> list[LaunchBatch]:
    world.ec2.pool_sizes[("m5.large", "use1-az1", CapacityType.ON_DEMAND)] = 1
    return _probe(world)


SCENARIOS = {
    "reserved": Scenario(_reserved, 3),
    "outsider": Scenario(_outsider, 2),
    "block": Scenario(_block, 2),
    "mixed": Scenario(_mixed, 5),
    "shortage": Scenario(_shortage, 1),
    "configuration": Scenario(_configuration, 0),
    "quota": Scenario(_quota, 1),
    "template-deleted": Scenario(_template_deleted, 2),
    "throttled-answer": Scenario(_throttled_answer, 2),
    "probe": Scenario(_probe, 3),
    "failed-probe": Scenario(_failed_probe, 1),
    "partial-gang": Scenario(_partial_gang, 0, undone=3),
    "gang-in-two-calls": Scenario(_gang_in_two_calls, 0, undone=2),
}
# How long until the message comes back: within the replay window, when what EC2 left unanswered is adopted, and long
# past both, with EC2's token forgotten.
RETURNS_AFTER = {
    "replay": timedelta(seconds=30),
    "unanswered": timedelta(seconds=96),
    "adopt": timedelta(minutes=7),
}


def new_world() -> World:
    # EC2 shows instances with a lag and forgets tokens as soon as we have stopped counting on them.
    world = World(lag_s=20, token_lifetime_s=240)
    world.add_reservation("cr-1")
    world.add_workload(replicas=REPLICAS)
    world.clock.advance(seconds=1)
    return world


def deliver(world: World, batches: list[LaunchBatch]) -> None:
    for batch in batches:
        world.launch().run(batch)


def deliver_inside(world: World, batches: list[LaunchBatch], inner: Effects) -> None:
    """Run a second function whole; it finds other free addresses, so it would build other requests."""
    node_class = world.policy.classes["default"]
    subnets = tuple(
        replace(s, available_ip_count=400 - s.available_ip_count)
        for s in node_class.status.subnets
    )
    world.policy.classes["default"] = replace(
        node_class, status=replace(node_class.status, subnets=subnets)
    )
    saved, world.effects = world.effects, inner
    deliver(world, batches)
    world.effects = saved


def recover(world: World, batches: list[LaunchBatch], returns_after: timedelta) -> None:
    """Deliver again, doubled and in another order, and whatever was sent meanwhile, until all is quiet."""
    world.effects = Effects()
    world.clock.advance(seconds=returns_after.total_seconds())
    pending = [*reversed(batches), *batches]
    for _ in range(20):
        for batch in pending:
            world.launch().run(batch)
        pending, world.queue.launches = world.queue.launches, []
        if not pending:
            break
        world.clock.advance(seconds=15)
    world.collect().run()
    assert not world.queue.launches, "the collector found a batch that still waits"


def check(world: World, scenario: Scenario) -> None:
    alive = world.ec2.live()
    assert len(alive) == scenario.instances, "launched too many or too few"
    assert len(world.ec2.all()) <= scenario.instances + scenario.undone, (
        "launched something twice"
    )
    claims = world.claims()
    holders = [
        c.instance_id
        for c in claims
        if c.state in (ClaimState.LAUNCHED, ClaimState.RUNNING)
    ]
    assert sorted(i for i in holders if i) == sorted(i.id for i in alive), (
        "an instance without exactly one claim"
    )
    placed = sum(record.placed_count for record in world.state.workload_rows.values())
    assert placed == sum(p.count for c in claims for p in c.placements), (
        "a replica was lost or doubled"
    )
    assert placed == scenario.instances
    assert not any(c.state in (ClaimState.PLANNED, ClaimState.LAUNCHING) for c in claims)
    for reservation_id, row in world.state.reservation_rows.items():
        leases = [
            c.lease
            for c in claims
            if c.lease is not None and c.lease.reservation_id == reservation_id
        ]
        assert row.balance.outstanding_count == sum(
            lease.state in OPEN_LEASE_STATES for lease in leases
        )
    failed = [c for c in claims if c.state is ClaimState.FAILED]
    assert all(c.lease is None or c.lease.state not in OPEN_LEASE_STATES for c in failed), (
        "a lease leaked"
    )
    if failed:
        assert world.queue.wake_ups, "nobody was told that replicas wait again"
    for claim in claims:
        if claim.state is ClaimState.LAUNCHED:
            names = [e["node"]["nodeClaim"] for e in world.bus.of("Node Launched")]
            assert claim.id in names, "a launch that nobody heard of"


def effects_of(scenario: Scenario) -> int:
    world = new_world()
    batches = scenario.prepare(world)
    world.effects = Effects()
    deliver(world, batches)
    return world.effects.count


@pytest.mark.parametrize("returns", sorted(RETURNS_AFTER))
@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_a_launch_that_is_killed_anywhere(name: str, returns: str, cover: Cover) -> None:
    scenario = SCENARIOS[name]
    count = effects_of(scenario)
    assert count >= 4
    for effects in mishaps(range(1, count + 1)):
        world = new_world()
        batches = scenario.prepare(world)
        world.effects = effects
        with contextlib.suppress(Killed):
            deliver(world, batches)
        recover(world, batches, RETURNS_AFTER[returns])
        check(world, scenario)
        cover("launch")


@pytest.mark.parametrize("name", ["reserved", "outsider", "mixed"])
def test_a_launch_that_is_killed_twice(name: str, cover: Cover) -> None:
    scenario = SCENARIOS[name]
    count = effects_of(scenario)
    for first in range(1, count + 1):
        for second in range(1, count + 1, 3):
            world = new_world()
            batches = scenario.prepare(world)
            for kill in (Effects(kill_before=first), Effects(kill_before=second)):
                world.effects = kill
                try:
                    deliver(world, batches)
                except Killed:
                    world.clock.advance(seconds=30)
            recover(world, batches, RETURNS_AFTER["adopt"])
            check(world, scenario)
            cover("launch, killed twice")


@pytest.mark.parametrize("name", ["reserved", "outsider", "mixed", "shortage", "probe"])
def test_a_message_that_is_delivered_to_two_functions_at_once(
    name: str, cover: Cover
) -> None:
    """The second function runs whole at each point of the first one."""
    scenario = SCENARIOS[name]
    for number in range(1, effects_of(scenario) + 1):
        world = new_world()
        batches = scenario.prepare(world)
        inner = Effects()
        outer = Effects(before={number: partial(deliver_inside, world, batches, inner)})
        world.effects = outer
        deliver(world, batches)
        assert inner.count, "the second function had nothing to do"
        recover(world, batches, RETURNS_AFTER["replay"])
        check(world, scenario)
        cover("launch, run inside")


@pytest.mark.parametrize("name", ["reserved", "outsider", "mixed", "shortage"])
@pytest.mark.parametrize("killed_before", [2, 5, 6, 7])
def test_two_functions_that_recover_at_once(
    name: str, killed_before: int, cover: Cover
) -> None:
    """The first delivery died early or late; long after it, one function recovers inside another."""
    scenario = SCENARIOS[name]

    def dead_world() -> tuple[World, list[LaunchBatch]]:
        world = new_world()
        batches = scenario.prepare(world)
        world.effects = Effects(kill_before=killed_before)
        with contextlib.suppress(Killed):
            deliver(world, batches)
        world.clock.advance(minutes=7)
        return world, batches

    world, batches = dead_world()
    world.effects = Effects()
    deliver(world, batches)
    for number in range(1, world.effects.count + 1):
        world, batches = dead_world()
        world.effects = Effects(
            before={number: partial(deliver_inside, world, batches, Effects())}
        )
        deliver(world, batches)
        recover(world, batches, RETURNS_AFTER["replay"])
        check(world, scenario)
        cover("launch, recovered inside")


def test_a_throttled_call_is_repeated_with_its_token() -> None:
    world = new_world()
    batch = world.plan(3, reserved())
    world.ec2.throttle_count = 2
    deliver(world, [batch])
    recover(world, [batch], timedelta(seconds=15))
    check(world, SCENARIOS["reserved"])
    assert len(world.ec2.launch_calls) == 1


def test_a_count_that_was_taken_between_the_intent_and_the_launch_does_not_contain_the_launch() -> (
    None
):
    """The first function got no further than its intent; a minute later another one launches.

    Were the launch dated to the intent, an observation from between would pass for one that counts it, and show its
    unit as free.
    """
    world = new_world()
    batch = world.plan(1, reserved())
    world.ec2.throttle_count = 1
    deliver(world, [batch])
    assert not world.ec2.all()
    world.clock.advance(seconds=40)
    before, seen_at = world.state.reservations.get("cr-1"), world.clock.now()
    (shown,) = world.ec2.list_visible()
    world.clock.advance(seconds=20)
    deliver(world, [batch])
    assert len(world.ec2.all()) == 1

    ReservationObserver(
        world.state.reservations, world.state.node_claims, world.bus
    ).observe(before, shown, seen_at)

    assert world.free_units() == shown.total_count - 1


def drained_world() -> World:
    world = new_world()
    world.add_block(world.clock.now() + timedelta(days=1))
    world.running(2, reserved("cr-block"), batch_id="b-block")
    world.running(3, spot("m5.large"), batch_id="b-spot")
    world.clock.advance(hours=1)
    return world


def interrupted(world: World) -> list[Notice]:
    """Warn all spot instances, the first of which EC2 has taken already."""
    spots = [
        claim
        for claim in world.claims()
        if claim.offering.capacity_type is CapacityType.SPOT
    ]
    now = world.clock.now()
    found = [
        Notice(NoticeKind.SPOT_INTERRUPTION, now, (claim.instance_id or "",))
        for claim in spots
    ]
    world.ec2.change(found[0].instance_ids[0], state="terminated")
    return [*found, Notice(NoticeKind.STATE_CHANGED, now, found[0].instance_ids)]


def settle_down(world: World) -> None:
    """Let deadlines pass and EC2 finish; sweep as the schedules do."""
    for _ in range(3):
        world.clock.advance(minutes=3)
        world.expire().run()
        for instance in world.ec2.all():
            if instance.state == "shutting-down":
                world.ec2.change(instance.id, state="terminated")
    world.collect().run()


def check_drained(world: World, left: int) -> None:
    claims = world.claims()
    assert len(world.ec2.live()) == left
    assert world.placed() == left == sum(p.count for c in claims for p in c.placements)
    ended = [c for c in claims if c.state is ClaimState.TERMINATED]
    assert len(ended) == len(claims) - left
    told = {e["node"]["nodeClaim"] for e in world.bus.of("Node Terminated")}
    assert told == {c.id for c in ended}
    by_id: dict[str, set[str]] = {}
    for event in world.bus.of("Node Draining"):
        by_id.setdefault(event["node"]["nodeClaim"], set()).add(event["drainId"])
    assert all(len(ids) == 1 for ids in by_id.values())


def test_reactions_that_are_killed_anywhere(cover: Cover) -> None:
    world = drained_world()
    world.effects = Effects()
    world.react().run(interrupted(world))
    for effects in mishaps(range(1, world.effects.count + 1)):
        world = drained_world()
        notices = interrupted(world)
        world.effects = effects
        with contextlib.suppress(Killed, TransientError):
            world.react().run(notices)
        world.effects = Effects()
        world.react().run([*notices, *notices])
        settle_down(world)
        check_drained(world, left=2)
        assert world.queue.wake_ups
        cover("react")


def at_the_blocks_end() -> World:
    world = drained_world()
    world.clock.advance(hours=22, minutes=5)
    world.drain(world.claims()[2], DrainReason.DRIFT)
    world.clock.advance(minutes=15)
    return world


def test_sweeps_that_are_killed_anywhere(cover: Cover) -> None:
    world = at_the_blocks_end()
    world.effects = Effects()
    world.expire().run()
    count = world.effects.count
    assert {c.state for c in world.claims()[:2]} == {ClaimState.DRAINING}
    for effects in mishaps(range(1, count + 1)):
        world = at_the_blocks_end()
        world.effects = effects
        with contextlib.suppress(Killed, TransientError):
            world.expire().run()
        world.effects = Effects()
        world.expire().run()
        settle_down(world)
        settle_down(world)
        check_drained(world, left=2)
        cover("expire")


def littered() -> World:
    world = drained_world()
    lost = world.claims()[0].instance_id or ""
    world.ec2.forget(lost)
    orphan = replace(world.ec2.live()[0], id="i-orphan", claim_id=None)
    world.ec2.add(orphan)
    world.plan(2, on_demand("m5.large"), batch_id="b-unsent")
    world.clock.advance(minutes=2)
    return world


def test_collections_that_are_killed_anywhere(cover: Cover) -> None:
    world = littered()
    world.effects = Effects()
    world.collect().run()
    for effects in mishaps(range(1, world.effects.count + 1)):
        world = littered()
        world.effects = effects
        with contextlib.suppress(Killed, TransientError):
            world.collect().run()
        world.effects = Effects()
        world.collect().run()
        sent, world.queue.launches = world.queue.launches, []
        deliver(world, sent)
        settle_down(world)
        assert "i-orphan" not in {i.id for i in world.ec2.live()}
        assert world.placed() == len(world.ec2.live()) == 6
        cover("collect")
