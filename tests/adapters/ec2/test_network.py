"""Where capacity is in the network, read from the emulated EC2."""

import pytest

from lab.worlds.cloud import Cloud
from reservoir.adapters.ec2.reservations import Ec2NetworkReader
from reservoir.ports.errors import AwsError

GPU, PLAIN = "p4d.24xlarge", "m5.large"


def test_more_reservations_than_ec2_takes_at_once_are_asked_about_in_parts() -> None:
    cloud = Cloud()
    ids = [cloud.reserve(1, InstanceType=GPU) for _ in range(11)]
    found = Ec2NetworkReader(cloud.ec2).of_reservations(dict.fromkeys(ids, GPU))
    assert sorted(found) == sorted(ids)
    assert {len(nodes) for nodes in found.values()} == {2}


def test_a_type_without_a_topology_is_asked_about_once() -> None:
    cloud = Cloud()
    reader, plain = Ec2NetworkReader(cloud.ec2), cloud.reserve(1)
    assert reader.of_reservations({plain: PLAIN}) == {}
    cloud.control("fail_calls", operation="DescribeCapacityReservationTopology")
    assert reader.of_reservations({plain: PLAIN}) == {}


def test_a_refusal_is_an_error_and_a_region_without_the_call_is_none() -> None:
    cloud = Cloud()
    gpu = cloud.reserve(1, InstanceType=GPU)
    reader = Ec2NetworkReader(cloud.ec2)
    cloud.control(
        "fail_calls",
        operation="DescribeCapacityReservationTopology",
        code="UnauthorizedOperation",
    )
    with pytest.raises(AwsError, match="UnauthorizedOperation"):
        reader.of_reservations({gpu: GPU})
    elsewhere = Ec2NetworkReader(Cloud(region="il-central-1").ec2)
    assert elsewhere.of_reservations({"cr-1": GPU}) == {}
