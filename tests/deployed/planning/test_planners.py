"""Eight groups of pools that share nothing, each with a planner of its own: a storm of launches promises no unit twice.

The tests tell one story in their order, on one deployment.
"""

from typing import Any, Final

import pytest

from lab.story.policies import one_type_pool, story_workload, write_manifests
from lab.story.world import World
from reservoir.core.sharing.planning_groups import PLANNED_AT_ONCE_MAX
from reservoir.names import Function, Table

pytestmark = pytest.mark.embedded

ZONE: Final = "us-east-1a"
TYPE: Final = "m7i.2xlarge"
POOLS: Final = tuple(f"pool-{number}" for number in range(8))
UNITS: Final = 3  # reserved for each pool
# More workloads than one planner plans at once.
PARTS: Final = ("one", "two", "three")
REPLICAS: Final = 3  # of each of them, each of which fills a node


@pytest.fixture(scope="module", autouse=True)
def policy(world: World, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in POOLS:
        world.reserve(name, TYPE, ZONE, UNITS, name)
    manifests = [
        part
        for name in POOLS
        for part in one_type_pool(name, TYPE, ["reserved", "on-demand"])
    ]
    world.apply(write_manifests(tmp_path_factory.mktemp("policy"), manifests))
    world.discover()


def turns(world: World) -> dict[str, int]:
    """Return how many commits each group's planner made."""
    pages = (
        world.aws.client("dynamodb")
        .get_paginator("scan")
        .paginate(TableName=world.output(Table.NODE_CLAIMS.value))
    )
    rows = [row for page in pages for row in page["Items"]]
    prefix = "planning-turn "
    return {
        row["id"]["S"].removeprefix(prefix): int(row["revision"]["N"])
        for row in rows
        if row["id"]["S"].startswith(prefix)
    }


def submit(world: World, name: str, replicas: int, cpu: str, **spec: Any) -> None:
    workload = story_workload(name.partition(".")[0], replicas, cpu, **spec)
    workload["metadata"]["name"] = name
    world.send({"action": "submit", "workload": workload})


def test_a_storm_on_eight_planners_takes_every_reserved_unit_once(world: World) -> None:
    assert len(PARTS) * len(POOLS) > PLANNED_AT_ONCE_MAX
    for part in PARTS:
        for name in POOLS:
            submit(world, f"{name}.{part}", REPLICAS, "6")
    world.until(
        "every replica has its node",
        lambda seen: len(seen.launched) == len(PARTS) * REPLICAS * len(POOLS),
    )

    assert world.seen.over_count == []
    nodes = [detail["node"] for detail in world.seen.launched.values()]
    reserved = [
        node["capacityReservationId"] for node in nodes if node.get("capacityReservationId")
    ]
    assert sorted(reserved) == sorted(each for each in world.titles for _ in range(UNITS))
    assert sorted(turns(world)) == list(POOLS)
    assert "PlanRejected" not in world.log(Function.PROVISION)


def test_work_for_any_of_the_pools_is_planned_with_all_of_them(world: World) -> None:
    before = turns(world)

    submit(world, "anywhere", 1, "100m", nodeSelector={})

    def is_placed(_: object) -> bool:
        return any(
            fact["workload"]["name"] == "anywhere"
            for fact in world.events("Workload Placed")
        )

    world.until("it has a place", is_placed)
    assert all(after > before[name] for name, after in turns(world).items())
