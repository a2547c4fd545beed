"""What EC2 would refuse of blocks, each with the rule."""

from dataclasses import replace
from datetime import timedelta

import pytest

from lab.fakes.system import START
from reservoir.core.model.capacity_reservation import ObservedReservation, ReservationKind
from reservoir.core.purchasing.block_rules import (
    count_refusal,
    duration_refusal,
    extension_refusal,
    platform_refusal,
    quota_refusal,
    sold_count,
    sold_days,
)

DAY = timedelta(days=1)
BLOCK = ObservedReservation(
    "cr-1",
    "111122223333",
    "p5.48xlarge",
    "us-east-1c",
    "use1-az4",
    ReservationKind.CAPACITY_BLOCK,
    "active",
    64,
    64,
    start_at=START,
    end_at=START + 7 * DAY,
)


@pytest.mark.parametrize(
    ("days", "is_sold"),
    [(0, False), (1, True), (14, True), (15, False), (21, True), (189, False)],
)
def test_lengths(days: int, is_sold: bool) -> None:
    assert (duration_refusal(days) is None) == is_sold


@pytest.mark.parametrize(
    ("count", "is_sold"), [(1, True), (3, False), (64, True), (128, False)]
)
def test_sizes(count: int, is_sold: bool) -> None:
    assert (count_refusal(count) is None) == is_sold


def test_platforms() -> None:
    assert platform_refusal("Linux/UNIX") is None
    assert "not for Windows" in str(platform_refusal("Windows"))


def test_256_instances_at_once_over_all_blocks_of_that_time() -> None:
    scheduled = replace(
        BLOCK,
        state="scheduled",
        total_count=0,
        start_at=START + DAY,
        tags={"aws:ec2capacityreservation:incrementalRequestedQuantity": "64"},
    )
    before = replace(BLOCK, start_at=START - DAY, end_at=START)
    expired = replace(BLOCK, state="expired")
    on_demand = replace(BLOCK, kind=ReservationKind.DEFAULT)
    known = [BLOCK, BLOCK, scheduled, before, expired, on_demand]
    assert quota_refusal(64, START, START + 2 * DAY, known) is None
    assert "192 are bought" not in str(
        quota_refusal(64, START, START + DAY / 2, [*known, BLOCK])
    )
    assert "256 are bought of that time" in str(
        quota_refusal(1, START, START + 2 * DAY, [*known, BLOCK])
    )


@pytest.mark.parametrize(
    ("block", "days", "reason"),
    [
        (replace(BLOCK, kind=ReservationKind.DEFAULT), 1, "is no Capacity Block"),
        (replace(BLOCK, state="payment-pending"), 1, "is payment-pending"),
        (
            replace(BLOCK, end_at=START + timedelta(minutes=59)),
            1,
            "from 57 days to an hour before its end",
        ),
        (
            replace(BLOCK, end_at=START + 58 * DAY),
            1,
            "from 57 days to an hour before its end",
        ),
        (replace(BLOCK, start_at=START - 180 * DAY), 7, "at most 182 days"),
        (BLOCK, 15, "whole weeks"),
    ],
)
def test_extensions(block: ObservedReservation, days: int, reason: str) -> None:
    assert extension_refusal(BLOCK, 7, START) is None
    assert reason in str(extension_refusal(block, days, START))


def test_the_next_size_and_length_that_are_sold() -> None:
    assert [sold_count(each) for each in (1, 3, 64, 65)] == [1, 4, 64, None]
    lengths = (
        timedelta(0),
        DAY,
        DAY + timedelta(minutes=1),
        14 * DAY,
        15 * DAY,
        182 * DAY,
        183 * DAY,
    )
    assert [sold_days(each) for each in lengths] == [1, 1, 2, 14, 21, 182, None]
