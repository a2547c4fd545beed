"""When a unit of a Capacity Block is suspected to be broken, and how long it is left alone."""

from datetime import timedelta

from lab.fakes.system import START
from lab.fakes.values import reservation
from reservoir.core.capacity.boot_failure import (
    FIRST_REST,
    LONGEST_REST,
    BootFailures,
    after_boot_failure,
    forgotten_at,
    without_suspected,
)
from reservoir.core.model.capacity_reservation import ReservationKind

QUARTER = timedelta(minutes=15)


def failed(
    previous: BootFailures | None, claim_id: str, *, launched: int, seen: int
) -> BootFailures:
    """Fail a claim; times are minutes after the start."""
    at = timedelta(minutes=1)
    return after_boot_failure(previous, claim_id, START + launched * at, START + seen * at)


def test_one_failure_says_little() -> None:
    once = failed(None, "nc-1", launched=0, seen=15)
    assert once.suspected_count(START + QUARTER) == 0


def test_a_node_that_fails_where_another_failed_before_it_is_a_repeat() -> None:
    twice = failed(failed(None, "nc-1", launched=0, seen=15), "nc-2", launched=16, seen=31)
    assert twice.suspected_count(twice.seen_at) == 1
    assert twice.until == twice.seen_at + FIRST_REST
    assert twice.suspected_count(twice.until) == 0  # it is tried again


def test_two_nodes_that_were_launched_together_are_two_units() -> None:
    first = failed(failed(None, "nc-1", launched=0, seen=15), "nc-2", launched=0, seen=15)
    assert first.suspected_count(first.seen_at) == 0
    second = failed(
        failed(first, "nc-3", launched=16, seen=31), "nc-4", launched=16, seen=32
    )
    assert second.suspected_count(second.seen_at) == 2


def test_the_same_failure_seen_again_changes_nothing() -> None:
    once = failed(None, "nc-1", launched=0, seen=15)
    assert failed(once, "nc-1", launched=0, seen=16) == once
    twice = failed(once, "nc-2", launched=16, seen=31)
    assert failed(twice, "nc-2", launched=16, seen=33) == twice


def test_each_failed_trial_doubles_the_rest_up_to_half_a_day() -> None:
    now, failures, rests = START, None, []
    for number in range(8):
        failures = after_boot_failure(failures, f"nc-{number}", now, now + QUARTER)
        rests.append(failures.until - failures.seen_at)
        now = failures.until + timedelta(minutes=1)
    assert rests[:4] == [timedelta(0), FIRST_REST, 2 * FIRST_REST, 4 * FIRST_REST]
    assert rests[-1] == LONGEST_REST


def test_a_failure_long_afterwards_is_a_new_story() -> None:
    twice = failed(failed(None, "nc-1", launched=0, seen=15), "nc-2", launched=16, seen=31)
    later = forgotten_at(twice) + timedelta(seconds=1)
    assert after_boot_failure(twice, "nc-3", later - QUARTER, later).round_count == 1


def test_suspected_units_are_not_free() -> None:
    twice = failed(failed(None, "nc-1", launched=0, seen=15), "nc-2", launched=16, seen=31)
    block = reservation("cr-block", kind=ReservationKind.CAPACITY_BLOCK)
    other = reservation("cr-other")
    shown = without_suspected([block, other], {"cr-block": twice}, twice.seen_at)
    assert [each.free_units for each in shown] == [block.free_units - 1, other.free_units]
    (empty,) = without_suspected(
        [reservation("cr-block", available_count=0, free_units=0)],
        {"cr-block": twice},
        twice.seen_at,
    )
    assert empty.free_units == 0
