"""Kill a pass of disruption at each of its effects, or let another pass run there: it ends as if nothing had been.

The effects (commits, messages, calls) of all passes of a story are counted in a run that nothing disturbs; then the
story is played once for each of them and each mishap. All other functions go on as scheduled. ``-s`` prints the counts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from lab.fakes.effects import Effects, mishaps
from lab.worlds.disrupt_world import DisruptWorld
from reservoir.core.model.node_claim import ClaimState
from reservoir.names import MOVABLE_TAG, MOVABLE_VALUE
from reservoir.ports.policy import DeletePolicy, PolicyKind
from tests.conftest import Cover


@dataclass(frozen=True)
class Story:
    """``prepare`` leaves a world in which disruption has something to do; the rest is what it must come to."""

    prepare: Callable[[], DisruptWorld]
    types: tuple[str, ...]
    launched: int  # instances that disruption brings
    minutes: int = 8
    at_work: int = 0  # replicas that run at any time


def _moves_into_a_reservation() -> DisruptWorld:
    world = DisruptWorld("reserved", "on-demand")
    world.add_reservation("cr-1", total_count=1)
    world.submit("train", replicas=2, gpus=8)
    world.minutes(2)
    world.resize("cr-1", 2)
    return world


def _fails_to_replace() -> DisruptWorld:
    """The unit is gone again before the launch: EC2 refuses."""
    world = _moves_into_a_reservation()
    launch = world.plan_and_launch

    def too_late() -> None:
        if any(claim.replaces for claim in world.claims()):
            world.resize("cr-1", 1)
        launch()

    world.plan_and_launch = too_late  # type: ignore[method-assign] # this world's launches come after an outsider's
    return world


def _is_full() -> DisruptWorld:
    """A node that has drifted stands in the only unit, and other demand, more urgent, waits for it."""
    world = DisruptWorld("reserved")
    world.add_reservation("cr-1", total_count=1)
    world.submit("train", gpus=8)
    world.minutes(2)
    world.submit("other", gpus=8, priority=100)
    world.change_pool(labels={"version": "2"})
    return world


def _drifts_with_room() -> DisruptWorld:
    world = _is_full()
    world.scale("other", 0)
    world.resize("cr-1", 2)
    return world


def _has_empty_nodes() -> DisruptWorld:
    world = DisruptWorld("reserved", "on-demand", consolidateAfter="Never")
    world.add_reservation("cr-1", total_count=1)
    world.submit("web", replicas=3, gpus=8)
    world.minutes(2)
    for claim in world.claims():
        world.state.node_claims.return_replicas(
            claim,
            expected_revision=claim.revision,
            placements={"research/web": 1},
            returned_at=world.clock.now(),
        )
    world.scale("web", 0)
    world.change_pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]})
    return world


def _has_room_elsewhere() -> DisruptWorld:
    """A node whose replica fits onto another one that stays."""
    world = DisruptWorld("on-demand", consolidateAfter="Never")
    world.submit("big", cpus=12)
    world.minute()
    world.submit("filler", cpus=3)
    world.minute()
    world.submit("apart", cpus=3)
    world.minutes(2)
    return _woken(world, "filler")


def _is_too_large() -> DisruptWorld:
    """Two nodes whose replicas fit onto one that is smaller than either."""
    world = DisruptWorld("on-demand", consolidateAfter="Never")
    for name in ("one", "two"):
        world.submit(f"filler-{name}", cpus=3)
        world.submit(f"web-{name}", cpus=1)
        world.minutes(2)
    return _woken(world, "filler-one", "filler-two")


def _woken(world: DisruptWorld, *ended: str) -> DisruptWorld:
    for name in ended:
        world.scale(name, 0)
    world.minutes(2)
    world.change_pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]})
    return world


def _loses_its_pool() -> DisruptWorld:
    """The pool of a node is deleted, and another one like it can hold its replica."""
    world = DisruptWorld("on-demand", consolidateAfter="Never")
    world.submit("web", gpus=8)
    world.minutes(2)
    world.copy_pool("successor")
    stored = world.store.get(PolicyKind.NODE_POOL, "gpu")
    assert stored is not None
    world.store.commit([DeletePolicy(PolicyKind.NODE_POOL, "gpu", stored.revision)])
    return world


def _lacks_a_unit() -> DisruptWorld:
    """A unit lies idle in a reservation that the class does not select, and a node is paid for beside a full one."""
    world = DisruptWorld("reserved", "on-demand", moveReservedUnits=True)
    for reservation_id, count in (("cr-idle", 4), ("cr-mine", 1)):
        world.add_reservation(
            reservation_id, total_count=count, tags={MOVABLE_TAG: MOVABLE_VALUE}
        )
    world.select("cr-mine")
    world.submit("train", replicas=2, gpus=8)
    world.plan_and_launch()
    return world


RESERVED, PAID = "p5.48xlarge reserved", "p5.48xlarge on-demand"
STORIES = {
    "into-a-reservation": Story(
        _moves_into_a_reservation, (RESERVED, RESERVED), 1, at_work=2
    ),
    "failed-replacement": Story(_fails_to_replace, (PAID, RESERVED), 0, at_work=2),
    "terminate-first": Story(_is_full, (RESERVED,), 1),
    "drift-with-room": Story(_drifts_with_room, (RESERVED,), 1, at_work=1),
    "empty": Story(_has_empty_nodes, (), 0),
    "onto-others": Story(_has_room_elsewhere, ("m5.4xlarge on-demand",), 0, at_work=1),
    "moves-a-unit": Story(_lacks_a_unit, (RESERVED, RESERVED), 1, minutes=9),
    "deleted-pool": Story(_loses_its_pool, (PAID,), 1, minutes=6, at_work=1),
    "many-by-one": Story(_is_too_large, ("m5.large on-demand",), 1, minutes=10, at_work=2),
}


def play(
    story: Story, armed: Effects | None = None, *, beside: int | None = None
) -> DisruptWorld:
    """Play a story; just before effect number ``beside`` another pass runs whole."""
    world = story.prepare()
    before = len(world.ec2.all())
    world.armed = armed or Effects()
    if beside is not None:
        world.armed = Effects(before={beside: partial(another_pass, world)})
    for _ in range(story.minutes):
        world.minute()
        assert world.at_work() >= story.at_work, "a node went before its time"
        assert not world.state.workload_rows.get("research/other") or not placed(
            world, "research/other"
        )
    world.launched = len(world.ec2.all()) - before
    return world


def placed(world: DisruptWorld, key: str) -> int:
    return world.state.workload_rows[key].placed_count


def another_pass(world: DisruptWorld) -> None:
    saved, world.effects = world.effects, Effects()
    world.disrupt().run()
    world.effects = saved


def check(world: DisruptWorld, story: Story) -> None:
    assert tuple(world.types()) == story.types
    assert world.launched <= story.launched, "launched something twice"
    assert all(claim.state is ClaimState.RUNNING for claim in world.live())
    wanted = sum(
        record.workload.replicas
        for record in world.state.workload_rows.values()
        if record.workload
    )
    mine = wanted - sum(
        record.pending_count for record in world.state.workload_rows.values()
    )
    assert mine == sum(
        placed.count for claim in world.live() for placed in claim.placements
    )
    assert not any(claim.disruption for claim in world.live()), "a mark was left behind"
    assert not world.state.node_claims.list_moving(), "a move was left half-way"
    assert world.mover.moved_count == int("cr-idle" in world.ec2.reservations), (
        "a unit moved twice, or not at all"
    )
    told = set(world.of("Node Terminated"))
    assert {
        claim.id for claim in world.claims() if claim.state is ClaimState.TERMINATED
    } == told
    drains: dict[str, set[str]] = {}
    for event in world.bus.of("Node Draining"):
        drains.setdefault(event["node"]["nodeClaim"], set()).add(event["drainId"])
    assert all(len(ids) == 1 for ids in drains.values())


def points(world: DisruptWorld) -> range:
    """Return the numbers of a story's effects, without those of the quiet passes at its end."""
    last = max(
        number
        for number, name in enumerate(world.armed.log, 1)
        if not name.startswith("save")
    )
    return range(1, last + 2)


@pytest.mark.parametrize("name", sorted(STORIES))
def test_a_pass_that_is_killed_anywhere(name: str, cover: Cover) -> None:
    story = STORIES[name]
    undisturbed = play(story)
    check(undisturbed, story)
    assert undisturbed.launched == story.launched
    assert undisturbed.armed.count > story.minutes, "nothing was done"
    for armed in mishaps(points(undisturbed)):
        check(play(story, armed), story)
        cover("disrupt")


@pytest.mark.parametrize("name", sorted(STORIES))
def test_another_pass_in_the_middle_of_one(name: str, cover: Cover) -> None:
    story = STORIES[name]
    for number in points(play(story)):
        check(play(story, beside=number), story)
        cover("disrupt, run inside")
