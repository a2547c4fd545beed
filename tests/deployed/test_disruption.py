"""Disruption deployed, on its schedules, with permissions enforced: each story has a pool and a reservation."""

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from infra.naming import function_name
from lab.demo.observer import Observed
from lab.fakes.manifests import workload_manifest
from lab.fakes.system import InTurn
from lab.story.policies import one_type_pool, write_manifests
from lab.story.world import World
from reservoir.adapters.dynamodb.node_claims import DynamoDbNodeClaimStore
from reservoir.adapters.dynamodb.offerings import DynamoDbOfferingStore
from reservoir.names import DEPLOYMENT, MOVABLE_TAG, MOVABLE_VALUE, Function, Queue, Table

pytestmark = pytest.mark.embedded

ZONE: Final = "us-east-1a"
MOVE, ROLL, EMPTY, LEND = "m7i.2xlarge", "r6i.2xlarge", "c7i.2xlarge", "r7i.2xlarge"
GONE, HEIR = "m6i.2xlarge", "m5.2xlarge"


def pool(
    story: str, instance_type: str, *capacity_types: str, **labels: str
) -> list[dict[str, Any]]:
    """A pool of one type, whose nodes may go as soon as there is a reason, with a class of its own."""
    node_class, node_pool = one_type_pool(story, instance_type, capacity_types)
    node_pool["spec"]["disruption"] = {
        "consolidateAfter": "0s",
        "budgets": [{"nodes": "100%"}],
    }
    node_pool["spec"]["template"]["metadata"]["labels"] |= labels
    return [node_class, node_pool]


@pytest.fixture(scope="module", autouse=True)
def policy(world: World, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Three pools, and one reserved unit for each; a fourth, which may use idle units of a fifth's reservation."""
    for story, instance_type in (("move", MOVE), ("roll", ROLL), ("empty", EMPTY)):
        world.reserve(story, instance_type, ZONE, 1, story)
    lent = [
        world.reserve("lend", LEND, ZONE, 2, "lend"),
        world.reserve("borrow", LEND, ZONE, 1, "borrow"),
    ]
    world.aws.client("ec2").create_tags(
        Resources=lent, Tags=[{"Key": MOVABLE_TAG, "Value": MOVABLE_VALUE}]
    )
    borrower = pool("borrow", LEND, "reserved", "on-demand")
    borrower[1]["spec"]["disruption"]["moveReservedUnits"] = True
    manifests = [
        *borrower,
        *pool("lend", LEND, "reserved"),
        *pool("move", MOVE, "reserved", "on-demand"),
        *pool("roll", ROLL, "reserved"),
        *pool("empty", EMPTY, "reserved"),
        *pool("gone", GONE, "on-demand"),
    ]
    world.apply(write_manifests(tmp_path_factory.mktemp("policy"), manifests))
    world.discover()


def workload(name: str, story: str, replicas: int = 1, **spec: Any) -> dict[str, Any]:
    """Replicas that fill a node each, on the pool of a story."""
    requests, where = (
        {"cpu": "6", "memory": "10Gi"},
        {"story": story, "topology.kubernetes.io/zone": ZONE},
    )
    return workload_manifest(
        f"disruption/{name}", replicas, requests, generation=1, nodeSelector=where, **spec
    )


def live(seen: Observed, instance_type: str, *states: str) -> list[Any]:
    return [it for it in seen.live(*states) if it.instance_type == instance_type]


def running(seen: Observed, instance_type: str) -> list[Any]:
    """Return the nodes that run and are known as ours: the claim's tag may come later than the instance."""
    return [it for it in live(seen, instance_type, "running") if it.claim_id is not None]


def markets(seen: Observed, instance_type: str) -> list[str]:
    return sorted(it.market for it in running(seen, instance_type))


def unit(world: World, title: str) -> str:
    return next(identity for identity, it in world.titles.items() if it == title)


def drained(world: World, instance_type: str) -> Mapping[str, Any]:
    """Wait until a node is told to go; its workload releases it. ``world.seen`` is from before the release."""

    def found(seen: Observed) -> list[Mapping[str, Any]]:
        return [
            detail
            for detail in seen.drains.values()
            if detail["node"]["instanceType"] == instance_type
        ]

    (detail,) = found(
        world.until(f"a node of {instance_type} drains", lambda seen: bool(found(seen)))
    )
    for placed in detail["workloads"]:
        body = workload(placed["name"], "any")
        world.send(
            {
                "action": "release",
                "workload": body,
                "nodeClaim": detail["node"]["nodeClaim"],
            }
        )
    return detail


def nothing_waits(world: World, queue: Queue) -> bool:
    counts = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    url = world.output(queue.value)
    found = world.aws.client("sqs").get_queue_attributes(
        QueueUrl=url, AttributeNames=counts
    )["Attributes"]
    return all(found[name] == "0" for name in counts)


def is_hit(world: World, rule: int) -> bool:
    return any(each["id"] == rule and each["hits"] for each in world.aws.faults())


def nobody_is_placed(world: World, pool_name: str) -> bool:
    client, table = world.aws.client("dynamodb"), world.output
    store = DynamoDbNodeClaimStore(
        client,
        node_claims_table=table(Table.NODE_CLAIMS),
        reservations_table=table(Table.RESERVATIONS),
        workloads_table=table(Table.WORKLOADS),
        clock=world,
    )
    return not any(
        claim.placements for claim in store.list_live() if claim.node_pool_name == pool_name
    )


def explained(world: World, claim_id: str) -> Any:
    shown = world.command("explain", "node", claim_id, "--output", "json")
    assert shown.returncode == 0, shown.stderr
    return json.loads(shown.stdout)


def test_on_demand_moves_into_a_unit_that_becomes_free(world: World) -> None:
    world.send({"action": "submit", "workload": workload("train", "move", replicas=2)})
    seen = world.until(
        "both run", lambda seen: markets(seen, MOVE) == ["on-demand", "reserved"]
    )
    old = next(it for it in live(seen, MOVE) if it.market == "on-demand").claim_id
    world.aws.client("ec2").modify_capacity_reservation(
        CapacityReservationId=unit(world, "move"), InstanceCount=2
    )
    detail = drained(world, MOVE)
    assert (detail["node"]["nodeClaim"], detail["reason"]) == (old, "Consolidation")
    # Only now, with its replacement up:
    assert markets(world.seen, MOVE) == ["on-demand", "reserved", "reserved"]
    world.until(
        "the paid node is gone",
        lambda seen: [it.market for it in live(seen, MOVE)] == ["reserved"] * 2,
    )
    world.until("that was said", lambda seen: old in seen.terminated)
    story = explained(world, old)
    assert story["disruption"]["status"] == "gone"
    (new,) = story["disruption"]["replacedBy"]
    seen = world.until("of the new one, too", lambda seen: new in seen.launched)
    assert seen.launched[new]["launchedAt"] <= seen.drains[old]["notifiedAt"], (
        "replaced first"
    )
    assert explained(world, new)["origin"]["replaces"] == [old]


def test_a_full_reservation_is_rolled_through_its_only_slot(
    world: World, tmp_path: Path
) -> None:
    world.send({"action": "submit", "workload": workload("steady", "roll")})
    seen = world.until("it runs", lambda seen: len(running(seen, ROLL)) == 1)
    (old,) = live(seen, ROLL)
    world.send({"action": "submit", "workload": workload("rival", "roll", priority=1_000)})
    world.until("the rival waits", lambda seen: "disruption/rival" in seen.pending)
    world.apply(write_manifests(tmp_path, pool("roll", ROLL, "reserved", version="2")))
    detail = drained(world, ROLL)
    assert (detail["node"]["nodeClaim"], detail["reason"]) == (old.claim_id, "Drift")
    seen = world.until(
        "its slot is used again",
        lambda seen: any(it.id != old.id for it in running(seen, ROLL)),
    )
    (new,) = live(seen, ROLL)
    assert new.reservation_id == unit(world, "roll")
    assert new.claim_id is not None
    found = explained(world, new.claim_id)
    # and not the rival, though more urgent
    assert [each["name"] for each in found["workloads"]] == ["steady"]
    assert "only its own unit can hold the replacement" in found["origin"]["text"]
    assert seen.over_count == []


def test_an_empty_reserved_node_goes_back_to_its_reservation(world: World) -> None:
    """Its workload is withdrawn while EC2 is being asked for it: too late to stop, and nobody moves in."""
    launch = function_name(world.output(DEPLOYMENT), Function.LAUNCH)
    rule = world.aws.fault(
        "delay",
        service="ec2",
        operation="CreateFleet",
        function=launch,
        delay_s=3_600,
        times=9,
    )
    body = workload("gone", "empty")
    world.send({"action": "submit", "workload": body})
    world.until("EC2 is asked", lambda _: is_hit(world, rule), real_time=True)
    world.send({"action": "withdraw", "workload": body})
    world.until(
        "the withdrawal is known",
        lambda _: nothing_waits(world, Queue.DEMAND),
        real_time=True,
    )
    # What would wake the planner of its pool waits for the clock, which waits for EC2.
    wake_up = {"workloads": ["disruption/gone"], "group": ["empty"]}
    world.reservoir.invoke(Function.PROVISION, {"Records": [{"body": json.dumps(wake_up)}]})
    assert nobody_is_placed(world, "empty")
    world.aws.clear_faults()  # EC2 answers
    detail = drained(world, EMPTY)
    assert detail["reason"] == "Empty"
    assert detail["workloads"] == []
    world.until("it is gone", lambda seen: not live(seen, EMPTY))
    world.until(
        "its unit is free",
        lambda seen: (
            [it.available_count for it in seen.reservations if it.title == "empty"] == [1]
        ),
    )


def test_an_idle_unit_moves_to_an_equal_reservation_for_a_node_that_is_paid_for(
    world: World,
) -> None:
    world.send({"action": "submit", "workload": workload("lent", "borrow", replicas=2)})
    world.until("both run", lambda seen: markets(seen, LEND) == ["on-demand", "reserved"])
    paid = drained(world, LEND)["node"]["nodeClaim"]
    seen = world.until(
        "both are reserved", lambda seen: markets(seen, LEND) == ["reserved", "reserved"]
    )
    assert {it.reservation_id for it in live(seen, LEND, "running")} == {
        unit(world, "borrow")
    }
    totals = {
        it.title: (it.total_count, it.available_count)
        for it in seen.reservations
        if it.title in ("lend", "borrow")
    }
    assert totals == {"lend": (1, 1), "borrow": (2, 0)}
    world.until("the claim of the other is over", lambda seen: paid in seen.terminated)
    assert world.denials() == []


def test_a_deleted_pools_nodes_go(world: World) -> None:
    """The pool of the story before: two nodes of it run, and no other pool holds what they do."""
    unasked = world.command("delete", "nodepool/borrow")
    assert (unasked.returncode, "nodepool/borrow has 2 nodes" in unasked.stderr) == (
        2,
        True,
    ), unasked.stderr
    done = world.command("delete", "nodepool/borrow", "--yes")
    assert done.stdout == "nodepool/borrow deleted\n", done.stdout + done.stderr

    def told(seen: Observed) -> set[str]:
        return {
            it["reason"]
            for it in seen.drains.values()
            if it["node"]["nodePool"] == "borrow"
        }

    world.until("they drain", lambda seen: "NodePoolDeleted" in told(seen))


def test_a_node_whose_type_is_gone_is_replaced_by_another(
    world: World, tmp_path: Path
) -> None:
    """Two hours after its launch, discovery finds the type nowhere, and the pool allows a second one (S-74)."""
    world.send({"action": "submit", "workload": workload("lasting", "gone")})
    seen = world.until("it runs", lambda seen: len(running(seen, GONE)) == 1)
    (old,) = live(seen, GONE)
    node_class, wider = pool("gone", GONE, "on-demand")
    wider["spec"]["template"]["spec"]["requirements"][1]["values"].append(HEIR)
    world.apply(write_manifests(tmp_path, [node_class, wider]))
    catalogue = DynamoDbOfferingStore(
        world.aws.client("dynamodb"), world.output(Table.OFFERINGS), world, InTurn()
    )
    assert (
        catalogue.save_catalogue(
            [kind for kind in catalogue.load_catalogue() if kind.name != GONE]
        )
        == 1
    )
    world.aws.clock.advance(timedelta(hours=2), coalesce=True)
    detail = drained(world, GONE)
    assert (detail["node"]["nodeClaim"], detail["reason"]) == (old.claim_id, "Drift")
    world.until("the old node is gone", lambda seen: not live(seen, GONE))
    (new,) = running(world.look(), HEIR)
    assert (
        f"{GONE} is no longer offered" in explained(world, new.claim_id)["origin"]["text"]
    )
