"""Slurm's nodes on a deployment in memory, with a Slurm that remembers what it is told."""

from collections.abc import Collection
from dataclasses import replace

import pytest

from integrations.slurm.nodes import SlurmNodes, UnknownPoolError
from integrations.slurm.slurm import Slurm, SlurmError
from lab.fakes.manifests import workload_manifest
from lab.fakes.values import node_claim
from reservoir.core.model.node_claim import ClaimState, DrainReason
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.manifests.events import NodeDraining
from tests.client.values import draining
from tests.client.world import Deployment

KEY = "slurm/train-1"


class MemorySlurm(Slurm):
    """Remembers the features of nodes, and the changes in their order; one job is on each node."""

    def __init__(self) -> None:
        super().__init__("nowhere")
        object.__setattr__(self, "told", {})
        object.__setattr__(self, "changes", [])
        object.__setattr__(self, "powering_up", {"train-1"})

    told: dict[str, frozenset[str]]
    changes: list[tuple[str, ...]]
    powering_up: set[str]

    def place(self, node: str, address: str, features: Collection[str]) -> None:
        self.told[node] = frozenset(features)
        self.changes.append(("place", node, address))

    def features(self, node: str) -> frozenset[str]:
        return self.told.get(node, frozenset())

    def is_powering_up(self, node: str) -> bool:
        return node in self.powering_up

    def jobs_on(self, node: str) -> list[str]:
        return [f"job-on-{node}"]

    def run(self, *command: str) -> str:
        self.changes.append(command)
        return ""


class World:
    """A deployment that has one machine for train-1, and its Slurm."""

    def __init__(self) -> None:
        self.deployment = Deployment()
        self.slurm = MemorySlurm()
        spec = {"resources": {"requests": {"cpu": "4"}}}
        self.nodes = SlurmNodes(
            self.deployment.client(),
            self.slurm,
            lambda it: f"address-of-{it}",
            "slurm",
            {"train": spec},
            30,
        )

    def give(self, claim_id: str = "nc-1") -> None:
        self.nodes.client.submit(workload_manifest("slurm/train-1", 1, {"cpu": "4"}))
        rows = self.deployment.state.workload_rows
        rows[KEY] = replace(rows[KEY], placed_count=1)
        claim = node_claim(
            claim_id,
            placements=(PlacedReplicas(KEY, 1),),
            state=ClaimState.RUNNING,
            instance_id="i-1",
        )
        self.deployment.state.claim_rows[claim.id] = claim

    def notice(self, claim: str) -> NodeDraining:
        return draining("d-1", claim, "train-1", namespace="slurm")


def test_a_node_that_slurm_wants_is_placed_with_what_it_is_made_of() -> None:
    world = World()
    world.give()
    assert world.nodes.resume("train-1")
    assert ("place", "train-1", "address-of-i-1") in world.slurm.changes
    assert {"reserved", "nc-1"} <= world.slurm.features("train-1")


def test_without_a_machine_in_time_the_job_says_why() -> None:
    world = World()
    assert not world.nodes.resume("train-1")
    assert any(
        "AdminComment=Reservoir: slurm/train-1 has no place yet" in " ".join(it)
        for it in world.slurm.changes
    )


def test_a_request_that_was_left_over_asks_for_nothing() -> None:
    world = World()
    world.slurm.powering_up.clear()
    assert not world.nodes.resume("train-1")
    assert world.deployment.sent == []


def test_a_pool_that_nobody_configured_is_an_error() -> None:
    world = World()
    world.slurm.powering_up.add("other-1")
    with pytest.raises(UnknownPoolError):
        world.nodes.resume("other-1")


def test_a_drain_requeues_then_powers_down_and_wants_the_machine_no_more() -> None:
    world = World()
    world.give()
    world.nodes.resume("train-1")
    world.slurm.changes.clear()
    world.nodes.drain(world.notice("nc-1"))
    words = [" ".join(change) for change in world.slurm.changes]
    order = [
        "State=DRAIN",
        "requeue job-on-train-1",
        "StartTime=now",
        "AdminComment",
        "State=POWER_DOWN_FORCE",
        "State=UNDRAIN",
    ]
    assert [next(it for it in order if it in line) for line in words] == order
    assert world.deployment.state.workload_rows[KEY].withdrawn


@pytest.mark.parametrize(
    ("claim", "reason"), [("nc-0", DrainReason.EXPIRED), ("nc-1", DrainReason.WITHDRAWN)]
)
def test_a_machine_that_the_node_has_left_disturbs_nobody(
    claim: str, reason: DrainReason
) -> None:
    world = World()
    world.give()
    world.nodes.resume("train-1")
    world.slurm.changes.clear()
    world.nodes.drain(world.notice(claim).model_copy(update={"reason": reason}))
    assert world.slurm.changes == []
    assert not world.deployment.state.workload_rows[KEY].withdrawn


@pytest.mark.parametrize(
    "name", ["--help", "a b", "a,b", "a;b", "", "ключ", "a\nState=DOWN"]
)
def test_names_never_become_options_or_lists(name: str) -> None:
    slurm = Slurm("nowhere")
    for call in (
        slurm.features,
        slurm.jobs_on,
        slurm.requeue,
        slurm.update,
        slurm.is_powering_up,
    ):
        with pytest.raises(SlurmError, match="is no name"):
            call(name)
