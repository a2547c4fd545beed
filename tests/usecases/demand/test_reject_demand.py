"""A message that cannot be understood is kept with its reason, and told to whoever sent it."""

import json
from typing import Any

import pytest

from lab.fakes.messaging import MemoryBus, MemoryDeadLetters
from reservoir.manifests.messages import parse_demand
from reservoir.manifests.parsing.problems import ManifestError
from reservoir.usecases.demand.reject_demand import RejectDemand


def rejected(body: str) -> tuple[str, dict[str, Any]]:
    """The reason beside the dead letter, and the fact."""
    letters, bus = MemoryDeadLetters(), MemoryBus()
    with pytest.raises(ManifestError) as caught:
        parse_demand(body)
    RejectDemand(letters, bus).reject("m-1", body, caught.value.problems)
    ((kept, attributes),) = letters.letters
    (told,) = bus.of("Workload Rejected")
    assert (kept, attributes["MessageId"], told["messageId"]) == (body, "m-1", "m-1")
    return attributes["Reason"], told


def submit(**changes: object) -> str:
    metadata = {"name": "train", "namespace": "research"}
    workload = {
        "apiVersion": "reservoir/v1",
        "kind": "Workload",
        "metadata": metadata,
        "spec": {},
    }
    return json.dumps({"action": "submit", "workload": {**workload, **changes}})


def test_every_problem_is_told_with_its_place_and_what_was_meant() -> None:
    reason, told = rejected(submit(spec={"replica": 1, "gang": "yes"}))
    assert reason == (
        "workload.spec.gang: must be true or false (did you mean true?); "
        "workload.spec.replica: is not a known field (did you mean replicas?)"
    )
    assert [
        (problem["path"], problem["rule"], problem["suggestion"])
        for problem in told["problems"]
    ] == [
        ("workload.spec.gang", "bool-type", "true"),
        ("workload.spec.replica", "unknown-field", "replicas"),
    ]
    assert told["workload"] == {"namespace": "research", "name": "train"}


@pytest.mark.parametrize(
    "body",
    [
        "{",
        "[]",
        '"workload"',
        '{"workload": {"metadata": 1}}',
        submit(metadata={"name": "No Name"}),
        "[" * 99_999,
    ],
)
def test_what_has_no_valid_name_is_told_without_one(body: str) -> None:
    assert "workload" not in rejected(body)[1]


def test_twenty_problems_are_told_in_plain_text() -> None:
    reason, told = rejected(
        submit(
            spec={
                "tolerations": [{f"field{number}\u202e\n": 1 for number in range(10)}] * 4
            }
        )
    )
    assert len(told["problems"]) == 20
    assert reason.isascii()
    assert reason.isprintable()
