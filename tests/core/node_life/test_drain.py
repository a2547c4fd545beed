"""The drain protocol's decisions."""

from dataclasses import replace
from datetime import timedelta

import pytest

from lab.fakes.system import START
from lab.fakes.values import node_claim, reservation
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.node_claim import ClaimState, DrainReason
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.node_life.drain import (
    VOLUNTARY_GRACE,
    WITHDRAWN_GRACE,
    awaited_count,
    begin,
    block_drain,
    is_over,
    released,
    voluntary_deadline,
)

END = START + timedelta(hours=5)
BLOCK = reservation(kind=ReservationKind.CAPACITY_BLOCK, end_at=END)
RUNNING = node_claim(
    "nc-1",
    state=ClaimState.RUNNING,
    placements=(PlacedReplicas("a/x", 2), PlacedReplicas("a/y", 1)),
)
LATER = START + timedelta(minutes=15)


@pytest.mark.parametrize(
    ("ultra", "period_s", "starts_before_end", "lasts"),
    [
        (False, 0, 40, 8),
        (True, 0, 70, 8),
        (False, 480, 40, 8),
        (False, 600, 42, 10),
        (True, 3600, 122, 60),
    ],
)
def test_a_block_drains_ten_minutes_before_ec2_or_as_much_earlier_as_a_checkpoint_needs(
    ultra: bool, period_s: int, starts_before_end: int, lasts: int
) -> None:
    drain = block_drain(replace(BLOCK, ultra_server=ultra), [period_s])
    assert drain is not None
    assert END - drain.starts_at == timedelta(minutes=starts_before_end)
    assert drain.deadline - drain.starts_at == timedelta(minutes=lasts)
    # before EC2 begins
    assert drain.deadline < END - timedelta(minutes=60 if ultra else 30)


@pytest.mark.parametrize("kind", [ReservationKind.DEFAULT, ReservationKind.INTERRUPTIBLE])
def test_other_reservations_end_without_a_drain(kind: ReservationKind) -> None:
    assert block_drain(reservation(kind=kind, end_at=END), []) is None


def test_a_drain_awaits_every_replica() -> None:
    drained = begin(RUNNING, DrainReason.DRIFT, LATER, START)
    assert drained is not None
    assert drained.drain is not None
    assert drained.state is ClaimState.DRAINING
    assert drained.drain.awaiting == RUNNING.placements
    assert not is_over(drained, START)
    assert is_over(drained, LATER)


def test_a_repeat_changes_nothing_and_urgency_only_shortens() -> None:
    drained = begin(RUNNING, DrainReason.DRIFT, LATER, START)
    assert drained is not None
    assert begin(drained, DrainReason.DRIFT, LATER, START) is None
    assert (
        begin(drained, DrainReason.CONSOLIDATION, LATER + timedelta(hours=1), START) is None
    )
    sooner = begin(
        drained,
        DrainReason.INTERRUPTION,
        START + timedelta(minutes=2),
        START + timedelta(minutes=1),
    )
    assert sooner is not None
    assert sooner.drain is not None
    assert drained.drain is not None
    assert sooner.drain.id == drained.drain.id
    assert sooner.drain.reason is DrainReason.INTERRUPTION
    assert sooner.drain.deadline == START + timedelta(minutes=2)


@pytest.mark.parametrize(
    "state", sorted(set(ClaimState) - {"launched", "running", "draining"})
)
def test_what_is_not_there_yet_or_already_going_does_not_drain(state: ClaimState) -> None:
    assert begin(replace(RUNNING, state=state), DrainReason.DRIFT, LATER, START) is None


def test_a_deadline_in_the_past_is_now() -> None:
    drained = begin(RUNNING, DrainReason.INTERRUPTION, START - timedelta(hours=1), START)
    assert drained is not None
    assert drained.drain is not None
    assert drained.drain.deadline == START
    later = START + timedelta(seconds=2)
    assert (
        begin(drained, DrainReason.INTERRUPTION, START - timedelta(hours=1), later) is None
    ), "it would be put off"


def test_releases_count_down_by_workload() -> None:
    drained = begin(RUNNING, DrainReason.DRIFT, LATER, START)
    assert drained is not None
    one = released(drained, "a/x", 1)
    assert one is not None
    assert (awaited_count(one, "a/x"), awaited_count(one, "a/y")) == (1, 1)
    rest = released(one, "a/x", 5)
    assert rest is not None
    assert awaited_count(rest, "a/x") == 0
    assert released(rest, "a/x", 1) is None
    done = released(rest, "a/y", None)
    assert done is not None
    assert is_over(done, START)


def test_a_release_outside_a_drain_is_not_this_protocols() -> None:
    assert released(RUNNING, "a/x", 1) is None


def test_grace_is_shorter_for_the_withdrawn_and_never_shorter_than_a_checkpoint() -> None:
    assert voluntary_deadline(DrainReason.DRIFT, START, []) == START + VOLUNTARY_GRACE
    assert voluntary_deadline(DrainReason.WITHDRAWN, START, [60]) == START + WITHDRAWN_GRACE
    assert voluntary_deadline(
        DrainReason.WITHDRAWN, START, [1800, 60]
    ) == START + timedelta(minutes=30)


@pytest.mark.parametrize(
    "reason",
    ["Withdrawn", "Requested", "Reclaimed", "Rebalance", "ScheduledChange", "Unhealthy"],
)
def test_an_end_that_somebody_waits_for_comes_within_the_hour(reason: str) -> None:
    assert voluntary_deadline(DrainReason(reason), START, [7200]) == START + timedelta(
        hours=1
    )
    assert voluntary_deadline(DrainReason.DRIFT, START, [7200]) == START + timedelta(
        hours=2
    )
