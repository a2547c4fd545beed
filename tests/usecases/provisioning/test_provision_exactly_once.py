"""From demand to instances: kill the planner, or a launch of its plan, between any two effects, and repeat.

As ``test_exactly_once`` does for launches, but from demand on: the plan, its commits, its messages and its launches are
counted together. Afterwards every replica has one place, every claim one instance, every lease its claim.
"""

import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from lab.fakes.ec2 import FakeEc2, FakeTemplates
from lab.fakes.effects import Effects, Killed
from lab.fakes.values import reservation
from lab.worlds.launch_world import World
from lab.worlds.planning_world import PlanningWorld, node_pool_manifest
from reservoir.core.model.node_claim import OPEN_LEASE_STATES, ClaimState
from reservoir.core.model.workload import Gang
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.ports.errors import TransientError
from reservoir.usecases.policy.stored_policy import StoredPolicy
from reservoir.usecases.provisioning.commit_plan import PlanCommitter
from reservoir.usecases.provisioning.workload_status import WorkloadStatus
from tests.conftest import Cover

TEAM = {"team": "research"}
GPU = Resources.of({"cpu": 90_000, "memory": 1 << 40, "nvidia.com/gpu": 8})
SMALL = Resources.of({"cpu": 500})


class Whole:
    """Planner and launcher on one state, every effect of both watched."""

    def __init__(
        self, units: int, *, prior: Callable[["Whole"], None] = lambda _: None
    ) -> None:
        facts = reservation("cr-1", units, tags=TEAM)
        self.planning = PlanningWorld().ready(facts, pool=node_pool_manifest())
        self.launching = World()
        self.launching.clock = self.planning.clock
        self.launching.state = self.planning.state
        self.launching.queue, self.launching.bus = self.planning.queue, self.planning.bus
        self.launching.policy = StoredPolicy(self.planning.policy, self.planning.clock)  # type: ignore[assignment] # the real one
        self.launching.ec2 = FakeEc2(self.planning.clock, lag_s=20, token_lifetime_s=240)
        self.launching.templates = FakeTemplates(self.launching.ec2)
        self.launching.ec2.reservations["cr-1"] = facts
        self.planning.clock.advance(seconds=1)
        prior(self)

    def run(self, effects: Effects) -> None:
        """Plan once and launch what was planned."""
        self.launching.effects = effects
        self._provision(effects)
        self._launch()

    def _provision(self, effects: Effects) -> None:
        planning, state = self.planning, self.planning.state
        claims = effects.watch(state.node_claims, {"commit", "return_replicas", "save"})
        bus = effects.watch(planning.bus, {"publish"})
        planning.provisioner(
            committer=PlanCommitter(claims, planning.ids, planning.clock),
            status=WorkloadStatus(effects.watch(state.workloads, {"put"}), bus),
            node_claims=claims,
            decisions=effects.watch(state.decisions, {"save"}),
            queue=effects.watch(planning.queue, {"wake_planner", "send_launches"}),
            publisher=bus,
            shed_surplus=self.launching.draining().shed_surplus,
        ).run()

    def _launch(self) -> None:
        sent, self.planning.queue.launches = self.planning.queue.launches, []
        for batch in sent:
            self.launching.launch().run(batch)

    def recover(self, minutes: int) -> None:
        """Wake the planner, deliver everything twice and in another order, collect; until all is quiet."""
        self.launching.effects = effects = Effects()
        self.planning.clock.advance(minutes=minutes)
        for _ in range(20):
            self._provision(effects)
            sent, self.planning.queue.launches = self.planning.queue.launches, []
            for batch in (*reversed(sent), *sent):
                self.launching.launch().run(batch)
            self.planning.clock.advance(minutes=1)
            self.launching.collect().run()
            if (
                not self.planning.queue.launches
                and not self.planning.state.workloads.list_needing_planning()
            ):
                return
        raise AssertionError("it never came to rest")

    def check(self, replicas: dict[str, int]) -> None:
        """Every replica has its place, and everything else is as it must be."""
        state = self.planning.state
        claims = [claim for _, claim in sorted(state.claim_rows.items())]
        live = [claim for claim in claims if claim.is_live]
        assert {claim.state for claim in live} == {ClaimState.LAUNCHED}
        placed = Counter(dict.fromkeys(replicas, 0))
        for claim in live:
            placed.update({item.workload_key: item.count for item in claim.placements})
        assert dict(placed) == replicas, "a replica was lost or doubled"
        assert {key: state.workload_rows[key].placed_count for key in replicas} == replicas
        ids = sorted(claim.instance_id or "" for claim in live)
        assert ids == sorted(instance.id for instance in self.launching.ec2.all()), (
            "launched twice, or not at all"
        )
        row = state.reservation_rows["cr-1"]
        open_leases = sum(
            claim.lease is not None and claim.lease.state in OPEN_LEASE_STATES
            for claim in claims
        )
        assert row.balance.outstanding_count == open_leases, "a lease leaked"
        assert open_leases == sum(claim.lease is not None for claim in live)
        assert row.balance.free_units >= 0, "a unit was promised twice"


@dataclass(frozen=True)
class Story:
    """``begin`` submits demand; ``replicas`` by workload must have a place in the end."""

    begin: Callable[[Whole], None]
    replicas: dict[str, int]
    units: int = 3


def _mixed(world: Whole) -> None:
    world.planning.submit("train", replicas=5, requests=GPU)
    world.planning.submit("small", replicas=7, requests=SMALL)


def _gang(world: Whole) -> None:
    # two transactions
    world.planning.submit("gang", replicas=100, requests=GPU, gang=Gang())


def _joining(world: Whole) -> None:
    """Replicas that go onto a node which runs already, and one that needs a new one."""
    world.planning.submit("first", replicas=1, requests=SMALL)
    world.recover(minutes=0)
    world.planning.submit("small", replicas=3, requests=SMALL)
    world.planning.submit("train", replicas=1, requests=GPU)


def _shrinking(world: Whole) -> None:
    """One workload lost a replica before its launch while another one came."""
    world.planning.submit("train", replicas=3, requests=GPU)
    world.planning.plan()
    record = world.planning.workload("train")
    assert record.workload is not None
    smaller = replace(
        record, generation=2, workload=replace(record.workload, generation=2, replicas=2)
    )
    world.planning.state.workloads.put(smaller, expected_revision=record.revision)
    world.planning.submit("late", replicas=2, requests=GPU)


STORIES = {
    "mixed": Story(_mixed, {"research/train": 5, "research/small": 7}),
    "gang": Story(_gang, {"research/gang": 100}, units=60),
    "joining": Story(
        _joining, {"research/first": 1, "research/small": 3, "research/train": 1}
    ),
    "shrinking": Story(_shrinking, {"research/train": 2, "research/late": 2}),
}


@pytest.mark.parametrize("name", sorted(STORIES))
def test_planning_and_launching_killed_anywhere(name: str, cover: Cover) -> None:
    story = STORIES[name]
    undisturbed = Whole(story.units, prior=story.begin)
    effects = Effects()
    undisturbed.run(effects)
    count = effects.count
    undisturbed.recover(minutes=0)
    undisturbed.check(story.replicas)
    assert count >= 6
    # a gang's hundred claims are moved one by one: their points are alike
    step = 1 if count < 100 else 11
    for number in (*range(1, min(count, 15)), *range(15, count + 1, step)):
        for mishap in (Effects(kill_before=number), Effects(lose_answer_of=number)):
            world = Whole(story.units, prior=story.begin)
            with contextlib.suppress(Killed, TransientError):
                world.run(mishap)
            world.recover(minutes=7 if number % 2 else 1)
            world.check(story.replicas)
            cover(f"the way from demand to instance, {name}")
