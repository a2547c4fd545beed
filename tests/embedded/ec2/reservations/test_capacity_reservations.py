"""Create, modify, cancel, describe, move on-demand capacity reservations."""

from datetime import timedelta
from typing import Any

import pytest

from lab.worlds.cloud import (
    ACCOUNT_ID,
    LINUX,
    START,
    TYPE,
    ZONE_A,
    ZONE_B,
    Cloud,
    code_of,
    refused,
)


def test_a_new_reservation_is_active_and_all_free(cloud: Cloud) -> None:
    made = cloud.reservation(cloud.reserve(3))
    assert made["State"] == "active"
    assert (made["TotalInstanceCount"], made["AvailableInstanceCount"]) == (3, 3)
    assert made["OwnerId"] == ACCOUNT_ID
    assert made["CapacityReservationArn"].endswith(made["CapacityReservationId"])
    assert (made["AvailabilityZone"], made["AvailabilityZoneId"]) == (ZONE_A, "use1-az1")
    assert (made["ReservationType"], made["EndDateType"]) == ("default", "unlimited")
    assert made["CreateDate"] == made["StartDate"] == START


def test_the_zone_may_be_named_by_its_id(cloud: Cloud) -> None:
    made = cloud.ec2.create_capacity_reservation(
        InstanceType=TYPE,
        InstancePlatform=LINUX,
        AvailabilityZoneId="use1-az2",
        InstanceCount=1,
    )
    assert made["CapacityReservation"]["AvailabilityZone"] == ZONE_B


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"InstanceCount": 0}, "InvalidParameterValue"),
        ({"InstanceCount": 1001}, "InvalidParameterValue"),
        ({"InstanceType": "zz9.huge"}, "InvalidParameterValue"),
        ({"AvailabilityZone": "us-east-1z"}, "InvalidParameterValue"),
        ({"AvailabilityZoneId": "use1-az1"}, "InvalidParameterCombination"),
        ({"InstanceType": "p4d.24xlarge", "AvailabilityZone": "us-east-1e"}, "Unsupported"),
        ({"EndDateType": "limited"}, "InvalidParameterCombination"),
        (
            {"EndDate": START + timedelta(hours=1), "EndDateType": "unlimited"},
            "InvalidParameterCombination",
        ),
        (
            {"EndDate": START - timedelta(hours=1), "EndDateType": "limited"},
            "InvalidParameterValue",
        ),
        ({"InstanceMatchCriteria": "sometimes"}, "InvalidParameterValue"),
    ],
)
def test_what_cannot_be_reserved_is_refused(
    cloud: Cloud, change: dict[str, Any], code: str
) -> None:
    assert (
        code_of(
            lambda: cloud.reserve(**({"count": change.pop("InstanceCount", 1)} | change))
        )
        == code
    )


def test_a_client_token_makes_one_reservation(cloud: Cloud) -> None:
    first = cloud.reserve(ClientToken="once")
    assert cloud.reserve(ClientToken="once") == first
    assert len(cloud.ec2.describe_capacity_reservations()["CapacityReservations"]) == 1
    with refused("IdempotentParameterMismatch"):
        cloud.reserve(count=3, ClientToken="once")


def test_tags_of_the_request_are_shown_and_filtered(cloud: Cloud) -> None:
    specification = [
        {"ResourceType": "capacity-reservation", "Tags": [{"Key": "team", "Value": "ml"}]}
    ]
    tagged = cloud.reserve(TagSpecifications=specification)
    cloud.reserve()
    assert cloud.reservation(tagged)["Tags"] == [{"Key": "team", "Value": "ml"}]
    for name, values in (("tag:team", ["ml"]), ("tag-key", ["te*"])):
        found = cloud.ec2.describe_capacity_reservations(
            Filters=[{"Name": name, "Values": values}]
        )
        assert [r["CapacityReservationId"] for r in found["CapacityReservations"]] == [
            tagged
        ]


FILTERS = {
    "instance-type": "c5.large",
    "instance-platform": "Windows",
    "availability-zone": ZONE_B,
    "availability-zone-id": "use1-az2",
    "tenancy": "dedicated",
    "state": "cancelled",
    "end-date-type": "limited",
    "end-date": "2026-11-03T08:00:00.000Z",
    "instance-match-criteria": "open",
}


@pytest.mark.parametrize(("name", "value"), FILTERS.items())
def test_each_filter_finds_only_what_it_names(cloud: Cloud, name: str, value: str) -> None:
    cloud.reserve()
    special = cloud.reserve(
        InstanceType="c5.large",
        InstancePlatform="Windows",
        AvailabilityZone=ZONE_B,
        Tenancy="dedicated",
        InstanceMatchCriteria="open",
        EndDateType="limited",
        EndDate=START + timedelta(days=1),
    )
    if name == "state":
        cloud.ec2.cancel_capacity_reservation(CapacityReservationId=special)
    found = cloud.ec2.describe_capacity_reservations(
        Filters=[{"Name": name, "Values": [value.replace("Z", "*")]}]
    )
    assert [r["CapacityReservationId"] for r in found["CapacityReservations"]] == [special]


def test_the_owner_filter_tells_shared_from_own(cloud: Cloud) -> None:
    own = cloud.reserve()
    shared = cloud.control(
        "share_reservation",
        instance_type=TYPE,
        zone=ZONE_A,
        count=4,
        owner_id="111122223333",
    )
    for owner, expected in (
        (ACCOUNT_ID, own),
        ("111122223333", shared["capacity_reservation_id"]),
    ):
        found = cloud.ec2.describe_capacity_reservations(
            Filters=[{"Name": "owner-id", "Values": [owner]}]
        )
        assert [r["CapacityReservationId"] for r in found["CapacityReservations"]] == [
            expected
        ]


def test_unknown_filters_and_ids_are_errors(cloud: Cloud) -> None:
    with refused("InvalidParameterValue"):
        cloud.ec2.describe_capacity_reservations(
            Filters=[{"Name": "colour", "Values": ["red"]}]
        )
    with refused("InvalidCapacityReservationId.NotFound"):
        cloud.reservation("cr-00000000000000000")
    with refused("InvalidCapacityReservationId.Malformed"):
        cloud.reservation("banana")


def test_pages_cover_everything_once(cloud: Cloud) -> None:
    made = [cloud.reserve() for _ in range(5)]
    pages = list(
        cloud.ec2.get_paginator("describe_capacity_reservations").paginate(
            PaginationConfig={"PageSize": 2}
        )
    )
    assert [len(p["CapacityReservations"]) for p in pages] == [2, 2, 1]
    assert [
        r["CapacityReservationId"] for p in pages for r in p["CapacityReservations"]
    ] == made
    with refused("InvalidParameterCombination"):
        cloud.ec2.describe_capacity_reservations(CapacityReservationIds=made, MaxResults=2)
    with refused("InvalidParameterValue"):
        cloud.ec2.describe_capacity_reservations(NextToken="nonsense")


def test_modify_changes_size_end_and_criteria(cloud: Cloud) -> None:
    made = cloud.reserve(2)
    end = START + timedelta(days=2)
    cloud.ec2.modify_capacity_reservation(
        CapacityReservationId=made,
        InstanceCount=5,
        EndDateType="limited",
        EndDate=end,
        InstanceMatchCriteria="open",
    )
    changed = cloud.reservation(made)
    assert (
        changed["TotalInstanceCount"],
        changed["EndDate"],
        changed["InstanceMatchCriteria"],
    ) == (5, end, "open")


def test_shrinking_below_use_puts_the_newest_instances_on_demand(cloud: Cloud) -> None:
    made = cloud.reserve(2)
    target = {"CapacityReservationTarget": {"CapacityReservationId": made}}
    first = cloud.run(CapacityReservationSpecification=target)[0]
    cloud.advance(seconds=1)
    second = cloud.run(CapacityReservationSpecification=target)[0]
    cloud.ec2.modify_capacity_reservation(CapacityReservationId=made, InstanceCount=1)
    assert cloud.instance(first)["CapacityReservationId"] == made
    assert "CapacityReservationId" not in cloud.instance(second)
    assert cloud.available(made) == 0


def test_criteria_change_only_while_idle(cloud: Cloud) -> None:
    made = cloud.reserve(1)
    cloud.run(
        CapacityReservationSpecification={
            "CapacityReservationTarget": {"CapacityReservationId": made}
        }
    )
    with refused("InvalidParameterValue"):
        cloud.ec2.modify_capacity_reservation(
            CapacityReservationId=made, InstanceMatchCriteria="open"
        )


def test_cancelling_leaves_instances_running_on_demand(cloud: Cloud) -> None:
    made = cloud.reserve(1)
    instance = cloud.run(
        CapacityReservationSpecification={
            "CapacityReservationTarget": {"CapacityReservationId": made}
        }
    )[0]
    cloud.ec2.cancel_capacity_reservation(CapacityReservationId=made)
    assert cloud.reservation(made)["State"] == "cancelled"
    assert cloud.available(made) == 0
    shown = cloud.instance(instance)
    assert "CapacityReservationId" not in shown
    assert shown["State"]["Name"] == "pending"
    with refused("InvalidCapacityReservationState"):
        cloud.ec2.cancel_capacity_reservation(CapacityReservationId=made)


def test_what_is_still_pending_cannot_be_cancelled(cloud: Cloud) -> None:
    cloud.control("configure", reservation_pending_s=300)
    made = cloud.reserve(1)
    assert cloud.reservation(made)["State"] == "pending"
    with refused("InvalidCapacityReservationState"):
        cloud.ec2.cancel_capacity_reservation(CapacityReservationId=made)
    cloud.advance(minutes=5)
    cloud.ec2.cancel_capacity_reservation(CapacityReservationId=made)
    assert cloud.reservation(made)["State"] == "cancelled"


def test_only_the_owner_changes_a_reservation(cloud: Cloud) -> None:
    shared = cloud.control("share_reservation", instance_type=TYPE, zone=ZONE_A, count=1)[
        "capacity_reservation_id"
    ]
    with refused("UnauthorizedOperation"):
        cloud.ec2.cancel_capacity_reservation(CapacityReservationId=shared)


def test_moving_capacity_moves_free_slots_first(cloud: Cloud) -> None:
    source, target = (cloud.reserve(2, InstanceMatchCriteria="open") for _ in range(2))
    instance = cloud.run()[0]
    assert cloud.instance(instance)["CapacityReservationId"] == source
    moved = {
        "SourceCapacityReservationId": source,
        "DestinationCapacityReservationId": target,
    }
    cloud.ec2.move_capacity_reservation_instances(**moved, InstanceCount=1)
    assert (cloud.available(source), cloud.available(target)) == (0, 3)
    cloud.ec2.move_capacity_reservation_instances(**moved, InstanceCount=1)
    assert cloud.reservation(source)["State"] == "cancelled"
    assert cloud.instance(instance)["CapacityReservationId"] == target


def test_used_slots_move_only_with_instances_that_were_launched_open(cloud: Cloud) -> None:
    source, target = (cloud.reserve(1, InstanceMatchCriteria="open") for _ in range(2))
    cloud.run(
        CapacityReservationSpecification={
            "CapacityReservationTarget": {"CapacityReservationId": source}
        }
    )
    with refused("InvalidParameterValue"):
        cloud.ec2.move_capacity_reservation_instances(
            SourceCapacityReservationId=source,
            DestinationCapacityReservationId=target,
            InstanceCount=1,
        )


def test_a_slot_that_moves_into_an_open_reservation_takes_an_instance_that_runs_loose(
    cloud: Cloud,
) -> None:
    source, target = cloud.reserve(2), cloud.reserve(1, InstanceMatchCriteria="open")
    first, second = (cloud.run()[0] for _ in range(2))
    assert cloud.instance(first)["CapacityReservationId"] == target
    assert "CapacityReservationId" not in cloud.instance(second)
    cloud.ec2.move_capacity_reservation_instances(
        SourceCapacityReservationId=source,
        DestinationCapacityReservationId=target,
        InstanceCount=1,
    )
    assert cloud.instance(second)["CapacityReservationId"] == target


def test_usage_is_told_by_account(cloud: Cloud) -> None:
    made = cloud.reserve(3)
    cloud.run(
        CapacityReservationSpecification={
            "CapacityReservationTarget": {"CapacityReservationId": made}
        }
    )
    cloud.control(
        "outsider_launch", capacity_reservation_id=made, account_id="999999999999"
    )
    usage = cloud.ec2.get_capacity_reservation_usage(CapacityReservationId=made)
    assert usage["InstanceUsages"] == [
        {"AccountId": ACCOUNT_ID, "UsedInstanceCount": 1},
        {"AccountId": "999999999999", "UsedInstanceCount": 1},
    ]


def test_reserving_needs_hardware(cloud: Cloud) -> None:
    cloud.control("set_pool_capacity", instance_type=TYPE, zone=ZONE_A, capacity=3)
    cloud.run(1)
    cloud.reserve(2)
    with refused("InsufficientInstanceCapacity"):
        cloud.reserve(1)
