import struct
import threading
from datetime import UTC, timedelta
from pathlib import Path

import pytest

from lab.embedded.emulated_time.clock import (
    NEVER_US,
    NO_TOP_SPEED,
    PUBLISHED_STATE,
    EmulatedClock,
)
from tests.embedded.emulated_time.conftest import RealTime


def test_a_new_clock_shows_aware_utc_time_and_follows_real_time(
    clock: EmulatedClock, real_time: RealTime
) -> None:
    first = clock.now()
    assert first.tzinfo is UTC
    real_time.passes(90)
    assert clock.now() - first == timedelta(seconds=90)


def test_a_paused_clock_moves_by_exactly_what_it_is_advanced(
    clock: EmulatedClock, real_time: RealTime
) -> None:
    clock.pause()
    before = clock.now()
    real_time.passes(5)
    clock.advance(timedelta(hours=3))
    assert clock.now() - before == timedelta(hours=3)


def test_the_rate_survives_a_pause(clock: EmulatedClock, real_time: RealTime) -> None:
    clock.set_rate(25)
    clock.pause()
    assert clock.paused
    stopped = clock.now()
    real_time.passes(2)
    clock.resume()
    assert clock.rate == 25
    assert clock.now() == stopped
    real_time.passes(2)
    assert clock.now() - stopped == timedelta(seconds=50)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan")])
def test_a_rate_that_is_not_positive_and_finite_is_refused(
    clock: EmulatedClock, rate: float
) -> None:
    with pytest.raises(ValueError, match="positive finite"):
        clock.set_rate(rate)


def test_time_does_not_run_backwards(clock: EmulatedClock) -> None:
    with pytest.raises(ValueError, match="forward"):
        clock.advance(timedelta(seconds=-1))


def test_a_bound_clock_is_no_faster_and_stops_at_its_limit(
    clock: EmulatedClock, real_time: RealTime
) -> None:
    clock.set_rate(1_000)
    start_us = clock.epoch_us()
    clock.bound(top_speed=1, limit_us=start_us + 3_000_000)
    real_time.passes(2)
    assert clock.epoch_us() - start_us == 2_000_000
    assert clock.real_s_until(start_us + 3_000_000) == 1
    assert clock.real_s_until(start_us + 3_000_001) == float("inf")
    real_time.passes(5)
    assert clock.epoch_us() - start_us == 3_000_000
    assert clock.held_s == 4  # of the seven real seconds it ran for three
    clock.bound(top_speed=NO_TOP_SPEED, limit_us=NEVER_US)
    real_time.passes(1)
    assert clock.epoch_us() - start_us == 1_003_000_000
    assert clock.held_s == 4


def test_a_limit_that_has_passed_stops_the_clock_where_it_is(
    clock: EmulatedClock, real_time: RealTime
) -> None:
    real_time.passes(10)
    now_us = clock.epoch_us()
    clock.bound(top_speed=1, limit_us=now_us - 5_000_000)
    real_time.passes(10)
    assert clock.epoch_us() == now_us
    clock.advance(timedelta(seconds=7))
    assert clock.epoch_us() == now_us + 7_000_000


def test_concurrent_advances_all_count(clock: EmulatedClock) -> None:
    before = clock.now()

    def advance_often() -> None:
        for _ in range(50):
            clock.advance(timedelta(seconds=1))

    threads = [threading.Thread(target=advance_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clock.now() - before == timedelta(seconds=200)


def test_the_published_state_gives_another_process_the_same_time(
    clock: EmulatedClock, tmp_path: Path
) -> None:
    clock.publish_to(tmp_path / "clock")
    clock.pause()
    clock.advance(timedelta(days=2))
    clock.bound(top_speed=1, limit_us=clock.epoch_us() + 5)
    sequence, _, anchor_us, speed, limit_us = struct.unpack(
        PUBLISHED_STATE.format, (tmp_path / "clock").read_bytes()
    )
    assert sequence % 2 == 0
    assert speed == 0.0
    assert anchor_us == clock.epoch_us()
    assert limit_us == clock.epoch_us() + 5
