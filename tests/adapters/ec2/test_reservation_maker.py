"""A unit is reserved on the emulated EC2 once, found again by its tag, and given back."""

from datetime import timedelta

import pytest
from botocore.exceptions import ClientError

from lab.worlds.cloud import TYPE, ZONE_A, Cloud
from reservoir.adapters.ec2.reservation_maker import Ec2ReservationMaker
from reservoir.ports.ec2 import ReservationOrder
from reservoir.ports.errors import AwsError


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


@pytest.fixture
def maker(cloud: Cloud) -> Ec2ReservationMaker:
    return Ec2ReservationMaker(cloud.ec2)


def order(cloud: Cloud, name: str = "one") -> ReservationOrder:
    end_at = cloud.clock.now() + timedelta(hours=1)
    return ReservationOrder(
        name, TYPE, ZONE_A, "Linux/UNIX", end_at, {"purpose": "a-test", "team": "infra"}
    )


def test_a_repeated_order_is_the_same_reservation(
    cloud: Cloud, maker: Ec2ReservationMaker
) -> None:
    wanted = order(cloud)
    assert maker.make(wanted) == maker.make(wanted)
    assert maker.make(order(cloud, "two")) != maker.make(wanted)


def test_it_is_for_launches_that_target_it_and_ends_by_itself(
    cloud: Cloud, maker: Ec2ReservationMaker
) -> None:
    reservation_id = maker.make(order(cloud))

    answer = cloud.ec2.describe_capacity_reservations(
        CapacityReservationIds=[reservation_id]
    )
    (shown,) = answer["CapacityReservations"]
    assert (shown["InstanceMatchCriteria"], shown["TotalInstanceCount"]) == ("targeted", 1)
    assert shown["EndDate"] == order(cloud).end_at


def test_what_has_not_ended_is_found_by_its_tag(
    cloud: Cloud, maker: Ec2ReservationMaker
) -> None:
    cancelled, living = maker.make(order(cloud)), maker.make(order(cloud, "two"))
    maker.cancel(cancelled)

    assert maker.living("purpose", "a-test") == (living,)
    assert maker.living("purpose", "another") == ()


def test_to_cancel_what_has_ended_is_no_error(
    cloud: Cloud, maker: Ec2ReservationMaker
) -> None:
    reservation_id = maker.make(order(cloud))
    maker.cancel(reservation_id)
    maker.cancel(reservation_id)


def test_a_refusal_to_cancel_what_goes_on_is_an_error(
    cloud: Cloud, maker: Ec2ReservationMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    reservation_id = maker.make(order(cloud))

    def refuses(**request: object) -> None:
        assert request == {"CapacityReservationId": reservation_id}
        error = {"Code": "InvalidCapacityReservationState"}
        raise ClientError({"Error": error}, "CancelCapacityReservation")  # type: ignore[typeddict-item] # as EC2 says it

    monkeypatch.setattr(cloud.ec2, "cancel_capacity_reservation", refuses)
    with pytest.raises(AwsError, match="InvalidCapacityReservationState"):
        maker.cancel(reservation_id)


def test_what_was_never_there_is_an_error(maker: Ec2ReservationMaker) -> None:
    with pytest.raises(AwsError, match="NotFound"):
        maker.cancel("cr-00000000000000000")
