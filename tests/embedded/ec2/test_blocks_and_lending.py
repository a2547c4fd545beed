"""Capacity blocks, future-dated, shared and interruptible reservations through their lives."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from lab.embedded.ec2.control.actions import ControlError
from lab.worlds.cloud import (
    ACCOUNT_ID,
    LINUX,
    START,
    TYPE,
    ZONE_A,
    ZONE_C,
    Cloud,
    Event,
    code_of,
    refused,
)

GPU, ULTRASERVER = "p5.48xlarge", "trn2u.48xlarge"
PLANNED = "aws:ec2capacityreservation:incrementalRequestedQuantity"
INTERRUPTION = "EC2 Capacity Reservation Instance Interruption Warning"


def buy(cloud: Cloud, count: int = 2, **payload: Any) -> str:
    request = {"instance_type": GPU, "zone": ZONE_A, "count": count} | payload
    reservation_id: str = cloud.control("purchase_capacity_block", **request)[
        "capacity_reservation_id"
    ]
    return reservation_id


def run_in(
    cloud: Cloud, reservation_id: str, market: str = "capacity-block", **more: Any
) -> str:
    target = {"CapacityReservationTarget": {"CapacityReservationId": reservation_id}}
    shown = cloud.reservation(reservation_id)
    (instance,) = cloud.run(
        InstanceType=shown["InstanceType"],
        Placement={"AvailabilityZone": shown["AvailabilityZone"]},
        InstanceMarketOptions={"MarketType": market},
        CapacityReservationSpecification=target,
        **more,
    )
    return instance


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_a_block_is_paid_scheduled_delivered_and_expired(cloud: Cloud) -> None:
    block = buy(cloud, 3, paid=False, start_in_s=3600, duration_hours=24)
    assert cloud.reservation(block)["State"] == "payment-pending"
    cloud.advance(seconds=300)
    scheduled = cloud.reservation(block)
    assert scheduled["State"] == "scheduled"
    assert (scheduled["TotalInstanceCount"], scheduled["AvailableInstanceCount"]) == (0, 0)
    assert {t["Key"]: t["Value"] for t in scheduled["Tags"]}[PLANNED] == "3"
    assert scheduled["EndDate"] == at("2026-11-03T11:30:00+00:00")
    cloud.advance(hours=1)
    active = cloud.reservation(block)
    assert (
        active["State"],
        active["AvailableInstanceCount"],
        active["ReservationType"],
    ) == (
        "active",
        3,
        "capacity-block",
    )
    assert active["InstanceMatchCriteria"] == "targeted"
    cloud.advance(days=2)
    assert cloud.reservation(block)["State"] == "expired"


@pytest.mark.parametrize(("instance_type", "lead_minutes"), [(GPU, 30), (ULTRASERVER, 60)])
def test_a_block_takes_its_instances_back_before_its_end(
    cloud: Cloud, instance_type: str, lead_minutes: int
) -> None:
    end = START + timedelta(hours=5)
    zone = ZONE_A if instance_type == GPU else "us-east-1b"
    block = buy(cloud, instance_type=instance_type, zone=zone, end=end.isoformat())
    instance = run_in(cloud, block, ImageId=cloud.image_id)
    reclaim = end - timedelta(minutes=lead_minutes)
    cloud.advance(seconds=(reclaim - START).total_seconds() - 1)
    assert cloud.instance(instance)["State"]["Name"] == "running"
    cloud.advance(seconds=1)
    assert cloud.instance(instance)["State"]["Name"] == "shutting-down"
    assert cloud.reservation(block)["State"] == "active"
    assert cloud.available(block) == 0
    assert code_of(lambda: run_in(cloud, block)) == "ReservationCapacityExceeded"
    cloud.advance(hours=2)
    assert cloud.reservation(block)["State"] == "expired"


def test_events_of_a_block(cloud: Cloud) -> None:
    end = START + timedelta(hours=5)
    block = buy(cloud, start_in_s=60, end=end.isoformat())
    cloud.advance(seconds=60)
    instance = run_in(cloud, block)
    cloud.advance(hours=5)
    (delivered,) = cloud.events_of("Capacity Block Delivered")
    (expiring,) = cloud.events_of("Capacity Block Expiration Warning")
    assert (
        delivered["detail"]
        == expiring["detail"]
        == {
            "capacity-reservation-id": block,
            "end-date": "2026-11-02T13:00:00Z",
        }
    )
    assert delivered["customer_event_id"] == f"{block}-delivered"
    assert expiring["customer_event_id"] == f"{block}-approaching-expiry"
    assert delivered["resources"] == [
        f"arn:aws:ec2:us-east-1:{ACCOUNT_ID}:capacity-reservation/{block}"
    ]
    assert (delivered["time"], expiring["time"]) == (
        "2026-11-02T08:01:00Z",
        "2026-11-02T12:20:00Z",
    )
    (warning,) = cloud.events_of(INTERRUPTION)
    assert warning["time"] == "2026-11-02T12:28:00Z"
    assert warning["resources"] == [
        f"arn:aws:ec2:us-east-1:{ACCOUNT_ID}:instance/{instance}"
    ]
    assert warning["detail"] == {
        "instance-id": instance,
        "instance-action": "terminate",
        "instance-termination-time": "2026-11-02T12:30:00Z",
        "availability-zone-id": "use1-az1",
        "instance-lifecycle": "capacity-block",
    }


def test_the_older_names_of_block_events_are_a_setting(cloud: Cloud) -> None:
    cloud.control("configure", older_block_event_names=True)
    buy(cloud, end_in_s=3600)
    cloud.advance(hours=1)
    assert len(cloud.events_of("Capacity Block Reservation Delivered")) == 1
    assert len(cloud.events_of("Capacity Block Reservation Expiration Warning")) == 1


def test_the_slot_of_a_block_is_scrubbed_before_it_is_free(cloud: Cloud) -> None:
    block = buy(cloud, 1)
    instance = run_in(cloud, block)
    cloud.ec2.terminate_instances(InstanceIds=[instance])
    cloud.advance(seconds=10)
    assert cloud.instance(instance)["State"]["Name"] == "terminated"
    assert cloud.available(block) == 0
    (status,) = cloud.ec2.describe_capacity_block_status()["CapacityBlockStatuses"]
    assert (status["TotalCapacity"], status["TotalUnavailableCapacity"]) == (1, 1)
    cloud.advance(seconds=300)
    assert cloud.available(block) == 1


def test_instances_in_a_broken_unit_never_boot_and_ec2_tells_only_what_it_admits(
    cloud: Cloud,
) -> None:
    block = buy(cloud, 2)
    cloud.control(
        "break_units",
        capacity_reservation_id=block,
        admitted_count=1,
        interconnect_status="impaired",
    )
    sound, broken = run_in(cloud, block), run_in(cloud, block)
    cloud.advance(minutes=10)
    assert [cloud.instance(each)["State"]["Name"] for each in (sound, broken)] == [
        "running",
        "pending",
    ]
    (status,) = cloud.ec2.describe_capacity_block_status()["CapacityBlockStatuses"]
    assert (status["TotalUnavailableCapacity"], status["InterconnectStatus"]) == (
        1,
        "impaired",
    )
    cloud.ec2.terminate_instances(InstanceIds=[broken])
    cloud.advance(minutes=10)
    cloud.control("break_units", capacity_reservation_id=block, count=0)
    replacement = run_in(cloud, block)
    cloud.advance(minutes=10)
    assert cloud.instance(replacement)["State"]["Name"] == "running"


def test_an_extension_moves_the_end_once_it_is_paid_and_without_an_event(
    cloud: Cloud,
) -> None:
    end = START + timedelta(hours=2)
    block = buy(cloud, end=end.isoformat())
    instance = run_in(cloud, block)
    cloud.control("extend_block", capacity_reservation_id=block, hours=24, payment_s=600)
    assert cloud.reservation(block)["EndDate"] == end
    cloud.advance(seconds=600)
    assert cloud.reservation(block)["EndDate"] == end + timedelta(hours=24)
    cloud.advance(hours=2)
    assert cloud.instance(instance)["State"]["Name"] == "running"
    assert cloud.events_of("Capacity Block Expiration Warning") == []
    cloud.advance(hours=24)
    assert cloud.reservation(block)["State"] == "expired"


def test_blocks_are_described_and_cannot_be_changed(cloud: Cloud) -> None:
    block = buy(
        cloud, instance_type=ULTRASERVER, zone="us-east-1b", ultraserver_type="u-trn2x64"
    )
    (described,) = cloud.ec2.describe_capacity_blocks(
        Filters=[{"Name": "state", "Values": ["active"]}]
    )["CapacityBlocks"]
    assert (described["CapacityReservationIds"], described["UltraserverType"]) == (
        [block],
        "u-trn2x64",
    )
    with refused("OperationNotPermitted"):
        cloud.ec2.cancel_capacity_reservation(CapacityReservationId=block)
    with refused("OperationNotPermitted"):
        cloud.ec2.modify_capacity_reservation(CapacityReservationId=block, InstanceCount=9)


def test_an_on_demand_reservation_expires_and_its_instances_run_on(cloud: Cloud) -> None:
    reserved = cloud.reserve(1, EndDateType="limited", EndDate=START + timedelta(hours=1))
    target = {"CapacityReservationTarget": {"CapacityReservationId": reserved}}
    (instance,) = cloud.run(CapacityReservationSpecification=target)
    cloud.advance(hours=1)
    assert cloud.reservation(reserved)["State"] == "expired"
    shown = cloud.instance(instance)
    assert shown["State"]["Name"] == "running"
    assert "CapacityReservationId" not in shown
    assert {e["detail-type"] for e in cloud.events} == {
        "EC2 Instance State-change Notification"
    }


def reservation_events(cloud: Cloud) -> list[tuple[str, str]]:
    return [
        (e["detail-type"], e["detail"]["state"])
        for e in cloud.events
        if e["detail-type"].startswith("EC2 Capacity Reservation")
    ]


def future(cloud: Cloud) -> str:
    answer = cloud.ec2.create_capacity_reservation(
        InstanceType="m5.8xlarge",
        InstancePlatform=LINUX,
        AvailabilityZone=ZONE_A,
        InstanceCount=4,
        InstanceMatchCriteria="targeted",
        StartDate=START + timedelta(days=10),
        CommitmentDuration=14 * 86_400,
        DeliveryPreference="incremental",
    )
    reservation_id: str = answer["CapacityReservation"]["CapacityReservationId"]
    return reservation_id


def test_a_future_dated_reservation_is_assessed_scheduled_and_delivered(
    cloud: Cloud,
) -> None:
    reserved = future(cloud)
    assert cloud.reservation(reserved)["State"] == "assessing"
    cloud.advance(minutes=1)
    scheduled = cloud.reservation(reserved)
    assert (scheduled["State"], scheduled["TotalInstanceCount"]) == ("scheduled", 0)
    cloud.advance(days=10)
    active = cloud.reservation(reserved)
    assert (active["State"], active["AvailableInstanceCount"]) == ("active", 4)
    assert active["CommitmentInfo"]["CommittedInstanceCount"] == 4
    assert reservation_events(cloud) == [
        ("EC2 Capacity Reservation Scheduled", "scheduled"),
        ("EC2 Capacity Reservation Active", "active"),
    ]
    with refused("InvalidParameterValue"):
        cloud.ec2.modify_capacity_reservation(
            CapacityReservationId=reserved, InstanceCount=3
        )


@pytest.mark.parametrize("state", ["delayed", "unsupported", "failed", "cancelled"])
def test_a_future_dated_reservation_may_go_wrong(cloud: Cloud, state: str) -> None:
    reserved = future(cloud)
    cloud.advance(minutes=1)
    cloud.control("set_reservation_state", capacity_reservation_id=reserved, state=state)
    cloud.advance(days=11)
    assert cloud.reservation(reserved)["State"] == state
    assert reservation_events(cloud)[1:] == [
        (f"EC2 Capacity Reservation {state.capitalize()}", state)
    ]


@pytest.mark.parametrize(
    "action", ["purchase_capacity_block", "share_reservation", "create_interruptible"]
)
def test_nothing_is_to_be_had_in_a_zone_without_its_type(cloud: Cloud, action: str) -> None:
    with pytest.raises(ControlError, match="Unsupported"):
        cloud.control(action, instance_type="p6-b200.48xlarge", zone=ZONE_A, count=1)
    with pytest.raises(ControlError, match="InvalidParameterValue"):
        cloud.control(action, instance_type="p99.48xlarge", zone=ZONE_A, count=1)
    cloud.control(action, instance_type="p6-b200.48xlarge", zone="us-east-1c", count=1)


def test_a_shared_reservation_belongs_to_another_account_and_vanishes_when_unshared(
    cloud: Cloud,
) -> None:
    shared = cloud.control(
        "share_reservation",
        instance_type=TYPE,
        zone="use1-az1",
        count=2,
        owner_id="111122223333",
    )
    reserved = shared["capacity_reservation_id"]
    shown = cloud.reservation(reserved)
    assert (
        shown["OwnerId"],
        shown["AvailabilityZone"],
        shown["AvailableInstanceCount"],
    ) == ("111122223333", ZONE_A, 2)
    assert ":111122223333:" in shown["CapacityReservationArn"]
    target = {"CapacityReservationTarget": {"CapacityReservationId": reserved}}
    (instance,) = cloud.run(CapacityReservationSpecification=target)
    cloud.control("unshare_reservation", capacity_reservation_id=reserved)
    with refused("InvalidCapacityReservationId.NotFound"):
        cloud.reservation(reserved)
    assert cloud.instance(instance)["CapacityReservationId"] == reserved
    assert (
        code_of(lambda: cloud.run(CapacityReservationSpecification=target))
        == "InvalidCapacityReservationId.NotFound"
    )
    assert [
        e["detail-type"] for e in cloud.events if "Reservation" in e["detail-type"]
    ] == []


def warnings(cloud: Cloud) -> list[Event]:
    return cloud.events_of(INTERRUPTION)


def test_lent_capacity_is_reclaimed_free_slots_first_then_with_two_minutes_notice(
    cloud: Cloud,
) -> None:
    lent = cloud.control("create_interruptible", instance_type=TYPE, zone=ZONE_A, count=3)[
        "capacity_reservation_id"
    ]
    assert cloud.reservation(lent)["Interruptible"] is True
    older = run_in(cloud, lent, "interruptible-capacity-reservation")
    cloud.advance(seconds=30)
    newer = run_in(cloud, lent, "interruptible-capacity-reservation")
    assert (
        cloud.instance(newer)["InstanceLifecycle"] == "interruptible-capacity-reservation"
    )
    cloud.control("reclaim_interruptible", capacity_reservation_id=lent, target_count=1)
    assert (cloud.reservation(lent)["TotalInstanceCount"], cloud.available(lent)) == (2, 0)
    (warning,) = warnings(cloud)
    assert warning["resources"] == f"[arn:aws:ec2:us-east-1:{ACCOUNT_ID}:instance/{newer}]"
    assert warning["detail"] == {
        "instance-id": newer,
        "instance-action": "terminate",
        "instance-termination-time": "2026-11-02T08:02:30Z",
        "azId": "use1-az1",
    }
    cloud.advance(seconds=119)
    assert cloud.instance(newer)["State"]["Name"] == "running"
    cloud.advance(seconds=1)
    assert cloud.instance(newer)["State"]["Name"] == "shutting-down"
    assert cloud.instance(older)["State"]["Name"] == "running"
    cloud.advance(seconds=10)
    assert cloud.reservation(lent)["TotalInstanceCount"] == 1


def test_blocks_on_sale_begin_at_half_past_eleven_in_each_zone_that_has_the_type(
    cloud: Cloud,
) -> None:
    def on_sale(**changes: Any) -> list[dict[str, Any]]:
        request = {
            "InstanceType": "p5en.48xlarge",
            "InstanceCount": 2,
            "CapacityDurationHours": 48,
        } | changes
        found: list[dict[str, Any]] = cloud.ec2.describe_capacity_block_offerings(
            **request
        )["CapacityBlockOfferings"]
        return found

    first, second = on_sale()
    assert [first["AvailabilityZone"], second["AvailabilityZone"]] == [ZONE_A, ZONE_C]
    assert (first["StartDate"], first["EndDate"]) == (
        at("2026-11-02T11:30:00+00:00"),
        at("2026-11-04T11:30:00+00:00"),
    )
    assert (
        first["InstanceCount"],
        first["CapacityBlockDurationHours"],
        first["CurrencyCode"],
    ) == (2, 48, "USD")
    assert float(on_sale(InstanceCount=4)[0]["UpfrontFee"]) == 2 * float(
        first["UpfrontFee"]
    )
    assert [each["CapacityBlockOfferingId"] for each in on_sale()] == [
        each["CapacityBlockOfferingId"] for each in (first, second)
    ]
    (later, _) = on_sale(StartDateRange=at("2026-11-05T12:00:00+00:00"))
    assert later["StartDate"] == at("2026-11-06T11:30:00+00:00")
    assert on_sale(EndDateRange=at("2026-11-03T00:00:00+00:00")) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"InstanceType": TYPE},
        {"InstanceCount": 3},
        {"CapacityDurationHours": 25},
        {"CapacityDurationHours": 15 * 24},
    ],
)
def test_blocks_that_nobody_sells(cloud: Cloud, wrong: dict[str, Any]) -> None:
    with refused("InvalidParameterValue"):
        cloud.ec2.describe_capacity_block_offerings(
            **{"InstanceType": GPU, "InstanceCount": 1, "CapacityDurationHours": 24} | wrong
        )


def test_interruptible_capacity_needs_its_market_type(cloud: Cloud) -> None:
    lent = cloud.control("create_interruptible", instance_type=TYPE, zone=ZONE_A, count=1)[
        "capacity_reservation_id"
    ]
    target = {"CapacityReservationTarget": {"CapacityReservationId": lent}}
    assert (
        code_of(lambda: cloud.run(CapacityReservationSpecification=target))
        == "InvalidParameterCombination"
    )
