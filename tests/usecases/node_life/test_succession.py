"""A replica of work that is handed over starts only when the one that it follows has left, whatever happens between."""

import json
import random
from datetime import timedelta
from typing import Any

import pytest

from lab.worlds.disrupt_world import DisruptWorld
from reservoir.core.model.node_claim import ClaimState, DrainReason, NodeClaim
from reservoir.core.node_life.succession import held_count
from reservoir.manifests.messages import DescribeMessage, parse_demand
from reservoir.manifests.node_identity import HostedWorkload, node_identity
from reservoir.usecases.demand.describe import Describe
from reservoir.usecases.draining.draining import DrainRequest

KEY = "research/train"


class HandedOver(DisruptWorld):
    """Nodes of one replica each."""

    def __init__(self, replicas: int = 1, **workload: Any) -> None:
        super().__init__()
        self.at_work_on: dict[str, int] = {}
        self.add_reservation("cr-1", total_count=8)
        self.submit("train", replicas=replicas, gpus=8, **workload)
        self.holds_on = True  # nobody releases by himself
        self.minutes(2)

    def drains(self, claim: NodeClaim) -> None:
        """Let an operator drain a node, and let its next one come up."""
        self.draining().begin_drains(
            [DrainRequest(self.now_of(claim), DrainReason.REQUESTED)]
        )
        self.plan_and_launch()
        self.ec2.start_all()
        self.clock.advance(seconds=1)
        self.expire().run()

    def leaves(self, claim: NodeClaim) -> None:
        self.draining().release(KEY, claim.id, None, self.clock.now())

    def newest(self) -> NodeClaim:
        return max(self.live(), key=lambda claim: (claim.created_at, claim.id))

    def told(self, claim: NodeClaim) -> HostedWorkload:
        """Return what the node of a claim reads of the workload."""
        (hosted,) = node_identity(self.now_of(claim)).workloads
        return hosted

    def agents(self) -> int:
        """Let the agents of all nodes do what they are told; return how many replicas run now."""
        now = self.clock.now()
        at_work: dict[str, int] = {}
        for claim in self.claims():
            was = self.at_work_on.get(claim.id, 0)
            if claim.state is ClaimState.RUNNING:
                may = 0
                for hosted in node_identity(claim).workloads:
                    is_over = hosted.held_until is not None and hosted.held_until <= now
                    may += hosted.replicas + (hosted.held or 0 if is_over else 0)
                at_work[claim.id] = may
            elif claim.state is ClaimState.DRAINING and claim.drain is not None:
                awaited = sum(placed.count for placed in claim.drain.awaiting)
                at_work[claim.id] = min(was, awaited) if now < claim.drain.deadline else 0
        self.at_work_on = at_work
        return sum(at_work.values())

    def status(self) -> dict[str, Any]:
        body = {
            "action": "describe",
            "requestId": "r-1",
            "workload": {"metadata": {"namespace": "research", "name": "train"}},
        }
        message = parse_demand(json.dumps(body))
        assert isinstance(message, DescribeMessage)
        Describe(self.state.workloads, self.state.node_claims, self.bus)(message)
        return self.bus.of("Workload Described")[-1]


def handed_over(replicas: int = 1) -> HandedOver:
    return HandedOver(replicas, checkpoint_period_s=600)


def test_the_next_node_is_launched_ahead_and_holds_its_replica() -> None:
    world = handed_over()
    (old,) = world.live()
    world.drains(old)
    new = world.newest()
    assert (new.state, new.id == old.id) == (ClaimState.RUNNING, False)
    told = world.told(new)
    assert (told.replicas, told.held, told.predecessors) == (0, 1, [old.id])
    drain = world.now_of(old).drain
    assert drain is not None
    assert told.held_until == drain.deadline


def test_it_starts_with_the_release() -> None:
    world = handed_over()
    (old,) = world.live()
    world.drains(old)
    new = world.newest()
    world.leaves(old)
    told = world.told(new)
    assert (told.replicas, told.held, told.predecessors) == (1, None, None)


def test_without_a_release_it_starts_at_the_deadline() -> None:
    world = handed_over()
    (old,) = world.live()
    world.drains(old)
    new = world.newest()
    world.clock.advance(minutes=14, seconds=50)
    world.expire().run()
    assert world.told(new).replicas == 0
    world.clock.advance(seconds=10)
    world.expire().run()
    assert world.told(new).replicas == 1


def test_it_starts_when_the_predecessor_is_gone_without_a_word() -> None:
    world = handed_over()
    (old,) = world.live()
    world.drains(old)
    new = world.newest()
    world.ec2.change(old.instance_id or "", state="terminated")
    world.expire().run()
    world.expire().run()
    assert world.told(new).replicas == 1


def test_a_release_that_was_missed_is_found_by_the_next_sweep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = handed_over()
    (old,) = world.live()
    world.drains(old)
    new = world.newest()
    monkeypatch.setattr(
        "reservoir.usecases.draining.draining.Draining.let_followers_start",
        lambda *_: None,
    )
    world.leaves(old)
    assert world.told(new).replicas == 0
    world.expire().run()
    assert world.told(new).replicas == 1


def test_other_work_overlaps_and_is_told_whom_it_follows() -> None:
    world = HandedOver()
    (old,) = world.live()
    world.drains(old)
    told = world.told(world.newest())
    assert (told.replicas, told.held, told.predecessors) == (1, None, [old.id])
    world.leaves(old)
    world.expire().run()
    assert world.told(world.newest()).predecessors is None


@pytest.mark.parametrize(
    ("workload", "is_held"),
    [
        ({"handover": True}, True),
        ({"checkpoint_period_s": 600, "handover": False}, False),
        ({"checkpoint_period_s": 600}, True),
        ({}, False),
    ],
)
def test_a_workload_may_say_otherwise(workload: dict[str, Any], is_held: bool) -> None:
    world = HandedOver(**workload)
    (old,) = world.live()
    world.drains(old)
    assert (world.told(world.newest()).replicas == 0) is is_held


def test_senders_are_told_the_same() -> None:
    world = handed_over()
    (old,) = world.live()
    world.drains(old)
    new = world.newest()
    nodes = {node["nodeClaim"]: node for node in world.status()["nodes"]}
    assert (nodes[new.id]["replicas"], nodes[new.id]["held"]) == (0, 1)
    assert nodes[new.id]["predecessors"] == [old.id]
    world.leaves(old)
    nodes = {node["nodeClaim"]: node for node in world.status()["nodes"]}
    assert (nodes[new.id]["replicas"], nodes[new.id]["held"]) == (1, 0)


def test_when_the_next_node_goes_too_the_one_after_it_waits_for_both() -> None:
    world = handed_over()
    (old,) = world.live()
    world.drains(old)
    second = world.newest()
    world.drains(second)
    third = world.newest()
    assert set(world.told(third).predecessors or ()) == {old.id, second.id}
    world.leaves(second)
    assert world.told(third).replicas == 0, "the first still runs"
    world.leaves(old)
    assert world.told(third).replicas == 1


def test_a_listing_that_shows_the_drain_late_does_not_let_it_start() -> None:
    world = handed_over()
    (old,) = world.live()
    stale = world.now_of(old)
    world.draining().begin_drains([DrainRequest(stale, DrainReason.REQUESTED)])
    listed = type(world.state.node_claims).list_live

    def late(store: Any) -> tuple[NodeClaim, ...]:
        return tuple(stale if it.id == stale.id else it for it in listed(store))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(world.state.node_claims), "list_live", late)
        world.plan_and_launch()
    new = world.newest()
    assert new.id != old.id
    assert held_count(new, new.placements[0]) == 1


def test_consolidation_hands_over_too() -> None:
    world = DisruptWorld()
    world.submit("train", gpus=8, checkpoint_period_s=600)
    world.minutes(2)
    (old,) = world.live()
    world.add_reservation("cr-1", total_count=1)
    world.holds_on = True
    for _ in range(4):
        world.minute()
    new = next(claim for claim in world.live() if claim.id != old.id)
    assert world.now_of(old).state is ClaimState.DRAINING
    assert held_count(new, new.placements[0]) == 1
    world.release()
    new = world.now_of(new)
    assert held_count(new, new.placements[0]) == 0


@pytest.mark.parametrize("seed", range(30))
def test_at_no_time_do_more_run_than_are_wanted(seed: int) -> None:
    """Drains, releases, failures and sizes at random: who runs on a node that drains is never replaced too early."""
    draw = random.Random(seed)  # noqa: S311 - a test
    world = handed_over(replicas=3)
    for _ in range(25):
        live = world.live()
        running = [claim for claim in live if claim.state is ClaimState.RUNNING]
        leaving = [claim for claim in live if claim.state is ClaimState.DRAINING]
        what = draw.choice(("drain", "drain", "leave", "fail", "wait", "plan"))
        if what == "drain" and running:
            chosen = draw.choice(running)
            world.draining().begin_drains(
                [DrainRequest(world.now_of(chosen), DrainReason.REQUESTED)]
            )
        elif what == "leave" and leaving:
            world.leaves(draw.choice(leaving))
        elif what == "fail" and running:
            world.ec2.change(draw.choice(running).instance_id or "", state="terminated")
        elif what == "plan":
            world.plan_and_launch()
            world.ec2.start_all()
        world.clock.advance(seconds=draw.choice((1, 30, 200)))
        if draw.random() < 0.7:
            world.expire().run()
        assert world.agents() <= 3, what
    world.holds_on = False
    world.minutes(6)
    assert world.agents() == 3, "all run in the end"


def test_a_deadline_that_comes_nearer_is_no_reason_to_start_before_it() -> None:
    world = handed_over()
    (old,) = world.live()
    world.drains(old)
    new = world.newest()
    sooner = world.clock.now() + timedelta(minutes=2)
    world.draining().begin_drains(
        [DrainRequest(world.now_of(old), DrainReason.INTERRUPTION, sooner)]
    )
    world.clock.advance(seconds=100)
    world.expire().run()
    assert world.told(new).replicas == 0
    world.clock.advance(seconds=30)
    world.expire().run()
    world.expire().run()
    assert world.told(new).replicas == 1
