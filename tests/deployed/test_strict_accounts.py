"""Accounts that refuse what most allow, and services that do not answer: what is necessary goes on, deployed.

The tests tell one story in their order, on one deployment.
"""

from datetime import timedelta
from typing import Any

import pytest

from demo.observer import Observed
from shared.names import Function
from tests.deployed.story.policies import one_type_pool, write_manifests
from tests.deployed.story.world import World
from tests.fakes.manifests import workload_manifest

pytestmark = pytest.mark.embedded

STEADY, BLOCK = "m7i.2xlarge", "p5.48xlarge"
ZONE = "us-east-1a"
DAY_S = 24 * 60 * 60


@pytest.fixture(scope="module", autouse=True)
def policy(world: World, tmp_path_factory: pytest.TempPathFactory) -> None:
    """One pool, whose class selects six reservations and a Capacity Block that is to come."""
    pool = one_type_pool("steady", STEADY, ["reserved", "on-demand"])
    world.apply(write_manifests(tmp_path_factory.mktemp("policy"), [*pool]))


def submit(world: World, name: str, replicas: int = 1) -> str:
    """Ask for replicas that fill a node each."""
    requests = {"cpu": "6", "memory": "10Gi"}
    body = workload_manifest(f"strict/{name}", replicas, requests, generation=1, nodeSelector={"story": "steady"})
    world.send({"action": "submit", "workload": body})
    return name


def nodes_of(seen: Observed, name: str) -> int:
    """Return how many nodes were launched for a workload."""
    return sum(any(w["name"] == name for w in detail["workloads"]) for detail in seen.launched.values())


@pytest.mark.parametrize(
    "failure",
    [
        {"code": "AccessDeniedException", "status": 403},
        {"code": "ThrottlingException", "status": 400},
        {"code": "InternalServerException", "status": 500},
        {"code": "ResourceNotFoundException", "status": 404},
    ],
    ids=lambda failure: failure["code"],
)
def test_what_scheduler_refuses_stops_neither_discovery_nor_launches(world: World, failure: dict[str, Any]) -> None:
    name = str(failure["code"]).lower()
    world.aws.fault("error", service="scheduler", times=100_000, **failure)
    world.buy_block(f"block-{name}", BLOCK, ZONE, 1, "steady", start_in_s=DAY_S, end_in_s=3 * DAY_S)
    ids = {world.reserve(f"{name}-{number}", STEADY, ZONE, 1, "steady") for number in range(6)}
    world.discover()
    shown = world.command("get", "reservations").stdout
    assert {each for each in ids if each in shown} == ids
    key = submit(world, name)
    world.until("the workload has a node", lambda seen: nodes_of(seen, key) == 1)
    assert "timer refused" in world.log(Function.DISCOVER_RESERVATIONS)
    world.expected_denials += [line for line in world.denials() if "timer refused" in line]
    world.aws.clear_faults()
    world.aws.clock.advance(timedelta(minutes=1), coalesce=True)
