from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from botocore.model import StringShape
from botocore.session import get_session

from lab.fakes import values
from reservoir.core.model.capacity_reservation import (
    GONE,
    STATES,
    CapacityReservation,
    ReservationKind,
)

NOW = datetime(2026, 1, 15, 8, 0, tzinfo=UTC)


def block(
    *, end_in: timedelta, ultra_server: bool = False, state: str = "active"
) -> CapacityReservation:
    return values.reservation(
        kind=ReservationKind.CAPACITY_BLOCK,
        state=state,
        start_at=NOW - timedelta(days=1),
        end_at=NOW + end_in,
        ultra_server=ultra_server,
    )


@pytest.mark.parametrize(
    ("end_in_min", "ultra_server", "usable"),
    [
        (41, False, True),
        (40, False, False),  # drains 10 minutes before EC2 reclaims at end - 30
        (71, True, True),
        (70, True, False),  # L-10: UltraServers are reclaimed 60 minutes before the end
        (65, True, False),
    ],
)
def test_a_block_takes_no_work_once_its_drain_starts(
    end_in_min: int, ultra_server: bool, usable: bool
) -> None:
    reservation = block(end_in=timedelta(minutes=end_in_min), ultra_server=ultra_server)

    assert reservation.is_active(NOW) is usable


@pytest.mark.parametrize(
    ("notice_s", "starts_in_min"), [(0, 80), (8 * 60, 80), (9 * 60, 79), (15 * 60, 73)]
)
def test_a_notice_moves_the_drain_forward_as_far_as_it_is_longer_than_the_usual(
    notice_s: int, starts_in_min: int
) -> None:
    drain = block(end_in=timedelta(hours=2)).block_drain()

    assert drain is not None
    assert drain.for_notice(notice_s).starts_at == NOW + timedelta(minutes=starts_in_min)
    assert drain.for_notice(notice_s).deadline == NOW + timedelta(minutes=120 - 30 - 2)


@pytest.mark.parametrize("kind", [ReservationKind.DEFAULT, ReservationKind.INTERRUPTIBLE])
def test_other_kinds_are_never_drained_for_their_end(kind: ReservationKind) -> None:
    reservation = replace(block(end_in=timedelta(minutes=1)), kind=kind)

    assert reservation.reclaim_at() is None
    assert reservation.drain_at() is None
    assert reservation.is_active(NOW)


@pytest.mark.parametrize(
    "state", ["expired", "cancelled", "failed", "unavailable", "a-state-of-the-future"]
)
def test_only_active_reservations_take_work(state: str) -> None:
    reservation = block(end_in=timedelta(days=1), state=state)

    assert not reservation.is_active(NOW)
    assert not reservation.is_upcoming(NOW)


def test_a_scheduled_reservation_is_upcoming_until_ec2_says_that_it_began() -> None:
    reservation = replace(
        block(end_in=timedelta(days=2), state="scheduled"),
        start_at=NOW + timedelta(hours=1),
    )

    assert reservation.is_upcoming(NOW)
    # EC2, or our look at it, is a little late
    assert reservation.is_upcoming(NOW + timedelta(hours=1, seconds=10))
    assert reservation.is_upcoming(NOW + timedelta(days=1))  # a delayed one
    assert not reservation.is_upcoming(NOW + timedelta(days=2))
    assert not replace(reservation, state="active").is_upcoming(
        NOW + timedelta(hours=1, seconds=10)
    )
    assert not replace(reservation, start_at=None).is_upcoming(NOW)


def test_every_state_of_ec2_has_a_meaning() -> None:
    """A release of botocore that knows one more fails here, and somebody reads what it means."""
    states = get_session().get_service_model("ec2").shape_for("CapacityReservationState")

    assert isinstance(states, StringShape)
    assert STATES.keys() - {GONE} == set(states.enum)


@pytest.mark.parametrize("state", [*STATES, "one-that-nobody-knows"])
def test_only_an_active_reservation_takes_launches(state: str) -> None:
    reservation = block(end_in=timedelta(days=2), state=state)

    assert reservation.is_active(NOW) is (state == "active")


@pytest.mark.parametrize(
    ("state", "is_billed"),
    [
        ("active", True),
        ("cancelling", True),  # EC2 took the units back, the commitment is still charged
        ("unavailable", True),  # a block was paid for at once
        ("one-that-nobody-knows", True),  # rather shown as money lost than as nothing
        ("scheduled", False),
        ("cancelled", False),
        (GONE, False),
    ],
)
def test_what_a_state_costs(state: str, is_billed: bool) -> None:
    assert values.reservation(state=state).is_billed is is_billed
