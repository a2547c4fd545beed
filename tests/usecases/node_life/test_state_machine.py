"""Late, repeated and reordered events, views that lag, sweeps and releases in any order: claims only move forward."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.worlds.launch_world import World, on_demand, reserved, spot
from reservoir.core.model.instance import Instance
from reservoir.core.model.node_claim import (
    ALLOWED_TRANSITIONS,
    ClaimState,
    DrainReason,
    NodeClaim,
)
from reservoir.core.node_life.notice import Notice, NoticeKind

REPLICAS = 20
NODES = 4
# What EC2 does to an instance; it never takes any of it back, but a view may lag (``shows``).
NEXT = {
    "pending": ("running", "shutting-down"),
    "running": ("stopping", "shutting-down"),
    "stopping": ("stopped", "shutting-down"),
    "stopped": ("shutting-down",),
    "shutting-down": ("terminated",),
    "terminated": (),
}
ABOUT_INSTANCES = (
    NoticeKind.STATE_CHANGED,
    NoticeKind.SPOT_INTERRUPTION,
    NoticeKind.REBALANCE,
    NoticeKind.RESERVATION_INTERRUPTION,
    NoticeKind.SCHEDULED_CHANGE,
)
number = st.integers(0, NODES - 1)
minutes_ago = st.sampled_from([0, 1, 14, 16, 120])
step = st.one_of(
    st.tuples(
        st.just("notice"),
        st.sampled_from(ABOUT_INSTANCES),
        number,
        minutes_ago,
        st.integers(1, 3),
    ),
    st.tuples(st.just("ec2"), number, st.integers(0, 1)),
    st.tuples(st.just("shows"), number, st.sampled_from(sorted(NEXT))),
    st.tuples(st.just("sweep")),
    st.tuples(st.just("collect")),
    st.tuples(
        st.just("drain"),
        number,
        st.sampled_from([DrainReason.DRIFT, DrainReason.CONSOLIDATION]),
    ),
    st.tuples(st.just("release"), number, st.sampled_from([None, 1, 5])),
    st.tuples(st.just("launch again")),
    st.tuples(st.just("leaves reservation"), number),
    st.tuples(st.just("wait"), st.sampled_from([1, 61, 16 * 60])),
)


class Rows(dict[str, NodeClaim]):
    """The table of claims; checks every write."""

    def __setitem__(self, key: str, after: NodeClaim) -> None:
        before = self.get(key)
        if before is not None:
            moved = after.state is not before.state
            assert not moved or after.state in ALLOWED_TRANSITIONS[before.state], (
                f"{before.state} -> {after.state}"
            )
            assert after.revision == before.revision + 1
            assert after.drain is not None or before.drain is None, "a drain was forgotten"
            if before.drain is not None and after.drain is not None:
                assert after.drain.id == before.drain.id
                assert after.drain.deadline <= before.drain.deadline
        super().__setitem__(key, after)


class Life:
    """Four nodes and what happens to them."""

    def __init__(self) -> None:
        self.world = World()
        self.world.add_reservation("cr-1")
        self.world.add_block(self.world.clock.now() + timedelta(hours=3))
        self.world.add_workload(replicas=REPLICAS)
        self.world.state.claim_rows = Rows()
        offerings = (
            reserved(),
            reserved("cr-block"),
            spot("m5.large"),
            on_demand("m5.large"),
        )
        self.batches = [
            self.world.plan(1, offering, batch_id=f"b-{n}")
            for n, offering in enumerate(offerings)
        ]
        self.launch_again()
        self.ids = [claim.instance_id or "" for claim in self.world.claims()]
        self.truth = {instance.id: instance.state for instance in self.world.ec2.all()}

    def launch_again(self) -> None:
        for batch in self.batches:
            self.world.launch().run(batch)

    def instance(self, index: int) -> Instance:
        return next(
            instance for instance in self.world.ec2.all() if instance.id == self.ids[index]
        )

    def claim(self, index: int) -> NodeClaim:
        return self.world.claims()[index]

    def take(self, what: str, *details: Any) -> None:
        if what == "notice":
            self.tell(*details)
        elif what == "ec2":
            self.happen(*details)
        elif what == "shows":
            # a lagging view, even of what was terminated
            self.world.ec2.change(self.ids[details[0]], state=details[1])
        elif what == "sweep":
            self.world.expire().run()
        elif what == "collect":
            self.world.collect().run()
        elif what == "drain":
            self.world.drain(self.claim(details[0]), details[1])
        elif what == "release":
            claim_id = self.claim(details[0]).id
            self.world.draining().release(
                "research/train", claim_id, details[1], self.world.clock.now()
            )
        elif what == "launch again":
            self.launch_again()
        elif what == "leaves reservation":
            self.world.ec2.change(self.ids[details[0]], capacity_reservation_id=None)
        else:
            self.world.clock.advance(seconds=details[0])

    def tell(self, kind: NoticeKind, index: int, ago: int, times: int) -> None:
        at: datetime = self.world.clock.now() - timedelta(minutes=ago)
        notice = Notice(kind, at, (self.ids[index],))
        self.world.react().run([notice] * times)

    def happen(self, index: int, choice: int) -> None:
        instance = self.instance(index)
        following = NEXT[instance.state]
        if following:
            self.world.ec2.change(instance.id, state=following[choice % len(following)])

    def check(self) -> None:
        claims = self.world.claims()
        placed = sum(placement.count for claim in claims for placement in claim.placements)
        assert self.world.placed() == placed, "a replica was lost or returned twice"
        assert all(
            not c.placements
            for c in claims
            if c.drain is not None or c.state is ClaimState.TERMINATED
        )

    def end(self) -> None:
        """Let EC2 finish with everything; every claim comes to its end and is reported once at least."""
        for instance in self.world.ec2.all():
            self.world.ec2.change(instance.id, state="terminated")
        for _ in range(2):  # what a sweep has moved is followed by the next
            self.world.clock.advance(minutes=20)
            self.world.expire().run()
        assert {claim.state for claim in self.world.claims()} == {ClaimState.TERMINATED}
        assert self.world.placed() == 0
        told = {
            event["node"]["nodeClaim"] for event in self.world.bus.of("Node Terminated")
        }
        assert told == {claim.id for claim in self.world.claims()}


@given(st.lists(step, max_size=25))
def test_claims_only_move_forward_whatever_comes_in_whatever_order(
    steps: list[tuple[Any, ...]],
) -> None:
    life = Life()
    for each in steps:
        life.take(*each)
        life.check()
    life.end()
    life.check()


def test_the_check_of_writes_can_fail() -> None:
    life = Life()
    claim = life.claim(0)
    backwards = replace(claim, state=ClaimState.PLANNED, revision=claim.revision + 1)
    with pytest.raises(AssertionError, match="launched -> planned"):
        life.world.state.claim_rows[claim.id] = backwards
