"""Moving units on the emulated EC2 through the adapter."""

import pytest

from lab.worlds.cloud import Cloud
from reservoir.adapters.ec2.unit_moves import Ec2UnitMover
from reservoir.ports.errors import AwsError


def counts(cloud: Cloud, *reservation_ids: str) -> list[tuple[int, int]]:
    shown = (cloud.reservation(reservation_id) for reservation_id in reservation_ids)
    return [(it["TotalInstanceCount"], it["AvailableInstanceCount"]) for it in shown]


def test_a_unit_moves_once_a_token() -> None:
    cloud = Cloud()
    source, target = cloud.reserve(3), cloud.reserve(1)
    mover = Ec2UnitMover(cloud.ec2)
    mover.move(source, target, 1, "mv-1")
    mover.move(source, target, 1, "mv-1")  # the answer was lost
    assert counts(cloud, source, target) == [(2, 2), (2, 2)]
    mover.move(source, target, 1, "mv-2")
    assert counts(cloud, source, target) == [(1, 1), (3, 3)]


def test_ec2_refuses_what_is_unequal_or_not_there() -> None:
    cloud = Cloud()
    source, target = cloud.reserve(1), cloud.reserve(1)
    other = cloud.reserve(1, InstanceType="m5.4xlarge")
    mover = Ec2UnitMover(cloud.ec2)
    for destination, count in ((target, 2), (other, 1)):
        with pytest.raises(AwsError, match="InvalidParameter"):
            mover.move(source, destination, count, f"{destination}-{count}")
