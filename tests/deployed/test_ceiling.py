"""A ceiling on what a deployment buys, from its settings: buying stops there, and nothing else does.

The tests tell one story in their order, on one deployment.
"""

from pathlib import Path
from typing import Any, Final

import pytest

from lab.embedded.ec2.market.prices import on_demand_micro_usd_per_hour
from lab.story.policies import one_type_pool, story_workload, write_manifests
from lab.story.world import World
from reservoir.names import Function

pytestmark = pytest.mark.embedded

CHEAP, DEAR = (on_demand_micro_usd_per_hour(name) for name in ("m7i.large", "m7i.2xlarge"))
CEILING: Final = DEAR + CHEAP - 1  # for one of each it is too little
SETTINGS = {"ceilingUsdPerHour": f"{CEILING / 1_000_000:.6f}"}


def submit(world: World, name: str, **spec: Any) -> None:
    workload = story_workload(name, 1, "1", **spec)
    world.send(
        {
            "action": "submit",
            "workload": {**workload, "metadata": {"namespace": "story", "name": name}},
        }
    )


def reasons(world: World, name: str) -> set[str]:
    """Return why a workload was ever told to wait."""
    return {
        it["reason"]
        for it in world.events("Workload Pending")
        if it["workload"]["name"] == name
    }


def test_near_the_ceiling_the_dearest_goes_first(world: World, tmp_path: Path) -> None:
    """The dear workload has waited for longer; one plan sees both, because their pools come at once."""
    submit(world, "dear")
    world.until("the dear one waits", lambda _: bool(reasons(world, "dear")))
    submit(world, "cheap")
    world.until("the cheap one waits", lambda _: bool(reasons(world, "cheap")))
    pools = [
        *one_type_pool("cheap", "m7i.large", ["on-demand"]),
        *one_type_pool("dear", "m7i.2xlarge", ["on-demand"]),
    ]
    world.apply(write_manifests(tmp_path, pools))
    world.until("the cheap one is placed", lambda seen: seen.placed["story/cheap"] == 1)
    world.until(
        "the dear one waits for money", lambda _: "TeamBudget" in reasons(world, "dear")
    )
    assert world.look().placed["story/dear"] == 0


def test_it_is_told(world: World) -> None:
    world.until("it runs", lambda seen: len(seen.live("running")) == 1)

    def told(_: object) -> bool:
        events = [it for it in world.events("Team Over Budget") if it.get("team") is None]
        limits = {
            (it["period"], it["limitMicroUsd"], it["waitingReplicas"]) for it in events
        }
        return ("hour", CEILING, 1) in limits

    world.until("the ceiling is told", told)


def test_reserved_use_goes_on(world: World, tmp_path: Path) -> None:
    world.reserve("owned", "m7i.4xlarge", "us-east-1a", 1, "owned")
    world.apply(
        write_manifests(
            tmp_path, one_type_pool("owned", "m7i.4xlarge", ["reserved", "on-demand"])
        )
    )
    world.discover()
    submit(world, "owned")
    world.until("it is placed", lambda seen: seen.placed["story/owned"] == 1)
    world.until(
        "it runs",
        lambda seen: any(it.instance_type == "m7i.4xlarge" for it in seen.live("running")),
    )
    assert {it.market for it in world.seen.live() if it.instance_type != "m7i.large"} == {
        "reserved"
    }


def test_what_runs_goes_on_and_what_ends_makes_room(world: World) -> None:
    assert world.events("Node Draining") == []
    world.reservoir.invoke(Function.DISRUPT)
    metadata = {"namespace": "story", "name": "cheap", "generation": 1}
    world.send({"action": "withdraw", "workload": {"metadata": metadata}})
    world.until("the dear one has its turn", lambda seen: seen.placed["story/dear"] == 1)
