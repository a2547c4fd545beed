"""A Capacity Block bought on the deployed stack, by somebody with no more than the rights that the documents name."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from lab.story.people import Person
from lab.story.policies import story_workload
from lab.story.world import World
from reservoir.names import PURCHASE_TAG

pytestmark = pytest.mark.embedded

ROOT: Final = Path(__file__).parents[3]
SETTINGS = {"purchaseCeilingUsd": "10000", "purchaseCeilingUsdPerMonth": "15000"}
RIGHTS: Final = json.loads(
    (ROOT / "examples" / "iam" / "buy-capacity.json").read_text(encoding="utf-8")
)["Statement"]
WANTED: Final = "2 p5.48xlarge for 1d"


@pytest.fixture(scope="module")
def buyer(world: World) -> Person:
    return Person(world, managed=("Operator", "Viewer"), statements=tuple(RIGHTS))


def on_sale(world: World) -> tuple[str, str]:
    """Return an offering and its fee, as the command line lists them."""
    listed = world.command("get", "blocks", WANTED, "-o", "json")
    row = json.loads(listed.stdout)["items"][0]
    return row["metadata"]["name"], row["spec"]["upfrontFee"]


def bought(world: World, offering: str) -> list[dict[str, Any]]:
    filters = [{"Name": f"tag:{PURCHASE_TAG}", "Values": [offering]}]
    answer = world.aws.client("ec2").describe_capacity_reservations(Filters=filters)
    return list(answer["CapacityReservations"])


def test_a_block_is_bought_once_by_whoever_may_and_told_with_who(
    world: World, buyer: Person
) -> None:
    offering, fee = on_sale(world)
    order = ("blocks", "buy", WANTED, "--offering", offering, "--tag", "team=training")
    denied = Person(world, managed=("Operator", "Viewer")).command(*order, "--dry-run")
    assert (denied.returncode, "UnauthorizedOperation" in denied.stderr) == (2, True), (
        denied.stderr
    )
    assert "nothing was bought (dry run)" in buyer.command(*order, "--dry-run").stdout
    assert bought(world, offering) == []

    done = buyer.command(*order, "--yes", "--amount", fee)
    assert done.returncode == 0, done.stderr
    (block,) = bought(world, offering)
    assert f"bought {block['CapacityReservationId']}" in done.stdout
    world.until("it is told", lambda _: bool(world.events("Capacity Purchased")))
    (told,) = world.events("Capacity Purchased")
    assert (told["by"], told["offering"]) == (buyer.arn, offering)

    settled = buyer.command("blocks", "settle", offering)
    assert settled.returncode == 0, settled.stderr
    assert len(bought(world, offering)) == 1


def test_an_answer_that_is_lost_is_looked_up(world: World, buyer: Person) -> None:
    offering, fee = on_sale(world)
    world.aws.ec2("lose_response", operation="PurchaseCapacityBlock")
    done = buyer.command(
        "blocks", "buy", WANTED, "--offering", offering, "--yes", "--amount", fee
    )
    assert done.returncode == 0, done.stderr
    assert len(bought(world, offering)) == 1


def test_the_ceilings_of_the_settings_hold(world: World, buyer: Person) -> None:
    wanted = "64 p5.48xlarge for 14d"
    row = json.loads(world.command("get", "blocks", wanted, "-o", "json").stdout)["items"][
        0
    ]
    order = ("blocks", "buy", wanted, "--offering", row["metadata"]["name"])
    refused = buyer.command(*order, "--yes", "--amount", row["spec"]["upfrontFee"])
    assert (refused.returncode, "one purchase may cost 10000.00 USD" in refused.stderr) == (
        2,
        True,
    ), refused.stderr
    assert bought(world, row["metadata"]["name"]) == []


def test_a_viewer_is_told_which_block_to_buy_for_what_waits(world: World) -> None:
    workload = story_workload(
        "waits", 2, "150", duration="20h", fallback=[{"capacityType": "reserved"}]
    )
    world.send({"action": "submit", "workload": workload})
    world.until("it waits", lambda _: bool(world.events("Workload Pending")))
    viewer = Person(world, managed=("Viewer",))
    told = viewer.command("get", "blocks", "p5.48xlarge", "--for", "story/waits")
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines()[2].startswith(
        '  reservoir blocks buy "2 p5.48xlarge for 1d" --offering cb'
    )
    assert "story/waits  waits" in told.stdout
