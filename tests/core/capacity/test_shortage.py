"""How long an offering rests."""

from datetime import timedelta

import pytest

from lab.fakes.system import START
from reservoir.core.capacity.shortage import (
    FIRST_REST,
    LONGEST_REST,
    PROBE_TIME,
    Shortage,
    after_failure,
    after_tolerated_failure,
    forgotten_at,
    is_probed_by_other,
    needs_probe,
    probed,
    rest_of,
)


@pytest.mark.parametrize(
    ("failures", "minutes"), [(1, 3), (2, 6), (3, 12), (4, 24), (5, 48), (6, 60), (500, 60)]
)
def test_rests_double_up_to_an_hour(failures: int, minutes: int) -> None:
    assert rest_of(failures) == timedelta(minutes=minutes)
    assert rest_of(failures) <= LONGEST_REST


def test_a_failed_probe_doubles() -> None:
    first = after_failure(None, START)
    assert first == Shortage(START + FIRST_REST, 1)
    probe_at = first.until + timedelta(seconds=1)
    assert after_failure(first, probe_at) == Shortage(probe_at + timedelta(minutes=6), 2)


def test_applying_the_same_answer_twice_changes_nothing() -> None:
    first = after_failure(None, START)
    assert after_failure(first, START) == first
    second = after_failure(first, first.until)
    assert after_failure(second, first.until) == second


def test_a_launch_that_was_under_way_extends_the_rest_without_doubling() -> None:
    first = after_failure(None, START)
    late = START + timedelta(minutes=2)
    assert after_failure(first, late) == Shortage(late + FIRST_REST, 1)


def test_long_after_its_rest_a_failure_is_a_new_shortage() -> None:
    seventh = Shortage(START, 7)
    assert after_failure(seventh, forgotten_at(seventh)).failure_count == 8
    assert (
        after_failure(seventh, forgotten_at(seventh) + timedelta(seconds=1)).failure_count
        == 1
    )


def test_what_is_tolerated_needs_no_probe_until_it_happens_once_too_often() -> None:
    tolerated: Shortage | None = None
    minutes = []
    for number in range(4):
        now = START + timedelta(minutes=10 * number)
        tolerated = after_tolerated_failure(tolerated, now)
        minutes.append(
            (tolerated.tolerated, (tolerated.until - now) // timedelta(minutes=1))
        )
        assert needs_probe(tolerated, tolerated.until) is not tolerated.tolerated
    assert minutes == [(True, 1), (True, 1), (False, 2), (False, 4)]


def test_a_probe_lasts_until_its_answer_or_for_a_minute() -> None:
    rested = Shortage(START)
    assert not needs_probe(rested, START - timedelta(seconds=1))
    assert needs_probe(rested, START)
    assert not needs_probe(rested, forgotten_at(rested) + timedelta(seconds=1))
    probing = probed(rested, "b-1", START)
    assert not is_probed_by_other(probing, "b-1", START)
    assert is_probed_by_other(probing, "b-2", START)
    assert not is_probed_by_other(probing, "b-2", START + PROBE_TIME)
    assert after_failure(probing, START) == Shortage(START + rest_of(2), 2)
