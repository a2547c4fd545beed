import struct
import threading
from datetime import UTC, timedelta
from pathlib import Path

import pytest

from embedded.clock import PUBLISHED_STATE, EmulatedClock


def test_a_new_clock_shows_aware_utc_time_that_does_not_run_backwards() -> None:
    clock = EmulatedClock()
    first = clock.now()
    assert first.tzinfo is UTC
    assert clock.now() >= first


def test_a_paused_clock_moves_by_exactly_what_it_is_advanced() -> None:
    clock = EmulatedClock()
    clock.pause()
    before = clock.now()
    clock.advance(timedelta(hours=3))
    assert clock.now() - before == timedelta(hours=3)


def test_the_rate_survives_a_pause() -> None:
    clock = EmulatedClock()
    clock.set_rate(1_000_000)
    clock.pause()
    assert clock.paused
    stopped = clock.now()
    clock.resume()
    assert clock.rate == 1_000_000
    while clock.now() == stopped:  # a million times real time: one microsecond moves it
        pass
    assert clock.now() > stopped


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan")])
def test_a_rate_that_is_not_positive_and_finite_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="positive finite"):
        EmulatedClock().set_rate(rate)


def test_time_does_not_run_backwards() -> None:
    with pytest.raises(ValueError, match="forward"):
        EmulatedClock().advance(timedelta(seconds=-1))


def test_listeners_hear_every_change() -> None:
    clock = EmulatedClock()
    heard: list[bool] = []
    clock.on_change(lambda: heard.append(clock.paused))
    clock.pause()
    clock.advance(timedelta(seconds=1))
    clock.resume()
    assert heard == [True, True, False]


def test_concurrent_advances_all_count() -> None:
    clock = EmulatedClock()
    clock.pause()
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


def test_the_published_state_gives_another_process_the_same_time(tmp_path: Path) -> None:
    clock = EmulatedClock()
    clock.publish_to(tmp_path / "clock")
    clock.pause()
    clock.advance(timedelta(days=2))
    sequence, _, anchor_us, rate = struct.unpack(PUBLISHED_STATE.format, (tmp_path / "clock").read_bytes())
    assert sequence % 2 == 0
    assert rate == 0.0
    assert anchor_us / 1e6 == clock.epoch_s()
