"""Rows that a newer release wrote, or that were damaged: nothing that they are about ends, and nobody else waits.

"Not known" is never "not there". That the alarm rings is shown by ``tests/infra/test_alarms.py``, and what a table does
with such rows by ``tests/adapters`` and ``tests/upgrades``.
"""

from dataclasses import replace
from datetime import timedelta

import pytest

from lab.fakes.values import reservation
from lab.worlds.disrupt_world import TYPES, DisruptWorld
from lab.worlds.launch_world import World, on_demand, reserved, spot
from lab.worlds.mishaps import FleetWorld
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.node_claim import ClaimState, DrainReason, NodeClaim
from reservoir.core.node_life.notice import Notice, NoticeKind
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.ports.policy import PolicyKind
from reservoir.usecases.launching.launch import LaunchResult

POOL, OTHER_POOL = (PolicyKind.NODE_POOL, "gpu"), (PolicyKind.NODE_POOL, "other")
CLASS = (PolicyKind.NODE_CLASS, "default")
OF_GPU, OF_OTHER = {"karpenter.sh/nodepool": "gpu"}, {"karpenter.sh/nodepool": "other"}


def two_pools() -> DisruptWorld:
    """Two nodes at work, one in each of two pools of one class."""
    world = DisruptWorld("on-demand")
    world.copy_pool("other")
    for name, where in (("mine", OF_GPU), ("theirs", OF_OTHER)):
        world.submit(name, 1, cpus=2, node_selector=Requirements.from_labels(where))
    world.minutes(3)
    assert sorted(claim.node_pool_name for claim in world.live()) == ["gpu", "other"]
    return world


def claim_in(world: DisruptWorld, pool: str) -> NodeClaim:
    (claim,) = (claim for claim in world.live() if claim.node_pool_name == pool)
    return claim


# --- the planner and disruption


def test_nodes_of_a_workload_that_cannot_be_read_are_in_no_plan_and_others_are_planned() -> (
    None
):
    world = two_pools()
    held = claim_in(world, "gpu")
    world.state.unreadable.add("research/mine")
    gathered = world.gatherer().gather(world.clock.now())
    assert held.id not in gathered.claims
    assert {node.claim_id for node in gathered.snapshot.nodes} == {
        claim_in(world, "other").id
    }
    world.change_pool(labels={"everything": "drifts"})
    world.submit("more", 1, cpus=2)
    world.minutes(20)
    assert world.state.claim_rows[held.id] == held, "neither drifted nor shared"
    assert world.pending() == 0


def test_a_pool_that_cannot_be_read_is_no_deleted_one_and_stops_no_other() -> None:
    world = two_pools()
    held = claim_in(world, "gpu")
    world.store.unreadable.add(POOL)
    world.submit("more", 1, cpus=16, node_selector=Requirements.from_labels(OF_OTHER))
    world.scale("theirs", 0)
    world.minutes(20)
    assert world.state.claim_rows[held.id] == held
    assert [
        claim.offering.instance_type
        for claim in world.live()
        if claim.node_pool_name == "other"
    ] == ["m5.4xlarge"]
    assert world.pending() == 0, "the other pool is planned for"
    world.submit("waits", 1, cpus=2, node_selector=Requirements.from_labels(OF_GPU))
    world.minutes(2)
    assert world.pending() == 1
    world.store.unreadable.clear()
    world.minutes(2)
    assert world.pending() == 0


def test_a_pool_that_a_lagging_list_leaves_out_and_that_cannot_be_read_is_no_deleted_one() -> (
    None
):
    world = two_pools()
    held = claim_in(world, "gpu")
    world.store.unreadable.add(POOL)
    listed = world.store.list_all
    world.store.list_all = lambda: tuple(  # type: ignore[method-assign] # lags
        each for each in listed() if (each.kind, each.name) != POOL
    )
    world.minutes(5)
    assert world.state.claim_rows[held.id] == held


def test_a_class_that_cannot_be_read_launches_nothing_says_why_and_has_not_been_deleted() -> (
    None
):
    world = two_pools()
    before = world.live()
    world.store.unreadable.add(CLASS)
    world.submit("more", 1, cpus=16)
    world.minutes(20)
    assert world.live() == before
    waiting = world.bus.of("Workload Pending")[-1]
    assert waiting["reason"] == "NodeClassNotReady"
    assert "it cannot be read" in waiting["message"]


def test_a_reservation_that_cannot_be_read_is_none_that_is_gone() -> None:
    """Its type is sold in no other way: without the reservation it would be taken for one that is not sold any more."""
    world = DisruptWorld("reserved", "on-demand")
    world.add_reservation("cr-1", total_count=1)
    world.submit("train", 1, gpus=8)
    world.minutes(3)
    (held,) = world.live()
    world.state.offerings.save_catalogue(
        [
            replace(each, offerings=() if each.name == "p5.48xlarge" else each.offerings)
            for each in TYPES
        ]
    )
    world.clock.advance(days=2)
    world.state.unreadable.add("cr-1")
    world.disruption_pass()
    assert world.state.claim_rows[held.id] == held
    assert held.id not in world.gatherer().gather(world.clock.now()).claims


# --- the sweep and the events


def test_blocks_drain_and_deadlines_hold_beside_rows_that_cannot_be_read() -> None:
    world = World()
    world.add_workload(replicas=100)
    world.add_workload("unknown", replicas=100)
    end = world.clock.now() + timedelta(hours=1)
    world.add_block(end, "cr-block")
    world.add_block(end, "cr-1")
    (readable,) = world.running(1, reserved("cr-block"), batch_id="b-1")
    (of_unknown,) = world.running(
        1, reserved("cr-block"), batch_id="b-2", workload="research/unknown"
    )
    (lost,) = world.running(1, reserved("cr-1"), batch_id="b-3")
    world.state.unreadable |= {"cr-1", "research/unknown"}
    world.clock.set(end - timedelta(minutes=39))
    world.expire().run()
    states = {claim.id: claim.state for claim in world.claims()}
    assert states == {
        readable.id: ClaimState.DRAINING,
        of_unknown.id: ClaimState.DRAINING,  # EC2 ends it, whatever the work on it wants
        lost.id: ClaimState.RUNNING,  # EC2's own warning comes as an event
    }


def test_nothing_goes_for_its_age_while_its_pool_or_its_work_cannot_be_read() -> None:
    world = two_pools()
    for name in ("gpu", "other"):
        pool = world.store.get(PolicyKind.NODE_POOL, name)
        assert pool is not None
        template = {**pool.manifest["spec"]["template"]}
        template["spec"] = {**template["spec"], "expireAfter": "1h"}
        world.apply(
            {**pool.manifest, "spec": {**pool.manifest["spec"], "template": template}}
        )
    world.store.unreadable.add(POOL)
    world.state.unreadable.add("research/theirs")
    world.clock.advance(hours=2)
    world.expire().run()
    assert {claim.state for claim in world.live()} == {ClaimState.RUNNING}
    world.state.unreadable.clear()
    world.expire().run()
    assert claim_in(world, "other").drain is not None
    assert claim_in(world, "gpu").state is ClaimState.RUNNING


def test_a_warning_about_one_node_is_heeded_beside_one_whose_claim_cannot_be_read() -> None:
    world = World()
    world.add_workload(replicas=100)
    first, second = world.running(2, spot("m5.large"))
    world.state.unreadable.add(first.id)
    ids = tuple(claim.instance_id or "" for claim in (first, second))
    report = world.react().run(
        [Notice(NoticeKind.SPOT_INTERRUPTION, world.clock.now(), ids)]
    )
    assert [claim.state for claim in world.claims()] == [
        ClaimState.RUNNING,
        ClaimState.DRAINING,
    ]
    assert report.foreign_count == 0, "it is not known, but it is not somebody else's"


def test_a_pools_bound_on_drains_that_cannot_be_read_keeps_no_drain_from_beginning() -> (
    None
):
    world = World()
    world.add_workload(replicas=100)
    (claim,) = world.running(1, spot("m5.large"))
    world.policy.unreadable.add("gpu")
    drained = world.drain(
        claim, DrainReason.INTERRUPTION, world.clock.now() + timedelta(minutes=2)
    )
    assert drained is not None


# --- launches and the collector


def test_a_launch_waits_for_a_class_that_cannot_be_read() -> None:
    world = World()
    world.add_workload(replicas=100)
    batch = world.plan(1, on_demand("m5.large"))
    world.policy.unreadable.add("default")
    assert world.launch().run(batch).result is LaunchResult.DELAYED
    world.policy.unreadable.clear()
    world.launch().run(world.queue.launches[-1])
    assert [claim.state for claim in world.claims()] == [ClaimState.LAUNCHED]


def test_an_instance_whose_claim_cannot_be_read_is_no_orphan_and_others_are() -> None:
    world = World()
    world.add_workload(replicas=100)
    held, other = world.running(2, on_demand("m5.large"))
    world.state.claim_rows[other.id] = replace(
        other, state=ClaimState.TERMINATED, placements=()
    )
    world.state.unreadable.add(held.id)
    world.clock.advance(minutes=10)
    report = world.collect().run()
    assert report.spared == {held.instance_id: "its claim cannot be read"}
    assert [instance.id for instance in world.ec2.live()] == [held.instance_id]


def test_templates_stay_while_a_class_cannot_be_read() -> None:
    world = World()
    world.add_workload(replicas=100)
    world.running(1, on_demand("m5.large"))
    world.clock.advance(days=30)
    world.policy.unreadable.add("default")
    assert world.collect().run().deleted_template_count == 0


# --- discovery


def test_discovery_goes_on_beside_what_cannot_be_read_and_names_it() -> None:
    world = FleetWorld()
    world.copy_pool("other")
    mine: list[CapacityReservation] = [
        reservation(key, tags={"team": "research"}, available_count=1, total_count=1)
        for key in ("cr-1", "cr-2")
    ]
    world.ec2.reservations |= {each.id: each for each in mine}
    world.discovery().run()
    world.clock.advance(minutes=1)
    before = world.state.reservation_rows["cr-1"]
    conditions = [each.status.conditions for each in world.store.list_all()]
    world.state.unreadable.add("cr-1")
    world.store.unreadable |= {CLASS, OTHER_POOL}
    world.ec2.reservations = {
        each.id: replace(each, total_count=2, available_count=2) for each in mine
    }
    found = world.discovery().run()
    assert found.unreadable == ("EC2NodeClass/default", "NodePool/other")
    assert world.state.reservation_rows["cr-1"] == before
    assert world.state.reservation_rows["cr-2"].reservation.total_count == 2
    world.store.unreadable.clear()
    assert [each.status.conditions for each in world.store.list_all()] == conditions, (
        "what was said before stays"
    )


@pytest.mark.parametrize("kept", [POOL, CLASS])
def test_a_manifest_that_is_not_valid_any_more_is_as_one_that_cannot_be_read(
    kept: tuple[PolicyKind, str],
) -> None:
    world = two_pools()
    before = world.live()
    stored = world.store.get(*kept)
    assert stored is not None
    world.apply(
        {**stored.manifest, "spec": {**stored.manifest["spec"], "fieldOfTheNextRelease": 1}}
    )
    world.minutes(20)
    assert [claim for claim in world.live() if claim.node_pool_name == "gpu"] == [
        claim for claim in before if claim.node_pool_name == "gpu"
    ]
