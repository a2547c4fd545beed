"""Nodes tell what becomes of their replicas."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from lab.fakes.effects import Effects, Killed, mishaps
from lab.worlds.launch_world import World, reserved
from reservoir.core.model.node_claim import ClaimState, DrainReason, NodeClaim
from reservoir.core.model.workload import RollingUpdate
from reservoir.core.node_life import replicas
from reservoir.manifests.node_identity import node_identity
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.manifests.reports import NodeReport, parse_report
from reservoir.ports.errors import UnknownOutcomeError
from reservoir.ports.state import Rollout, WorkloadRecord

KEY = "research/train"
TRAIN = {"namespace": "research", "name": "train"}


@pytest.fixture
def replica_count() -> int:
    """So that two nodes hold all of them."""
    return 2


def report(kind: str, workload: dict[str, str] = TRAIN, **fields: Any) -> NodeReport:
    return parse_report(json.dumps({"report": kind, "workload": workload, **fields}))


def tell(world: World, claim: NodeClaim, kind: str, **fields: Any) -> bool:
    assert claim.instance_id is not None
    return world.follow_replicas().apply(report(kind, **fields), claim.instance_id)


def test_ready_and_failed_are_told(world: World) -> None:
    (claim, _) = world.running(2, reserved())
    assert tell(world, claim, "ready", replicas=1)
    assert tell(world, claim, "failed", exitCode=-9, restarts=0, nextStartInS=10)
    assert tell(
        world,
        claim,
        "failed",
        exitCode=1,
        restarts=3,
        nextStartInS=80,
        logTail="bad\x1b[2J\n",
    )
    (ready,) = world.bus.of("Replica Ready")
    assert (ready["node"]["nodeClaim"], ready["replicas"]) == (claim.id, 1)
    first, fourth = world.bus.of("Replica Failed")
    assert (first["isCrashLoop"], fourth["isCrashLoop"]) == (False, True)
    assert fourth["logTail"] == "bad\N{REPLACEMENT CHARACTER}[2J\n", (
        "nothing that moves a cursor"
    )


def test_the_most_that_was_said_to_run_is_kept_in_whatever_order_reports_come(
    world: World,
) -> None:
    (claim, _) = world.running(2, reserved())
    for total in (1, 3, 2):
        assert tell(world, claim, "ready", replicas=total)
    stored = world.state.claim_rows[claim.id]
    assert [(it.workload_key, it.count) for it in stored.ready] == [(KEY, 3)]
    assert replicas.ready_count(stored, KEY) == 1, "no more than have their place there"
    assert tell(world, claim, "finished", replicas=1)
    assert replicas.ready_count(world.state.claim_rows[claim.id], KEY) == 0


def test_a_race_for_what_runs_is_decided_again(world: World) -> None:
    (claim, _) = world.running(2, reserved())

    def somebody_writes() -> None:
        world.state.node_claims.save(
            replace(claim, cordoned=True), expected_revision=claim.revision
        )

    world.effects = Effects(before={2: somebody_writes})  # between the event and the write
    assert tell(world, claim, "ready", replicas=1)
    assert len(world.bus.of("Replica Ready")) == 1
    stored = world.state.claim_rows[claim.id]
    assert (replicas.ready_count(stored, KEY), stored.cordoned) == (1, True)


def test_a_replica_that_finishes_is_not_demand_again(world: World) -> None:
    claim, other = world.running(2, reserved())
    assert tell(world, claim, "finished", replicas=1)
    record = world.state.workload_rows[KEY]
    assert (record.placed_count, record.finished_count, record.pending_count) == (1, 1, 0)
    assert world.state.claim_rows[claim.id].placements == ()
    (event,) = world.bus.of("Replica Finished")
    assert (event["replicas"], event["finished"], event["wanted"]) == (1, 1, 2)
    world.drain(other, DrainReason.CONSOLIDATION)
    record = world.state.workload_rows[KEY]
    assert (record.placed_count, record.pending_count) == (0, 1), (
        "the other one is wanted still"
    )


def test_an_update_surges_no_more_than_those_may_that_have_not_finished(
    world: World,
) -> None:
    claim, _ = world.running(2, reserved())
    record = world.state.workload_rows[KEY]
    assert record.workload is not None
    rolling = replace(record.workload, rolling_update=RollingUpdate(max_surge="100%"))
    world.state.workload_rows[KEY] = replace(
        record, workload=rolling, rollout=Rollout(surge_count=2)
    )
    assert tell(world, claim, "finished", replicas=1)
    assert world.state.workload_rows[KEY].surge_count == 1


def test_a_report_that_comes_again_changes_nothing(world: World) -> None:
    (claim, _) = world.running(2, reserved())
    for _ in range(3):
        assert tell(world, claim, "finished", replicas=1)
    assert world.state.workload_rows[KEY].finished_count == 1
    assert len(world.bus.of("Replica Finished")) == 1


def test_a_report_that_is_taken_twice_at_once_is_not_counted_twice(world: World) -> None:
    claim, _ = world.running(2, reserved())
    follow = world.follow_replicas()

    class Late:
        """Reads a workload after somebody else took the same report."""

        def get(self, key: str) -> WorkloadRecord | None:
            assert tell(world, claim, "finished", replicas=1)
            return world.state.workloads.get(key)

    assert claim.instance_id is not None
    late: Any = Late()
    assert replace(follow, workloads=late).apply(
        report("finished", replicas=1), claim.instance_id
    )
    assert {
        (it["replicas"], it["finished"]) for it in world.bus.of("Replica Finished")
    } == {(1, 1)}
    assert world.state.workload_rows[KEY].finished_count == 1


def test_what_finishes_on_a_node_that_drains_is_not_placed_again(world: World) -> None:
    claim, _ = world.running(2, reserved())
    world.drain(claim, DrainReason.CONSOLIDATION)
    assert world.state.workload_rows[KEY].pending_count == 1
    assert tell(world, claim, "finished", replicas=1)
    record = world.state.workload_rows[KEY]
    assert (record.pending_count, record.finished_count) == (0, 1)
    assert world.state.claim_rows[claim.id].state is ClaimState.TERMINATING, (
        "nobody is awaited any more"
    )


def test_released_lets_a_draining_node_go(world: World) -> None:
    claim, _ = world.running(2, reserved())
    world.drain(claim, DrainReason.CONSOLIDATION)
    assert tell(world, claim, "released")
    assert world.state.claim_rows[claim.id].state is ClaimState.TERMINATING
    assert world.state.workload_rows[KEY].pending_count == 1


def test_a_node_reports_about_nothing_but_its_own_replicas(world: World) -> None:
    (claim, _) = world.running(2, reserved())
    world.add_workload("other", replicas=1)
    before = dict(world.state.workload_rows)
    other = {"namespace": "research", "name": "other"}
    follow = world.follow_replicas()
    assert claim.instance_id is not None
    assert not follow.apply(report("finished", other, replicas=1), claim.instance_id)
    for stranger in ("i-unknown", "", claim.id):
        assert not follow.apply(report("finished", replicas=1), stranger)
    assert world.state.workload_rows == before
    assert world.bus.of("Replica Finished") == []


def test_a_race_that_is_lost_is_decided_again(world: World) -> None:
    claim, _ = world.running(2, reserved())

    def somebody_writes() -> None:
        record = world.state.workload_rows[KEY]
        world.state.workloads.put(
            replace(record, unplaced=()), expected_revision=record.revision
        )

    world.effects = Effects(before={2: somebody_writes})  # between the event and the write
    assert tell(world, claim, "finished", replicas=1)
    assert world.effects.log.count("finish_replicas") == 2
    record = world.state.workload_rows[KEY]
    assert (record.placed_count, record.finished_count) == (1, 1)


@pytest.mark.parametrize("draining", [False, True])
def test_killed_at_each_step_nothing_is_lost_or_doubled(*, draining: bool) -> None:
    def played(effects: Effects) -> World:
        world = World()
        world.add_reservation("cr-1")
        world.add_workload(replicas=2)
        claim, _ = world.running(2, reserved())
        if draining:
            world.drain(claim, DrainReason.CONSOLIDATION)
        for mishap in (effects, Effects()):  # the report comes again
            world.effects = mishap
            with suppress(Killed, UnknownOutcomeError):
                tell(world, claim, "finished", replicas=1)
        return world

    whole = Effects()
    played(whole)
    assert "finish_replicas" in whole.log
    for effects in mishaps(range(1, whole.count + 1)):
        world = played(effects)
        record = world.state.workload_rows[KEY]
        assert (record.placed_count, record.finished_count, record.pending_count) == (
            1,
            1,
            0,
        )
        assert world.bus.of("Replica Finished")
        states = [claim.state for claim in world.claims()]
        assert states == [
            ClaimState.TERMINATING if draining else ClaimState.RUNNING,
            ClaimState.RUNNING,
        ]


def gangs(world: World) -> list[dict[str, Any] | None]:
    """Return what each node of the workload reads of its place among the others."""
    found = []
    for claim in world.claims():
        told = json.loads(node_identity(claim).text())["workloads"]
        found += [workload.get("gang") for workload in told]
    return found


def test_nodes_that_have_all_arrived_know_each_other(world: World) -> None:
    first, second = world.running(2, reserved())
    assert tell(world, first, "arrived", address="10.0.0.1")
    assert gangs(world) == [None, None], "the other one is not there yet"
    assert tell(world, second, "arrived", address="10.0.0.2")
    known = {"worldSize": 2, "addresses": ["10.0.0.1", "10.0.0.2"]}
    dealt = [
        {"nodeRank": 0, "firstRank": 0, **known},
        {"nodeRank": 1, "firstRank": 1, **known},
    ]
    assert gangs(world) == dealt
    rows = dict(world.state.claim_rows)
    assert tell(world, second, "arrived", address="10.0.0.2")
    assert world.state.claim_rows == rows, "a repeat writes nothing"


def test_nodes_know_each_other_although_the_index_has_not_heard_of_the_last_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lags: who is listed is as it was before the last node said where it is, or before that node was written."""
    first, second = world.running(2, reserved())
    assert tell(world, first, "arrived", address="10.0.0.1")
    listed = tuple(claim for claim in world.claims() if claim.id == first.id)
    monkeypatch.setattr(world.state.node_claims, "list_live", lambda: listed)
    assert tell(world, second, "arrived", address="10.0.0.2")
    assert [gang and gang["addresses"] for gang in gangs(world)] == [
        ["10.0.0.1", "10.0.0.2"]
    ] * 2


def test_the_node_of_another_workload_is_no_member(world: World) -> None:
    first, second = world.running(2, reserved())
    assert not tell(
        world,
        first,
        "arrived",
        workload={"namespace": "research", "name": "other"},
        address="10.0.0.1",
    )
    assert {claim.address for claim in (first, second)} == {None}


@pytest.mark.parametrize(
    "address", ["evil.example.com", "10.0.0.1; reboot", "", "10.0.0.1/8"]
)
def test_an_address_is_an_address(address: str) -> None:
    with pytest.raises(ManifestError):
        report("arrived", address=address)
