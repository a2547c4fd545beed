"""Whether a workload is stored as a question has it."""

import json
from typing import Any

import pytest

from lab.fakes.manifests import workload_manifest
from tests.client.world import Deployment

KEY = "research/train"
WANTED: dict[str, Any] = workload_manifest(KEY, 2, {"cpu": "4"}, generation=3)


def is_stored(world: Deployment, workload: dict[str, Any]) -> bool | None:
    """Ask about a workload; return what the answer says of it."""
    question = {"action": "describe", "workload": workload, "requestId": "q"}
    world.send(question)
    answer = json.loads(world.events.messages[-1].body)
    assert answer["detail-type"] == "Workload Described"
    said: bool | None = answer["detail"].get("isStored")
    return said


def submit(world: Deployment) -> None:
    world.send({"action": "submit", "workload": WANTED})


def with_spec(**changes: Any) -> dict[str, Any]:
    return {**WANTED, "spec": {**WANTED["spec"], **changes}}


def test_what_was_submitted_is_stored_whatever_its_generation() -> None:
    world = Deployment()
    assert is_stored(world, WANTED) is False
    submit(world)
    assert is_stored(world, WANTED) is True
    later = {**WANTED, "metadata": {**WANTED["metadata"], "generation": 9}}
    assert is_stored(world, later) is True


@pytest.mark.parametrize(
    "other",
    [
        with_spec(replicas=3),
        {**WANTED, "metadata": {**WANTED["metadata"], "labels": {"team": "web"}}},
    ],
    ids=["spec", "labels"],
)
def test_other_content_is_not_stored(other: dict[str, Any]) -> None:
    world = Deployment()
    submit(world)
    assert is_stored(world, other) is False


def test_what_was_withdrawn_is_not_stored() -> None:
    world = Deployment()
    submit(world)
    world.send({"action": "withdraw", "workload": WANTED})
    assert is_stored(world, WANTED) is False


@pytest.mark.parametrize(
    "unread", [{"metadata": WANTED["metadata"]}, with_spec(replicas=-1), with_spec(odd=1)]
)
def test_a_question_without_anything_to_compare_is_answered_without(
    unread: dict[str, Any],
) -> None:
    world = Deployment()
    submit(world)
    assert is_stored(world, unread) is None
