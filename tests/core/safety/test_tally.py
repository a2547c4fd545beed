"""The tally: how many may end within an hour, and what happens beyond that."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.fakes.system import START
from reservoir.core.model.node_claim import DrainReason
from reservoir.core.safety.endings import (
    DEFAULT_BOUNDS,
    WINDOW,
    Bound,
    Bounds,
    EndingKind,
    kind_of,
)
from reservoir.core.safety.tally import (
    HOLDING,
    Lift,
    Passed,
    Tally,
    Verdict,
    admit,
    lifted,
)
from reservoir.core.serialisation.json_codec import dumps, loads

FLEET = [f"n{number}" for number in range(40)]
TENTH = Bound(10, 1, 50)  # four of forty


def ask(
    tally: Tally,
    ids: Iterable[str],
    now: datetime = START,
    bound: Bound = TENTH,
    wanted: int = 0,
) -> Verdict:
    return admit(tally, bound, list(ids), wanted, FLEET, now)


def empty() -> Tally:
    return Tally(EndingKind.DISRUPTION)


def test_within_the_bound_everything_passes() -> None:
    verdict = ask(empty(), FLEET[:4])
    assert verdict.admitted == set(FLEET[:4])
    assert verdict.tally.held is None


def test_beyond_the_bound_nothing_passes() -> None:
    verdict = ask(empty(), FLEET[:5])
    assert verdict.admitted == set()
    assert verdict.began
    assert (
        "5 would end (disruption), 4 of 40 may within 60 minutes and 0 have" in verdict.why
    )


def test_small_batches_share_the_bound_of_the_hour() -> None:
    tally = ask(empty(), FLEET[:3]).tally
    tally = ask(tally, FLEET[3:4], START + timedelta(minutes=30)).tally
    assert ask(tally, FLEET[4:5], START + timedelta(minutes=59)).admitted == set()
    assert ask(tally, FLEET[4:5], START + WINDOW).admitted == {"n4"}


def test_the_first_of_many_batches_is_measured_by_all_of_them() -> None:
    assert ask(empty(), FLEET[:2], wanted=30).admitted == set()


def test_asking_again_for_the_same_costs_nothing() -> None:
    tally = ask(empty(), FLEET[:4]).tally
    again = ask(tally, [*FLEET[:4]], START + timedelta(minutes=5))
    assert again.admitted == set(FLEET[:4])
    assert again.tally == tally
    # what was let pass before still may
    assert ask(tally, FLEET[:5]).admitted == set(FLEET[:4])


def test_the_bound_does_not_shrink_as_it_is_used() -> None:
    """What ended within the hour is counted as part of the fleet."""
    tally = ask(empty(), FLEET[:3]).tally
    assert admit(tally, TENTH, ["n3"], 0, FLEET[3:], START).admitted == {"n3"}


@pytest.mark.parametrize(("fleet", "limit"), [(0, 3), (20, 3), (100, 10), (10_000, 50)])
def test_a_bound_is_a_share_but_some_always_and_never_more_than_so_many(
    fleet: int, limit: int
) -> None:
    assert Bound(10, 3, 50).limit(fleet) == limit


def test_a_bound_that_latches_stays_shut_however_long_it_takes() -> None:
    latching = Bound(10, 1, 50, latches=True)
    tally = ask(empty(), FLEET[:5], bound=latching).tally
    later = START + timedelta(days=7)
    assert ask(tally, FLEET[:1], later, latching).admitted == set()
    assert tally.is_holding(later)


def lift(count: int, minutes: int = 30) -> Lift:
    return Lift(count, START + timedelta(minutes=minutes), "ops", "looked", START)


def test_a_lift_is_used_up_once() -> None:
    tally = lifted(ask(empty(), FLEET[:5]).tally, lift(5))
    verdict = ask(tally, FLEET[:5])
    assert verdict.admitted == set(FLEET[:5])
    assert verdict.tally.lift is not None
    assert verdict.tally.lift.used_count == 5
    assert ask(verdict.tally, FLEET[5:10]).admitted == set()
    # the bound itself was not touched by it
    assert ask(verdict.tally, FLEET[5:9]).admitted == set(FLEET[5:9])


def test_a_lift_is_bounded_in_count_and_time() -> None:
    tally = lifted(ask(empty(), FLEET[:6]).tally, lift(5))
    assert ask(tally, FLEET[:6]).admitted == set()
    assert ask(tally, FLEET[:5], START + timedelta(minutes=30)).admitted == set()


def test_a_lift_is_void_after_a_day_whatever_its_row_says() -> None:
    for_years = Lift(10**9, START + timedelta(days=9999), "ops", "looked", START)
    tally = lifted(ask(empty(), FLEET[:5]).tally, for_years)
    assert ask(tally, FLEET[:5], START + timedelta(hours=23)).admitted == set(FLEET[:5])
    assert ask(tally, FLEET[:5], START + timedelta(hours=24)).admitted == set()


def test_lifts_are_remembered() -> None:
    tally = lifted(lifted(empty(), lift(5)), lift(7))
    assert tally.lift == lift(7)
    assert tally.past_lifts == (lift(5),)


def test_a_lift_opens_what_was_shut() -> None:
    latching = Bound(10, 1, 50, latches=True)
    tally = lifted(ask(empty(), FLEET[:5], bound=latching).tally, lift(1))
    assert tally.is_shut is False
    assert ask(tally, FLEET[:1], bound=latching).admitted == {"n0"}


def test_a_kind_that_is_shut_says_that_a_person_must_lift_it_and_one_that_is_not_does_not() -> (
    None
):
    lifts = "; no more may end until a person lifts the bound"
    latching = Bound(10, 1, 50, latches=True)
    assert ask(empty(), FLEET[:5], bound=latching).why.endswith(f"and 0 have{lifts}")
    assert ask(empty(), FLEET[:5]).why.endswith("and 0 have")


def test_what_is_held_stays_held_until_it_has_not_been_asked_for_in_twelve_minutes() -> (
    None
):
    first = ask(empty(), FLEET[:5])
    last_minute = ask(first.tally, FLEET[:5], START + HOLDING)
    assert not last_minute.began, "a person was told already"
    assert last_minute.tally.held is not None
    assert last_minute.tally.held.since == START
    later = START + HOLDING * 2 + timedelta(seconds=1)
    anew = ask(last_minute.tally, FLEET[:5], later)
    assert anew.began
    assert anew.tally.held is not None
    assert anew.tally.held.since == later


def test_what_is_shut_is_held_since_it_was_shut_however_long_nobody_asked() -> None:
    latching = Bound(10, 1, 50, latches=True)
    shut = ask(empty(), FLEET[:5], bound=latching).tally
    held = ask(shut, FLEET[:1], START + timedelta(days=1), latching).tally.held
    assert held is not None
    assert held.since == START


def test_what_passed_under_a_lift_ends_the_holding_and_is_known_when_it_is_asked_for_again() -> (
    None
):
    under_lift = ask(lifted(ask(empty(), FLEET[:5]).tally, lift(5)), FLEET[:5]).tally
    assert not under_lift.is_holding(START)
    again = ask(under_lift, FLEET[:5])
    assert again.admitted == set(FLEET[:5])
    assert again.tally == under_lift, "neither the bound nor the lift is used again"


def test_ids_of_one_instant_are_kept_together_unless_only_some_were_lifted() -> None:
    first, second = START - timedelta(minutes=2), START - timedelta(minutes=1)
    tally = ask(ask(empty(), ["n0"], first).tally, ["n1"], second).tally
    tally = ask(ask(tally, ["n2"]).tally, ["n3"]).tally
    together = (
        Passed(first, ("n0",)),
        Passed(second, ("n1",)),
        Passed(START, ("n2", "n3")),
    )
    assert tally.passed == together
    under_lift = ask(lifted(tally, lift(5)), FLEET[4:9]).tally
    assert under_lift.passed == (*together, Passed(START, tuple(FLEET[4:9]), lifted=True))


def test_what_is_older_than_the_window_is_forgotten() -> None:
    tally = ask(empty(), ["n0"]).tally
    assert tally.recent_ids(START + WINDOW) == frozenset()
    assert ask(tally, [], START + WINDOW).tally.passed == ()


asks = st.lists(
    st.tuples(st.integers(0, 90), st.sets(st.sampled_from(FLEET), min_size=1, max_size=8)),
    min_size=1,
    max_size=12,
)


@given(asks, st.booleans())
def test_no_hour_sees_more_pass_than_the_bound(
    asked: list[tuple[int, set[str]]], latches: bool
) -> None:
    """Whatever is asked for, in whatever batches."""
    bound = Bound(10, 2, 6, latches=latches)
    tally, now, passed = empty(), START, list[tuple[datetime, str]]()
    for minutes, ids in asked:
        now += timedelta(minutes=minutes)
        recent = {key for at, key in passed if now - at < WINDOW}
        verdict = ask(tally, ids, now, bound)
        passed += [(now, key) for key in verdict.admitted - recent]
        tally = verdict.tally
        within = [key for at, key in passed if now - at < WINDOW]
        assert len(within) <= bound.limit(len(FLEET))
        assert loads(Tally, dumps(tally)) == tally


def test_every_reason_is_bounded_or_forced_by_ec2() -> None:
    assert {reason for reason in DrainReason if kind_of(reason) is None} == {
        DrainReason.CAPACITY_BLOCK_ENDING,
        DrainReason.INTERRUPTION,
        DrainReason.SCHEDULED_CHANGE,
    }


def test_every_kind_has_a_bound_of_the_deployment_or_a_default() -> None:
    assert set(DEFAULT_BOUNDS) == set(EndingKind)
    assert Bounds({EndingKind.EXPIRY: TENTH}).of(EndingKind.EXPIRY) == TENTH
    assert Bounds().of(EndingKind.EXPIRY) == DEFAULT_BOUNDS[EndingKind.EXPIRY]
