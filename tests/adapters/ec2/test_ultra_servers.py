"""That a block is an UltraServer is EC2's own word where it says so."""

from datetime import timedelta

from lab.worlds.cloud import Cloud
from reservoir.adapters.ec2.reservations import Ec2ReservationReader
from reservoir.core.model.capacity_reservation import (
    UNLAUNCHABLE,
    CapacityReservation,
    ObservedReservation,
    RefusedUnits,
)


def buy(
    cloud: Cloud,
    instance_type: str,
    ultraserver_type: str | None = None,
    zone: str = "us-east-1a",
) -> str:
    bought = cloud.control(
        "purchase_capacity_block",
        instance_type=instance_type,
        zone=zone,
        count=1,
        ultraserver_type=ultraserver_type,
    )
    return str(bought["capacity_reservation_id"])


def read(reader: Ec2ReservationReader) -> dict[str, ObservedReservation]:
    return {reservation.id: reservation for reservation in reader.list_visible()}


def test_a_block_of_a_type_that_nobody_has_listed_is_one_if_ec2_says_so() -> None:
    cloud = Cloud()
    ultra, plain = buy(cloud, "p5.48xlarge", "u-p9e-x72"), buy(cloud, "p5.48xlarge")
    found = read(Ec2ReservationReader(cloud.ec2, None))
    assert (found[ultra].ultra_server, found[plain].ultra_server) == (True, False)
    (end, drain) = found[ultra].end_at, found[ultra].drain_at()
    assert end is not None
    assert drain is not None
    assert end - drain == timedelta(minutes=70)


def test_blocks_are_asked_about_once_and_again_only_for_new_ones() -> None:
    cloud = Cloud()
    reader = Ec2ReservationReader(cloud.ec2, None)
    buy(cloud, "p5.48xlarge")
    read(reader)
    cloud.control(
        "fail_calls",
        operation="DescribeCapacityBlocks",
        code="UnauthorizedOperation",
        count=1,
    )
    read(reader)  # not asked: the refusal is still to come
    later = buy(cloud, "p5.48xlarge", "u-p9e-x72")
    # refused; the list of types decides, and it is asked again
    assert not read(reader)[later].ultra_server
    assert read(reader)[later].ultra_server


def test_without_blocks_nothing_is_asked() -> None:
    cloud = Cloud()
    cloud.control("fail_calls", operation="DescribeCapacityBlocks", count=1)
    cloud.reserve(1)
    reader = Ec2ReservationReader(cloud.ec2, None)
    read(reader)
    buy(cloud, "trn2u.48xlarge", zone="us-east-1b")
    (block,) = (
        reservation
        for reservation in read(reader).values()
        if reservation.capacity_block_id
    )
    assert block.ultra_server  # by its name, though EC2 would not answer


def test_units_that_nothing_can_be_launched_into_are_not_offered_and_say_why() -> None:
    cloud = Cloud()
    reader = Ec2ReservationReader(cloud.ec2, None)
    block = buy(cloud, "p5.48xlarge", "u-p9e-x72")
    assert read(reader)[block].is_launchable
    cloud.control(
        "set_launch_status", capacity_reservation_id=block, launch_status="unlaunchable"
    )
    shown = read(reader)[block]
    assert (shown.available_count, shown.is_launchable) == (1, False)
    offered = CapacityReservation.of(shown, free_units=shown.available_count)
    assert offered.free_units == 0
    assert offered.refusal == RefusedUnits(UNLAUNCHABLE, 1)
    assert offered.units_of_others(0) == 0
