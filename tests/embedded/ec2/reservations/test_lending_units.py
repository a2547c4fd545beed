"""The owner lends free slots of a reservation as an interruptible one, lends more, and takes them back."""

from typing import Any

import pytest

from lab.worlds.cloud import TYPE, Cloud, refused
from tests.embedded.ec2.test_blocks_and_lending import run_in

RECLAIMED = "EC2 Interruptible Capacity Reservation Allocation Reclamation Completed"
WARNING = "EC2 Capacity Reservation Instance Interruption Warning"
MARKET = "interruptible-capacity-reservation"


def lend(cloud: Cloud, source: str, count: int, **more: Any) -> str:
    cloud.ec2.create_interruptible_capacity_reservation_allocation(
        CapacityReservationId=source, InstanceCount=count, **more
    )
    lent: str = allocation(cloud, source)["InterruptibleCapacityReservationId"]
    return lent


def change(cloud: Cloud, source: str, **changes: Any) -> dict[str, Any]:
    answer: dict[str, Any] = cloud.ec2.update_interruptible_capacity_reservation_allocation(
        CapacityReservationId=source, **changes
    )
    return answer


def allocation(cloud: Cloud, source: str) -> dict[str, Any]:
    found: dict[str, Any] = cloud.reservation(source)["InterruptibleCapacityAllocation"]
    return found


def sizes(cloud: Cloud, *reservation_ids: str) -> list[int]:
    return [cloud.reservation(each)["TotalInstanceCount"] for each in reservation_ids]


def test_the_owner_lends_and_takes_back(cloud: Cloud) -> None:
    source = cloud.reserve(5)
    lent = lend(cloud, source, 2)
    assert sizes(cloud, source, lent) == [3, 2]
    assert cloud.available(lent) == 2
    assert (
        cloud.reservation(lent)["InterruptionInfo"]["SourceCapacityReservationId"] == source
    )
    with refused("OperationNotPermitted"):
        cloud.ec2.cancel_capacity_reservation(CapacityReservationId=lent)
    run_in(cloud, lent, MARKET)
    assert change(cloud, source, TargetInstanceCount=0)["Status"] == "canceling"
    cloud.advance(minutes=3)
    assert sizes(cloud, source) == [5]
    assert cloud.reservation(lent)["State"] == "cancelled"
    (done,) = cloud.events_of(RECLAIMED)
    assert done["detail"] == {
        "sourceCapacityReservationId": source,
        "instanceType": TYPE,
        "availabilityZoneId": "use1-az1",
        "TotalInstanceCount": "5",
        "ReclaimedInstanceCount": "2",
        "targetInstanceCount": "0",
    }


def test_an_allocation_grows_out_of_free_slots(cloud: Cloud) -> None:
    source = cloud.reserve(5)
    lent = lend(cloud, source, 1)
    answer = change(cloud, source, TargetInstanceCount=4)
    assert (answer["InstanceCount"], answer["Status"]) == (4, "active")
    assert sizes(cloud, source, lent) == [1, 4]
    with refused("InvalidParameterValue"):
        change(cloud, source, TargetInstanceCount=6)
    assert sizes(cloud, source, lent) == [1, 4]


def test_a_used_slot_comes_back_when_its_instance_has_terminated(cloud: Cloud) -> None:
    source = cloud.reserve(3)
    lent = lend(cloud, source, 2)
    run_in(cloud, lent, MARKET)
    change(cloud, source, TargetInstanceCount=0)
    assert sizes(cloud, source, lent) == [2, 1]
    assert allocation(cloud, source)["Status"] == "canceling"
    with refused("OperationNotPermitted"):
        change(cloud, source, TargetInstanceCount=1)
    cloud.advance(seconds=120)
    assert sizes(cloud, source) == [2]
    cloud.advance(seconds=10)
    assert sizes(cloud, source) == [3]


def test_nothing_is_launched_into_a_slot_that_is_being_given_back(cloud: Cloud) -> None:
    source = cloud.reserve(2)
    lent = lend(cloud, source, 2)
    newest = [run_in(cloud, lent, MARKET) for _ in range(2)]
    change(cloud, source, TargetInstanceCount=1)
    (warned,) = cloud.events_of(WARNING)
    doomed = warned["detail"]["instance-id"]
    assert doomed in newest
    cloud.ec2.terminate_instances(InstanceIds=[doomed])
    cloud.advance(seconds=10)
    assert sizes(cloud, source, lent) == [1, 1]
    assert cloud.available(lent) == 0


def test_more_is_reclaimed_while_some_is_and_nobody_is_warned_twice(cloud: Cloud) -> None:
    source = cloud.reserve(3)
    lent = lend(cloud, source, 3)
    for _ in range(3):
        run_in(cloud, lent, MARKET)
    change(cloud, source, TargetInstanceCount=2)
    cloud.advance(seconds=60)
    change(cloud, source, TargetInstanceCount=1)
    assert len(cloud.events_of(WARNING)) == 2
    cloud.advance(seconds=70)
    assert sizes(cloud, source, lent) == [1, 2]
    cloud.advance(seconds=60)
    assert sizes(cloud, source, lent) == [2, 1]
    (done,) = cloud.events_of(RECLAIMED)
    assert done["detail"]["ReclaimedInstanceCount"] == "2"


def test_an_allocation_that_is_retained_rests_at_zero_and_comes_back(cloud: Cloud) -> None:
    source = cloud.reserve(2)
    lent = lend(cloud, source, 1, ZeroSizePreference="retain")
    change(cloud, source, TargetInstanceCount=0)
    assert (cloud.reservation(lent)["State"], sizes(cloud, source, lent)) == (
        "active",
        [2, 0],
    )
    assert allocation(cloud, source)["ZeroSizePreference"] == "retain"
    with refused("OperationNotPermitted"):
        lend(cloud, source, 1)
    change(cloud, source, TargetInstanceCount=2)
    assert sizes(cloud, source, lent) == [0, 2]
    change(cloud, source, ZeroSizePreference="default")
    change(cloud, source, TargetInstanceCount=0)
    assert cloud.reservation(lent)["State"] == "cancelled"
    assert lend(cloud, source, 1) != lent


def test_what_cannot_be_lent(cloud: Cloud) -> None:
    ending = cloud.reserve(2, EndDateType="limited", EndDate="2026-11-03T00:00:00Z")
    with refused("OperationNotPermitted"):
        lend(cloud, ending, 1)
    source = cloud.reserve(2)
    for count in (0, 3, 1001):
        with refused("InvalidParameterValue"):
            lend(cloud, source, count)
    with refused("InvalidParameterValue"):
        change(cloud, source, TargetInstanceCount=1)
    lend(cloud, source, 1)
    with refused("MissingParameter"):
        change(cloud, source)


def test_a_token_lends_once_and_what_is_lent_has_the_tags(cloud: Cloud) -> None:
    source = cloud.reserve(5)
    tags = [
        {
            "ResourceType": "capacity-reservation",
            "Tags": [{"Key": "lent-by", "Value": "platform"}],
        }
    ]
    request = {"ClientToken": "once", "TagSpecifications": tags}
    lent = lend(cloud, source, 2, **request)
    assert lend(cloud, source, 2, **request) == lent
    assert sizes(cloud, source, lent) == [3, 2]
    assert cloud.reservation(lent)["Tags"] == tags[0]["Tags"]


@pytest.mark.parametrize("call", ["lend", "change"])
def test_only_its_owner_lends_a_reservation(cloud: Cloud, call: str) -> None:
    shared = cloud.control(
        "share_reservation", instance_type=TYPE, zone="use1-az1", count=2
    )["capacity_reservation_id"]
    with refused("UnauthorizedOperation"):
        if call == "lend":
            lend(cloud, shared, 1)
        else:
            change(cloud, shared, TargetInstanceCount=1)
