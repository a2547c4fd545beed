"""On-demand reservations made and changed on the deployed stack, with no more than the rights of the documents."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from lab.story.people import Person
from lab.story.world import World

pytestmark = pytest.mark.embedded

ROOT: Final = Path(__file__).parents[3]
SETTINGS = {"purchaseCeilingUsd": "10000", "purchaseCeilingUsdPerMonth": "15000"}
RIGHTS: Final = json.loads(
    (ROOT / "examples" / "iam" / "change-reservations.json").read_text(encoding="utf-8")
)["Statement"]
TYPE: Final = "m5.8xlarge"


@pytest.fixture(scope="module")
def person(world: World) -> Person:
    return Person(world, managed=("Operator", "Viewer"), statements=tuple(RIGHTS))


def described(world: World, reservation_id: str) -> dict[str, Any]:
    answer = world.aws.client("ec2").describe_capacity_reservations(
        CapacityReservationIds=[reservation_id]
    )
    found: dict[str, Any] = answer["CapacityReservations"][0]
    return found


def agreed(person: Person, *arguments: str) -> str:
    """Look at what it costs, agree to that, and return the first reservation that was changed."""
    looked = person.command("reservations", *arguments, "--dry-run")
    assert looked.returncode == 0, looked.stderr
    (cost,) = [line for line in looked.stdout.splitlines() if line.startswith("  costs")]
    amount = cost.split()[1]
    done = person.command("reservations", *arguments, "--yes", "--amount", amount)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()[1].rstrip(",")


def test_who_may_makes_changes_and_cancels_with_the_rights_that_the_documents_name(
    world: World, person: Person
) -> None:
    starts = f"{world.now() + timedelta(days=10):%Y-%m-%dT%H:%MZ}"
    ahead = ("--zone", "us-east-1a", "--count", "4", "--starts", starts)
    create = ("create", TYPE, *ahead, "--commitment-days", "14")
    denied = Person(world, managed=("Operator", "Viewer")).command(
        "reservations", *create, "--dry-run"
    )
    assert (denied.returncode, "UnauthorizedOperation" in denied.stderr) == (2, True), (
        denied.stderr
    )
    later = agreed(person, *create, "--tag", "team=web")
    assert described(world, later)["State"] in ("assessing", "scheduled")
    world.until(
        "it is scheduled", lambda _: described(world, later)["State"] == "scheduled"
    )
    to = f"{world.now() + timedelta(days=12):%Y-%m-%dT%H:%MZ}"
    agreed(person, "push-out", later, "--to", to)
    world.until(
        "it is put off",
        lambda _: described(world, later)["AdjustmentStatus"] == "applied",
    )
    agreed(person, "cancel", later)
    assert described(world, later)["State"] == "cancelling"

    now = agreed(person, "create", TYPE, "--zone", "us-east-1a", "--count", "3")
    agreed(person, "resize", now, "--count", "4")
    part = agreed(person, "split", now, "--count", "1")
    agreed(person, "move", now, "--into", part, "--count", "1")
    assert described(world, part)["TotalInstanceCount"] == 2
    world.aws.ec2("lose_response", operation="CancelCapacityReservation")
    agreed(person, "cancel", part)
    assert described(world, part)["State"] == "cancelled"
    rows = json.loads(person.command("get", "purchases", "-o", "json").stdout)["items"]
    assert {row["spec"]["by"] for row in rows} == {person.arn}
    assert len(rows) == 8
