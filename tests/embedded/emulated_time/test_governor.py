"""The rule of the governor, look by look: real time, what is due and what is under way are the test's."""

import threading
from datetime import timedelta

import pytest

from lab.embedded.emulated_time.clock import NEVER_US, EmulatedClock
from lab.embedded.emulated_time.governor import (
    FINISHED_PER_LIMIT,
    LATENESS_LIMIT,
    DueWork,
    Governor,
)
from tests.embedded.emulated_time.conftest import RealTime

LIMIT_US = LATENESS_LIMIT // timedelta(microseconds=1)
SECOND_US = 1_000_000


class Timetable:
    """A source whose entries are begun at their times; each may be recurring, and may keep the governor busy."""

    def __init__(self, governor: Governor) -> None:
        self.governor = governor
        self.due: list[tuple[int, bool]] = []  # (instant, recurs)
        self.begun: list[tuple[int, int]] = []  # (due, begun)
        self.each_is_work = False
        self.ready = False
        governor.watch(self)

    def add(self, *seconds: float, recurs: bool = False) -> None:
        start_us = self.governor.clock.epoch_us()
        self.due = sorted(
            [*self.due, *((start_us + round(each * SECOND_US), recurs) for each in seconds)]
        )

    def begin_due(self, *, recurring: bool) -> None:
        now_us = self.governor.clock.epoch_us()
        for entry in [
            entry
            for entry in self.due
            if entry[0] <= now_us and (recurring or not entry[1])
        ]:
            self.due.remove(entry)
            self.begun.append((entry[0], now_us))
            if self.each_is_work:
                self.governor.begin_work()

    def due_work(self, now_us: int, *, recurring: bool) -> DueWork:
        del now_us
        return DueWork(
            self.ready,
            min(
                (due for due, recurs in self.due if recurring or not recurs),
                default=NEVER_US,
            ),
        )


@pytest.fixture
def governor(clock: EmulatedClock) -> Governor:
    return Governor(clock)


@pytest.fixture
def timetable(governor: Governor) -> Timetable:
    return Timetable(governor)


def look_for(governor: Governor, real_time: RealTime, real_s: float) -> None:
    """Let real time pass, with looks as far apart as the governor asks for."""
    end_ns = real_time.ns + round(real_s * 1e9)
    while real_time.ns < end_ns:
        wait_s = governor.step()
        real_time.passes(min(max(wait_s, 1e-6), (end_ns - real_time.ns) / 1e9))
    governor.step()


def advance(governor: Governor, step: timedelta, *, coalesce: bool = False) -> None:
    """Advance in a thread of its own, as the control API does, with looks until it has arrived."""
    thread = threading.Thread(target=lambda: governor.advance(step, coalesce=coalesce))
    thread.start()
    while thread.is_alive():
        governor.step()
        thread.join(0.001)


@pytest.mark.parametrize("rate", [0.2, 1, 25, 1_000])
def test_nothing_begins_late_at_any_rate(
    governor: Governor, timetable: Timetable, real_time: RealTime, rate: float
) -> None:
    timetable.add(1, 2, 2, 9.5)
    governor.clock.set_rate(rate)
    look_for(governor, real_time, 10 / rate)
    assert [begun - due for due, begun in timetable.begun] == [0, 0, 0, 0]


@pytest.mark.parametrize("rate", [1, 25, 1_000])
def test_while_something_is_under_way_time_is_real_and_ends_at_the_limit(
    governor: Governor, timetable: Timetable, real_time: RealTime, rate: float
) -> None:
    governor.clock.set_rate(rate)
    governor.step()
    start_us = governor.clock.epoch_us()
    governor.begin_work()
    look_for(governor, real_time, 0.4)
    assert governor.clock.epoch_us() - start_us == pytest.approx(0.4 * SECOND_US, abs=10)
    timetable.add(0.2)  # due while it is busy
    look_for(governor, real_time, 3_600)
    assert governor.clock.epoch_us() - start_us == pytest.approx(LIMIT_US, abs=10)
    assert [begun - due for due, begun in timetable.begun] == [0]
    assert governor.busy
    governor.end_work()
    look_for(governor, real_time, 1)
    assert not governor.busy
    assert governor.clock.epoch_us() - start_us == pytest.approx(
        LIMIT_US + rate * SECOND_US, rel=0.01
    )
    assert governor.worst_lateness_s == pytest.approx(1, abs=1e-4)


def test_a_clock_slower_than_real_time_stays_so_while_it_is_busy(
    governor: Governor, real_time: RealTime
) -> None:
    governor.clock.set_rate(0.2)
    start_us = governor.clock.epoch_us()
    with governor.work():
        look_for(governor, real_time, 2)
        assert governor.clock.epoch_us() - start_us == pytest.approx(
            0.4 * SECOND_US, abs=10
        )


def test_what_waits_to_be_taken_counts_as_work(
    governor: Governor, timetable: Timetable, real_time: RealTime
) -> None:
    governor.clock.set_rate(1_000)
    timetable.ready = True
    look_for(governor, real_time, 0)
    start_us = governor.clock.epoch_us()
    look_for(governor, real_time, 60)
    assert governor.clock.epoch_us() - start_us <= LIMIT_US
    timetable.ready = False
    look_for(governor, real_time, 60)
    assert governor.clock.epoch_us() - start_us > 1_000 * SECOND_US


def test_a_chain_without_an_end_does_not_stop_time(
    governor: Governor, real_time: RealTime
) -> None:
    governor.begin_work()
    start_us = governor.clock.epoch_us()
    for _ in range(10 * FINISHED_PER_LIMIT):  # each begins the next before it ends
        governor.begin_work()
        governor.end_work()
    look_for(governor, real_time, 3_600)
    assert governor.clock.epoch_us() - start_us == pytest.approx(11 * LIMIT_US, abs=10)


def test_an_advance_stops_at_every_instant_and_finishes_its_work(
    governor: Governor, timetable: Timetable, real_time: RealTime
) -> None:
    governor.clock.pause()
    start_us = governor.clock.epoch_us()
    timetable.add(60, 120, 120.5, 4_000)
    timetable.add(*range(60, 7_200, 60), recurs=True)
    timetable.each_is_work = True
    advancing = threading.Thread(target=lambda: governor.advance(timedelta(hours=1)))
    advancing.start()
    ends_late: list[int] = []
    while advancing.is_alive():
        before = len(timetable.begun)
        governor.step()
        for _ in range(len(timetable.begun) - before):  # and only then its work ends
            real_time.passes(30)
            governor.step()
            ends_late.append(governor.clock.epoch_us() - timetable.begun[-1][1])
            governor.end_work()
        advancing.join(0.0005)
    assert governor.clock.epoch_us() - start_us == 3_600 * SECOND_US
    # 60 minutes' and those three before the end
    assert [begun - due for due, begun in timetable.begun] == [0] * 63
    assert max(ends_late) == 0  # the clock is paused: it moves by what it is advanced only


def test_what_recurs_fires_once_at_the_end_of_a_coalescing_advance(
    governor: Governor, timetable: Timetable
) -> None:
    governor.clock.pause()
    start_us = governor.clock.epoch_us()
    timetable.add(90, 150)
    timetable.add(60, recurs=True)
    advance(governor, timedelta(hours=1), coalesce=True)
    assert [(begun - start_us) // SECOND_US for _, begun in timetable.begun] == [
        90,
        150,
        3_600,
    ]


def test_an_advance_of_nothing_waits_for_what_is_under_way(governor: Governor) -> None:
    governor.begin_work()
    settling = threading.Thread(target=lambda: governor.advance(timedelta(0)))
    settling.start()
    for _ in range(5):
        governor.step()
    settling.join(0.02)
    assert settling.is_alive()
    governor.end_work()
    while settling.is_alive():
        governor.step()
        settling.join(0.001)


def test_without_the_governor_time_runs_ahead_of_the_work(
    governor: Governor, timetable: Timetable, real_time: RealTime
) -> None:
    governor.govern(governed=False)
    governor.clock.set_rate(1_000)
    timetable.add(10)
    with governor.work():
        look_for(governor, real_time, 1)
    assert governor.clock.epoch_us() - timetable.begun[0][0] == pytest.approx(
        990 * SECOND_US, abs=10
    )
    assert governor.worst_lateness_s == pytest.approx(1_000, rel=0.01)
    governor.step()
    governor.forget_lateness()
    assert governor.worst_lateness_s == 0


def test_switching_the_governor_off_ends_an_advance_that_waits(governor: Governor) -> None:
    start_us = governor.clock.epoch_us()
    governor.clock.pause()
    governor.begin_work()
    advancing = threading.Thread(target=lambda: governor.advance(timedelta(minutes=5)))
    advancing.start()
    while advancing.is_alive():
        governor.govern(governed=False)
        advancing.join(0.001)
    assert governor.clock.epoch_us() - start_us == 300 * SECOND_US


def test_an_advance_goes_forward(governor: Governor) -> None:
    with pytest.raises(ValueError, match="forward"):
        governor.advance(timedelta(seconds=-1))
