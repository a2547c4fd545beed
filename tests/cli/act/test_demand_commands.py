"""``reservoir submit``, ``withdraw`` and ``release``: as an operator would, with the functions at work."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.fakes.manifests import workload_manifest
from reservoir.core.model.node_claim import ClaimState, DrainReason
from reservoir.usecases.draining.draining import DrainRequest
from tests.cli.acting import Stack, at_a_terminal, stack

__all__ = ["at_a_terminal", "stack"]

EXAMPLES = Path(__file__).parents[3] / "examples" / "workloads"


def manifest(
    name: str = "train", generation: int | None = None, **spec: Any
) -> dict[str, Any]:
    wanted = {"replicas": 1, **spec}
    return workload_manifest(
        f"research/{name}", requests={"nvidia.com/gpu": 8}, generation=generation, **wanted
    )


def write(folder: Path, *manifests: dict[str, Any]) -> str:
    path = folder / "demand.yaml"
    path.write_text(yaml.safe_dump_all(manifests, sort_keys=False))
    return str(path)


def test_what_is_submitted_is_accepted_and_with_wait_placed(
    stack: Stack, tmp_path: Path
) -> None:
    result = stack.run(
        "submit", "-f", write(tmp_path, manifest(replicas=2)), "--wait", "--timeout", "1m"
    )
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "workload/research/train accepted (generation 1)",
        "workload/research/train placed (2 replicas)",
    ]


def test_the_same_content_is_not_sent_again_and_other_content_gets_the_next_generation(
    stack: Stack, tmp_path: Path
) -> None:
    stack.run("submit", "-f", write(tmp_path, manifest()))
    again = stack.run("submit", "-f", write(tmp_path, manifest(generation=1)))
    assert (again.exit_code, again.stdout) == (
        0,
        "workload/research/train unchanged (generation 1)\n",
    )
    assert len(stack.messages) == 1

    changed = stack.run("submit", "-f", write(tmp_path, manifest(generation=1, replicas=3)))
    assert changed.stdout == "workload/research/train accepted (generation 2)\n"
    higher = stack.run("submit", "-f", write(tmp_path, manifest(generation=9, replicas=4)))
    assert higher.stdout == "workload/research/train accepted (generation 9)\n"


def test_what_was_withdrawn_is_wanted_anew(stack: Stack, tmp_path: Path) -> None:
    file = write(tmp_path, manifest())
    stack.run("submit", "-f", file)
    stack.run("withdraw", "research/train", "--yes")
    assert (
        stack.run("submit", "-f", file).stdout
        == "workload/research/train accepted (generation 2)\n"
    )


def test_the_examples_can_be_sent_as_they_are(stack: Stack) -> None:
    result = stack.run("submit", "-f", str(EXAMPLES))
    assert result.stdout.splitlines() == [
        "workload/research/train-llm-7 accepted (generation 1)",
        "workload/default/web accepted (generation 1)",
    ]


def test_standard_input_may_be_json(stack: Stack) -> None:
    result = stack.run("submit", "-f", "-", given=json.dumps(manifest()))
    assert result.stdout == "workload/research/train accepted (generation 1)\n"


def test_a_mistake_is_told_with_its_line_and_sends_nothing_of_its_neighbours(
    stack: Stack, tmp_path: Path
) -> None:
    file = write(tmp_path, manifest("good"), manifest("bad", replica=3))
    result = stack.run("submit", "-f", file)
    assert result.exit_code == 2
    assert f"{file}:" in result.stderr
    assert "spec.replica: is not a known field (did you mean replicas?)" in result.stderr
    assert result.stderr.endswith("nothing was sent\n")
    assert stack.messages == []


def test_policy_is_no_demand(stack: Stack) -> None:
    result = stack.run("submit", "-f", str(EXAMPLES.parent / "policy" / "default.yaml"))
    assert result.exit_code == 2
    assert "is policy; reservoir apply takes it" in result.stderr


def test_of_two_who_change_a_workload_at_once_the_later_is_told(
    stack: Stack, tmp_path: Path
) -> None:
    # on its way already
    stack.demand.bodies.append(
        json.dumps({"action": "submit", "workload": manifest(replicas=5)})
    )
    result = stack.run("submit", "-f", write(tmp_path, manifest(replicas=3)))
    assert result.exit_code == 2
    assert "was changed by somebody else at the same time" in result.stderr
    record = stack.workloads.get("research/train")
    assert record is not None
    assert record.workload is not None
    assert record.workload.replicas == 5


def test_without_an_answer_it_says_where_to_look(stack: Stack, tmp_path: Path) -> None:
    stack.is_stuck = True
    result = stack.run("submit", "-f", write(tmp_path, manifest()), "--timeout", "5s")
    assert result.exit_code == 2
    assert "not confirmed in time" in result.stderr


def test_waiting_says_why_replicas_have_no_place_and_ends_with_1(
    stack: Stack, tmp_path: Path
) -> None:
    reserved = manifest(nodeSelector={"karpenter.sh/capacity-type": "reserved"})
    result = stack.run(
        "submit", "-f", write(tmp_path, reserved), "--wait", "--timeout", "5s"
    )
    assert result.exit_code == 1
    assert result.stdout == "workload/research/train accepted (generation 1)\n"
    assert result.stderr.count("workload/research/train waits: 1 x ") == 1
    assert result.stderr.endswith(
        "still waits: see reservoir explain workload research/train\n"
    )


def test_a_timeout_that_is_no_duration_is_refused(stack: Stack, tmp_path: Path) -> None:
    result = stack.run("submit", "-f", write(tmp_path, manifest()), "--timeout", "10")
    assert result.exit_code == 2
    assert "must be a duration with its unit" in result.stderr
    assert stack.messages == []


@pytest.mark.usefixtures("at_a_terminal")
def test_a_withdraw_asks_after_saying_what_ends(stack: Stack, tmp_path: Path) -> None:
    stack.run("submit", "-f", write(tmp_path, manifest(replicas=2)), "--wait")
    refused = stack.run("withdraw", "research/train", given="n\n")
    assert refused.exit_code == 2
    assert (
        "workload/research/train: 2 replicas will drain, 0 will leave the queue\nWithdraw it?"
        in refused.stderr
    )
    assert len(stack.messages) == 1

    agreed = stack.run("withdraw", "research/train", given="y\n")
    assert agreed.exit_code == 0
    assert agreed.stdout.endswith("workload/research/train withdrawn (generation 1)\n")
    again = stack.run("withdraw", "research/train", given="")
    assert (again.exit_code, again.stdout) == (
        0,
        "workload/research/train is already withdrawn\n",
    )


def test_without_a_terminal_nothing_ends_unless_yes_is_said(
    stack: Stack, tmp_path: Path
) -> None:
    stack.run("submit", "-f", write(tmp_path, manifest()))
    result = stack.run("withdraw", "research/train", given="y\n")
    assert result.exit_code == 2
    assert (
        "nothing was done: there is no terminal on which to ask, and no --yes"
        in result.stderr
    )
    assert stack.run("withdraw", "research/train", "--yes").exit_code == 0


def test_nothing_is_withdrawn_if_one_name_is_wrong(stack: Stack, tmp_path: Path) -> None:
    stack.run("submit", "-f", write(tmp_path, manifest()))
    result = stack.run("withdraw", "research/train", "research/trian", "--yes")
    assert result.exit_code == 2
    assert "workload/research/trian is not known; nothing was withdrawn" in result.stderr
    assert len(stack.messages) == 1


def test_a_release_ends_a_drain_when_all_have_left(stack: Stack, tmp_path: Path) -> None:
    stack.run("submit", "-f", write(tmp_path, manifest()), "--wait")
    stack.world.settle()
    (claim,) = stack.world.live()
    assert (
        stack.run("release", "research/train", "--node", claim.id, "--yes").exit_code == 2
    ), "nothing drains"

    stack.world.draining().begin_drains([DrainRequest(claim, DrainReason.DRIFT)])
    asked = stack.run("release", "research/train", "--node", claim.id, given="y\n")
    assert "1 of 1 replicas of workload/research/train have left" in asked.stderr
    assert "which is then terminated. Release?" in asked.stderr

    released = stack.run("release", "research/train", "--node", claim.id, "--yes")
    assert (
        released.stdout
        == f"workload/research/train released from node/{claim.id} (1 replica)\n"
    )
    assert stack.world.state.claim_rows[claim.id].state is ClaimState.TERMINATING
