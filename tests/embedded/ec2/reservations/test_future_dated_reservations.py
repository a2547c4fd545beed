"""Future-dated reservations: what EC2 takes, what is committed, and the quotes for getting out of it."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.worlds.cloud import START, ZONE_A, Cloud, code_of, refused

DAY = timedelta(days=1)
DAY_S = 86_400


def future(cloud: Cloud, in_days: float = 20, **change: Any) -> str:
    """Ask for four units that start in so many days, with a commitment of two weeks."""
    request: dict[str, Any] = {
        "InstanceType": "m5.8xlarge",
        "StartDate": cloud.clock.now() + timedelta(days=in_days),
        "CommitmentDuration": 14 * DAY_S,
        "DeliveryPreference": "incremental",
    }
    asked = {k: v for k, v in (request | change).items() if v is not None}
    count = asked.pop("InstanceCount", 4)
    return cloud.reserve(count, **asked)


def scheduled(cloud: Cloud, in_days: float = 20, **change: Any) -> str:
    reserved = future(cloud, in_days, **change)
    cloud.advance(minutes=1)
    assert cloud.reservation(reserved)["State"] == "scheduled"
    return reserved


def delivered(cloud: Cloud) -> str:
    reserved = scheduled(cloud, 6)
    cloud.advance(days=6)
    assert cloud.reservation(reserved)["State"] == "active"
    return reserved


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"StartDate": START + 5 * DAY - timedelta(seconds=1)}, "InvalidParameterValue"),
        ({"StartDate": START + 121 * DAY}, "InvalidParameterValue"),
        ({"InstanceType": "p5.48xlarge", "InstanceCount": 1}, "InvalidParameterValue"),
        ({"InstanceType": "inf2.48xlarge"}, "InvalidParameterValue"),
        ({"InstanceType": "is4gen.8xlarge"}, "InvalidParameterValue"),
        ({"InstanceType": "m5.large", "InstanceCount": 15}, "InvalidParameterValue"),
        ({"InstanceMatchCriteria": "open"}, "InvalidParameterValue"),
        ({"CommitmentDuration": 14 * DAY_S - 1}, "InvalidParameterValue"),
        (
            {"InstanceType": "x2idn.16xlarge", "CommitmentDuration": 83 * DAY_S},
            "InvalidParameterValue",
        ),
        ({"DeliveryPreference": "fixed"}, "InvalidParameterValue"),
        ({"EndDate": START + 10 * DAY}, "InvalidParameterValue"),
        ({"EndDate": START + 33 * DAY}, "InvalidParameterValue"),
        ({"CommitmentDuration": None}, "MissingParameter"),
        ({"DeliveryPreference": None}, "MissingParameter"),
        ({"StartDate": None}, "InvalidParameterCombination"),
        (
            {"PlacementGroupArn": "arn:aws:ec2:us-east-1:1:placement-group/a"},
            "InvalidParameterCombination",
        ),
    ],
)
def test_what_cannot_be_asked_for_ahead_is_refused(
    cloud: Cloud, change: dict[str, Any], code: str
) -> None:
    assert code_of(lambda: future(cloud, **change)) == code
    assert cloud.ec2.describe_capacity_reservations()["CapacityReservations"] == []


@pytest.mark.parametrize(
    "change",
    [
        {"StartDate": START + 5 * DAY},
        {"StartDate": START + 120 * DAY},
        {"InstanceType": "m5.large", "InstanceCount": 16},
        {"InstanceType": "g5.48xlarge", "InstanceCount": 1},
        {"EndDate": START + 34 * DAY},
    ],
)
def test_what_is_only_just_allowed_is_taken(cloud: Cloud, change: dict[str, Any]) -> None:
    assert cloud.reservation(future(cloud, **change))["State"] == "assessing"


def test_the_commitment_is_shown(cloud: Cloud) -> None:
    shown = cloud.reservation(scheduled(cloud))
    assert shown["OriginalStartDate"] == shown["StartDate"] == START + 20 * DAY
    assert shown["CommitmentInfo"] == {
        "CommittedInstanceCount": 4,
        "CommitmentEndDate": START + 34 * DAY,
        "CommitmentDuration": 14 * DAY_S,
    }


def modify(cloud: Cloud, reserved: str, **change: Any) -> dict[str, Any]:
    answer: dict[str, Any] = cloud.ec2.modify_capacity_reservation(
        CapacityReservationId=reserved, **change
    )
    return answer


def test_while_it_is_assessed_nothing_can_be_modified(cloud: Cloud) -> None:
    reserved = future(cloud)
    with refused("InvalidCapacityReservationState"):
        modify(cloud, reserved, EndDate=START + 50 * DAY)
    cloud.ec2.cancel_capacity_reservation(CapacityReservationId=reserved)
    assert cloud.reservation(reserved)["State"] == "cancelled"


def test_of_a_scheduled_one_only_the_dates_can_be_modified(cloud: Cloud) -> None:
    reserved = scheduled(cloud)
    with refused("InvalidCapacityReservationState"):
        modify(cloud, reserved, InstanceCount=8)
    with refused("InvalidParameterCombination"):
        modify(cloud, reserved, StartDate=START + 25 * DAY)
    with refused("InvalidParameterValue"):
        modify(cloud, reserved, EndDate=START + 33 * DAY)
    modify(cloud, reserved, EndDate=START + 34 * DAY)
    assert cloud.reservation(reserved)["EndDate"] == START + 34 * DAY


def test_within_the_commitment_it_grows_and_shrinks_back_but_no_further(
    cloud: Cloud,
) -> None:
    reserved = delivered(cloud)
    modify(cloud, reserved, InstanceCount=6)
    modify(cloud, reserved, InstanceCount=4)
    with refused("InvalidParameterValue"):
        modify(cloud, reserved, InstanceCount=3)
    with refused("InvalidParameterValue"):
        modify(cloud, reserved, EndDate=cloud.clock.now() + DAY)
    cloud.advance(days=14)
    modify(cloud, reserved, InstanceCount=3)
    modify(cloud, reserved, EndDate=cloud.clock.now() + DAY)


def test_within_the_commitment_nothing_is_moved_or_split_off(cloud: Cloud) -> None:
    reserved, other = delivered(cloud), cloud.reserve(2, InstanceType="m5.8xlarge")
    for source, target in ((reserved, other), (other, reserved)):
        with refused("OperationNotPermitted"):
            cloud.ec2.move_capacity_reservation_instances(
                SourceCapacityReservationId=source,
                DestinationCapacityReservationId=target,
                InstanceCount=1,
            )
    with refused("OperationNotPermitted"):
        cloud.ec2.create_capacity_reservation_by_splitting(
            SourceCapacityReservationId=reserved, InstanceCount=1
        )


def quote(cloud: Cloud, reserved: str, **parameters: Any) -> dict[str, Any]:
    answer = cloud.ec2.create_capacity_reservation_cancellation_quote(
        CapacityReservationId=reserved, **parameters
    )
    made: dict[str, Any] = answer["CapacityReservationCancellationQuote"]
    return made


def cancel(cloud: Cloud, reserved: str, quote_id: str) -> None:
    cloud.ec2.cancel_capacity_reservation(
        CapacityReservationId=reserved,
        QuoteId=quote_id,
        ApplyCancellationCharges="commitment-wind-down",
    )


@pytest.mark.parametrize(
    ("in_days", "hours", "state"),
    [(57, 0, "cancelled"), (20, 84, "cancelling"), (10, 168, "cancelling")],
)
def test_a_scheduled_one_is_cancelled_by_a_quote_alone(
    cloud: Cloud, in_days: int, hours: int, state: str
) -> None:
    reserved = scheduled(cloud, in_days)
    with refused("OperationNotPermitted"):
        cloud.ec2.cancel_capacity_reservation(CapacityReservationId=reserved)
    made = quote(cloud, reserved)
    assert made["QuoteState"] == "active"
    assert made["ExpirationTime"] == cloud.clock.now() + DAY
    charge_end_at = cloud.clock.now() + timedelta(hours=hours)
    assert made["CancellationTerms"] == [
        {
            "CancellationType": "commitment-wind-down",
            "ReservationState": state,
            "CommittedInstanceCount": 4,
            "ChargeCommitmentDurationHours": hours,
            "ChargeEndDate": charge_end_at,
        }
    ]
    cancel(cloud, reserved, made["CapacityReservationCancellationQuoteId"])
    shown = cloud.reservation(reserved)
    assert (shown["State"], shown["AvailableInstanceCount"]) == (state, 0)
    if state == "cancelling":
        assert shown["CommitmentInfo"]["CommitmentEndDate"] == charge_end_at
    cloud.advance(hours=hours)
    assert cloud.reservation(reserved)["State"] == "cancelled"
    ended = cloud.events_of("EC2 Capacity Reservation Cancelled")
    assert [each["time"] for each in ended] == [
        charge_end_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    ]
    cloud.advance(days=60)
    assert cloud.reservation(reserved)["State"] == "cancelled"


def test_an_active_one_is_charged_for_half_of_what_is_left_and_must_be_empty(
    cloud: Cloud,
) -> None:
    reserved = delivered(cloud)
    (instance,) = cloud.run(
        InstanceType="m5.8xlarge",
        CapacityReservationSpecification={
            "CapacityReservationTarget": {"CapacityReservationId": reserved}
        },
    )
    cloud.advance(days=4)
    made = quote(cloud, reserved)
    assert made["CancellationTerms"][0]["ChargeCommitmentDurationHours"] == 120
    quote_id = made["CapacityReservationCancellationQuoteId"]
    with refused("OperationNotPermitted"):
        cancel(cloud, reserved, quote_id)
    cloud.ec2.terminate_instances(InstanceIds=[instance])
    cloud.advance(minutes=1)
    cancel(cloud, reserved, quote_id)
    assert cloud.reservation(reserved)["State"] == "cancelling"
    with refused("InvalidCapacityReservationState"):
        modify(cloud, reserved, InstanceCount=5)


def test_a_quote_is_for_one_reservation_as_it_is_for_a_day_and_once(cloud: Cloud) -> None:
    reserved, other = scheduled(cloud, 60), scheduled(cloud, 60)
    quote_id = quote(cloud, reserved)["CapacityReservationCancellationQuoteId"]
    with refused("InvalidParameterValue"):
        cancel(cloud, other, quote_id)
    with refused("InvalidParameterCombination"):
        cloud.ec2.cancel_capacity_reservation(
            CapacityReservationId=reserved, QuoteId=quote_id
        )
    cloud.advance(days=1)
    with refused("InvalidParameterValue"):
        cancel(cloud, reserved, quote_id)
    described = cloud.ec2.describe_capacity_reservation_cancellation_quotes(
        Filters=[{"Name": "capacity-reservation-id", "Values": [reserved]}]
    )["CapacityReservationCancellationQuotes"]
    assert [each["QuoteState"] for each in described] == ["expired"]


def test_what_is_not_committed_is_cancelled_without_a_quote(cloud: Cloud) -> None:
    plain, assessing, elapsed = cloud.reserve(), future(cloud), delivered(cloud)
    with refused("OperationNotPermitted"):
        quote(cloud, plain)
    cloud.advance(days=14)
    cloud.control(
        "set_reservation_state", capacity_reservation_id=assessing, state="delayed"
    )
    for each in (plain, assessing, elapsed):
        cloud.ec2.cancel_capacity_reservation(CapacityReservationId=each)
        assert cloud.reservation(each)["State"] == "cancelled"


def test_a_late_delivery_is_not_committed_to(cloud: Cloud) -> None:
    reserved = scheduled(cloud, 6)
    for state in ("delayed", "active"):
        cloud.control(
            "set_reservation_state", capacity_reservation_id=reserved, state=state
        )
    cloud.ec2.cancel_capacity_reservation(CapacityReservationId=reserved)
    assert cloud.reservation(reserved)["State"] == "cancelled"


def test_a_quote_may_be_pending_at_first(cloud: Cloud) -> None:
    cloud.control("configure", quote_pending_s=30)
    reserved = scheduled(cloud)
    made = quote(cloud, reserved)
    assert made["QuoteState"] == "pending"
    with refused("InvalidParameterValue"):
        cancel(cloud, reserved, made["CapacityReservationCancellationQuoteId"])
    cloud.advance(seconds=30)
    cancel(cloud, reserved, made["CapacityReservationCancellationQuoteId"])


def put_off(cloud: Cloud, reserved: str, to: datetime) -> dict[str, Any]:
    answer = cloud.ec2.create_capacity_reservation_date_change_quote(
        CapacityReservationId=reserved, NewStartDate=to
    )
    made: dict[str, Any] = answer["CapacityReservationModificationQuote"]
    return made


def accept(cloud: Cloud, reserved: str, made: dict[str, Any]) -> dict[str, Any]:
    return modify(
        cloud,
        reserved,
        QuoteId=made["CapacityReservationModificationQuoteId"],
        AcceptModificationTerms=True,
    )


@pytest.mark.parametrize(("in_days", "days"), [(20, 14), (10, 21)])
def test_the_start_is_put_off_with_more_commitment_if_it_is_near(
    cloud: Cloud, in_days: int, days: int
) -> None:
    reserved = scheduled(cloud, in_days)
    later = START + (in_days + 7) * DAY
    made = put_off(cloud, reserved, later)
    assert made["ModificationTerms"]["ReservationUpdate"] == {
        "NewStartDate": later,
        "NewCommitmentDuration": days * DAY_S,
        "NewCommitmentEndDate": later + days * DAY,
    }
    assert accept(cloud, reserved, made)["AdjustmentStatus"] == "requested"
    with refused("InvalidCapacityReservationState"):
        modify(cloud, reserved, EndDate=later + 40 * DAY)
    assert cloud.reservation(reserved)["StartDate"] == START + in_days * DAY
    cloud.advance(minutes=1)
    shown = cloud.reservation(reserved)
    assert (shown["StartDate"], shown["AdjustmentStatus"]) == (later, "applied")
    assert shown["OriginalStartDate"] == START + in_days * DAY
    cloud.advance(days=in_days)
    assert cloud.reservation(reserved)["State"] == "scheduled"
    cloud.advance(days=7)
    assert cloud.reservation(reserved)["State"] == "active"


def test_what_ec2_cannot_put_off_starts_as_it_was_to(cloud: Cloud) -> None:
    cloud.control("configure", adjustments_succeed=False)
    reserved = scheduled(cloud)
    accept(cloud, reserved, put_off(cloud, reserved, START + 25 * DAY))
    cloud.advance(minutes=1)
    assert cloud.reservation(reserved)["AdjustmentStatus"] == "rejected"
    cloud.advance(days=20)
    assert cloud.reservation(reserved)["State"] == "active"


def test_the_start_is_put_off_by_thirty_days_in_all_and_never_forward(cloud: Cloud) -> None:
    reserved = scheduled(cloud)
    accept(cloud, reserved, put_off(cloud, reserved, START + 30 * DAY))
    cloud.advance(minutes=1)
    for refused_start in (START + 29 * DAY, START + 51 * DAY):
        with refused("InvalidParameterValue"):
            put_off(cloud, reserved, refused_start)
    put_off(cloud, reserved, START + 50 * DAY)


def test_the_terms_must_be_accepted_and_are_for_one_start(cloud: Cloud) -> None:
    reserved = scheduled(cloud)
    quote_id = put_off(cloud, reserved, START + 25 * DAY)[
        "CapacityReservationModificationQuoteId"
    ]
    for change in (
        {},
        {"AcceptModificationTerms": True, "StartDate": START + 26 * DAY},
        {"AcceptModificationTerms": True, "EndDate": START + 90 * DAY},
    ):
        with refused("InvalidParameterCombination"):
            modify(cloud, reserved, QuoteId=quote_id, **change)


def test_the_last_hour_before_the_start_puts_nothing_off(cloud: Cloud) -> None:
    reserved = scheduled(cloud, 6)
    made = put_off(cloud, reserved, START + 8 * DAY)
    cloud.advance(days=5, hours=23, minutes=30)
    with refused("OperationNotPermitted"):
        put_off(cloud, reserved, START + 8 * DAY)
    with refused("InvalidParameterValue"):
        accept(cloud, reserved, made)


def test_an_end_date_within_the_new_commitment_has_to_move_first(cloud: Cloud) -> None:
    reserved = scheduled(cloud, EndDate=START + 36 * DAY)
    with refused("InvalidParameterValue"):
        put_off(cloud, reserved, START + 25 * DAY)


def test_quotes_are_made_once_with_a_token_although_the_answer_is_lost(
    cloud: Cloud,
) -> None:
    reserved = scheduled(cloud)
    operation = "CreateCapacityReservationCancellationQuote"
    cloud.control("lose_response", operation=operation)
    with pytest.raises(Exception, match="closed"):
        quote(cloud, reserved, ClientToken="once")
    again = quote(cloud, reserved, ClientToken="once")
    described = cloud.ec2.describe_capacity_reservation_cancellation_quotes()
    assert described["CapacityReservationCancellationQuotes"] == [again]


def test_a_lost_answer_of_a_cancellation_has_cancelled(cloud: Cloud) -> None:
    reserved = scheduled(cloud)
    quote_id = quote(cloud, reserved)["CapacityReservationCancellationQuoteId"]
    cloud.control("lose_response", operation="CancelCapacityReservation")
    with pytest.raises(Exception, match="closed"):
        cancel(cloud, reserved, quote_id)
    assert cloud.reservation(reserved)["State"] == "cancelling"
    with pytest.raises(ClientError, match="InvalidCapacityReservationState"):
        cancel(cloud, reserved, quote_id)


def test_splitting_makes_another_one_with_tags_of_its_own(cloud: Cloud) -> None:
    tags = [{"ResourceType": "capacity-reservation", "Tags": [{"Key": "a", "Value": "b"}]}]
    source = cloud.reserve(5, EndDate=START + 9 * DAY)
    answer = cloud.ec2.create_capacity_reservation_by_splitting(
        SourceCapacityReservationId=source,
        InstanceCount=4,
        TagSpecifications=tags,
        ClientToken="once",
    )
    part = answer["DestinationCapacityReservation"]
    assert (part["TotalInstanceCount"], part["EndDate"]) == (4, START + 9 * DAY)
    assert part["Tags"] == tags[0]["Tags"]
    assert cloud.available(source) == 1
    with refused("InvalidParameterValue"):
        cloud.ec2.create_capacity_reservation_by_splitting(
            SourceCapacityReservationId=source, InstanceCount=1
        )


def test_used_units_are_split_off_after_the_free_ones(cloud: Cloud) -> None:
    source = cloud.reserve(3, InstanceMatchCriteria="open")
    instances = cloud.run(2)
    answer = cloud.ec2.create_capacity_reservation_by_splitting(
        SourceCapacityReservationId=source, InstanceCount=2
    )
    part = answer["DestinationCapacityReservation"]["CapacityReservationId"]
    held = [cloud.instance(each)["CapacityReservationId"] for each in instances]
    assert sorted(held) == sorted([source, part])
    assert (cloud.available(source), cloud.available(part)) == (0, 1)


def test_what_another_account_shares_is_not_ours_to_cancel(cloud: Cloud) -> None:
    shared = cloud.control(
        "share_reservation", instance_type="m5.8xlarge", zone=ZONE_A, count=1
    )["capacity_reservation_id"]
    with refused("UnauthorizedOperation"):
        quote(cloud, shared)
