"""What the control API can do to calls, answers, counts and events."""

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from lab.embedded.ec2.control.actions import ControlError
from lab.worlds.cloud import (
    ACCOUNT_ID,
    START,
    TYPE,
    ZONE_A,
    ZONE_B,
    Cloud,
    config,
    error_codes,
    launched,
    override,
    refused,
)

STATE_CHANGE = "EC2 Instance State-change Notification"
SPOT: dict[str, Any] = {"InstanceMarketOptions": {"MarketType": "spot"}}


def test_throttled_calls_have_no_effect_and_are_retried_by_a_patient_client(
    cloud: Cloud,
) -> None:
    cloud.control("fail_calls", operation="CreateFleet", count=1)
    with refused("RequestLimitExceeded"):
        cloud.fleet([config(cloud.template())])
    assert cloud.instances() == []
    cloud.control("fail_calls", operation="DescribeInstances", count=1)
    assert cloud.emulation.client(attempts=2).describe_instances()["Reservations"] == []


def test_a_lost_response_hides_an_effect_that_a_token_finds_again(cloud: Cloud) -> None:
    cloud.control("lose_response", operation="CreateFleet")
    configs = [config(cloud.template())]
    with pytest.raises(ConnectionClosedError):
        cloud.fleet(configs, total=2, ClientToken="intent")
    assert len(cloud.instances()) == 2
    again = cloud.fleet(configs, total=2, ClientToken="intent")
    assert sorted(launched(again)) == sorted(i["InstanceId"] for i in cloud.instances())


def test_botocore_repeats_a_lost_call_with_the_same_token(cloud: Cloud) -> None:
    cloud.control("lose_response", operation="CreateFleet")
    cloud.ec2 = cloud.emulation.client(attempts=2)
    answer = cloud.fleet([config(cloud.template())], total=2)
    assert sorted(launched(answer)) == sorted(i["InstanceId"] for i in cloud.instances())


def test_capacity_can_be_missing_in_one_pool_for_a_while(cloud: Cloud) -> None:
    cloud.control(
        "refuse_launches", instance_type=TYPE, zone="use1-az1", market="on-demand", count=1
    )
    configs = [config(cloud.template(), override(zone=ZONE_A), override(zone=ZONE_B))]
    first = cloud.fleet(configs)
    assert error_codes(first) == ["InsufficientInstanceCapacity"]
    assert first["Instances"][0]["AvailabilityZone"] == ZONE_B
    assert error_codes(cloud.fleet(configs)) == []


def test_one_reservation_can_be_refused(cloud: Cloud) -> None:
    refused, open_one = cloud.reserve(1), cloud.reserve(1)
    cloud.control("refuse_launches", code="Unsupported", capacity_reservation_id=refused)

    def launch_into(reservation_id: str) -> None:
        target = {"CapacityReservationTarget": {"CapacityReservationId": reservation_id}}
        cloud.run(CapacityReservationSpecification=target)

    with pytest.raises(ClientError, match="Unsupported"):
        launch_into(refused)
    launch_into(open_one)
    assert (cloud.available(refused), cloud.available(open_one)) == (1, 0)


def test_counts_may_lag(cloud: Cloud) -> None:
    reserved = cloud.reserve(3)
    cloud.advance(minutes=1)
    cloud.control("configure", count_lag_s=30)
    cloud.control("outsider_launch", capacity_reservation_id=reserved, count=2)
    assert cloud.available(reserved) == 3
    cloud.advance(seconds=29)
    assert cloud.available(reserved) == 3
    cloud.advance(seconds=1)
    assert cloud.available(reserved) == 1


def test_new_instances_may_be_invisible_at_first(cloud: Cloud) -> None:
    cloud.control("configure", describe_lag_s=10)
    (instance,) = cloud.run()
    assert cloud.instances() == []
    with refused("InvalidInstanceID.NotFound"):
        cloud.instance(instance)
    cloud.advance(seconds=10)
    assert cloud.instance(instance)["InstanceId"] == instance


@pytest.mark.parametrize(
    ("fault", "at_once", "later"),
    [
        ({"kind": "drop"}, [], []),
        ({"kind": "duplicate"}, ["pending", "pending"], ["pending", "pending"]),
        ({"kind": "delay", "delay_s": 3.0}, [], ["pending"]),
    ],
)
def test_events_may_be_lost_doubled_or_late(
    cloud: Cloud, fault: dict[str, Any], at_once: list[str], later: list[str]
) -> None:
    cloud.control("mistreat_events", detail_type=STATE_CHANGE, **fault)
    cloud.run()
    assert [e["detail"]["state"] for e in cloud.events] == at_once
    cloud.advance(seconds=4)
    assert [e["detail"]["state"] for e in cloud.events] == later
    cloud.advance(seconds=4)
    assert [e["detail"]["state"] for e in cloud.events] == [*later, "running"]


def test_a_delayed_event_may_arrive_after_its_successor(cloud: Cloud) -> None:
    cloud.control("mistreat_events", kind="delay", delay_s=60, detail_type=STATE_CHANGE)
    cloud.run()
    cloud.advance(minutes=2)
    assert [e["detail"]["state"] for e in cloud.events] == ["running", "pending"]
    assert [e["time"] for e in cloud.events] == [
        "2026-11-02T08:00:05Z",
        "2026-11-02T08:00:00Z",
    ]


def test_the_exact_shape_of_a_state_change(cloud: Cloud) -> None:
    (instance,) = cloud.run()
    (event,) = cloud.events
    assert event.pop("id")
    assert event == {
        "version": "0",
        "detail-type": STATE_CHANGE,
        "source": "aws.ec2",
        "account": ACCOUNT_ID,
        "time": "2026-11-02T08:00:00Z",
        "region": "us-east-1",
        "resources": [f"arn:aws:ec2:us-east-1:{ACCOUNT_ID}:instance/{instance}"],
        "detail": {"instance-id": instance, "state": "pending"},
    }


def test_a_spot_interruption_warns_and_terminates(cloud: Cloud) -> None:
    (instance,) = cloud.run(**SPOT)
    cloud.advance(seconds=10)
    cloud.control("interrupt_spot", instance_id=instance, rebalance=True)
    (rebalance,) = cloud.events_of("EC2 Instance Rebalance Recommendation")
    (warning,) = cloud.events_of("EC2 Spot Instance Interruption Warning")
    assert rebalance["detail"] == {"instance-id": instance}
    assert warning["detail"] == {"instance-id": instance, "instance-action": "terminate"}
    assert warning["resources"] == [f"arn:aws:ec2:us-east-1a:instance/{instance}"]
    cloud.advance(seconds=119)
    assert cloud.instance(instance)["State"]["Name"] == "running"
    cloud.advance(seconds=1)
    shown = cloud.instance(instance)
    assert shown["State"]["Name"] == "shutting-down"
    assert shown["StateReason"]["Code"] == "Server.SpotInstanceTermination"


def test_only_spot_instances_are_interrupted(cloud: Cloud) -> None:
    (instance,) = cloud.run()
    with pytest.raises(ValueError, match="not a Spot Instance"):
        cloud.control("interrupt_spot", instance_id=instance)


def test_health_announces_maintenance(cloud: Cloud) -> None:
    (instance,) = cloud.run()
    cloud.control(
        "schedule_maintenance",
        instance_ids=[instance],
        starts_in_s=86_400,
        detail={"statusCode": "closed", "backupEvent": "true"},
    )
    (event,) = cloud.events_of("AWS Health Event")
    detail = event["detail"]
    assert (event["source"], event["resources"]) == ("aws.health", [instance])
    assert (detail["service"], detail["eventTypeCategory"]) == ("EC2", "scheduledChange")
    assert detail["eventTypeCode"] == "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED"
    assert detail["startTime"] == "Tue, 03 Nov 2026 08:00:00 GMT"
    assert detail["affectedEntities"] == [{"entityValue": instance, "status": "PENDING"}]
    assert (detail["statusCode"], detail["backupEvent"], detail["page"]) == (
        "closed",
        "true",
        "1",
    )


def test_health_may_name_entities_by_arn(cloud: Cloud) -> None:
    (instance,) = cloud.run()
    cloud.control("schedule_maintenance", instance_ids=[instance], entity_arns=True)
    (event,) = cloud.events_of("AWS Health Event")
    entity = event["detail"]["affectedEntities"][0]["entityValue"]
    assert entity == f"arn:aws:ec2:us-east-1:{ACCOUNT_ID}:instance/{instance}"


@pytest.mark.parametrize("summary", [False, True])
def test_health_reports_reservations_that_are_hardly_used(
    cloud: Cloud, summary: bool
) -> None:
    reserved = cloud.reserve()
    cloud.control(
        "report_underutilized", capacity_reservation_ids=[reserved], summary=summary
    )
    (event,) = cloud.events_of("AWS Health Event")
    suffix = "_SUMMARY" if summary else ""
    assert (
        event["detail"]["eventTypeCode"]
        == f"AWS_EC2_ODCR_UNDERUTILIZATION_NOTIFICATION{suffix}"
    )
    (entity,) = event["detail"]["affectedEntities"]
    expected = (
        f"{reserved} | us-east-1a | {TYPE} | Linux/UNIX | 0.0%" if summary else reserved
    )
    assert entity["entityValue"] == expected


def test_any_event_can_be_sent(cloud: Cloud) -> None:
    for event in (
        {"detail-type": "EC2 Something New", "source": "aws.ec2", "detail": None},
        {"no": "envelope"},
    ):
        cloud.control("emit", event=event)
        assert cloud.events.pop() == event


def test_a_receiver_may_call_ec2(cloud: Cloud) -> None:
    seen: list[int] = []
    cloud.emulation.world.outbox._emit = lambda _: seen.append(len(cloud.instances()))
    cloud.run(2)
    assert seen == [2, 2]


def test_reset_makes_the_account_new(cloud: Cloud) -> None:
    cloud.run(ClientToken="t")
    cloud.reserve()
    cloud.control("reset")
    assert cloud.instances() == []
    assert cloud.ec2.describe_capacity_reservations()["CapacityReservations"] == []
    cloud.run(2, ClientToken="t")
    cloud.advance(seconds=5)
    assert {i["State"]["Name"] for i in cloud.instances()} == {"running"}


def test_a_fault_can_leave_dry_runs_alone(cloud: Cloud) -> None:
    cloud.control("fail_calls", operation="RunInstances", dry_run=False)
    with refused("DryRunOperation"):
        cloud.run(DryRun=True)
    with refused("RequestLimitExceeded"):
        cloud.run()


def test_clear_faults_ends_all_weather(cloud: Cloud) -> None:
    cloud.control("set_pool_capacity", instance_type=TYPE, zone=ZONE_A, capacity=0)
    cloud.control("refuse_launches")
    cloud.control("fail_calls", operation="RunInstances")
    cloud.control("configure", pending_s=500)
    cloud.control("clear_faults")
    cloud.run()
    cloud.advance(seconds=5)
    assert cloud.instances()[0]["State"]["Name"] == "running"


@pytest.mark.parametrize(
    ("action", "payload", "match"),
    [
        ("fly", {}, "no control action 'fly'"),
        ("configure", {"colour": 1}, "unknown settings"),
        ("outsider_launch", {"banana": 1}, "banana"),
        ("outsider_launch", {}, "name a reservation"),
        ("terminate_instance", {"instance_id": "i-0"}, "there is no instance"),
        (
            "set_pool_capacity",
            {"instance_type": TYPE, "zone": "nowhere", "capacity": 1},
            "nowhere",
        ),
        ("mistreat_events", {"kind": "eat"}, "eat"),
        (
            "purchase_capacity_block",
            {"instance_type": TYPE, "zone": ZONE_A, "count": 1, "end_in_s": -1},
            "ends after",
        ),
        (
            "set_pool_capacity",
            {"instance_type": TYPE, "zone": ZONE_A, "capacity": 1, "market": "nope"},
            "set_pool_capacity: .*there is no market 'nope'; known: on-demand, spot, ",
        ),
        (
            "outsider_launch",
            {"instance_type": TYPE, "zone": ZONE_A, "market": "nope"},
            "there is no market 'nope'",
        ),
        (
            "purchase_capacity_block",
            {"instance_type": TYPE, "zone": ZONE_A, "count": 1, "start": "nonsense"},
            "purchase_capacity_block: .*'nonsense' is no time in ISO 8601",
        ),
    ],
)
def test_control_says_what_it_does_not_understand(
    cloud: Cloud, action: str, payload: dict[str, Any], match: str
) -> None:
    with pytest.raises(ControlError, match=match):
        cloud.control(action, **payload)


def test_a_block_may_be_bought_by_absolute_times(cloud: Cloud) -> None:
    start, end = START + timedelta(hours=1), START + timedelta(hours=9)
    block = cloud.control(
        "purchase_capacity_block",
        instance_type="p5.48xlarge",
        zone=ZONE_A,
        count=1,
        start=start.isoformat(),
        end=end.isoformat(),
    )
    shown = cloud.reservation(block["capacity_reservation_id"])
    assert (shown["StartDate"], shown["EndDate"]) == (start, end)
