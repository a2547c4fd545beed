"""The bench of advice measures what it says."""

from datetime import timedelta

from lab.bench.advice.advise import HALF, cases, halves, walked
from lab.worlds.demand_traces import (
    JUDGING,
    SINCE,
    TUNING,
    Stream,
    Trace,
    lives_of,
    snapshot_of,
    steady,
)

SMALL = Trace(
    "small", True, (Stream("train", "p5.48xlarge", 1, 12, steady),), {"p5.48xlarge": 5}
)


def test_advice_is_judged_on_what_it_has_not_seen() -> None:
    past, future = halves(lives_of(SMALL, 1))
    assert all(life.arrived_at < HALF for life in past)
    assert all(life.arrived_at >= HALF for life in future)
    assert all(
        life.ran_s is None or life.arrived_at + timedelta(seconds=life.ran_s) <= HALF
        for life in past
    )


def test_nobody_beats_hindsight_and_what_is_saved_is_told() -> None:
    figures = walked(SMALL, 1)
    assert 0 < int(str(figures["saved_usd"])) <= int(str(figures["hindsight_usd"]))
    assert figures["changes"] == 1
    assert figures["losing_changes"] == 0


def test_no_trace_that_judges_is_one_that_was_tuned_on() -> None:
    assert {trace.name for trace in JUDGING}.isdisjoint(trace.name for trace in TUNING)
    assert not {stream for trace in JUDGING for stream in trace.streams} & {
        stream for trace in TUNING for stream in trace.streams
    }
    assert len(cases()) == len(JUDGING) + 1


def test_equal_seeds_make_equal_traces() -> None:
    assert lives_of(JUDGING[0], 1) == lives_of(JUDGING[0], 1) != lives_of(JUDGING[0], 2)
    assert all(life.arrived_at >= SINCE for life in lives_of(JUDGING[0], 1))
    assert len(snapshot_of(JUDGING[3]).reservations) == 2
