"""Warm nodes, deployed: free units boot ahead, and are free to everybody whatever is killed; nothing is bought.

The tests tell one story in their order, on one deployment.
"""

import json
from datetime import timedelta
from typing import Final

import pytest

from infra.naming import function_name
from lab.demo.observer import Observed
from lab.story.policies import one_type_pool, story_workload, write_manifests
from lab.story.world import World
from reservoir.names import DEPLOYMENT, Function

pytestmark = pytest.mark.embedded

TYPE: Final = "r5.2xlarge"
UNITS: Final = 3


@pytest.fixture(scope="module", autouse=True)
def reservation(world: World, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three units, a pool that keeps those that are free warm, and a pool and class of others that may use them too."""
    made = world.reserve("warm", TYPE, "us-east-1a", UNITS, "warm")
    world.discover()
    markets = ["reserved", "on-demand"]
    own_class, own_pool = one_type_pool("own", TYPE, markets)
    other_class, other_pool = one_type_pool("other", TYPE, markets)
    for node_class in (own_class, other_class):
        node_class["spec"]["capacityReservationSelectorTerms"] = [{"id": made}]
    for pool in (own_pool, other_pool):
        pool["spec"]["disruption"]["consolidateAfter"] = "0s"
    own_pool["spec"]["warmReserved"] = "All"
    manifests = [own_class, own_pool, other_class, other_pool]
    world.apply(write_manifests(tmp_path_factory.mktemp("policy"), manifests))
    return made


def submit(world: World, name: str, generation: int = 1) -> None:
    """Send work that fills one node of the pool of that name."""
    body = story_workload(name, 1, "6")
    body["metadata"]["generation"] = generation
    world.send({"action": "submit", "workload": body})


def withdraw(world: World, name: str, generation: int = 2) -> None:
    metadata = {"namespace": "story", "name": name, "generation": generation}
    world.send({"action": "withdraw", "workload": {"metadata": metadata}})


def running(seen: Observed, *pools: str) -> set[str]:
    """Return the instances that run, of some pools or of both."""
    nodes = {
        detail["node"]["instanceId"]: detail["node"]["nodePool"]
        for detail in seen.launched.values()
    }
    return {
        it.id
        for it in seen.live("running")
        if nodes.get(it.id) in (pools or ("own", "other"))
    }


def warm_count(world: World) -> int:
    """Return how many nodes ``get pools`` says are warm."""
    shown = world.command("get", "pools", "own", "--output", "json")
    document = json.loads(shown.stdout)
    (row,) = document.get("items", [document])
    return int(row["status"]["warm"])


def every_unit_is_warm(world: World, seen: Observed) -> bool:
    return len(running(seen, "own")) == UNITS and warm_count(world) == UNITS


def assert_that_nothing_was_bought(seen: Observed) -> None:
    """Every instance so far was in a paid unit, and never more than there are: EC2's bill is that of the units."""
    markets = {it.market for it in seen.met.values()}
    assert markets == {"reserved"}
    assert seen.over_count == []


def test_free_units_boot_ahead(world: World) -> None:
    seen = world.until("every unit has a node", lambda seen: len(running(seen)) == UNITS)
    assert warm_count(world) == UNITS
    assert_that_nothing_was_bought(seen)


def test_work_of_the_pool_starts_on_a_node_that_runs(world: World) -> None:
    before = running(world.look())
    sent_at = world.aws.clock.now()
    submit(world, "own")
    seen = world.until("it is placed", lambda seen: seen.placed["story/own"] == 1)
    assert world.aws.clock.now() - sent_at < timedelta(seconds=20), "sooner than any boot"
    assert running(seen) == before, "nothing was launched"
    assert warm_count(world) == UNITS - 1


def test_work_of_others_gets_a_unit_in_its_first_pass(world: World) -> None:
    submit(world, "other")
    seen = world.until(
        "it runs in the reservation", lambda seen: len(running(seen, "other")) == 1
    )
    assert "story/other" not in seen.pending, "the first pass gave it a unit"
    assert warm_count(world) == UNITS - 2
    assert {event["reason"] for event in world.events("Node Draining")} == {"ScaledDown"}
    assert_that_nothing_was_bought(seen)


def test_units_are_warm_again_once_the_work_has_gone(world: World) -> None:
    withdraw(world, "own")
    withdraw(world, "other")
    seen = world.until("every unit is warm", lambda seen: every_unit_is_warm(world, seen))
    assert_that_nothing_was_bought(seen)


def test_functions_that_die_half_way_lose_no_unit_and_buy_nothing(world: World) -> None:
    deployment = world.output(DEPLOYMENT)
    for function, operation, moment in (
        (Function.PROVISION, "TransactWriteItems", "after"),
        (Function.DISRUPT, "TransactWriteItems", "after"),
        (Function.LAUNCH, "CreateFleet", "after"),
    ):
        name = function_name(deployment, function)
        world.aws.fault("kill", operation=operation, function=name, moment=moment)
    submit(world, "other", 3)
    world.until("it runs", lambda seen: len(running(seen, "other")) == 1)
    assert [rule["operation"] for rule in world.aws.faults() if not rule["hits"]] == []
    world.aws.clear_faults()
    withdraw(world, "other", 4)
    seen = world.until("every unit is warm", lambda seen: every_unit_is_warm(world, seen))
    assert_that_nothing_was_bought(seen)
