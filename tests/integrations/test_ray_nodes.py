"""Ray's nodes as workloads, without Ray; ``test_ray.py`` has the real one."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from integrations.ray.nodes import RayNode, RayNodes
from lab.fakes.system import START
from reservoir.client import RejectedError
from reservoir.client.facts import Fact
from reservoir.core.model.node_claim import DrainReason
from reservoir.manifests.parsing.problems import ManifestError
from tests.client.values import draining
from tests.client.world import Deployment

SPEC: dict[str, Any] = {"resources": {"requests": {"cpu": "4"}}}


class World:
    """A deployment, the file of a cluster, and the Ray that is told of drains."""

    def __init__(self, folder: Path) -> None:
        self.deployment = Deployment()
        self.folder = folder
        self.told: list[tuple[str, str]] = []
        self._ids: Iterator[int] = count(1)
        self.nodes = self.started()

    def started(self) -> RayNodes:
        """Return the nodes as an autoscaler that starts anew finds them."""
        return RayNodes(
            self.deployment.client(),
            "ray",
            self.folder / "nodes.json",
            lambda: f"{next(self._ids):x}",
        )

    def wanted(self) -> set[str]:
        return {
            key
            for key, record in self.deployment.state.workload_rows.items()
            if record.workload is not None and not record.withdrawn
        }

    def hear(self, reason: DrainReason, name: str, namespace: str = "ray") -> None:
        notice = draining("d-1", "nc-1", name, namespace=namespace).model_copy(
            update={"reason": reason}
        )
        self.nodes.hear(Fact("event-1", START, notice), self._tell)

    def _tell(self, name: str, deadline: datetime, why: str) -> None:
        assert deadline.tzinfo is not None
        self.told.append((name, why))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_each_node_is_a_workload_that_is_known_until_it_is_ended(world: World) -> None:
    world.nodes.create("gpu", "request-1", SPEC, 2)
    assert world.wanted() == {"ray/gpu-1", "ray/gpu-2"}
    assert world.nodes.all() == dict.fromkeys(
        ["gpu-1", "gpu-2"], RayNode("gpu", "request-1")
    )
    world.nodes.end("gpu-1")
    assert world.wanted() == {"ray/gpu-2"}
    assert set(world.nodes.all()) == {"gpu-2"}
    world.nodes.end("gpu-1")
    assert world.wanted() == {"ray/gpu-2"}


def test_an_autoscaler_that_starts_anew_knows_its_nodes(world: World) -> None:
    world.nodes.create("gpu", "request-1", SPEC, 1)
    assert world.started().all() == {"gpu-1": RayNode("gpu", "request-1")}


def test_what_dies_between_the_file_and_the_queue_is_known_and_can_be_ended(
    world: World,
) -> None:
    def dies(message: Mapping[str, Any]) -> str:  # noqa: ARG001 - as the queue is called
        raise ConnectionError

    world.deployment.send = dies  # type: ignore[method-assign] # the process ends here
    with pytest.raises(ConnectionError):
        world.nodes.create("gpu", "request-1", SPEC, 1)
    assert set(world.started().all()) == {"gpu-1"}


@pytest.mark.parametrize(
    ("node_type", "spec", "error"),
    [
        ("GPU nodes", SPEC, ManifestError),
        ("gpu", {"resources": {"requests": {"cpu": "many"}}}, ManifestError),
        (
            "gpu",
            {**SPEC, "nodeSelector": {"karpenter.sh/nodepool": "nobodys"}},
            RejectedError,
        ),
    ],
)
def test_what_is_refused_is_an_error_and_no_node(
    world: World, node_type: str, spec: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        world.nodes.create(node_type, "request-1", spec, 1)
    assert (world.wanted(), dict(world.nodes.all())) == (set(), {})


def test_a_machine_that_must_go_is_told_to_ray_and_its_name_is_not_placed_again(
    world: World,
) -> None:
    world.nodes.create("gpu", "request-1", SPEC, 2)
    world.hear(DrainReason.CAPACITY_BLOCK_ENDING, "gpu-1")
    assert world.told == [("gpu-1", "Reservoir: CapacityBlockEnding")]
    assert world.wanted() == {"ray/gpu-2"}
    assert "gpu-1" in world.nodes.all(), "until Ray has taken its work off"
    assert world.deployment.releases == [], "its machine says when that is"


def test_who_withdraws_a_node_by_hand_has_ray_take_its_work_off_too(world: World) -> None:
    world.nodes.create("gpu", "request-1", SPEC, 1)
    world.hear(DrainReason.WITHDRAWN, "gpu-1")
    assert world.told == [("gpu-1", "Reservoir: Withdrawn")]


def test_nodes_of_others_are_left_to_them(world: World) -> None:
    world.nodes.create("gpu", "request-1", SPEC, 1)
    world.hear(DrainReason.EXPIRED, "gpu-1", namespace="slurm")
    assert world.told == []
    assert world.wanted() == {"ray/gpu-1"}
