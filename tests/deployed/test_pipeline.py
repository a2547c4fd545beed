"""Demand on SQS becomes instances in capacity reservations, and leaves again: the whole pipeline, deployed.

The tests tell one story in their order, on one deployment.
"""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.demo.observer import Observed
from lab.embedded.reservoir.example import EXAMPLES
from lab.fakes.manifests import workload_manifest
from lab.story.people import Person
from lab.story.world import World
from reservoir.names import Table

pytestmark = pytest.mark.embedded

WANTED: dict[str, int] = {}


@pytest.fixture(scope="module", autouse=True)
def policy(world: World) -> None:
    """Two units of an ordinary type, one of a GPU type, and the policy of the demo."""
    world.reserve("general", "m7i.4xlarge", "us-east-1a", 2, "general")
    world.reserve("inference", "g5.12xlarge", "us-east-1a", 2, "gpu")
    world.apply(EXAMPLES / "policy.yaml")
    world.discover()


def workload(name: str, replicas: int, generation: int = 1, **spec: Any) -> dict[str, Any]:
    requests = {"cpu": "5", "memory": "16Gi"}
    return workload_manifest(
        f"story/{name}", replicas, requests, generation=generation, **spec
    )


def submit(world: World, manifest: Mapping[str, Any]) -> None:
    WANTED[f"story/{manifest['metadata']['name']}"] = manifest["spec"]["replicas"]
    world.send({"action": "submit", "workload": manifest})


def everything_runs(seen: Observed) -> bool:
    return seen.all_run(WANTED)


def free_units(seen: Observed) -> dict[str, int]:
    return {
        reservation.title: reservation.available_count for reservation in seen.reservations
    }


def markets(seen: Observed) -> Counter[str]:
    return Counter(instance.market for instance in seen.live())


def test_reservations_fill_first_and_the_rest_is_bought(world: World) -> None:
    submit(world, workload("web", 10))
    seen = world.until("every replica of web runs", everything_runs)
    assert free_units(seen) == {"general": 0, "inference": 2}
    assert markets(seen)["reserved"] == 2
    assert markets(seen)["spot"] + markets(seen)["on-demand"] > 0


def test_each_claim_has_one_instance_and_each_instance_one_claim(world: World) -> None:
    seen = world.until(
        "each has its tag", lambda seen: all(instance.claim_id for instance in seen.live())
    )
    claims = [instance.claim_id for instance in seen.live()]
    assert len(set(claims)) == len(claims)


def test_a_repeated_message_launches_nothing(world: World) -> None:
    before = {instance.id for instance in world.look().live()}
    for _ in range(3):
        world.send({"action": "submit", "workload": workload("web", 10)})
    # What is sent later is handled no earlier: when this one runs, the repeats have been planned too.
    submit(world, workload("after", 1))
    seen = world.until("the workload sent after the repeats runs", everything_runs)
    new = {instance.id for instance in seen.live()} - before
    assert len(new) <= 1


def test_a_new_generation_adds_the_difference(world: World) -> None:
    before = {instance.id for instance in world.look().live()}
    submit(world, workload("web", 14, generation=2))
    seen = world.until("fourteen replicas run", everything_runs)
    assert before <= {instance.id for instance in seen.live()}


def test_a_unit_taken_by_an_outsider_costs_a_retry_and_nothing_else(world: World) -> None:
    inference = next(it for it in world.seen.reservations if it.title == "inference")
    world.aws.ec2("outsider_launch", capacity_reservation_id=inference.id, count=1)
    gpu = {"cpu": "10", "memory": "32Gi", "nvidia.com/gpu": 1}
    submit(
        world,
        workload(
            "inference",
            8,
            resources={"requests": gpu},
            tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}],
        ),
    )
    seen = world.until("every replica of inference runs", everything_runs)
    assert free_units(seen)["inference"] == 0
    ours = [instance for instance in seen.live() if instance.reservation_id == inference.id]
    assert len(ours) == 1
    assert seen.over_count == []


def test_a_withdrawn_workload_leaves_and_its_units_are_free(world: World) -> None:
    world.send({"action": "withdraw", "workload": workload("inference", 8)})
    told = world.until(
        "its nodes are told", lambda seen: len(draining(seen, "inference")) == 2
    )
    for claim_id in draining(told, "inference"):
        world.send(
            {
                "action": "release",
                "workload": workload("inference", 8),
                "nodeClaim": claim_id,
            }
        )
    world.until("its unit is free", lambda seen: free_units(seen)["inference"] == 1)
    world.until(
        "its nodes are gone",
        lambda seen: not any(it.instance_type.startswith("g5") for it in seen.live()),
    )


# Enough to ask: what viewers may read, and policy.
READ = {
    "Effect": "Allow",
    "Action": ["dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query"],
    "Resource": "*",
}


def test_a_question_is_answered_to_somebody_who_may_write_nothing(
    world: World, tmp_path: Path
) -> None:
    reader = Person(world, managed=("Viewer",), statements=(READ,))
    path = tmp_path / "demand.yaml"
    path.write_text(json.dumps(workload("question", 6)))
    world.aws.clock.pause()  # nobody else plans meanwhile
    world.aws.clock.settle()
    before = rows(world)
    asked = reader.command(
        "plan", "-f", str(path), "--with", "3 m7i.4xlarge in us-east-1a", "-o", "json"
    )
    assert asked.returncode == 0, asked.stderr
    answer = json.loads(asked.stdout)
    present, edited = answer["present"]["workloads"][0], answer["edited"]["workloads"][0]
    for each in (present, edited):
        assert sum(part["replicas"] for part in (*each["places"], *each["waiting"])) == 6
    assert (
        answer["edited"]["addedMicroUsdPerHour"] < answer["present"]["addedMicroUsdPerHour"]
    )
    assert any(
        place["offering"].get("capacityReservationId") == "with-1"
        for place in edited["places"]
    )
    assert rows(world) == before
    world.aws.clock.resume()


def test_every_plan_so_far_is_the_same_again(world: World) -> None:
    viewer = Person(world, managed=("Viewer",))
    plans = rows(world)[Table.DECISIONS]
    assert plans
    for plan_id in plans:
        told = viewer.command("replay", plan_id)
        assert told.returncode == 0, told.stderr
        assert "the same to the byte" in told.stdout, told.stdout


def rows(world: World) -> dict[str, list[str]]:
    """Return the keys of all rows of workloads, nodes, policy and plans."""
    kept = (Table.WORKLOADS, Table.NODE_CLAIMS, Table.POLICY, Table.DECISIONS)
    scans = {
        table: world.aws.client("dynamodb").scan(TableName=world.output(table.value))[
            "Items"
        ]
        for table in kept
    }
    keys = {
        table: sorted(item["id"]["S"] for item in items) for table, items in scans.items()
    }
    return keys | {
        Table.DECISIONS: [key for key in keys[Table.DECISIONS] if key.startswith("plan-")]
    }


def draining(seen: Observed, name: str) -> set[str]:
    return {
        claim_id
        for claim_id, detail in seen.drains.items()
        if any(placed["name"] == name for placed in detail["workloads"])
    }


def test_what_happened_to_a_workload_and_its_nodes_is_told_afterwards(world: World) -> None:
    def told(name: str) -> list[str]:
        done = world.command("events", "--for", name, "-o", "json")
        assert done.returncode == 0, done.stderr
        return [item["type"] for item in json.loads(done.stdout)["items"]]

    world.until(
        "the history knows it", lambda _: "Node Launched" in told("workload/story/web")
    )
    assert "Workload Placed" in told("workload/story/web")
    launched = [event["node"] for event in world.events("Node Launched")]
    node = next(node for node in launched if "capacityReservationId" in node)
    about_node = {"Node Launched", "Workload Placed"}
    world.until(
        "it knows the node", lambda _: about_node <= set(told(f"node/{node['nodeClaim']}"))
    )
    assert "Node Launched" in told(f"reservation/{node['capacityReservationId']}")
    everything = json.loads(world.command("events", "--since", "2d", "-o", "json").stdout)[
        "items"
    ]
    assert {item["id"] for item in everything} & {
        event["id"] for event in world.seen.events
    }


def test_the_status_shows_what_there_is(world: World) -> None:
    told = json.loads(world.command("status", "-o", "json").stdout)
    units = {it["id"]: it["total"] for it in told["there"]["reservations"]}
    assert units == {reservation.id: 2 for reservation in world.look().reservations}
    assert (
        told["refused"] == []
        or {"at", "type", "object", "what"} <= told["refused"][0].keys()
    )
    assert told["queues"]["planning"]["messages"] >= 0
    assert isinstance(told["alarms"], list)
    shown = world.command("status").stdout.splitlines()
    assert max(map(len, shown)) <= 80
    assert not any("unknown" in line for line in shown)
