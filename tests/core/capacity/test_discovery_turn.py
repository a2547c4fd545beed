"""Events of a moment share readings; in whatever order things happen, each event is in one that began after it."""

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from lab.fakes.system import START
from reservoir.core.capacity.discovery_turn import (
    LEASE,
    DiscoveryTurn,
    after_event,
    after_reading,
    is_taken,
)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_the_first_event_begins_a_reading() -> None:
    assert after_event(None, START, after(0.3)) == DiscoveryTurn(
        after(0.3), busy_until=after(0.3) + LEASE
    )


def test_an_event_during_a_reading_asks_for_one_more_and_the_next_needs_nothing() -> None:
    reading = DiscoveryTurn(after(0.3), busy_until=after(60.3))
    asked = after_event(reading, START, after(0.4))
    assert asked == DiscoveryTurn(after(0.3), after(60.3), asked_for=after(1))
    assert after_event(asked, START, after(0.5)) is None


def test_a_repeated_reading_begins_when_its_events_are_certain_to_be_in_it() -> None:
    asked = DiscoveryTurn(after(0.3), after(60.3), asked_for=after(1))
    assert after_reading(asked, after(0.6), failed=False) == DiscoveryTurn(
        after(1), busy_until=after(61)
    )
    assert after_reading(asked, after(2), failed=False) == DiscoveryTurn(
        after(2), busy_until=after(62)
    )


def test_an_event_that_comes_late_is_in_a_reading_that_began_after_it() -> None:
    assert after_event(DiscoveryTurn(after(1)), START, after(9)) is None
    # it may have happened after that
    assert after_event(DiscoveryTurn(after(0.9)), START, after(9)) is not None


def test_a_reading_that_died_or_failed_keeps_nobody_from_reading() -> None:
    dead = DiscoveryTurn(after(0.3), busy_until=after(60.3), asked_for=after(1))
    assert after_event(dead, after(61), after(61)) == DiscoveryTurn(
        after(61), busy_until=after(121)
    )
    failed = after_reading(dead, after(5), failed=True)
    assert after_event(failed, START, after(6)) == DiscoveryTurn(
        after(6), busy_until=after(66)
    )


def test_an_event_from_the_future_makes_nobody_wait_for_it() -> None:
    reading = DiscoveryTurn(after(0.3), busy_until=after(60.3))
    asked = after_event(reading, after(86_400), after(0.4))
    assert asked is not None
    assert asked.asked_for == after(1)


@given(
    delays_s=st.lists(st.floats(0, 5), min_size=1, max_size=64),
    reading_s=st.lists(st.floats(0.01, 3), min_size=1, max_size=5),
)
def test_sixty_four_events_of_one_moment_are_two_readings_at_most(
    delays_s: list[float], reading_s: list[float]
) -> None:
    """Events of one second arrive after some delay each; readings take their time."""
    turn: DiscoveryTurn | None = None
    begun: list[datetime] = []

    def duration(number: int) -> timedelta:
        return timedelta(seconds=reading_s[number % len(reading_s)])

    def read_until(now: datetime) -> None:
        nonlocal turn
        while (
            turn is not None and turn.busy_until is not None and turn.began_at is not None
        ):
            ends_at = turn.began_at + duration(len(begun) - 1)
            if ends_at > now:
                return
            turn = after_reading(turn, ends_at, failed=False)
            if turn.busy_until is not None and turn.began_at is not None:
                begun.append(turn.began_at)

    for delay_s in sorted(delays_s):
        now = after(delay_s)
        read_until(now)
        before, asked = turn, after_event(turn, START, now)
        if asked is not None:
            if is_taken(asked, before) and asked.began_at is not None:
                begun.append(asked.began_at)
            turn = asked
    read_until(after(3_600))

    assert len(begun) <= 2
    assert max(begun) >= after(1) or len(delays_s) == 1, (
        "an event might have happened after it was looked for"
    )
