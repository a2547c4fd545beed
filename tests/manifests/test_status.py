"""What users see of reservations beside a class."""

from datetime import timedelta
from typing import Any

import pytest

from lab.fakes.system import START
from lab.fakes.values import reservation
from reservoir.core.model.capacity_reservation import CapacityReservation, ReservationKind
from reservoir.core.model.node_class import NodeClassStatus
from reservoir.manifests.answers.status import node_class_status


def shown(*reservations: CapacityReservation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = node_class_status(
        NodeClassStatus(), (), reservations, START
    )["capacityReservations"]
    return found


@pytest.mark.parametrize(
    ("kind", "minutes", "state"),
    [
        (ReservationKind.CAPACITY_BLOCK, 41, "active"),
        (ReservationKind.CAPACITY_BLOCK, 40, "expiring"),  # S-31
        (ReservationKind.DEFAULT, 40, "active"),  # S-32
        (ReservationKind.INTERRUPTIBLE, 40, "active"),
    ],
)
def test_a_block_expires_in_time_for_its_drain_and_nothing_else_does(
    kind: ReservationKind, minutes: int, state: str
) -> None:
    (found,) = shown(
        reservation("cr-1", kind=kind, end_at=START + timedelta(minutes=minutes))
    )
    assert found["state"] == state


def test_states_that_ec2_adds_one_day_are_shown_as_they_are() -> None:
    (found,) = shown(reservation("cr-1", state="hibernating"))
    assert found["state"] == "hibernating"


def test_facts_that_could_not_be_read_again_are_marked() -> None:
    fresh, stale = shown(reservation("cr-1"), reservation("cr-2", stale=True))
    assert "stale" not in fresh
    assert stale["stale"] is True
