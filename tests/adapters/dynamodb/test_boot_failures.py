"""What is remembered about blocks in which nodes did not boot: the same contract in memory and on DynamoDB."""

import itertools
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from lab.fakes.stores.capacity_blocks import MemoryBootFailures
from lab.fakes.system import START, ManualClock
from lab.fakes.values import reservation
from lab.local import ministack
from reservoir.adapters.dynamodb.boot_failures import DynamoDbBootFailures
from reservoir.adapters.dynamodb.reservations import DynamoDbReservationStore
from reservoir.core.capacity.boot_failure import BootFailures, forgotten_at
from reservoir.names import LISTING_INDEX, LISTING_KEY
from reservoir.ports.capacity_blocks import BootFailureStore

ONCE = BootFailures(1, ("nc-1",), START, START)
TWICE = BootFailures(2, ("nc-2", "nc-3"), START, START + timedelta(hours=1))
_names = itertools.count()


@dataclass
class Remembered:
    store: BootFailureStore
    clock: ManualClock


@pytest.fixture(params=["memory", pytest.param("dynamodb", marks=pytest.mark.embedded)])
def remembered(request: pytest.FixtureRequest) -> Remembered:
    clock = ManualClock()
    if request.param == "memory":
        return Remembered(MemoryBootFailures(clock), clock)
    dynamodb: Any = request.getfixturevalue("dynamodb")
    table = f"boots-{next(_names)}"
    ministack.create_table(dynamodb, table, indexes={LISTING_INDEX: (LISTING_KEY, "ALL")})
    return Remembered(DynamoDbBootFailures(dynamodb, table, clock), clock)


def test_failures_are_remembered_by_reservation(remembered: Remembered) -> None:
    assert remembered.store.get("cr-1") is None
    remembered.store.put("cr-1", ONCE)
    remembered.store.put("cr-2", ONCE)
    remembered.store.put("cr-2", TWICE)
    assert remembered.store.get("cr-2") == TWICE
    assert remembered.store.list_remembered() == {"cr-1": ONCE, "cr-2": TWICE}


def test_they_are_forgotten_when_nothing_can_follow_from_them(
    remembered: Remembered,
) -> None:
    remembered.store.put("cr-1", TWICE)
    remembered.clock.set(forgotten_at(TWICE))
    assert remembered.store.get("cr-1") == TWICE
    remembered.clock.advance(seconds=1)
    assert remembered.store.get("cr-1") is None
    assert remembered.store.list_remembered() == {}


@pytest.mark.embedded
def test_they_lie_beside_reservations_and_disturb_none(dynamodb: Any) -> None:
    clock, table = ManualClock(), f"boots-{next(_names)}"
    ministack.create_table(dynamodb, table, indexes={LISTING_INDEX: (LISTING_KEY, "ALL")})
    reservations = DynamoDbReservationStore(dynamodb, table, "unused", clock)
    reservations.save_observation(
        reservation(), observed_at=START, absorbed=(), expected=None
    )
    DynamoDbBootFailures(dynamodb, table, clock).put("cr-1", TWICE)
    assert [record.reservation.id for record in reservations.list_current()] == ["cr-1"]
