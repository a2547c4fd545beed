"""Splitting units off on the emulated EC2 through the adapter."""

import pytest

from lab.worlds.cloud import Cloud, config, launched
from reservoir.adapters.ec2.unit_splits import Ec2UnitSplitter
from reservoir.ports.errors import AwsError
from tests.embedded.ec2.contract.sites import GROUP


def splitter(cloud: Cloud) -> Ec2UnitSplitter:
    return Ec2UnitSplitter(cloud.ec2, cloud.emulation.client("resource-groups"))


def test_a_unit_is_split_off_once_a_token_with_its_tags() -> None:
    cloud = Cloud()
    source = cloud.reserve(3)
    made = splitter(cloud).split(source, {"a": "b"}, "sp-1")
    assert splitter(cloud).split(source, {"a": "b"}, "sp-1") == made
    shown = cloud.reservation(made)
    assert (shown["TotalInstanceCount"], shown["Tags"]) == (
        1,
        [{"Key": "a", "Value": "b"}],
    )
    assert cloud.reservation(source)["TotalInstanceCount"] == 2


def test_ec2_moves_an_instance_into_what_joins_its_group() -> None:
    cloud = Cloud()
    groups = cloud.emulation.client("resource-groups")
    arn = groups.create_group(Name="reservoir-mine", Configuration=GROUP)["Group"][
        "GroupArn"
    ]
    (instance,) = launched(cloud.fleet([config(cloud.template(target=arn))]))
    made = splitter(cloud).split(cloud.reserve(2), {}, "sp-1")
    splitter(cloud).join(made, arn)
    splitter(cloud).join(made, arn)
    cloud.advance(seconds=121)
    assert cloud.instance(instance)["CapacityReservationId"] == made


def test_what_is_refused_says_so() -> None:
    cloud = Cloud()
    last = cloud.reserve(1)
    with pytest.raises(AwsError, match="InvalidParameterValue"):
        splitter(cloud).split(last, {}, "sp-1")
    groups = cloud.emulation.client("resource-groups")
    arn = groups.create_group(Name="reservoir-mine", Configuration=GROUP)["Group"][
        "GroupArn"
    ]
    cloud.ec2.cancel_capacity_reservation(CapacityReservationId=last)
    with pytest.raises(AwsError, match="InvalidResource"):
        splitter(cloud).join(last, arn)
    with pytest.raises(AwsError, match="NotFound"):
        splitter(cloud).join(last, arn.replace("mine", "nobodys"))
