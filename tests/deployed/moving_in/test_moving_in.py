"""Deployed, with permissions enforced: a node that runs on demand moves into a unit that became free, and runs on."""

from typing import Any, Final

import pytest

from lab.demo.observer import Observed
from lab.fakes.manifests import workload_manifest
from lab.story.policies import one_type_pool, write_manifests
from lab.story.world import World
from reservoir.names import MOVABLE_TAG, MOVABLE_VALUE, SPLIT_FROM_TAG
from tests.embedded.ec2.contract.sites import GROUP

pytestmark = pytest.mark.embedded

ZONE: Final = "us-east-1a"
KIND: Final = "r5.2xlarge"


@pytest.fixture(scope="module", autouse=True)
def source(world: World, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A reservation of two units, and a pool whose on-demand nodes are launched at a group."""
    made = world.reserve("moving", KIND, ZONE, 2, "moving")
    world.aws.client("ec2").create_tags(
        Resources=[made], Tags=[{"Key": MOVABLE_TAG, "Value": MOVABLE_VALUE}]
    )
    group = world.aws.client("resource-groups").create_group(
        Name="reservoir-moving", Configuration=GROUP
    )
    node_class, node_pool = one_type_pool("moving", KIND, ("reserved", "on-demand"))
    node_class["spec"]["reclaimGroupARN"] = group["Group"]["GroupArn"]
    node_pool["spec"]["disruption"] = {
        "consolidateAfter": "0s",
        "budgets": [{"nodes": "100%"}],
    }
    world.apply(write_manifests(tmp_path_factory.mktemp("policy"), [node_class, node_pool]))
    world.discover()
    return made


def workload(replicas: int) -> dict[str, Any]:
    requests = {"cpu": "6", "memory": "10Gi"}
    where = {"story": "moving", "topology.kubernetes.io/zone": ZONE}
    return workload_manifest(
        "moving/train", replicas, requests, generation=1, nodeSelector=where
    )


def running(seen: Observed) -> list[Any]:
    return [
        it
        for it in seen.live("running")
        if it.instance_type == KIND and it.claim_id is not None
    ]


def markets(seen: Observed) -> list[str]:
    return sorted(it.market for it in running(seen))


def split_off(world: World, source: str) -> list[dict[str, Any]]:
    found = world.aws.client("ec2").describe_capacity_reservations(
        Filters=[{"Name": f"tag:{SPLIT_FROM_TAG}", "Values": [source]}]
    )
    shown: list[dict[str, Any]] = found["CapacityReservations"]
    return shown


def test_a_node_on_demand_moves_into_a_unit_that_became_free_and_runs_on(
    world: World, source: str
) -> None:
    world.send({"action": "submit", "workload": workload(3)})
    seen = world.until(
        "they run", lambda seen: markets(seen) == ["on-demand", "reserved", "reserved"]
    )
    before = {it.id for it in running(seen)}
    world.aws.client("ec2").modify_capacity_reservation(
        CapacityReservationId=source, InstanceCount=4
    )
    seen = world.until(
        "all are reserved",
        lambda seen: (
            sum(it.reservation_id is not None for it in running(seen)) == 3
            and bool(changed(seen))
        ),
    )
    assert {it.id for it in running(seen)} == before, "nothing was restarted"
    (made,) = split_off(world, source)
    (told,) = changed(seen)
    assert told["previous"] == "on-demand"
    assert told["node"]["capacityReservationId"] == made["CapacityReservationId"]
    (moved,) = world.events("Node Moved Into Reservation")
    assert moved["splitFrom"] == source
    assert [it["name"] for it in moved["workloads"]] == ["train"]
    explained = world.command("explain", "node", told["node"]["nodeClaim"])
    assert "without a restart" in explained.stdout, explained.stdout + explained.stderr
    assert seen.drains == {}
    assert world.denials() == []


def changed(seen: Observed) -> list[dict[str, Any]]:
    return [
        event["detail"]
        for event in seen.events
        if event["detail-type"] == "Node Capacity Type Changed"
    ]


def test_its_unit_goes_back_when_it_has_ended(world: World, source: str) -> None:
    world.send({"action": "withdraw", "workload": workload(3)})
    world.until("they are gone", lambda seen: not running(seen))
    world.until(
        "the unit is back",
        lambda _: {it["State"] for it in split_off(world, source)} == {"cancelled"},
    )
    found = world.aws.client("ec2").describe_capacity_reservations(
        CapacityReservationIds=[source]
    )
    assert found["CapacityReservations"][0]["TotalInstanceCount"] == 4
    assert world.denials() == []
