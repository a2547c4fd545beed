"""``reservoir explain`` on a world in which things have happened."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from typer.testing import Result

from lab.fakes.stores.history import MemoryHistory
from lab.worlds.disrupt_world import DisruptWorld
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import NodeClaim, Operation
from reservoir.runtime.composition.parts.planning import solver_from
from reservoir.usecases.operating.operate_nodes import OperateNodes
from reservoir.usecases.provisioning.gather_snapshot import SnapshotGatherer
from reservoir.usecases.provisioning.solver import Solver
from tests.cli.world_stack import WorldStack, invoke


class Stack(WorldStack[DisruptWorld]):
    """The part of ``reservoir.cli.stack.connection.Connection`` that explaining needs."""

    history = MemoryHistory()  # nothing is known of the past

    @property
    def snapshots(self) -> SnapshotGatherer:
        return self.world.gatherer()

    @property
    def solver(self) -> Solver:
        return solver_from(self.world.outside())


def explain(world: DisruptWorld, *arguments: str) -> Result:
    return invoke(Stack(world), "explain", *arguments)


def explained(world: DisruptWorld, *arguments: str) -> Any:
    result = explain(world, *arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def world() -> DisruptWorld:
    """One job in a reservation, one on demand beside it."""
    world = DisruptWorld("reserved", "on-demand")
    world.add_reservation("cr-1", total_count=1)
    world.submit("train", replicas=2, gpus=8)
    world.minutes(3)
    return world


def paid(world: DisruptWorld) -> NodeClaim:
    return next(c for c in world.claims() if c.offering.reservation_id is None)


def test_a_node_that_stays(world: DisruptWorld) -> None:
    (reserved,) = [c for c in world.claims() if c.offering.reservation_id is not None]
    found = explained(world, "node", reserved.id)
    assert found["origin"]["kind"] == "provisioning"
    assert found["origin"]["decisionId"] == reserved.plan_id
    assert (
        found["origin"]["text"]
        == "a unit of reservation cr-1 was free, and is paid for anyway"
    )
    assert found["disruption"]["status"] == "stays"
    assert found["disruption"]["text"] == world.reason(reserved.id)
    assert found["workloads"] == [{"namespace": "research", "name": "train", "replicas": 1}]
    assert explained(world, "node", reserved.instance_id or "") == found


def test_a_node_that_ec2_moved_in_says_that_it_was_bought_and_not_restarted(
    world: DisruptWorld,
) -> None:
    it = paid(world)
    in_reservation = replace(
        it.offering, capacity_type=CapacityType.RESERVED, reservation_id="cr-split"
    )
    world.state.claim_rows[it.id] = replace(
        it, offering=in_reservation, reclaim_group_arn="arn:group"
    )
    text = explained(world, "node", it.id)["origin"]["text"]
    assert text == (
        "no reserved unit was free for it, so it was bought on demand; EC2 has moved it into"
        " cr-split since, without a restart"
    )


def test_a_node_that_is_replaced_and_its_replacement(world: DisruptWorld) -> None:
    old = paid(world)
    world.resize("cr-1", 2)
    world.minute()
    (new,) = [c for c in world.claims() if c.replaces]
    going = explained(world, "node", old.id)["disruption"]
    assert (going["status"], going["reason"], going["replacedBy"]) == (
        "being-replaced",
        "Consolidation",
        [new.id],
    )
    coming = explained(world, "node", new.id)["origin"]
    assert (coming["kind"], coming["replaces"]) == ("disruption", [old.id])
    assert coming["text"].startswith(
        f"replaces {old.id}: cheaper capacity can hold its replicas"
    )
    world.clock.advance(minutes=1)
    world.disruption_pass()
    assert (
        f"waits until {new.id} runs"
        in explained(world, "node", old.id)["disruption"]["text"]
    )
    world.minute()
    assert explained(world, "node", old.id)["disruption"]["status"] == "draining"
    assert "drains until 2026-01-15T12:2" in explain(world, "node", old.id).stdout
    world.minutes(2)
    gone = explained(world, "node", old.id)
    assert (gone["state"], gone["disruption"]["status"]) == ("terminated", "gone")
    why = "cheaper capacity can hold its replicas, which saves 98.3200 USD an hour"
    assert gone["disruption"]["text"].startswith(why)
    assert "drains until" not in explain(world, "node", old.id).stdout


def test_a_node_that_drains_by_hand_says_for_whom_and_why(world: DisruptWorld) -> None:
    node = paid(world)
    nodes = OperateNodes(world.state.node_claims, world.draining())
    asked = Operation(
        "drain",
        "arn:aws:iam::111122223333:role/admin",
        "OPS-1 ECC errors",
        world.clock.now(),
    )
    nodes.drain([node.id], asked, timedelta(hours=1))
    world.disruption_pass()
    found = explained(world, "node", node.id)["disruption"]
    told = "drain by arn:aws:iam::111122223333:role/admin: OPS-1 ECC errors"
    assert (found["status"], found["text"]) == ("draining", told)


def test_what_several_nodes_save_together_is_told_of_each(world: DisruptWorld) -> None:
    world.scale("train", 3)
    world.minutes(2)
    nodes = [claim for claim in world.live() if claim.offering.reservation_id is None]
    world.resize("cr-1", 3)
    world.minute()
    told = {explained(world, "node", node.id)["disruption"]["text"] for node in nodes}
    assert told == {
        "cheaper capacity can hold its replicas, with another node, which saves 196.6400 USD an hour"
    }


def test_the_text_says_the_same(world: DisruptWorld) -> None:
    old = paid(world)
    lines = explain(world, "node", old.id).stdout.splitlines()
    assert (
        lines[0]
        == f"{old.id} ({old.instance_id}): p5.48xlarge on-demand in us-east-1a, running"
    )
    assert lines[1] == "  holds       research/train x1"
    assert lines[2].startswith("  exists      on-demand at 98.3200 USD an hour; ")
    assert lines[3].startswith(
        f"  disruption  stays: {world.reason(old.id)} (disruption-latest at 2026-01-15T12:"
    )


def test_why_a_workload_waits(world: DisruptWorld) -> None:
    world.submit("huge", replicas=3, cpus=1_000)
    world.minute()
    found = explained(world, "workload", "research/huge")
    assert (found["replicas"], found["placed"], found["pending"]) == (3, 0, 3)
    assert [(each["replicas"], each["reason"]) for each in found["waiting"]] == [
        (3, "TooLarge")
    ]
    assert "nextFeasibleAt" not in found
    text = explain(world, "workload", "research/huge").stdout
    assert "3 wanted, 0 placed, 3 waiting" in text
    assert "could run   not by itself" in text


def test_where_a_workload_runs(world: DisruptWorld) -> None:
    found = explained(world, "workload", "research/train")
    assert sorted(each["nodeClaim"] for each in found["nodes"]) == [
        c.id for c in world.live()
    ]
    assert found["waiting"] == []
    assert explain(world, "workload", "research/train").stdout.count("  on          ") == 2


@pytest.mark.parametrize(
    "words", [("node", "nc-unknown"), ("node", "i-0123"), ("workload", "nobody")]
)
def test_what_is_not_known(world: DisruptWorld, words: tuple[str, str]) -> None:
    result = explain(world, *words)
    assert result.exit_code == 2
    assert "is not known" in result.stderr


def test_a_decision_that_is_not_kept_any_more(world: DisruptWorld) -> None:
    world.state.decisions.rows.clear()
    found = explained(world, "node", paid(world).id)
    assert found["origin"]["text"] == "its decision is no longer stored"
    assert found["disruption"]["text"] == "disruption has not looked at it yet"
