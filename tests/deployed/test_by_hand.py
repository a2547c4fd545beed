"""What people do by hand, each with the policies that the stack has for them, on the deployed stack."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deployed.people import Person
from tests.deployed.policies import one_type_pool, story_workload, write_manifests
from tests.deployed.world import World

pytestmark = pytest.mark.embedded


@pytest.fixture(scope="module")
def pool(world: World, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A pool that buys what it needs."""
    world.apply(write_manifests(tmp_path_factory.mktemp("policy"), one_type_pool("hands", "m5.large", ["on-demand"])))
    world.discover()
    return "hands"


def demand(folder: Path, *workloads: dict[str, Any]) -> str:
    path = folder / "demand.yaml"
    path.write_text(yaml.safe_dump_all(workloads))
    return str(path)


def test_a_sender_who_may_look_submits_a_file_waits_for_places_and_withdraws(
    world: World, pool: str, tmp_path: Path
) -> None:
    sender = Person(world, managed=("Sender", "Viewer"))
    workload = story_workload("by-hand", 1, "1", nodeSelector={"karpenter.sh/nodepool": pool})
    submitted = sender.command("submit", "-f", demand(tmp_path, workload), "--wait", "--timeout", "5m")
    assert submitted.returncode == 0, submitted.stderr
    assert submitted.stdout.splitlines() == [
        "workload/story/by-hand accepted (generation 1)",
        "workload/story/by-hand placed (1 replicas)",
    ]
    assert "unchanged (generation 1)" in sender.command("submit", "-f", demand(tmp_path, workload)).stdout

    unasked = sender.command("withdraw", "story/by-hand")
    assert unasked.returncode == 2
    assert "no terminal on which to ask" in unasked.stderr
    withdrawn = sender.command("withdraw", "story/by-hand", "--yes")
    assert withdrawn.stdout == "workload/story/by-hand withdrawn (generation 1)\n"
    world.until("its node drains", lambda seen: seen.counts["Node Draining"] == 1)


def test_whoever_may_look_lists_what_there_is_and_reads_why(world: World, pool: str, tmp_path: Path) -> None:
    person = Person(world, managed=("Sender", "Viewer"))
    workload = story_workload("looked-at", 1, "1", nodeSelector={"karpenter.sh/nodepool": pool})
    submitted = person.command("submit", "-f", demand(tmp_path, workload), "--wait", "--timeout", "5m")
    assert submitted.returncode == 0, submitted.stderr

    def listed(*arguments: str) -> list[dict[str, Any]]:
        done = person.command("get", *arguments, "-o", "json")
        assert done.returncode == 0, done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)["items"]
        return found

    (placed,) = listed("workload", "story/looked-at")
    assert (placed["status"]["state"], placed["status"]["nodePools"]) == ("placed", [pool])
    (node,) = [each for each in listed("nodes", "--pool", pool) if each["status"]["workloads"]]
    assert (node["spec"]["instanceType"], node["spec"]["capacityType"]) == ("m5.large", "on-demand")
    (decision,) = listed("decision", node["status"]["planId"])
    assert decision["status"]["nodes"] == [node["metadata"]["name"]]
    assert {each["spec"]["capacityType"] for each in listed("offerings", "m5.large")} >= {"spot", "on-demand"}
    assert listed("reservations") == []

    described = person.command("describe", f"node/{node['metadata']['name']}")
    assert described.returncode == 0, described.stderr
    assert "exists" in described.stdout
    refused = person.command("get", "pools")
    assert refused.returncode == 2
    assert "AccessDenied" in refused.stderr
