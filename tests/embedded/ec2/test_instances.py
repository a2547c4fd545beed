"""Instances: launching, describing, status, terminating, joining and leaving reservations."""

from typing import Any

import pytest

from lab.worlds.cloud import (
    LINUX,
    REGION,
    START,
    TYPE,
    ZONE_A,
    ZONE_B,
    Cloud,
    code_of,
    refused,
)

STATE_CHANGE = "EC2 Instance State-change Notification"


def into(reservation_id: str, **more: Any) -> dict[str, Any]:
    return {
        "CapacityReservationSpecification": {
            "CapacityReservationTarget": {"CapacityReservationId": reservation_id}
        }
    } | more


def test_an_instance_lives_by_the_clock_and_tells_of_each_state(cloud: Cloud) -> None:
    (instance,) = cloud.run()
    assert cloud.instance(instance)["State"] == {"Code": 0, "Name": "pending"}
    cloud.advance(seconds=5)
    assert cloud.instance(instance)["State"] == {"Code": 16, "Name": "running"}
    (change,) = cloud.ec2.terminate_instances(InstanceIds=[instance])[
        "TerminatingInstances"
    ]
    assert (change["PreviousState"]["Name"], change["CurrentState"]["Name"]) == (
        "running",
        "shutting-down",
    )
    cloud.advance(seconds=10)
    gone = cloud.instance(instance)
    assert gone["State"]["Name"] == "terminated"
    assert gone["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    assert "PrivateIpAddress" not in gone
    states = [(e["detail"]["state"], e["time"]) for e in cloud.events_of(STATE_CHANGE)]
    assert states == [
        ("pending", "2026-11-02T08:00:00Z"),
        ("running", "2026-11-02T08:00:05Z"),
        ("shutting-down", "2026-11-02T08:00:05Z"),
        ("terminated", "2026-11-02T08:00:15Z"),
    ]
    cloud.advance(hours=1)
    with refused("InvalidInstanceID.NotFound"):
        cloud.instance(instance)


def test_a_jump_of_the_clock_gives_the_same_events_as_time_that_passes(
    cloud: Cloud,
) -> None:
    cloud.run()
    cloud.advance(days=1)
    assert [e["time"] for e in cloud.events] == [
        "2026-11-02T08:00:00Z",
        "2026-11-02T08:00:05Z",
    ]


def test_latencies_are_settings(cloud: Cloud) -> None:
    cloud.control("configure", pending_s=0, shutting_down_s=60)
    (instance,) = cloud.run()
    assert cloud.instance(instance)["State"]["Name"] == "running"
    cloud.ec2.terminate_instances(InstanceIds=[instance])
    cloud.advance(seconds=59)
    assert cloud.instance(instance)["State"]["Name"] == "shutting-down"
    cloud.advance(seconds=1)
    assert cloud.instance(instance)["State"]["Name"] == "terminated"


def test_a_slot_is_taken_at_launch_and_free_after_termination(cloud: Cloud) -> None:
    reserved = cloud.reserve(2)
    (instance,) = cloud.run(**into(reserved))
    assert cloud.available(reserved) == 1
    cloud.ec2.terminate_instances(InstanceIds=[instance])
    assert cloud.available(reserved) == 1
    cloud.advance(seconds=10)
    assert cloud.available(reserved) == 2


def test_what_describes_where_an_instance_is(cloud: Cloud) -> None:
    reserved = cloud.reserve()
    specification = {
        "CapacityReservationPreference": "capacity-reservations-only",
        "CapacityReservationTarget": {"CapacityReservationId": reserved},
    }
    (instance,) = cloud.run(
        CapacityReservationSpecification=specification, ClientToken="mine"
    )
    shown = cloud.instance(instance)
    assert shown["CapacityReservationId"] == reserved
    assert shown["CapacityReservationSpecification"] == specification
    assert shown["ClientToken"] == "mine"
    assert shown["Placement"]["AvailabilityZone"] == ZONE_A
    assert shown["PlatformDetails"] == LINUX
    assert shown["LaunchTime"] == START
    assert "InstanceLifecycle" not in shown


def test_the_default_preference_is_open_and_enters_open_reservations(cloud: Cloud) -> None:
    reserved = cloud.reserve(1, InstanceMatchCriteria="open")
    first, second = cloud.run(2)
    assert cloud.instance(first)["CapacityReservationId"] == reserved
    assert "CapacityReservationId" not in cloud.instance(second)
    assert cloud.instance(second)["CapacityReservationSpecification"] == {
        "CapacityReservationPreference": "open"
    }


def test_a_new_open_reservation_absorbs_matching_instances(cloud: Cloud) -> None:
    loose, opted_out = (
        cloud.run(),
        cloud.run(
            CapacityReservationSpecification={"CapacityReservationPreference": "none"}
        ),
    )
    reserved = cloud.reserve(2, InstanceMatchCriteria="open")
    assert cloud.available(reserved) == 1
    assert cloud.instance(loose[0])["CapacityReservationId"] == reserved
    assert "CapacityReservationId" not in cloud.instance(opted_out[0])


MISMATCHES = {
    "type": {"InstanceType": "c5.large"},
    "zone": {"Placement": {"AvailabilityZone": ZONE_B}},
    "tenancy": {"Placement": {"AvailabilityZone": ZONE_A, "Tenancy": "dedicated"}},
}


@pytest.mark.parametrize("change", MISMATCHES.values(), ids=MISMATCHES.keys())
def test_a_targeted_reservation_takes_only_what_matches(
    cloud: Cloud, change: dict[str, Any]
) -> None:
    reserved = cloud.reserve()
    assert (
        code_of(lambda: cloud.run(**into(reserved, **change)))
        == "ReservationCapacityExceeded"
    )


def test_the_platform_of_the_image_must_match_too(cloud: Cloud) -> None:
    reserved = cloud.reserve(InstancePlatform="Windows")
    assert code_of(lambda: cloud.run(**into(reserved))) == "ReservationCapacityExceeded"


def test_run_instances_gives_between_minimum_and_maximum(cloud: Cloud) -> None:
    cloud.control("set_pool_capacity", instance_type=TYPE, zone=ZONE_A, capacity=3)
    assert len(cloud.run(MinCount=1, MaxCount=5)) == 3
    with refused("InsufficientInstanceCapacity"):
        cloud.run()


def test_a_client_token_runs_once(cloud: Cloud) -> None:
    assert cloud.run(ClientToken="t") == cloud.run(ClientToken="t")
    assert len(cloud.instances()) == 1


def test_filters_find_instances(cloud: Cloud) -> None:
    reserved = cloud.reserve()
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "batch", "Value": "7"}]}]
    (special,) = cloud.run(**into(reserved, ClientToken="tok", TagSpecifications=tags))
    spot: dict[str, Any] = {"InstanceMarketOptions": {"MarketType": "spot"}}
    (other,) = cloud.run(
        **spot, InstanceType="c5.large", Placement={"AvailabilityZone": ZONE_B}
    )
    for name, value in {
        "client-token": "tok",
        "capacity-reservation-id": reserved,
        "tag:batch": "7",
        "tag-key": "batch",
        "instance-type": TYPE,
        "availability-zone": ZONE_A,
        "instance-id": special,
    }.items():
        found = cloud.instances(Filters=[{"Name": name, "Values": [value]}])
        assert [i["InstanceId"] for i in found] == [special], name
    assert [
        i["InstanceId"]
        for i in cloud.instances(
            Filters=[{"Name": "instance-lifecycle", "Values": ["spot"]}]
        )
    ] == [other]
    assert (
        cloud.instances(Filters=[{"Name": "instance-state-name", "Values": ["terminated"]}])
        == []
    )
    with refused("InvalidParameterValue"):
        cloud.instances(Filters=[{"Name": "colour", "Values": ["red"]}])


def test_ids_that_a_filter_names_are_looked_up_as_others_are(cloud: Cloud) -> None:
    reserved = cloud.reserve(1)
    (outsider,) = cloud.control("outsider_launch", capacity_reservation_id=reserved)[
        "instance_ids"
    ]
    first, second, third = cloud.run(3)
    for names, found in {
        (third, first, "i-00000000", outsider): {first, third},
        (first, f"*{second[-6:]}"): {first, second},
        (f"i-?{third[3:]}",): {third},
        ("i-[0-9a-f]*",): set(),  # brackets are no wildcards
    }.items():
        shown = cloud.instances(Filters=[{"Name": "instance-id", "Values": list(names)}])
        assert {each["InstanceId"] for each in shown} == found, names


def test_pages_count_instances(cloud: Cloud) -> None:
    ids = cloud.run(12)
    pages = list(
        cloud.ec2.get_paginator("describe_instances").paginate(
            PaginationConfig={"PageSize": 5}
        )
    )
    found = [
        [i["InstanceId"] for r in page["Reservations"] for i in r["Instances"]]
        for page in pages
    ]
    assert [len(page) for page in found] == [5, 5, 2]
    assert [i for page in found for i in page] == ids
    with refused("InvalidParameterCombination"):
        cloud.ec2.describe_instances(InstanceIds=ids, MaxResults=5)


def test_one_bad_id_terminates_nothing(cloud: Cloud) -> None:
    ids = cloud.run(2)
    for bad, code in (
        ("i-00000000000000000", "InvalidInstanceID.NotFound"),
        ("i-banana", "InvalidInstanceID.Malformed"),
    ):
        with refused(code):
            cloud.ec2.terminate_instances(InstanceIds=[*ids, bad])
    assert {i["State"]["Name"] for i in cloud.instances()} == {"pending"}


def test_terminating_twice_is_harmless_and_protection_holds(cloud: Cloud) -> None:
    first, second = cloud.run(2)
    cloud.control("protect_instance", instance_id=second)
    with refused("OperationNotPermitted"):
        cloud.ec2.terminate_instances(InstanceIds=[first, second])
    for _ in range(2):
        cloud.ec2.terminate_instances(InstanceIds=[first])
    assert [e["detail"]["state"] for e in cloud.events_of(STATE_CHANGE)].count(
        "shutting-down"
    ) == 1


def test_a_stopped_instance_leaves_its_reservation_and_may_not_get_back(
    cloud: Cloud,
) -> None:
    reserved = cloud.reserve(1)
    (instance,) = cloud.run(**into(reserved))
    cloud.ec2.stop_instances(InstanceIds=[instance])
    assert cloud.instance(instance)["State"]["Name"] == "stopping"
    assert cloud.available(reserved) == 0
    cloud.advance(seconds=10)
    assert cloud.instance(instance)["State"]["Name"] == "stopped"
    assert "CapacityReservationId" not in cloud.instance(instance)
    assert cloud.available(reserved) == 1
    cloud.control("outsider_launch", capacity_reservation_id=reserved)
    with refused("ReservationCapacityExceeded"):
        cloud.ec2.start_instances(InstanceIds=[instance])
    cloud.ec2.modify_capacity_reservation(CapacityReservationId=reserved, InstanceCount=2)
    cloud.ec2.start_instances(InstanceIds=[instance])
    cloud.advance(seconds=5)
    shown = cloud.instance(instance)
    assert (shown["State"]["Name"], shown["CapacityReservationId"]) == ("running", reserved)
    states = [e["detail"]["state"] for e in cloud.events_of(STATE_CHANGE)]
    assert states == ["pending", "stopping", "stopped", "pending", "running"]


def test_what_cannot_be_stopped_or_started(cloud: Cloud) -> None:
    market: dict[str, Any] = {"InstanceMarketOptions": {"MarketType": "spot"}}
    (spot,), (gone,) = cloud.run(**market), cloud.run()
    cloud.ec2.terminate_instances(InstanceIds=[gone])
    with refused("UnsupportedOperation"):
        cloud.ec2.stop_instances(InstanceIds=[spot])
    for call in (cloud.ec2.stop_instances, cloud.ec2.start_instances):
        with refused("IncorrectInstanceState"):
            call(InstanceIds=[gone])


def test_status_checks_and_maintenance_are_shown(cloud: Cloud) -> None:
    (instance,) = cloud.run()
    assert (
        cloud.ec2.describe_instance_status(InstanceIds=[instance])["InstanceStatuses"] == []
    )
    cloud.advance(seconds=5)
    (status,) = cloud.ec2.describe_instance_status()["InstanceStatuses"]
    assert (status["InstanceStatus"]["Status"], status["SystemStatus"]["Status"]) == (
        "ok",
        "ok",
    )
    cloud.control("set_status_checks", instance_id=instance, system_status="impaired")
    cloud.control(
        "schedule_maintenance", instance_ids=[instance], code="instance-retirement"
    )
    impaired = [{"Name": "system-status.status", "Values": ["impaired"]}]
    (status,) = cloud.ec2.describe_instance_status(Filters=impaired)["InstanceStatuses"]
    assert status["Events"][0]["Code"] == "instance-retirement"
    assert [
        i["InstanceId"]
        for i in cloud.ec2.describe_instance_status(
            Filters=[{"Name": "event.code", "Values": ["instance-retirement"]}]
        )["InstanceStatuses"]
    ] == [instance]


def test_outsiders_take_slots_and_stay_invisible(cloud: Cloud) -> None:
    reserved = cloud.reserve(2)
    ids = cloud.control("outsider_launch", capacity_reservation_id=reserved, count=2)[
        "instance_ids"
    ]
    assert cloud.available(reserved) == 0
    assert cloud.instances() == []
    assert cloud.events == []
    assert code_of(lambda: cloud.run(**into(reserved))) == "ReservationCapacityExceeded"
    cloud.control("terminate_instance", instance_id=ids[0])
    cloud.advance(seconds=10)
    assert cloud.available(reserved) == 1


def test_outsiders_take_hardware_of_a_pool(cloud: Cloud) -> None:
    cloud.control(
        "set_pool_capacity", instance_type=TYPE, zone=ZONE_A, market="spot", capacity=2
    )
    cloud.control(
        "outsider_launch", instance_type=TYPE, zone=ZONE_A, market="spot", count=2
    )
    spot: dict[str, Any] = {"InstanceMarketOptions": {"MarketType": "spot"}}
    assert code_of(lambda: cloud.run(**spot)) == "InsufficientInstanceCapacity"
    with pytest.raises(ValueError, match="InsufficientInstanceCapacity"):
        cloud.control("outsider_launch", instance_type=TYPE, zone=ZONE_A, market="spot")


def test_a_group_member_that_ends_hands_its_instances_to_the_next(cloud: Cloud) -> None:
    first, second = cloud.reserve(1), cloud.reserve(1)
    arn = cloud.control(
        "create_group", name="pair", capacity_reservation_ids=[first, second]
    )["arn"]
    target = {"CapacityReservationTarget": {"CapacityReservationResourceGroupArn": arn}}
    (instance,) = cloud.run(CapacityReservationSpecification=target)
    assert cloud.instance(instance)["CapacityReservationId"] == first
    cloud.ec2.cancel_capacity_reservation(CapacityReservationId=first)
    assert cloud.instance(instance)["CapacityReservationId"] == second
    cloud.ec2.cancel_capacity_reservation(CapacityReservationId=second)
    assert "CapacityReservationId" not in cloud.instance(instance)


def test_a_group_without_preference_falls_back_to_on_demand(cloud: Cloud) -> None:
    arn = cloud.control(
        "create_group", name="one", capacity_reservation_ids=[cloud.reserve(1)]
    )["arn"]
    target = {"CapacityReservationTarget": {"CapacityReservationResourceGroupArn": arn}}
    assert len(cloud.run(2, CapacityReservationSpecification=target)) == 2
    strict = target | {"CapacityReservationPreference": "capacity-reservations-only"}
    assert (
        code_of(lambda: cloud.run(CapacityReservationSpecification=strict))
        == "ReservationCapacityExceeded"
    )


def test_other_regions_have_other_zones() -> None:
    ohio = Cloud("us-east-2")
    assert {
        z["ZoneName"] for z in ohio.ec2.describe_availability_zones()["AvailabilityZones"]
    } == {
        "us-east-2a",
        "us-east-2b",
        "us-east-2c",
    }
    assert REGION != "us-east-2"
