"""Updates that replace what runs, deployed: within the bounds at every look, also when functions die half-way.

The tests tell one story in their order: each updates the service that the one before has left.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from infra.naming import function_name
from lab.demo.observer import Observed
from lab.fakes.manifests import workload_manifest
from lab.story.policies import one_type_pool, write_manifests
from lab.story.world import World
from reservoir.names import DEPLOYMENT, Function

pytestmark = pytest.mark.embedded

WANTED: Final = 4
KEY: Final = "shop/web"
SURGE_ONE: Final = {"maxSurge": 1, "maxUnavailable": 0}
ONE_LESS: Final = {"maxSurge": 0, "maxUnavailable": 1}


def web(generation: int, bounds: dict[str, int]) -> dict[str, Any]:
    """Return a service whose replicas fill a node each; every generation is of another spec."""
    return workload_manifest(
        KEY,
        WANTED,
        {"cpu": "6", "memory": f"{generation}Gi"},
        generation=generation,
        nodeSelector={"story": "rollouts"},
        strategy={"rollingUpdate": bounds},
    )


class Service:
    """The service's nodes, looked at each emulated second or every few; what drains is released at once."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._released: set[str] = set()
        self.fewest = self.most = (
            WANTED  # nodes that ran, and that had been launched, and were not told to go
        )

    def submit(self, generation: int, bounds: dict[str, int]) -> None:
        self.fewest = self.most = WANTED
        self._world.send({"action": "submit", "workload": web(generation, bounds)})

    def look(self, seen: Observed) -> None:
        for claim in seen.drains.keys() - self._released:
            self._released.add(claim)
            body = web(1, SURGE_ONE)
            self._world.send({"action": "release", "workload": body, "nodeClaim": claim})
        staying = [it for it in seen.live() if it.claim_id not in seen.drains]
        running = [it for it in staying if it.state == "running"]
        self.fewest = min(self.fewest, len(running))
        self.most = max(self.most, len(staying))

    def status(self) -> dict[str, Any]:
        done = self._world.command("get", "workloads", KEY, "-o", "json")
        assert done.returncode == 0, done.stdout + done.stderr
        (row,) = json.loads(done.stdout)["items"]
        status: dict[str, Any] = row["status"]
        return status

    def until_drained(self, nodes: int) -> None:
        """Wait until so many nodes were told to go since the story began."""

        def drained(seen: Observed) -> bool:
            self.look(seen)
            return len(seen.drains) >= nodes

        self._world.until(f"{nodes} nodes were told to go", drained)

    def until_updated(self) -> None:
        """Wait until all replicas run with the present spec on nodes that stay."""

        def updated(seen: Observed) -> bool:
            self.look(seen)
            staying = [it for it in seen.live("running") if it.claim_id not in seen.drains]
            return len(staying) == len(seen.live()) == WANTED

        self._world.until("every node is a new one", updated)
        self._world.until("the update is over", lambda _: "rollout" not in self.status())
        status = self.status()
        assert (status["placed"], status["outdated"]) == (WANTED, 0)


@pytest.fixture(scope="module")
def service(world: World, tmp_path_factory: pytest.TempPathFactory) -> Service:
    node_class, pool = one_type_pool("rollouts", "c7i.2xlarge", ["on-demand"])
    pool["spec"]["disruption"]["budgets"] = [{"nodes": "100%"}]
    folder = tmp_path_factory.mktemp("policy")
    world.apply(write_manifests(folder, [node_class, pool]))
    world.discover()
    made = Service(world)
    made.submit(1, SURGE_ONE)
    world.until("it runs", lambda seen: len(seen.live("running")) == WANTED)
    return made


def test_a_surge_replaces_node_by_node_and_none_is_missing(service: Service) -> None:
    service.submit(2, SURGE_ONE)
    service.until_drained(1)
    status = service.status()
    old = status["outdatedGenerations"]
    assert old == [{"generation": 1, "replicas": status["outdated"]}]
    assert 0 < status["outdated"] < WANTED
    assert status["rollout"]["surge"] == 1
    service.until_drained(WANTED)
    service.until_updated()
    assert (service.fewest, service.most) == (WANTED, WANTED + 1)


def test_functions_that_die_half_way_break_no_bound(world: World, service: Service) -> None:
    deployment = world.output(DEPLOYMENT)
    for function, operation, moment in (
        (Function.DISRUPT, "TransactWriteItems", "before"),
        (Function.DISRUPT, "TransactWriteItems", "after"),
        (Function.PROVISION, "TransactWriteItems", "after"),
        (Function.LAUNCH, "CreateFleet", "after"),
    ):
        name = function_name(deployment, function)
        world.aws.fault("kill", operation=operation, function=name, moment=moment, skip=1)
    service.submit(3, ONE_LESS)
    service.until_drained(2 * WANTED)
    service.until_updated()
    assert (service.fewest, service.most) == (WANTED - 1, WANTED)
    assert [rule["operation"] for rule in world.aws.faults() if not rule["hits"]] == []
    world.aws.clear_faults()


@pytest.mark.parametrize("more", [{"gang": True}, {"checkpointPeriod": "10m"}])
def test_what_cannot_be_rolled_is_refused_and_goes_on(
    world: World, service: Service, more: dict[str, Any], tmp_path: Path
) -> None:
    body = web(4, SURGE_ONE)
    body["spec"] |= more
    file = write_manifests(tmp_path, [body])
    checked = world.command("validate", "-f", str(file))
    assert checked.returncode == 2
    assert "strategy" in checked.stdout + checked.stderr
    before = len(world.events("Workload Rejected"))
    world.send({"action": "submit", "workload": body})
    world.until("it is refused", lambda _: len(world.events("Workload Rejected")) > before)
    rules = [it["rule"] for it in world.events("Workload Rejected")[-1]["problems"]]
    assert rules == ["rolling-update"]
    assert service.status()["outdated"] == 0
