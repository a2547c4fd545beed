"""A NodePool is deleted while nodes of it stand: they take nothing more, are replaced where possible, and go."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from lab.worlds.disrupt_world import DisruptWorld
from reservoir.core.model.node_claim import ClaimState
from reservoir.core.safety.endings import Bound, Bounds, EndingKind
from reservoir.core.safety.tally import Lift
from reservoir.ports.policy import DeletePolicy, PolicyKind, PolicyObject, PutPolicy
from reservoir.usecases.explaining.explain_node import ExplainNode
from reservoir.usecases.safety.envelope import LiftEnvelope


def delete_pool(world: DisruptWorld, name: str = "gpu") -> None:
    stored = world.store.get(PolicyKind.NODE_POOL, name)
    assert stored is not None
    world.store.commit([DeletePolicy(PolicyKind.NODE_POOL, name, stored.revision)])


def deleted(*, successor: bool, replicas: int = 1) -> DisruptWorld:
    world = DisruptWorld("on-demand", consolidateAfter="Never")
    world.submit("web", replicas=replicas, gpus=8)
    world.minutes(2)
    if successor:
        world.copy_pool("successor")
    delete_pool(world)
    return world


def test_its_nodes_are_replaced_by_another_pools_before_they_drain() -> None:
    world = deleted(successor=True)
    (old,) = world.live()
    for _ in range(4):
        world.minute()
        assert world.at_work() >= 1
        assert world.pending() == 0
    (new,) = world.live()
    assert (new.node_pool_name, new.replaces) == ("successor", (old.id,))
    assert [event["reason"] for event in world.bus.of("Node Draining")] == [
        "NodePoolDeleted"
    ]
    explained = ExplainNode(world.state.node_claims, world.state.decisions).explain(old.id)
    assert explained is not None
    assert explained.disruption.text.startswith("NodePool gpu was deleted")


def test_they_go_although_no_other_pool_holds_their_replicas() -> None:
    world = deleted(successor=False)
    world.minutes(3)
    assert (world.live(), world.pending()) == ([], 1)
    assert [event["reason"] for event in world.bus.of("Node Draining")] == [
        "NodePoolDeleted"
    ]


def test_they_go_a_tenth_at_a_time() -> None:
    world = deleted(successor=False, replicas=12)
    world.bounds = Bounds({EndingKind.DELETED_POOLS: Bound(100, 1, 100)})
    world.holds_on = True
    report = world.minute()
    assert report.drained == 2  # 10 %, rounded up
    waiting = next(claim for claim in world.live() if claim.state is ClaimState.RUNNING)
    assert (
        world.reason(waiting.id)
        == "NodePool gpu was deleted; budget of NodePool gpu is used up"
    )
    assert world.minute().drained == 0


def test_a_deleted_pool_that_is_the_whole_fleet_ends_nothing_before_somebody_looked() -> (
    None
):
    """The first tenth is measured by all nodes that would follow."""
    world = deleted(successor=False, replicas=12)
    for _ in range(90):
        world.minute()
    assert {claim.state for claim in world.live()} == {ClaimState.RUNNING}
    assert "12 would end (deleted-pools), 5 of 12 may" in world.reason(world.live()[0].id)
    (told,) = world.bus.of("Endings Held")
    assert (told["kind"], told["wantedCount"], told["isShut"]) == (
        "deleted-pools",
        12,
        True,
    )


def test_a_lift_lets_the_nodes_of_a_deleted_pool_go() -> None:
    world = deleted(successor=False, replicas=12)
    world.minute()
    lift = Lift(
        12, world.clock.now() + timedelta(hours=2), "ops", "it was meant", world.clock.now()
    )
    LiftEnvelope(world.tallies, world.bus).lift(EndingKind.DELETED_POOLS, lift)
    world.minutes(30)
    assert world.live() == []


def test_they_take_no_new_replicas() -> None:
    world = DisruptWorld("on-demand", consolidateAfter="Never")
    world.submit("big", cpus=12)
    world.minutes(2)
    delete_pool(world)
    world.submit("small", cpus=1)
    world.plan_and_launch()
    assert world.state.workload_rows["research/small"].placed_count == 0


def test_a_pool_that_a_listing_leaves_out_is_not_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = DisruptWorld("on-demand", consolidateAfter="Never")
    world.submit("web", gpus=8)
    world.minutes(2)
    listed = world.store.list_all

    def late() -> Sequence[PolicyObject]:
        return tuple(
            stored for stored in listed() if stored.kind is not PolicyKind.NODE_POOL
        )

    monkeypatch.setattr(world.store, "list_all", late)  # what a lagging index may answer
    world.disruption_pass()
    assert world.bus.of("Node Draining") == []
    assert [
        node.deleting for node in world.gatherer().gather(world.clock.now()).snapshot.nodes
    ] == [False]


def test_a_pool_that_is_made_again_in_time_keeps_its_nodes() -> None:
    world = DisruptWorld("on-demand", consolidateAfter="Never")
    world.submit("web", gpus=8)
    world.minutes(2)
    (old,) = world.live()
    world.copy_pool("successor")
    former = world.store.get(PolicyKind.NODE_POOL, "gpu")
    assert former is not None
    delete_pool(world)
    world.minute()
    assert world.state.claim_rows[old.id].disruption is not None
    world.store.commit(
        [
            PutPolicy(
                PolicyKind.NODE_POOL, "gpu", former.manifest, former.generation + 1, None
            )
        ]
    )
    world.minute()
    assert world.reason(old.id) == "NodePool gpu exists again: it stays"
    world.minutes(2)
    stored = world.state.claim_rows[old.id]
    assert (stored.state, stored.disruption, world.at_work()) == (
        ClaimState.RUNNING,
        None,
        1,
    )
