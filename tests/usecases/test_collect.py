"""The collector: lost messages, orphans of either side, templates."""

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.core.instance import Instance
from shared.core.launch_template import StoredTemplate
from shared.core.node_claim import ClaimState
from shared.names import NODE_CLASS_TAG
from tests.fakes.effects import Effects, Killed
from tests.fakes.values import workload
from tests.usecases.launch_world import ZONES, World, on_demand, reserved


@pytest.fixture
def world() -> World:
    world = World()
    world.add_reservation("cr-1")
    world.add_workload(replicas=100)
    return world


def instance(world: World, name: str, **changes: object) -> Instance:
    base = Instance(name, "running", "m5.large", *ZONES[0], world.clock.now(), owner="test", batch_id="b-lost")
    return replace(base, **changes)  # type: ignore[arg-type] # field names of tests


def test_a_lost_launch_message_is_sent_again(world: World) -> None:
    batch = world.plan(3, reserved())
    assert world.collect().run().resent_count == 0  # its message may still be on the way
    world.clock.advance(minutes=1)
    assert world.collect().run().resent_count == 1
    assert world.queue.launches == [batch]


def test_part_of_a_gang_whose_planner_died_is_not_launched(world: World) -> None:
    """Its replicas still pend, so the planner's next pass gives the claims back; sending them would launch a part."""
    world.add_workload("gang", replicas=4)
    of_gang = {"workload": "research/gang", "gang_key": "research/gang"}
    half = world.plan(2, on_demand("m5.large"), batch_id="b-half", **of_gang)
    world.clock.advance(minutes=2)
    assert world.collect().run().resent_count == 0
    rest = world.plan(2, on_demand("m5.large"), batch_id="b-rest", **of_gang)
    world.clock.advance(minutes=2)
    assert world.collect().run().resent_count == 2
    assert world.queue.launches == [half, rest]


def test_a_launch_of_a_gang_that_was_under_way_goes_on(world: World) -> None:
    """Whether EC2 was called is not known, so the launch must find out, whole gang or not."""
    world.add_workload("gang", replicas=2)
    of_gang = {"workload": "research/gang", "gang_key": "research/gang"}
    batch = world.plan(2, on_demand("m5.large"), **of_gang)
    world.effects = Effects(kill_before=5)
    with pytest.raises(Killed):
        world.launch().run(batch)
    world.effects = Effects()
    assert {claim.state for claim in world.claims()} == {ClaimState.LAUNCHING}
    record = world.state.workload_rows["research/gang"]
    world.state.workload_rows["research/gang"] = replace(record, workload=workload("gang", replicas=3))
    world.clock.advance(minutes=1)
    assert world.collect().run().resent_count == 1


def test_an_instance_without_a_claim_is_terminated_after_a_grace_time(world: World) -> None:
    world.ec2.add(instance(world, "i-lost"))
    world.collect().run()
    assert len(world.ec2.live()) == 1
    world.clock.advance(minutes=10)
    assert world.collect().run().orphan_count == 1
    assert world.ec2.live() == []


def test_untagged_and_foreign_instances_are_never_touched(world: World) -> None:
    world.ec2.add(instance(world, "i-foreign", owner=None))
    world.ec2.add(instance(world, "i-without-batch", batch_id=None))
    world.clock.advance(days=1)
    assert world.collect().run().orphan_count == 0
    assert len(world.ec2.live()) == 2


def test_too_many_orphans_at_once_are_a_mistake_of_ours(world: World) -> None:
    for number in range(51):
        world.ec2.add(instance(world, f"i-{number:03d}"))
    world.clock.advance(minutes=10)
    report = world.collect().run()
    assert (report.orphan_count, report.spared_count) == (51, 51)
    assert len(world.ec2.live()) == 51


def test_an_instance_of_an_open_attempt_is_left_for_adoption(world: World) -> None:
    batch = world.plan(2, reserved())
    world.effects = Effects(lose_answer_of=None, kill_before=5)
    with pytest.raises(Killed):
        world.launch().run(batch)
    world.effects = Effects()
    assert len(world.ec2.live()) == 2
    world.clock.advance(minutes=10)
    assert world.collect().run().orphan_count == 0
    assert world.queue.launches == [batch]
    world.launch().run(batch)
    assert {c.state for c in world.claims()} == {ClaimState.LAUNCHED}
    assert len(world.ec2.all()) == 2


def test_a_claim_without_an_instance_gives_its_replicas_back(world: World) -> None:
    (claim,) = world.running(1, on_demand("m5.large"))
    world.ec2.forget(claim.instance_id or "")
    world.clock.advance(minutes=10)
    world.collect().run()
    assert world.claims()[0].state is ClaimState.TERMINATED
    assert world.placed() == 0


def test_the_instance_of_a_claim_that_ended_is_terminated(world: World) -> None:
    (claim,) = world.running(1, on_demand("m5.large"))
    world.state.claim_rows[claim.id] = replace(claim, state=ClaimState.TERMINATED, placements=())
    world.clock.advance(minutes=10)
    assert world.collect().run().orphan_count == 1
    assert world.ec2.live() == []


def test_claims_whose_tag_is_missing_are_tagged(world: World) -> None:
    claims = world.running(2, on_demand("m5.large"))
    for claim in claims:
        world.ec2.change(claim.instance_id or "", claim_id=None)
    assert world.collect().run().tagged_count == 2
    assert {i.claim_id for i in world.ec2.live()} == {c.id for c in claims}


def test_templates_of_changed_classes_and_gone_reservations_are_deleted(world: World) -> None:
    world.running(1, reserved())
    world.running(1, on_demand("m5.large"), batch_id="b-2")
    used = set(world.ec2.templates)
    assert len(used) == 2
    world.clock.advance(hours=2)
    assert world.collect().run().deleted_template_count == 0
    world.policy.classes["default"] = replace(world.policy.classes["default"], static_hash="h2")
    assert world.collect().run().deleted_template_count == 2
    world.running(1, on_demand("m5.large"), batch_id="b-3")
    assert len(world.ec2.templates) == 1


def test_a_young_template_is_spared(world: World) -> None:
    young = StoredTemplate("reservoir-test-x", world.clock.now() - timedelta(minutes=30), {NODE_CLASS_TAG: "gone"})
    world.ec2.templates[young.name] = young
    assert world.collect().run().deleted_template_count == 0
