"""Deployed, with permissions enforced: idle units are lent, our own pool borrows one, and its owner gets one back."""

import json
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from lab.demo.observer import Observed
from lab.fakes.manifests import workload_manifest
from lab.story.policies import one_type_pool, write_manifests
from lab.story.world import World
from reservoir.names import LENDABLE_TAG, LENDABLE_VALUE, LENT_FROM_TAG

pytestmark = pytest.mark.embedded

ZONE: Final = "us-east-1a"
KIND: Final = "r5.4xlarge"


@pytest.fixture(scope="module", autouse=True)
def source(world: World, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A reservation of two units whose class lends them, and a pool that borrows."""
    made = world.reserve("owner", KIND, ZONE, 2, "owner")
    world.aws.client("ec2").create_tags(
        Resources=[made], Tags=[{"Key": LENDABLE_TAG, "Value": LENDABLE_VALUE}]
    )
    owner = one_type_pool("owner", KIND, ("reserved",))
    owner[0]["spec"]["lending"] = {"after": "1m", "tags": {"lent": "story"}}
    borrower = one_type_pool("borrower", KIND, ("reserved",))
    borrower[0]["spec"]["capacityReservationSelectorTerms"] = [{"tags": {"lent": "story"}}]
    manifests = [*owner, *borrower]
    world.apply(write_manifests(tmp_path_factory.mktemp("policy"), manifests))
    world.discover()
    return made


def workload(name: str, replicas: int) -> dict[str, Any]:
    requests = {"cpu": "12", "memory": "20Gi"}
    where = {"story": name, "topology.kubernetes.io/zone": ZONE}
    return workload_manifest(
        f"{name}/work", replicas, requests, generation=1, nodeSelector=where
    )


def allocation(world: World, source: str) -> dict[str, Any]:
    found = world.aws.client("ec2").describe_capacity_reservations(
        CapacityReservationIds=[source]
    )
    shown: dict[str, Any] = found["CapacityReservations"][0]
    return dict(shown.get("InterruptibleCapacityAllocation") or {})


def pools(seen: Observed) -> list[str]:
    return sorted(it.market for it in seen.live("running") if it.instance_type == KIND)


def test_idle_units_are_lent_and_shown(world: World, source: str) -> None:
    world.until(
        "both units are lent",
        lambda _: allocation(world, source).get("InstanceCount") == 2,
    )
    lent_id = allocation(world, source)["InterruptibleCapacityReservationId"]
    (lent,) = world.aws.client("ec2").describe_capacity_reservations(
        CapacityReservationIds=[lent_id]
    )["CapacityReservations"]
    tags = {tag["Key"]: tag["Value"] for tag in lent["Tags"]}
    assert (tags[LENT_FROM_TAG], tags["lent"]) == (source, "story")
    world.discover()
    shown = world.command("get", "reservations", source)
    header, row = (line.split() for line in shown.stdout.splitlines()[:2])
    assert row[header.index("LENT")] == "2", shown.stdout
    assert world.denials() == []


def told_at(seen: Observed, detail_type: str, name: str) -> datetime:
    """Return when an event of a kind about a workload was sent last."""
    times = [
        event["time"]
        for event in seen.events
        if event["detail-type"] == detail_type
        and f'"{name}"' in json.dumps(event["detail"])
    ]
    return datetime.fromisoformat(times[-1].replace("Z", "+00:00"))


def test_a_pool_of_our_own_borrows_and_its_owner_gets_a_unit_back_within_three_minutes(
    world: World, source: str
) -> None:
    world.send({"action": "submit", "workload": workload("borrower", 2)})
    world.until("it borrows both", lambda seen: len(pools(seen)) == 2)
    world.send({"action": "submit", "workload": workload("owner", 1)})
    seen = world.until(
        "the owner runs",
        lambda seen: any(it.reservation_id == source for it in seen.live("running")),
    )
    assert allocation(world, source)["TargetInstanceCount"] == 1, "one unit was enough"
    told = world.events("Reservation Lending Changed")
    assert [(it["lentBefore"], it["lentCount"]) for it in told] == [(0, 2), (2, 1)]
    waited = told_at(seen, "Workload Placed", "owner") - told_at(
        seen, "Workload Accepted", "owner"
    )
    assert timedelta(minutes=2) <= waited <= timedelta(minutes=3)
    assert world.denials() == []
