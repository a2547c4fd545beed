"""The bench of start times measures what it says."""

from lab.bench.advice.start_times import cases, judged, limits_s, pinball
from lab.worlds.demand_traces import Stream, Trace, lives_of, steady
from lab.worlds.waiting_traces import JUDGING, TUNING

SMALL = Trace(
    "small", True, (Stream("train", "p5.48xlarge", 1.6, 12, steady),), {"p5.48xlarge": 2}
)


def test_a_quantile_loses_more_for_what_it_should_not_miss() -> None:
    assert pinball(3, 5, 50) == 1
    assert pinball(5, 3, 50) == 1
    assert pinball(3, 5, 90) == 1.8
    assert abs(pinball(5, 3, 90) - 0.2) < 1e-9


def test_no_run_is_longer_than_its_limit() -> None:
    lives = lives_of(SMALL, 1)
    for life, limit_s in zip(lives, limits_s(lives, 1), strict=True):
        assert limit_s >= (life.ran_s or 0)


def test_what_was_told_is_compared_with_what_came() -> None:
    figures = judged(SMALL, 1)
    asked, told = int(str(figures["asked"])), int(str(figures["told"]))
    assert 0 < told <= asked
    assert 0 <= int(str(figures["inside_80_percent"])) <= 100
    assert float(str(figures["pinball_h"])) < float(str(figures["pinball_of_limits_h"]))


def test_no_trace_that_judges_is_one_that_was_tuned_on() -> None:
    assert not {stream for trace in JUDGING for stream in trace.streams} & {
        stream for trace in TUNING for stream in trace.streams
    }
    assert len(cases()) == len(JUDGING)
