"""Capacity Blocks and extensions are bought as EC2 sells them: without a token, at a slow rate, paid later."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ConnectionClosedError

from lab.worlds.cloud import LINUX, TYPE, ZONE_A, Cloud, code_of, refused

GPU = "p5en.48xlarge"
TAGS = [
    {"ResourceType": "capacity-reservation", "Tags": [{"Key": "team", "Value": "training"}]}
]


def on_sale(cloud: Cloud, **changes: Any) -> dict[str, Any]:
    asked = {"InstanceType": GPU, "InstanceCount": 2, "CapacityDurationHours": 24} | changes
    first: dict[str, Any] = cloud.ec2.describe_capacity_block_offerings(**asked)[
        "CapacityBlockOfferings"
    ][0]
    return first


def buy(cloud: Cloud, offering_id: str, **more: Any) -> str:
    asked = {"CapacityBlockOfferingId": offering_id, "InstancePlatform": LINUX} | more
    reservation_id: str = cloud.ec2.purchase_capacity_block(**asked)["CapacityReservation"][
        "CapacityReservationId"
    ]
    return reservation_id


def test_what_is_bought_is_paid_then_scheduled_and_gone_from_sale(cloud: Cloud) -> None:
    offered = on_sale(cloud)
    block = buy(cloud, offered["CapacityBlockOfferingId"], TagSpecifications=TAGS)
    shown = cloud.reservation(block)
    assert (shown["State"], shown["ReservationType"]) == (
        "payment-pending",
        "capacity-block",
    )
    assert (shown["StartDate"], shown["EndDate"]) == (
        offered["StartDate"],
        offered["EndDate"],
    )
    assert shown["Tags"] == [{"Key": "team", "Value": "training"}]
    cloud.advance(seconds=300)
    assert cloud.reservation(block)["State"] == "scheduled"
    with refused("InvalidCapacityBlockOfferingIdExpired"):
        buy(cloud, offered["CapacityBlockOfferingId"])
    assert on_sale(cloud)["CapacityBlockOfferingId"] != offered["CapacityBlockOfferingId"]


def test_a_purchase_whose_answer_is_lost_has_happened(cloud: Cloud) -> None:
    offered = on_sale(cloud)
    cloud.control("lose_response", operation="PurchaseCapacityBlock")
    with pytest.raises(ConnectionClosedError):
        buy(cloud, offered["CapacityBlockOfferingId"], TagSpecifications=TAGS)
    filters = [{"Name": "tag:team", "Values": ["training"]}]
    assert (
        len(
            cloud.ec2.describe_capacity_reservations(Filters=filters)[
                "CapacityReservations"
            ]
        )
        == 1
    )


def test_a_block_that_is_not_paid_fails(cloud: Cloud) -> None:
    cloud.control("configure", block_payments_succeed=False)
    block = buy(cloud, on_sale(cloud)["CapacityBlockOfferingId"])
    cloud.advance(days=1)
    assert cloud.reservation(block)["State"] == "payment-failed"


def test_a_block_may_be_shown_later_than_it_is_bought(cloud: Cloud) -> None:
    cloud.control("configure", block_shown_after_s=60)
    block = buy(cloud, on_sale(cloud)["CapacityBlockOfferingId"])
    with refused("InvalidCapacityReservationId.NotFound"):
        cloud.reservation(block)
    cloud.advance(seconds=60)
    assert cloud.reservation(block)["State"] == "payment-pending"


def test_an_offering_is_gone_half_an_hour_before_it_would_start(cloud: Cloud) -> None:
    offered = on_sale(cloud)
    cloud.advance(hours=3, seconds=1)
    with refused("InvalidCapacityBlockOfferingIdExpired"):
        buy(cloud, offered["CapacityBlockOfferingId"])


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        (
            {"CapacityBlockOfferingId": "cb-00000000000000000"},
            "InvalidCapacityBlockOfferingIdNotFound",
        ),
        ({"CapacityBlockOfferingId": "p5"}, "InvalidCapacityBlockOfferingIdMalformed"),
        ({"InstancePlatform": "Windows"}, "InvalidParameterValue"),
    ],
)
def test_purchases_that_ec2_refuses(
    cloud: Cloud, changes: dict[str, Any], code: str
) -> None:
    asked = {
        "CapacityBlockOfferingId": on_sale(cloud)["CapacityBlockOfferingId"],
        "InstancePlatform": LINUX,
    }
    assert code_of(lambda: cloud.ec2.purchase_capacity_block(**(asked | changes))) == code


def test_ten_calls_at_once_then_nine_a_minute(cloud: Cloud) -> None:
    for _ in range(10):
        on_sale(cloud)
    with refused("RequestLimitExceeded"):
        on_sale(cloud)
    cloud.advance(minutes=1)
    for _ in range(9):
        on_sale(cloud)
    with refused("RequestLimitExceeded"):
        on_sale(cloud)


def extension(cloud: Cloud, block: str, hours: int = 24) -> dict[str, Any]:
    answer = cloud.ec2.describe_capacity_block_extension_offerings(
        CapacityReservationId=block, CapacityBlockExtensionDurationHours=hours
    )
    (found,) = answer["CapacityBlockExtensionOfferings"]
    return dict(found)


def extend(cloud: Cloud, block: str, offering_id: str) -> dict[str, Any]:
    answer = cloud.ec2.purchase_capacity_block_extension(
        CapacityReservationId=block, CapacityBlockExtensionOfferingId=offering_id
    )
    (bought,) = answer["CapacityBlockExtensions"]
    return dict(bought)


def paid_block(cloud: Cloud) -> str:
    block = buy(cloud, on_sale(cloud)["CapacityBlockOfferingId"])
    cloud.advance(seconds=300)
    return block


def test_the_end_moves_when_an_extension_is_paid(cloud: Cloud) -> None:
    block = paid_block(cloud)
    end = cloud.reservation(block)["EndDate"]
    offered = extension(cloud, block, hours=48)
    assert offered["CapacityBlockExtensionStartDate"] == end
    extend(cloud, block, offered["CapacityBlockExtensionOfferingId"])
    assert cloud.reservation(block)["EndDate"] == end
    cloud.advance(seconds=300)
    assert cloud.reservation(block)["EndDate"] == end + timedelta(hours=48)
    history = cloud.ec2.describe_capacity_block_extension_history(
        CapacityReservationIds=[block]
    )
    (bought,) = history["CapacityBlockExtensions"]
    assert bought["CapacityBlockExtensionStatus"] == "payment-succeeded"
    assert (
        bought["CapacityBlockExtensionOfferingId"]
        == offered["CapacityBlockExtensionOfferingId"]
    )
    with refused("InvalidCapacityBlockOfferingIdExpired"):
        extend(cloud, block, offered["CapacityBlockExtensionOfferingId"])


def _while_one_is_to_be_paid(cloud: Cloud, block: str) -> None:
    extend(cloud, block, extension(cloud, block)["CapacityBlockExtensionOfferingId"])


def _in_its_last_hour(cloud: Cloud, _: str) -> None:
    cloud.advance(hours=27)


@pytest.mark.parametrize(
    ("before", "code"),
    [
        (_while_one_is_to_be_paid, "OperationNotPermitted"),
        (_in_its_last_hour, "InvalidParameterValue"),
    ],
)
def test_extensions_that_ec2_refuses(
    cloud: Cloud, before: Callable[[Cloud, str], None], code: str
) -> None:
    block = paid_block(cloud)
    before(cloud, block)
    assert code_of(lambda: extension(cloud, block)) == code


def test_only_blocks_are_extended(cloud: Cloud) -> None:
    reserved = cloud.reserve(1, InstanceType=TYPE, AvailabilityZone=ZONE_A)
    assert code_of(lambda: extension(cloud, reserved)) == "InvalidParameterValue"
