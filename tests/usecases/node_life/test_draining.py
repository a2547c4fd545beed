"""The drain protocol."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from lab.worlds.launch_world import World, on_demand, reserved, spot
from reservoir.core.model.node_claim import ClaimState, DrainReason, NodeClaim
from reservoir.ports.errors import AccessDeniedError
from reservoir.ports.messaging import OutboundEvent
from reservoir.ports.state import WorkloadRecord
from reservoir.usecases.draining.draining import DrainRequest


def test_released_by_all_means_terminated_at_once(world: World) -> None:
    (claim,) = world.running(1, reserved())
    draining = world.draining()
    world.drain(claim, DrainReason.CONSOLIDATION)
    assert world.ec2.terminate_calls == []
    draining.release("research/train", claim.id, None, world.clock.now())
    assert world.claims()[0].state is ClaimState.TERMINATING
    assert world.ec2.terminate_calls == [(claim.instance_id,)]
    draining.release("research/train", claim.id, None, world.clock.now())  # a repeat
    assert len(world.ec2.terminate_calls) == 1


def test_without_releases_the_deadline_decides(world: World) -> None:
    (claim,) = world.running(1, reserved())
    world.drain(claim, DrainReason.CONSOLIDATION)
    world.clock.advance(minutes=14)
    assert world.expire().run().deadline_count == 0
    world.clock.advance(minutes=1, seconds=20)
    report = world.expire().run()
    assert (report.deadline_count, report.drain_late_s) == (1, 20)
    world.ec2.change(claim.instance_id or "", state="terminated")
    world.expire().run()
    assert world.claims()[0].state is ClaimState.TERMINATED
    (event,) = world.bus.of("Node Terminated")
    assert event["reason"] == "Consolidation"


def test_many_deadlines_are_one_call_and_one_bad_id_saves_nobody(world: World) -> None:
    claims = world.running(4, reserved())
    world.ec2.protected.add(claims[0].instance_id or "")
    for claim in claims:
        world.drain(claim, DrainReason.DRIFT)
    world.clock.advance(minutes=15)
    report = world.expire().run()
    assert len(world.ec2.terminate_calls) == 1
    assert report.refused == {claims[0].instance_id: "OperationNotPermitted"}
    assert len(world.ec2.live()) == 1
    world.ec2.protected.clear()
    world.expire().run()  # what was refused is asked again
    assert world.ec2.live() == []


def test_the_pools_termination_grace_period_bounds_every_drain(world: World) -> None:
    world.policy.pools["gpu"] = replace(world.pool, termination_grace_period_s=60)
    (claim,) = world.running(1, reserved())
    drained = world.drain(claim, DrainReason.DRIFT)
    assert drained is not None
    assert drained.drain is not None
    assert drained.drain.deadline == world.clock.now() + timedelta(seconds=60)


def test_a_workload_that_needs_longer_for_its_checkpoint_gets_it(world: World) -> None:
    world.add_workload("slow", replicas=1, checkpoint_period_s=3600)
    (claim,) = world.running(1, reserved(), workload="research/slow")
    drained = world.drain(claim, DrainReason.DRIFT)
    assert drained is not None
    assert drained.drain is not None
    assert drained.drain.deadline == world.clock.now() + timedelta(hours=1)


def test_no_work_gets_more_than_the_longest_notice(world: World) -> None:
    world.add_workload("endless", replicas=2, checkpoint_period_s=10 * 365 * 24 * 3600)
    first, second = world.running(2, reserved(), workload="research/endless")
    drained = world.drain(first, DrainReason.DRIFT)
    assert drained is not None
    assert drained.drain is not None
    assert drained.drain.deadline == world.clock.now() + timedelta(hours=2)

    short = replace(world.draining(), longest_notice=timedelta(minutes=40))
    (moved,) = short.begin_drains([DrainRequest(second, DrainReason.DRIFT)]).moved
    assert moved.drain is not None
    assert moved.drain.deadline == world.clock.now() + timedelta(minutes=40)


def test_an_empty_node_goes_at_once(world: World) -> None:
    (claim,) = world.running(1, reserved())
    record = world.state.workload_rows["research/train"]
    world.state.workload_rows["research/train"] = _withdrawn(record)
    world.draining().shed_surplus(
        world.state.workload_rows["research/train"], [claim], world.clock.now()
    )
    assert world.claims()[0].state is ClaimState.DRAINING
    world.draining().release("research/train", claim.id, 1, world.clock.now())
    assert world.ec2.live() == []


def test_withdrawn_replicas_do_not_come_back_as_demand(world: World) -> None:
    claims = world.running(4, reserved())
    record = world.state.workload_rows["research/train"]
    world.state.workload_rows["research/train"] = _withdrawn(record)
    assert world.draining().shed_surplus(_withdrawn(record), claims, world.clock.now()) == 4
    after = world.state.workload_rows["research/train"]
    assert (after.placed_count, after.pending_count) == (0, 0)
    assert {c.drain.reason for c in world.claims() if c.drain} == {DrainReason.WITHDRAWN}
    assert {e["reason"] for e in world.bus.of("Node Draining")} == {"Withdrawn"}


def test_a_shrunk_workload_leaves_the_dear_nodes_first(world: World) -> None:
    kept = world.running(2, reserved(), batch_id="b-1")
    dear = world.running(2, on_demand("m5.large"), batch_id="b-2")
    record = world.state.workload_rows["research/train"]
    assert record.workload is not None
    shrunk = replace(record, workload=replace(record.workload, replicas=2))
    world.state.workload_rows["research/train"] = shrunk
    world.draining().shed_surplus(shrunk, [*kept, *dear], world.clock.now())
    assert {world.state.claim_rows[c.id].state for c in dear} == {ClaimState.DRAINING}
    assert {world.state.claim_rows[c.id].state for c in kept} == {ClaimState.RUNNING}


def test_a_release_that_nobody_asked_for_frees_only_surplus(world: World) -> None:
    (claim,) = world.running(1, reserved())
    world.draining().release("research/train", claim.id, 1, world.clock.now())
    assert world.claims()[0].state is ClaimState.RUNNING
    assert world.placed() == 1


def test_a_node_that_already_ended_does_not_drain(world: World) -> None:
    (claim,) = world.running(1, reserved())
    world.ec2.change(claim.instance_id or "", state="terminated")
    world.expire().run()
    assert world.drain(_again(world, claim), DrainReason.DRIFT) is None


def _again(world: World, claim: NodeClaim) -> NodeClaim:
    return world.state.claim_rows[claim.id]


def _withdrawn(record: WorkloadRecord) -> WorkloadRecord:
    return replace(record, withdrawn=True)


def test_a_claim_that_is_withdrawn_before_its_launch_is_never_launched(
    world: World,
) -> None:
    batch = world.plan(2, reserved())
    record = _withdrawn(world.state.workload_rows["research/train"])
    world.state.workload_rows["research/train"] = record
    assert world.draining().shed_surplus(record, world.claims(), world.clock.now()) == 2
    assert {c.state for c in world.claims()} == {ClaimState.FAILED}
    assert world.free_units() == 4
    world.launch().run(batch)
    assert world.ec2.launch_calls == []


def deaf(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the bus take nothing: what may be told later is kept, what must be known first is refused."""

    def refuses(_: Sequence[OutboundEvent]) -> None:
        raise AccessDeniedError("AccessDeniedException", "PutEvents")

    monkeypatch.setattr(world.bus, "announce", refuses)


def test_a_node_that_we_choose_to_drain_stays_while_nobody_can_be_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    (claim,) = world.running(1, reserved())
    deaf(world, monkeypatch)

    with pytest.raises(AccessDeniedError):
        world.drain(claim, DrainReason.CONSOLIDATION)

    assert world.claims()[0].state is ClaimState.RUNNING


def test_work_on_a_node_that_is_taken_away_is_replaced_whatever_the_bus_says(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    (claim,) = world.running(1, spot("m5.large"))
    deaf(world, monkeypatch)

    world.drain(claim, DrainReason.INTERRUPTION, world.clock.now() + timedelta(minutes=2))

    assert world.claims()[0].state is ClaimState.DRAINING
    assert world.queue.wake_ups[-1] == "node draining"
