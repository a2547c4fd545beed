"""How many units to lend: never what is claimed, coming, needed or kept free; taken back first, lent more later."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.fakes.values import node_pool, reservation
from reservoir.core.lending.decide import (
    RECALL_LEAD,
    UNITS_A_PASS,
    LendingChange,
    LendingInput,
    decide_lending,
    with_lent_units_back,
)
from reservoir.core.model.capacity_reservation import CapacityReservation, LentUnits
from reservoir.core.model.node_class import (
    Lending,
    LendingWindow,
    NodeClass,
    NodeClassStatus,
)
from reservoir.core.model.snapshot import Snapshot
from reservoir.names import LENDABLE_TAG, LENDABLE_VALUE

NOW = datetime(2026, 1, 15, 21, tzinfo=UTC)  # a Thursday
OURS = "Reservoir"
LENT = LentUnits("cr-lent", 2, 2, OURS)


def source(units: int = 4, free: int | None = None, **changes: Any) -> CapacityReservation:
    known = {"tags": {LENDABLE_TAG: LENDABLE_VALUE}}
    return reservation("cr-1", units, free, **known | changes)


def lending_class(lending: Lending | None, name: str = "default") -> NodeClass:
    status = NodeClassStatus(reservation_ids=("cr-1",))
    return NodeClass(name, lending=lending, status=status, static_hash="1")


def decide(
    it: CapacityReservation,
    lending: Lending | None = Lending(after_s=600),  # noqa: B008 # a frozen value
    *,
    needed: int = 0,
    idle_min: float = 60,
    under_way: int = 0,
    resting: bool = False,
    now: datetime = NOW,
    **changes: Any,
) -> int | None:
    """Return how many units are to be lent; None: as many as before."""
    world = Snapshot((), (it,), (node_pool(),), (lending_class(lending),))
    found = change_of(
        LendingInput(
            replace(world, **changes),
            OURS,
            {"cr-1": now - timedelta(minutes=idle_min)},
            {"cr-1": under_way},
            frozenset({"cr-1"} if resting else ()),
        ),
        needed,
        now,
    )
    return None if found is None else found.count


def change_of(given: LendingInput, needed: int, now: datetime) -> LendingChange | None:
    changes = decide_lending(given, {"cr-1": needed}, now)
    return changes[0] if changes else None


def test_free_units_are_lent_but_for_those_that_are_needed_or_kept() -> None:
    assert decide(source()) == 4
    assert decide(source(free=3)) == 3
    assert decide(source(), needed=1) == 3
    assert decide(source(), Lending(keep_free=3)) == 1
    assert decide(source(), Lending(keep_free=3), needed=1) is None


def test_more_is_lent_only_of_what_has_been_idle_for_a_while() -> None:
    assert decide(source(), idle_min=9) is None
    assert decide(source(), idle_min=10) == 4
    assert decide(source(), resting=True) is None


def test_what_is_lent_comes_back_at_once_and_no_more_than_is_needed() -> None:
    lending = source(2, 0, lent=LENT)
    assert decide(lending, needed=1, idle_min=0) == 1
    assert decide(lending, needed=5, idle_min=0) == 0
    assert decide(lending, needed=0) is None
    assert decide(replace(lending, free_units=1), needed=1) is None, "a free one is enough"


def test_nothing_is_lent_while_units_are_on_their_way() -> None:
    returning = replace(LENT, target_count=1)
    assert decide(source(4, 3, lent=returning)) is None
    assert decide(source(4, 3, lent=LENT), under_way=1) is None


def test_units_that_ec2_does_not_show_yet_are_taken_for_what_they_are() -> None:
    """Two more were asked for: EC2 shows them as lent, and their leases still count against the source."""
    shown = source(2, 0, lent=LENT)
    assert decide(shown, Lending(keep_free=1), under_way=2) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"tags": {}},
        {"end_at": NOW + timedelta(days=9)},
        {"state": "cancelling"},
        {"stale": True},
        {"lent": LentUnits("cr-by-hand", 1, 1)},
        {"lent": LentUnits("cr-by-another", 1, 1, "Other")},
    ],
    ids=str,
)
def test_what_is_never_lent(changes: dict[str, Any]) -> None:
    assert decide(source(**changes)) is None


def test_each_class_that_selects_a_reservation_has_to_lend_it() -> None:
    lends = lending_class(Lending())
    strict = lending_class(Lending(keep_free=3), "strict")
    assert decide(source(), node_classes=(lends, strict)) == 1
    assert decide(source(), node_classes=(lends, lending_class(None, "no"))) is None


def test_what_a_static_pool_could_use_is_not_lent() -> None:
    assert decide(source(), node_pools=(node_pool(replicas=2),)) is None


def test_units_come_back_before_a_window_ends_and_are_lent_within_it() -> None:
    nightly = Lending(windows=(LendingWindow("0 20 * * *", 10 * 3600),))
    lending = source(2, 0, lent=LENT)
    end = NOW.replace(hour=6) + timedelta(days=1)
    assert decide(source(), nightly, now=NOW) == 4
    assert decide(source(), nightly, now=NOW.replace(hour=19)) is None
    assert decide(lending, nightly, now=end - RECALL_LEAD - timedelta(seconds=1)) is None
    assert decide(lending, nightly, now=end - RECALL_LEAD) == 0


def test_all_comes_back_when_no_class_lends_unless_one_cannot_be_read() -> None:
    lending = source(2, 0, lent=LENT)
    assert decide(lending, None) == 0
    unreadable = NodeClass("other")
    classes = (lending_class(None), unreadable)
    assert decide(lending, node_classes=classes) is None


def test_one_pass_lends_so_many_of_a_reservation() -> None:
    assert decide(source(100)) == UNITS_A_PASS
    returned = source(80, 80, lent=LentUnits("cr-lent", 20, 20, OURS))
    assert decide(returned) == 20 + UNITS_A_PASS


def test_with_all_units_back_a_reservation_is_whole() -> None:
    snapshot = with_lent_units_back(Snapshot((), (source(2, 1, lent=LENT),)), OURS)
    (whole,) = snapshot.reservations
    assert (whole.total_count, whole.available_count, whole.free_units) == (4, 3, 3)


counts = st.integers(0, 30)


@given(free=counts, lent=counts, returning=counts, needed=counts, kept=counts)
def test_lent_and_needed_and_kept_never_exceed_what_is_idle(
    free: int, lent: int, returning: int, needed: int, kept: int
) -> None:
    target = max(0, lent - returning)
    found = LentUnits("cr-lent", lent, target, OURS)
    it = source(free, free, lent=found)
    count = decide(it, Lending(keep_free=kept), needed=needed)
    left = max(0, free + lent - needed - kept)
    if count is None:
        assert target <= left
    elif count > target:
        assert count <= left
        assert count - target <= free - needed - kept, "more is lent only of what is free"
    else:
        assert count == left
