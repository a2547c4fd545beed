"""What becomes of a reservation is news once, with old and new; how it is used is none."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lab.fakes.system import START
from lab.fakes.values import observed_block
from reservoir.core.capacity.reservation_changes import (
    ChangedField,
    ReservationChangeKind,
    change_kinds,
    changed_fields,
)
from reservoir.core.model.capacity_reservation import GONE, ObservedReservation

Kind = ReservationChangeKind
PLANNED = {"aws:ec2capacityreservation:incrementalRequestedQuantity": "4"}
END = START + timedelta(days=1)
ACTIVE = observed_block("cr-1", 4, start_at=START, end_at=END)
SCHEDULED = replace(
    ACTIVE, state="scheduled", total_count=0, available_count=0, tags=PLANNED
)


@pytest.mark.parametrize(
    ("before", "changes", "kinds"),
    [
        (
            SCHEDULED,
            {"state": "active", "total_count": 4, "available_count": 4},
            [Kind.BEGAN],
        ),
        (
            replace(SCHEDULED, state="payment-pending"),
            {"state": "scheduled"},
            [Kind.STATE_CHANGED],
        ),
        (
            replace(SCHEDULED, state="payment-pending"),
            {"state": "payment-failed"},
            [Kind.FAILED],
        ),
        (ACTIVE, {"total_count": 8}, [Kind.RESIZED]),
        (ACTIVE, {"end_at": END + timedelta(days=1)}, [Kind.EXTENDED]),
        (ACTIVE, {"end_at": None}, [Kind.EXTENDED]),
        (
            ACTIVE,
            {"end_at": END - timedelta(hours=1), "total_count": 2},
            [Kind.RESIZED, Kind.SHORTENED],
        ),
        (ACTIVE, {"state": "cancelled", "total_count": 0}, [Kind.CANCELLED]),
        (ACTIVE, {"state": "cancelling"}, [Kind.CANCELLED]),
        (replace(ACTIVE, state="cancelling"), {"state": "cancelled"}, [Kind.STATE_CHANGED]),
        (ACTIVE, {"state": "unavailable"}, [Kind.STATE_CHANGED]),
        (ACTIVE, {"state": "expired"}, [Kind.EXPIRED]),
        (ACTIVE, {"state": GONE}, [Kind.UNSHARED]),
        (replace(ACTIVE, end_at=START), {"state": GONE}, [Kind.EXPIRED]),
        (replace(ACTIVE, state="expired"), {"state": GONE}, []),
        (ACTIVE, {"available_count": 0}, []),
        (ACTIVE, {"tags": {"team": "training"}}, []),
    ],
)
def test_what_happened(
    before: ObservedReservation, changes: dict[str, Any], kinds: list[Kind]
) -> None:
    assert list(change_kinds(before, replace(before, **changes), START)) == kinds


def test_what_is_new_appeared() -> None:
    assert change_kinds(None, SCHEDULED, START) == (Kind.APPEARED,)
    assert changed_fields(None, SCHEDULED) == (
        ChangedField("endAt", None, "2026-01-16T12:00:00Z"),
        ChangedField("size", None, "4"),
        ChangedField("startAt", None, "2026-01-15T12:00:00Z"),
        ChangedField("state", None, "scheduled"),
    )


def test_old_and_new_of_what_differs() -> None:
    after = replace(ACTIVE, total_count=8, available_count=5, end_at=None)
    assert changed_fields(ACTIVE, after) == (
        ChangedField("endAt", "2026-01-16T12:00:00Z", None),
        ChangedField("size", "4", "8"),
    )
