"""Where capacity is in the network: DescribeCapacityReservationTopology and DescribeInstanceTopology."""

from typing import Any

import pytest

from lab.worlds.cloud import ZONE_B, Cloud, refused

GPU, ULTRA_SERVER, PLAIN = "p4d.24xlarge", "trn2u.48xlarge", "m5.large"


def reserve(cloud: Cloud, instance_type: str = GPU, **more: Any) -> str:
    return cloud.reserve(2, InstanceType=instance_type, **more)


def run_in(cloud: Cloud, reservation: str, instance_type: str = GPU) -> str:
    target = {"CapacityReservationTarget": {"CapacityReservationId": reservation}}
    (instance,) = cloud.run(
        InstanceType=instance_type, CapacityReservationSpecification=target
    )
    return instance


def shown(cloud: Cloud, *reservations: str) -> dict[str, Any]:
    answer = cloud.ec2.describe_capacity_reservation_topology(
        CapacityReservationIds=list(reservations)
    )
    return {each["CapacityReservationId"]: each for each in answer["CapacityReservations"]}


def instances(cloud: Cloud, *ids: str) -> dict[str, Any]:
    answer = cloud.ec2.describe_instance_topology(InstanceIds=list(ids))
    return {each["InstanceId"]: each for each in answer["Instances"]}


def test_an_active_reservation_shows_the_upper_layers_and_its_instances_are_below(
    cloud: Cloud,
) -> None:
    reservation = reserve(cloud)
    above = shown(cloud, reservation)[reservation]["NetworkNodes"]
    instance = run_in(cloud, reservation)
    cloud.advance(seconds=10)
    whole = instances(cloud, instance)[instance]["NetworkNodes"]
    assert (len(above), len(whole)) == (2, 3)
    assert whole[:2] == above


def test_types_without_a_topology_are_left_out(cloud: Cloud) -> None:
    reservation = reserve(cloud, PLAIN)
    (instance,) = cloud.run(InstanceType=PLAIN)
    cloud.advance(seconds=10)
    assert shown(cloud, reservation) == {}
    assert instances(cloud, instance) == {}


def test_nothing_is_known_of_an_instance_before_it_runs(cloud: Cloud) -> None:
    instance = run_in(cloud, reserve(cloud))
    assert "NetworkNodes" not in instances(cloud, instance)[instance]


def test_only_pending_and_active_reservations_have_network_nodes(cloud: Cloud) -> None:
    cloud.control("configure", reservation_pending_s=30)
    reservation = reserve(cloud)
    assert len(shown(cloud, reservation)[reservation]["NetworkNodes"]) == 1
    cloud.advance(seconds=30)
    assert len(shown(cloud, reservation)[reservation]["NetworkNodes"]) == 2
    cloud.ec2.cancel_capacity_reservation(CapacityReservationId=reservation)
    assert "NetworkNodes" not in shown(cloud, reservation)[reservation]


def test_an_ultra_server_shows_all_layers_and_names_its_block(cloud: Cloud) -> None:
    cloud.control("configure", block_id_lag_s=60)
    bought = cloud.control(
        "purchase_capacity_block", instance_type=ULTRA_SERVER, zone="us-east-1b", count=2
    )
    reservation, block = bought["capacity_reservation_id"], bought["capacity_block_id"]
    described = shown(cloud, reservation)[reservation]
    target = {"CapacityReservationTarget": {"CapacityReservationId": reservation}}
    (instance,) = cloud.run(
        InstanceType=ULTRA_SERVER,
        Placement={"AvailabilityZone": "us-east-1b"},
        InstanceMarketOptions={"MarketType": "capacity-block"},
        CapacityReservationSpecification=target,
    )
    cloud.advance(seconds=10)
    young = instances(cloud, instance)[instance]
    assert (described["CapacityBlockId"], len(described["NetworkNodes"])) == (block, 3)
    assert young["NetworkNodes"] == described["NetworkNodes"]
    assert "CapacityBlockId" not in young
    cloud.advance(seconds=60)
    assert instances(cloud, instance)[instance]["CapacityBlockId"] == block


def test_a_test_may_say_where_a_reservation_is(cloud: Cloud) -> None:
    reservation = reserve(cloud)
    cloud.control(
        "set_network_nodes",
        capacity_reservation_id=reservation,
        network_nodes=["nn-1", "nn-12", "nn-123"],
    )
    assert shown(cloud, reservation)[reservation]["NetworkNodes"] == ["nn-1", "nn-12"]


def test_reservations_come_ten_a_page_and_by_filter(cloud: Cloud) -> None:
    made = [reserve(cloud) for _ in range(11)]
    other = reserve(cloud, "trn1.32xlarge", AvailabilityZone=ZONE_B)
    first = cloud.ec2.describe_capacity_reservation_topology()
    second = cloud.ec2.describe_capacity_reservation_topology(NextToken=first["NextToken"])
    sizes = [len(page["CapacityReservations"]) for page in (first, second)]
    assert (sizes, "NextToken" in second) == ([10, 2], False)
    (found,) = cloud.ec2.describe_capacity_reservation_topology(
        Filters=[{"Name": "instance-type", "Values": ["trn1*"]}]
    )["CapacityReservations"]
    assert found["CapacityReservationId"] == other
    with refused("InvalidParameterValue"):
        shown(cloud, *made)
    with refused("InvalidCapacityReservationId.NotFound"):
        shown(cloud, "cr-00000000000000000")
    with refused("InvalidParameterCombination"):
        cloud.ec2.describe_capacity_reservation_topology(
            CapacityReservationIds=made[:1], MaxResults=5
        )


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"InstanceIds": ["i-00000000000000000"]}, "InvalidInstanceID.NotFound"),
        ({"GroupNames": ["nobody"]}, "InvalidPlacementGroup.Unknown"),
        ({"Filters": [{"Name": "vpc-id", "Values": ["v"]}]}, "InvalidParameterValue"),
    ],
)
def test_what_is_not_there_is_refused(
    cloud: Cloud, request_: dict[str, Any], code: str
) -> None:
    with refused(code):
        cloud.ec2.describe_instance_topology(**request_)


def test_the_call_for_reservations_is_not_in_every_region() -> None:
    with refused("UnsupportedOperation"):
        Cloud(region="il-central-1").ec2.describe_capacity_reservation_topology()
