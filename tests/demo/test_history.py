"""Unit-time is the sum of what was in use, for as long as it was."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from lab.demo.history import Stay
from tests.demo.support import at, curve


def test_a_level_lasts_until_the_next_one() -> None:
    it = curve((0, 0, 4), (10, 4, 4), (30, 1, 4))
    assert it.used(at(0), at(40)) == timedelta(minutes=20 * 4 + 10 * 1)
    assert it.available(at(0), at(40)) == timedelta(minutes=40 * 4)
    assert it.peak_count == 4


def test_a_span_may_begin_and_end_within_a_level() -> None:
    it = curve((0, 2, 4), (10, 4, 4))
    assert it.used(at(8), at(11)) == timedelta(minutes=2 * 2 + 1 * 4)


def test_nothing_is_known_before_the_first_look() -> None:
    it = curve((10, 3, 4))
    assert it.used(at(0), at(10)) == timedelta()
    assert it.available(at(0), at(20)) == timedelta(minutes=40)
    assert curve().used(at(0), at(10)) == timedelta()
    assert curve().peak_count == 0


def test_what_did_not_change_is_not_kept() -> None:
    assert len(curve((0, 1, 4), (1, 1, 4), (2, 1, 4), (3, 2, 4)).levels) == 2


def test_a_stay_lasts_from_running_to_shutting_down() -> None:
    assert Stay("m5.large", "us-east-1a", "spot", at(5), at(20)).lasted == timedelta(
        minutes=15
    )


@given(
    changes=st.lists(
        st.tuples(st.integers(0, 100), st.integers(0, 9)),
        max_size=8,
        unique_by=lambda it: it[0],
    ),
    cut=st.integers(0, 120),
)
def test_a_span_is_the_sum_of_its_parts(changes: list[tuple[int, int]], cut: int) -> None:
    it = curve(*((minute, used, 9) for minute, used in sorted(changes)))
    whole = it.used(at(0), at(120))
    assert it.used(at(0), at(cut)) + it.used(at(cut), at(120)) == whole
    assert timedelta() <= whole <= it.available(at(0), at(120))
