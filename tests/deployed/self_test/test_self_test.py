"""A self-test on the deployed stack, by somebody with no more than the rights that the documents name."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from lab.story.people import Person
from lab.story.policies import one_type_pool, write_manifests
from lab.story.world import World
from reservoir.cli.self_testing.manifests import NAME
from reservoir.names import SELF_TEST_TAG

pytestmark = pytest.mark.embedded

ROOT: Final = Path(__file__).parents[3]
RIGHTS: Final = json.loads(
    (ROOT / "examples" / "iam" / "self-test.json").read_text(encoding="utf-8")
)["Statement"]


@pytest.fixture(scope="module")
def operator(world: World, tmp_path_factory: pytest.TempPathFactory) -> Person:
    """Somebody who operates a deployment that has one class."""
    policy = one_type_pool("general", "m5.large", ["on-demand"])
    world.apply(write_manifests(tmp_path_factory.mktemp("policy"), policy))
    world.discover()
    return Person(world, managed=("Operator", "Viewer", "Sender"), statements=tuple(RIGHTS))


def left(world: World) -> list[str]:
    """Return what a self-test has made and not removed."""
    ec2 = world.aws.client("ec2")
    filters = [{"Name": "tag-key", "Values": [SELF_TEST_TAG]}]
    reserved = ec2.describe_capacity_reservations(Filters=filters)["CapacityReservations"]
    names = [
        each["CapacityReservationId"] for each in reserved if each["State"] == "active"
    ]
    for noun in ("pools", "classes", "nodes"):
        listed = json.loads(world.command("get", noun, "-o", "json").stdout)["items"]
        names += [
            each["metadata"]["name"]
            for each in listed
            if NAME in (each["metadata"]["name"], each["spec"].get("nodePool"))
        ]
    return names


def self_test(operator: Person, *more: str) -> tuple[int, dict[str, Any], str]:
    done = operator.command("self-test", "--yes", "-o", "json", *more)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def test_an_instance_goes_through_with_and_without_a_reservation(
    world: World, operator: Person, tmp_path: Path
) -> None:
    file = tmp_path / "self-test.json"
    code, answer, said = self_test(operator, "--reserve", "--report", str(file))

    assert code == 0, said
    assert [step["name"] for step in answer["steps"]] == [
        "remove what an earlier run left",
        "on-demand: the policy is ready",
        "on-demand: the demand is accepted",
        "on-demand: its replica has a place",
        "on-demand: its instance runs",
        "on-demand: its instance is gone again",
        "reserve one unit",
        "reserved: the policy is ready",
        "reserved: the demand is accepted",
        "reserved: its replica has a place",
        "reserved: its instance runs",
        "reserved: its instance is gone again",
        "remove everything again",
    ]
    assert 0 < answer["costMicroUsd"] < 100_000
    assert json.loads(file.read_text(encoding="utf-8"))["steps"] == answer["steps"]
    assert "111122223333" not in file.read_text(encoding="utf-8"), "names no account"
    assert left(world) == []


def test_what_a_killed_run_leaves_goes_with_the_next_one(
    world: World, operator: Person
) -> None:
    with operator.started("self-test", "--yes", "--reserve") as running:
        world.until(
            "it has an instance", lambda _: any("nc-" in name for name in left(world))
        )
        running.kill()
    assert NAME in left(world), "it was killed before it could remove anything"

    code, answer, said = self_test(operator, "--reserve")

    assert code == 0, said
    assert answer["steps"][0]["passed"]
    assert left(world) == []


def test_a_step_that_fails_says_why_and_all_is_removed(
    world: World, operator: Person
) -> None:
    world.aws.ec2("refuse_launches", code="InsufficientInstanceCapacity")

    code, answer, said = self_test(operator, "--timeout", "3m")

    world.aws.ec2("clear_faults")
    failed = [step for step in answer["steps"] if not step["passed"]]
    assert code == 1, said
    # A refusal may come before anybody has seen the place that the plan gave.
    assert [step["name"] for step in failed] in (
        ["on-demand: its replica has a place"],
        ["on-demand: its instance runs"],
    )
    assert "OfferingUnavailable" in failed[0]["said"]
    assert answer["steps"][-1] == {**answer["steps"][-1], "passed": True}
    assert left(world) == []
