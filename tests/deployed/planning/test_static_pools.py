"""Static pools, deployed: nodes stand before anything asks for them, take demand, and go when fewer are wanted; and on
every unit of a Capacity Block, as soon as it begins.

The tests tell one story in their order, on one deployment.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from lab.demo.observer import Instance, Observed
from lab.story.policies import one_type_pool, story_workload, write_manifests
from lab.story.world import World

pytestmark = pytest.mark.embedded

TYPE: Final = "m7i.4xlarge"
BLOCK: Final = "p5.48xlarge"
DAY_S: Final = 86_400


def static_pool(name: str, instance_type: str = TYPE, **spec: Any) -> list[dict[str, Any]]:
    node_class, pool = one_type_pool(name, instance_type, ["reserved", "on-demand"])
    return [node_class, {**pool, "spec": {**pool["spec"], **spec}}]


def work(name: str) -> dict[str, Any]:
    """Three replicas, of which each fills a node of the pool."""
    return story_workload(name, 3, "10", nodeSelector={"story": "fixed"})


def counted(world: World, name: str) -> tuple[int, int, int]:
    """Return how many nodes of a pool are wanted, there and coming, as ``get pools`` says it."""
    document = json.loads(world.command("get", "pools", name, "--output", "json").stdout)
    (row,) = document.get("items", [document])
    replicas = row["status"]["replicas"]
    return replicas["wanted"], replicas["there"], replicas["coming"]


def test_nodes_stand_reserved_units_first(world: World, tmp_path: Path) -> None:
    world.reserve("fixed", TYPE, "us-east-1a", 2, "fixed")
    world.discover()
    world.apply(
        write_manifests(tmp_path, static_pool("fixed", replicas=3, limits={"nodes": "4"}))
    )
    seen = world.until("three nodes run", lambda seen: len(seen.live("running")) == 3)
    assert sorted(instance.market for instance in seen.live()) == [
        "on-demand",
        "reserved",
        "reserved",
    ]
    assert seen.over_count == []
    assert counted(world, "fixed") == (3, 3, 0)


def test_demand_fills_them(world: World) -> None:
    before = {instance.id for instance in world.look().live()}
    world.send({"action": "submit", "workload": work("web")})
    world.until("it is placed", lambda seen: seen.placed["story/web"] == 3)
    assert {instance.id for instance in world.look().live()} == before


def test_they_stand_when_the_work_is_withdrawn(world: World) -> None:
    before = {instance.id for instance in world.look().live()}
    metadata = {"namespace": "story", "name": "web", "generation": 2}
    world.send({"action": "withdraw", "workload": {"metadata": metadata}})
    world.send({"action": "submit", "workload": work("after")})
    world.until(
        "what is sent later takes their place", lambda seen: seen.placed["story/after"] == 3
    )
    assert {instance.id for instance in world.look().live("running")} == before
    assert world.events("Node Draining") == []


def test_fewer_are_wanted_and_bought_ones_go_first(world: World, tmp_path: Path) -> None:
    world.apply(
        write_manifests(tmp_path, static_pool("fixed", replicas=2, limits={"nodes": "4"}))
    )
    seen = world.until("one node has gone", lambda seen: len(seen.live()) == 2)
    assert [instance.market for instance in seen.live()] == ["reserved", "reserved"]
    assert {event["reason"] for event in world.events("Node Draining")} == {"ScaledDown"}


def test_a_static_pool_stays_one(world: World, tmp_path: Path) -> None:
    changed = write_manifests(tmp_path, static_pool("fixed"))
    refused = world.command("apply", "-f", str(changed))
    assert refused.returncode != 0
    assert "spec.replicas" in refused.stderr


def test_a_pool_of_a_block_stands_when_it_begins_on_every_unit(
    world: World, tmp_path: Path
) -> None:
    world.apply(
        write_manifests(tmp_path, static_pool("block", BLOCK, replicas="allReserved"))
    )
    world.buy_block(
        "block", BLOCK, "us-east-1a", 2, "block", start_in_s=600, end_in_s=DAY_S
    )
    world.discover()
    assert counted(world, "block") == (0, 0, 0)
    seen = world.until("its nodes run", lambda seen: len(in_block(seen)) == 2)
    assert seen.over_count == []
    assert counted(world, "block") == (2, 2, 0)


def in_block(seen: Observed) -> list[Instance]:
    titles = {reservation.id: reservation.title for reservation in seen.reservations}
    return [
        it for it in seen.live("running") if titles.get(it.reservation_id or "") == "block"
    ]
