"""Static pools, minute by minute of the whole pipeline: nodes stand by themselves, take demand, are never too many."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from lab.worlds.disrupt_world import DisruptWorld
from lab.worlds.planning_world import PlanningWorld, node_pool_manifest
from reservoir.core.model.node_claim import ClaimState, DrainReason, NodeClaim, Operation
from reservoir.ports.policy import Pause, PolicyKind
from reservoir.usecases.provisioning.share_demand import Woken

TOLD: Final = Woken(indexes_lag=True)


def static_world(replicas: int | str, *capacity_types: str, **spec: Any) -> DisruptWorld:
    """One static pool of the cheapest nodes; ``spec`` are further fields of the pool."""
    world = DisruptWorld(*(capacity_types or ("reserved", "on-demand")))
    resize(world, replicas, **spec)
    return world


def resize(world: DisruptWorld, replicas: int | str, **spec: Any) -> None:
    world.apply(replicating(world, replicas, "gpu", **spec))


def replicating(
    world: DisruptWorld, replicas: int | str, name: str, **spec: Any
) -> dict[str, Any]:
    """Return the world's pool as a static one of that name."""
    stored = world.store.get(PolicyKind.NODE_POOL, "gpu")
    assert stored is not None
    return {
        **stored.manifest,
        "metadata": {"name": name},
        "spec": {**stored.manifest["spec"], "replicas": replicas, **spec},
    }


def running(world: DisruptWorld) -> list[NodeClaim]:
    return [claim for claim in world.live() if claim.state is ClaimState.RUNNING]


def test_as_many_nodes_stand_as_the_pool_says_and_stay() -> None:
    world = static_world(3)
    world.minutes(8)
    assert world.types() == ["m5.large on-demand"] * 3
    assert len(world.ec2.all()) == 3
    assert {world.reason(claim.id) for claim in world.live()} == {"NodePool gpu is static"}


def test_free_reserved_units_come_first() -> None:
    world = static_world(3)
    world.add_reservation("cr-1", total_count=2)
    world.minutes(3)
    assert world.types() == [
        "m5.large on-demand",
        "p5.48xlarge reserved",
        "p5.48xlarge reserved",
    ]


def test_demand_fills_the_nodes_that_stand_and_launches_none() -> None:
    world = static_world(2)
    world.minutes(2)
    before = {claim.id for claim in running(world)}
    world.submit("web", replicas=2, cpus=1.5)
    world.submit("more", replicas=1, cpus=1.5)
    world.minutes(3)
    assert {claim.id for claim in world.live()} == before
    assert world.pending() == 1, "a static pool launches nothing for demand"


def test_demand_that_comes_with_the_pool_waits_for_its_nodes() -> None:
    world = static_world(1)
    world.submit("web", cpus=1.5)
    world.minute()
    (claim,) = world.live()
    assert [placed.workload_key for placed in claim.placements] == ["research/web"]


def test_a_node_stands_when_its_last_replica_is_withdrawn() -> None:
    world = static_world(1)
    world.submit("web", cpus=1.5)
    world.minutes(2)
    (before,) = running(world)
    world.scale("web", 0)
    world.minutes(3)
    (after,) = running(world)
    assert (after.id, after.placements) == (before.id, ())


def test_a_replica_that_is_withdrawn_before_the_launch_takes_no_node_along() -> None:
    world = static_world(1)
    world.submit("web", cpus=1.5)
    world.provision().run(TOLD)
    world.scale("web", 0)
    world.minutes(2)
    assert len(running(world)) == 1
    assert len(world.claims()) == 1


def test_a_node_that_ends_is_replaced() -> None:
    world = static_world(2)
    world.minutes(2)
    lost = running(world)[0]
    world.ec2.change(str(lost.instance_id), state="terminated")
    world.minutes(3)
    assert len(running(world)) == 2
    assert lost.id not in {claim.id for claim in world.live()}


def test_fewer_are_wanted_and_empty_ones_go_first_whatever_the_budget() -> None:
    world = static_world(4, disruption={"budgets": [{"nodes": "0"}]})
    world.minutes(2)
    world.submit("web", cpus=1.5)
    world.minutes(2)
    (busy,) = [claim for claim in running(world) if claim.placements]
    resize(world, 1)
    world.minutes(3)
    assert [claim.id for claim in world.live()] == [busy.id]
    gone = [claim.drain.reason for claim in world.claims() if claim.drain is not None]
    assert gone == [DrainReason.SCALED_DOWN] * 3


def test_what_must_not_be_disturbed_stays_until_it_is_through() -> None:
    world = static_world(1)
    world.submit("web", cpus=1.5, do_not_disrupt=True)
    world.minutes(2)
    resize(world, 0)
    world.minutes(3)
    assert len(running(world)) == 1
    world.scale("web", 0)
    world.minutes(3)
    assert world.live() == []


def test_no_more_nodes_than_the_limit() -> None:
    world = static_world(5, limits={"nodes": "2"})
    world.minutes(4)
    assert len(world.live()) == 2


def test_a_paused_pool_launches_nothing() -> None:
    world = static_world(2)
    paused = Operation(
        "pause", "arn:aws:iam::123456789012:role/ada", "too dear", world.clock.now()
    )
    world.store.save_pause(
        "gpu", Pause(is_paused=True, operations=(paused,)), expected=Pause()
    )
    world.minutes(2)
    assert world.live() == []


def test_a_minute_without_news_looks_at_no_static_pool() -> None:
    """What such a pass costs, everybody pays, with static pools or without; discovery looks each minute."""
    world = static_world(1)
    world.provision().run()
    assert world.claims() == []


def test_discovery_wakes_the_planner_while_nodes_are_lacking() -> None:
    pool = node_pool_manifest()
    world = PlanningWorld().ready(pool={**pool, "spec": {**pool["spec"], "replicas": 1}})
    assert world.discover().woke_planner
    assert world.queue.wake_ups == ["static pools lack nodes"]
    world.provisioner().run(TOLD)
    assert not world.discover().woke_planner


def test_of_two_passes_at_once_one_launches_what_is_lacking() -> None:
    world = static_world(2)
    first, second = world.provision(), world.provision()
    list_live = world.state.node_claims.list_live
    interrupted = False

    def overtaken() -> Any:
        nonlocal interrupted
        found = list_live()
        if not interrupted:
            interrupted = True
            second.run(TOLD)
        return found

    world.state.node_claims.list_live = overtaken  # type: ignore[method-assign] # another pass comes in between
    first.run(TOLD)
    assert len(world.claims()) == 2


# As many as the reservations have units.


def following(**reservations: int) -> DisruptWorld:
    """A pool with as many nodes as these reservations have units; it may buy, and does not."""
    world = static_world("allReserved")
    for name, count in reservations.items():
        world.add_reservation(name.replace("_", "-"), total_count=count)
    return world


def nodes_in(world: DisruptWorld, reservation_id: str) -> int:
    return sum(claim.offering.reservation_id == reservation_id for claim in running(world))


def test_every_unit_has_a_node_and_nothing_is_bought() -> None:
    world = following(cr_1=2, cr_2=3)
    world.minutes(6)
    assert (nodes_in(world, "cr-1"), nodes_in(world, "cr-2")) == (2, 3)
    assert len(world.ec2.all()) == 5


def test_the_pool_grows_and_shrinks_with_the_reservation() -> None:
    world = following(cr_1=2)
    world.minutes(2)
    world.resize("cr-1", 4)
    world.minutes(3)
    assert nodes_in(world, "cr-1") == 4
    world.resize("cr-1", 1)
    world.minutes(4)
    assert nodes_in(world, "cr-1") == 1
    reasons = {claim.drain.reason for claim in world.claims() if claim.drain is not None}
    assert reasons == {DrainReason.SCALED_DOWN}


def test_units_that_others_use_are_left_to_them() -> None:
    world = DisruptWorld()
    world.add_reservation("cr-1", total_count=3)
    world.submit("train", replicas=2, gpus=8)
    world.minutes(2)
    world.apply(replicating(world, "allReserved", "fixed"))
    world.minutes(2)
    assert [claim.node_pool_name for claim in running(world)].count("fixed") == 1
    world.scale("train", 0)
    world.minutes(4)
    assert [claim.node_pool_name for claim in running(world)] == ["fixed"] * 3


def test_a_reservation_that_is_to_come_has_no_nodes_before_it_begins() -> None:
    world = static_world("allReserved")
    start_at = world.clock.now() + timedelta(minutes=5)
    world.add_reservation("cr-1", total_count=2, state="scheduled", start_at=start_at)
    world.minutes(3)
    assert world.live() == []
    world.ec2.reservations["cr-1"] = replace(world.ec2.reservations["cr-1"], state="active")
    world.clock.advance(minutes=2)
    world.minutes(2)
    assert nodes_in(world, "cr-1") == 2


def test_nodes_of_a_block_drain_before_its_end_and_none_comes_after_that() -> None:
    world = static_world("allReserved")
    end_at = world.clock.now() + timedelta(minutes=50)
    world.add_block(end_at, "cr-block", total_count=2)
    world.minutes(5)
    assert nodes_in(world, "cr-block") == 2
    world.minutes(30)
    assert world.live() == []
    assert {claim.drain.reason for claim in world.claims() if claim.drain} == {
        DrainReason.CAPACITY_BLOCK_ENDING
    }
    assert len(world.ec2.all()) == 2


def test_a_node_whose_reservation_ended_goes_instead_of_being_paid_for() -> None:
    world = following(cr_1=1, cr_2=1)
    world.minutes(2)
    (ended,) = [
        claim for claim in running(world) if claim.offering.reservation_id == "cr-1"
    ]
    world.ec2.reservations["cr-1"] = replace(
        world.ec2.reservations["cr-1"], state="expired", total_count=0
    )
    world.ec2.change(str(ended.instance_id), capacity_reservation_id=None)
    world.minutes(5)
    assert world.types() == ["p5.48xlarge reserved"]
    assert nodes_in(world, "cr-2") == 1


# Nodes that drifted are renewed.


def test_a_full_reservation_rolls_with_one_unit_empty_at_a_time() -> None:
    world = following(cr_1=3)
    world.submit("train", replicas=2, gpus=8)
    world.minutes(2)
    before = {claim.id for claim in running(world)}
    world.change_pool(labels={"rolled": "yes"})
    fewest = 3
    for _ in range(20):
        world.minute()
        fewest = min(fewest, len(running(world)))
        assert len(world.ec2.live()) <= 3
    after = running(world)
    assert len(after) == 3
    assert before.isdisjoint(claim.id for claim in after)
    assert all(claim.labels.get("rolled") == "yes" for claim in after)
    assert fewest == 2
    assert world.at_work() == 2


def test_bought_nodes_are_renewed_before_they_go() -> None:
    world = static_world(2, "on-demand")
    world.minutes(2)
    world.change_pool(labels={"rolled": "yes"})
    for _ in range(8):
        world.minute()
        assert len(running(world)) >= 2
    assert [claim.labels.get("rolled") for claim in running(world)] == ["yes", "yes"]


def test_no_more_than_the_limit_while_nodes_are_renewed() -> None:
    budget = {"budgets": [{"nodes": "1"}], "consolidateAfter": "0s"}
    world = static_world(2, "on-demand", limits={"nodes": "2"}, disruption=budget)
    world.minutes(2)
    world.change_pool(labels={"rolled": "yes"})
    for _ in range(12):
        world.minute()
        assert len(world.ec2.live()) <= 2
    assert [claim.labels.get("rolled") for claim in running(world)] == ["yes", "yes"]


def test_nodes_older_than_expire_after_are_renewed_in_their_unit() -> None:
    world = following(cr_1=1)
    world.minutes(2)
    (old,) = running(world)
    template = replicating(world, "allReserved", "gpu")["spec"]["template"]
    resize(
        world,
        "allReserved",
        template={**template, "spec": {**template["spec"], "expireAfter": "1h"}},
    )
    world.clock.advance(hours=2)
    world.minutes(6)
    (new,) = running(world)
    assert new.id != old.id
    assert new.offering.reservation_id == "cr-1"
