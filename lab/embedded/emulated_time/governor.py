"""The governor: emulated time never runs ahead of the work that it causes.

*Work* is what keeps a processor busy now: requests that are being answered, invocations, events on their way to a
function, and messages that a function may take from a queue at once. *Due* is what begins at an instant that is known
already: an entry of EC2's agenda, a schedule, a delayed or hidden message, a retry. The rule:

* While there is work, the clock runs at most as fast as real time, and at most ``LATENESS_LIMIT`` beyond the instant at
  which the work began: a *busy period*, which ends when nothing is under way. Work that waits for emulated time is due,
  not under way, so the clock never waits for something that waits for the clock.
* Otherwise it runs at its rate up to the next instant at which something is due, and not past it before that has begun.
* A busy period that has finished many things may last longer in proportion, so that a chain without an end (a function
  that sends itself a message) cannot stop time.

So what an instant causes is done within ``LATENESS_LIMIT`` of emulated time, however slow the machine and however high
the rate, and a schedule never meets its own next run.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

from lab.embedded.emulated_time.clock import NEVER_US, NO_TOP_SPEED, EmulatedClock

LATENESS_LIMIT: Final = timedelta(seconds=1)
# things that a busy period finishes for each further LATENESS_LIMIT that it may last
FINISHED_PER_LIMIT: Final = 1_000
_LIMIT_US: Final = LATENESS_LIMIT // timedelta(microseconds=1)
_REAL_SPEED: Final = 1.0
# Real seconds. How often the governor looks by itself, and how long it leaves a clock of real speed alone after work.
BUSY_LOOK_S: Final = 0.05
IDLE_LOOK_S: Final = 0.5
SETTLE_S: Final = 0.02
FREE_LOOK_S: Final = 0.2  # with the governor switched off
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DueWork:
    """What a source has before it: whether something may begin at once, and the next later instant that matters."""

    ready: bool = False
    next_us: int = NEVER_US


class Source(Protocol):
    """Where things become due."""

    def begin_due(self, *, recurring: bool) -> None:
        """Begin whatever is due; without ``recurring`` leave out what repeats by a schedule."""
        ...

    def due_work(self, now_us: int, *, recurring: bool) -> DueWork:
        """Return what is ready at ``now_us`` and what becomes due later."""
        ...


class Governor:
    """Runs a clock by the rule above; sources say what is due, :meth:`work` counts what is under way.

    ``step`` is one look, ``run`` looks for ever. Without ``governed`` nothing holds the clock back: work is late
    as it would be on a machine that is too slow.
    """

    def __init__(self, clock: EmulatedClock) -> None:
        self.clock = clock
        self._sources: list[Source] = []
        self._changed = threading.Condition()
        self._looking = threading.Lock()
        self._governed = True
        # a look at once, or when things have settled
        self._wanted = self._wanted_soon = False
        self._under_way = 0
        self._begun = 0  # ever: tells a look whether something began beside it
        self._finished = 0  # in this busy period
        # busy until a look has shown that it is not
        self._busy_since_us: int | None = clock.epoch_us()
        self._target_us: int | None = None  # of an advance that is under way
        self._recurring = True
        self._next_us = NEVER_US  # what the last look found to be due next
        self._worst_lateness_us = 0

    @property
    def governed(self) -> bool:
        """Whether the clock waits for work."""
        with self._changed:
            return self._governed

    @property
    def busy(self) -> bool:
        """Whether a busy period is under way."""
        with self._changed:
            return self._busy_since_us is not None

    @property
    def under_way(self) -> bool:
        """Whether anything is under way at this moment."""
        with self._changed:
            return self._under_way > 0

    def settle(self) -> None:
        """Wait until nothing is under way."""
        self.advance(timedelta(0))

    @property
    def worst_lateness_s(self) -> float:
        """Return how late anything was at most since ``forget_lateness``, in emulated seconds.

        It is the longest busy period, which nothing that it finished can have exceeded.
        """
        with self._changed:
            return (
                max(self._worst_lateness_us, self._busy_for_us(self.clock.epoch_us())) / 1e6
            )

    def watch(self, *sources: Source) -> None:
        """Ask these, too, what is due."""
        with self._looking:
            self._sources.extend(sources)

    @contextmanager
    def between_looks(self) -> Iterator[None]:
        """Keep the governor from asking its sources meanwhile."""
        with self._looking:
            yield

    @contextmanager
    def work(self, *, finishes: bool = True) -> Iterator[None]:
        """Count something as under way; with ``finishes`` it lets the busy period last longer (see the rule)."""
        self.begin_work()
        try:
            yield
        finally:
            self.end_work(finishes=finishes)

    def begin_work(self) -> None:
        """Count one more thing under way, until ``end_work``; the two may be called by different threads."""
        with self._changed:
            self._under_way += 1
            self._begun += 1
            if self._busy_since_us is None:
                self._begin_period(self.clock.epoch_us())
                # else the last look has set a limit that is near enough
                if self.clock.rate > _REAL_SPEED:
                    self._bound_while_busy()

    def end_work(self, *, finishes: bool = True) -> None:
        """Count one thing less under way."""
        with self._changed:
            self._under_way -= 1
            self._finished += finishes
            if not self._under_way:
                self._look_soon()

    def look(self) -> None:
        """Let the governor look at its sources soon: something may have become due, or is due earlier."""
        with self._changed:
            self._begun += 1
            self._look_soon()

    def govern(self, *, governed: bool) -> None:
        """Switch the governor on or off; an advance that is under way ends at once when it is switched off."""
        with self._changed:
            self._governed = governed
            if not governed:
                self.clock.bound(top_speed=NO_TOP_SPEED, limit_us=NEVER_US)
                if self._target_us is not None:
                    self._jump_to(self._target_us)
                    self._arrive()
            self._look_now()

    def advance(self, step: timedelta, *, coalesce: bool = False) -> None:
        """Move the clock forward by ``step``; return when all that is due by then, and what it caused, is done.

        Parameters
        ----------
        step
            Zero waits until nothing is under way.
        coalesce
            Schedules that recur fire once, at the end, instead of at each of their times.

        Raises
        ------
        ValueError
            When ``step`` is negative.
        """
        if step < timedelta(0):
            raise ValueError("the clock only moves forward")
        with self._changed:
            if not self._governed:
                self.clock.advance(step)
                self._look_now()
            else:
                target_us = self.clock.epoch_us() + step // timedelta(microseconds=1)
                self._target_us = max(target_us, self._target_us or 0)
                self._recurring = self._recurring and not coalesce
                self._look_now()
                self._changed.wait_for(lambda: self._target_us is None)
                return
        self.step()

    def forget_lateness(self) -> None:
        """Measure the worst lateness anew."""
        with self._changed:
            self._worst_lateness_us = 0

    def run(self, stopped: Callable[[], bool]) -> None:
        """Look until ``stopped``."""
        while not stopped():
            wait_s = FREE_LOOK_S
            try:
                wait_s = self.step()
            except Exception:  # a look that fails must be seen, and must not stop time
                logger.exception("the governor failed")
            self._wait(wait_s)

    def step(self) -> float:
        """Begin what is due, then let the clock go as far as it may; return the real seconds until the next look."""
        with self._looking:
            with self._changed:
                self._wanted = self._wanted_soon = False
                begun, recurring = self._begun, self._recurring
            for source in self._sources:
                source.begin_due(recurring=recurring)
            now_us = self.clock.epoch_us()
            outlooks = [
                source.due_work(now_us, recurring=recurring) for source in self._sources
            ]
            next_us = min((each.next_us for each in outlooks), default=NEVER_US)
            with self._changed:
                is_quiet = (
                    not self._under_way
                    and self._begun == begun
                    and not any(each.ready for each in outlooks)
                )
                if is_quiet:
                    self._end_period(now_us)
                else:
                    self._begin_period(now_us)
                self._next_us = next_us
                if not self._governed:
                    return FREE_LOOK_S
                return self._let_run(now_us) if is_quiet else self._hold_back()

    def _let_run(self, now_us: int) -> float:
        next_us = self._next_us
        if self._target_us is not None:
            if now_us < self._target_us:
                self._jump_to(min(next_us, self._target_us))
                # until it has been looked at
                self.clock.bound(top_speed=_REAL_SPEED, limit_us=self.clock.epoch_us())
            elif self._recurring:
                self._arrive()
            else:
                self._recurring = True  # now what was left out on the way
            return 0.0
        if self.clock.rate <= _REAL_SPEED:
            # so near that work which begins meanwhile needs no other limit
            next_us = min(next_us, now_us + _LIMIT_US)
        self.clock.bound(top_speed=NO_TOP_SPEED, limit_us=next_us)
        return min(self.clock.real_s_until(next_us), IDLE_LOOK_S)

    def _hold_back(self) -> float:
        self._bound_while_busy()
        return min(self.clock.real_s_until(self._next_us), BUSY_LOOK_S)

    def _bound_while_busy(self) -> None:
        if not self._governed or self._busy_since_us is None:
            return
        limit_us = self._busy_since_us + _LIMIT_US * (
            1 + self._finished // FINISHED_PER_LIMIT
        )
        self.clock.bound(top_speed=_REAL_SPEED, limit_us=min(limit_us, self._next_us))

    def _begin_period(self, now_us: int) -> None:
        if self._busy_since_us is None:
            self._busy_since_us = min(now_us, self._next_us)

    def _end_period(self, now_us: int) -> None:
        self._worst_lateness_us = max(self._worst_lateness_us, self._busy_for_us(now_us))
        self._busy_since_us = None
        self._finished = 0

    def _busy_for_us(self, now_us: int) -> int:
        return 0 if self._busy_since_us is None else max(0, now_us - self._busy_since_us)

    def _jump_to(self, instant_us: int) -> None:
        self.clock.advance(
            timedelta(microseconds=max(0, instant_us - self.clock.epoch_us()))
        )

    def _arrive(self) -> None:
        self._target_us = None
        self._recurring = True
        self._changed.notify_all()

    def _look_now(self) -> None:
        self._wanted = True
        self._changed.notify_all()

    def _look_soon(self) -> None:
        if self._target_us is not None or self.clock.rate > _REAL_SPEED:
            self._look_now()
        else:
            # a clock that runs at most at real speed may do so for a moment longer: looks cost more than requests
            self._wanted_soon = True
            self._changed.notify_all()

    def _wait(self, wait_s: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._wanted or self._wanted_soon, wait_s)
            if self._wanted_soon:
                self._changed.wait_for(lambda: self._wanted, SETTLE_S)
