"""When several workloads run in one Capacity Block, each on its units and for its duration without a break.

Up to four are tried in every order, and one of these is best. Of more, some orders are tried, each also from the end.
Then a bounded search looks for an order that leaves few units idle: it finds most such orders, and claims of none that
it is the best.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Final, NamedTuple

_EVERY_ORDER_UP_TO: Final = 4
_ROUNDS: Final = 4
_STEPS_MAX: Final = 300


class Job(NamedTuple):
    """Work that needs so many units for so long."""

    number: int
    units: int
    length_s: int

    @property
    def unit_s(self) -> int:
        """How much of a block it takes."""
        return self.units * self.length_s


class JobRun(NamedTuple):
    """A job, and when it begins and ends, from the beginning of the block."""

    job: Job
    begin_s: int
    end_s: int


JobRuns = tuple[JobRun, ...]


def filled(
    jobs: Sequence[Job], count: int, room_s: int, *, is_waiting_priced: bool
) -> JobRuns | None:
    """Return how all of these run on ``count`` units within ``room_s``; None: no way was found.

    ``is_waiting_priced``: of several ways the one in which units wait least, else the first that is found.
    """
    if not _could_fit(jobs, count, room_s):
        return None
    found = []
    for runs in _ways(jobs, count, room_s):
        if runs is not None and all(each.end_s <= room_s for each in runs):
            found.append(runs)
            if not is_waiting_priced:
                break
    return min(found, key=waited_unit_s, default=None)


def waited_unit_s(runs: JobRuns) -> int:
    """Return how long units of work wait in the block."""
    return sum(each.job.units * each.begin_s for each in runs)


def _could_fit(jobs: Sequence[Job], count: int, room_s: int) -> bool:
    if any(each.units > count or each.length_s > room_s for each in jobs):
        return False
    # two that need more than half of the units never run at once
    alone_s = sum(each.length_s for each in jobs if 2 * each.units > count)
    return alone_s <= room_s and sum(each.unit_s for each in jobs) <= count * room_s


def _ways(jobs: Sequence[Job], count: int, room_s: int) -> Iterator[JobRuns | None]:
    if len(jobs) <= _EVERY_ORDER_UP_TO:
        for order in permutations(jobs):
            yield _in_order(order, count)
        return
    yield from _from_both_ends(sorted(jobs, key=lambda job: -job.unit_s), count)
    yield from _from_both_ends(
        sorted(jobs, key=lambda job: (-job.length_s, -job.units)), count
    )
    yield from _from_both_ends(
        sorted(jobs, key=lambda job: (-job.units, -job.length_s)), count
    )
    yield _in_order(sorted(jobs, key=lambda job: job.length_s), count)
    yield _Tightly(count, room_s).filled(jobs)


def _from_both_ends(order: Sequence[Job], count: int) -> Iterator[JobRuns]:
    """Yield the order, then in turn the order of ends seen from the end, which often closes gaps."""
    for _ in range(_ROUNDS):
        runs = _in_order(order, count)
        yield runs
        from_the_end = sorted(runs, key=lambda run: (-run.end_s, run.begin_s))
        order = [run.job for run in from_the_end]


def _in_order(order: Sequence[Job], count: int) -> JobRuns:
    """Let each begin as early as it can beside those before it."""
    runs: list[JobRun] = []
    for job in order:
        begin_s = _earliest(job, count, runs)
        runs.append(JobRun(job, begin_s, begin_s + job.length_s))
    return tuple(runs)


def _earliest(job: Job, count: int, runs: Sequence[JobRun]) -> int:
    # room comes only where something ends
    instants = sorted({0, *(run.end_s for run in runs)})
    return next(
        at for at in instants if _most(at, at + job.length_s, runs) + job.units <= count
    )


def _most(begin_s: int, end_s: int, runs: Sequence[JobRun]) -> int:
    """Return how many units are in use at once between two instants, at most."""
    beside = [run for run in runs if run.begin_s < end_s and run.end_s > begin_s]
    # it can only become more where something begins
    instants = [begin_s, *(run.begin_s for run in beside if run.begin_s > begin_s)]
    most = 0
    for at in instants:
        in_use = sum([run.job.units for run in beside if run.begin_s <= at < run.end_s])
        most = max(most, in_use)
    return most


@dataclass
class _Tightly:
    """Goes through time, and at each end starts as many of the remaining workloads as there is room for.

    It tries which ones in turn, the largest first, for a bounded number of steps.
    """

    count: int
    room_s: int
    _steps: int = 0
    _tried: set[tuple[JobRuns, tuple[Job, ...]]] = field(default_factory=set)

    def filled(self, jobs: Sequence[Job]) -> JobRuns | None:
        """Return a way in which all fit, None where none was found."""
        return self._go_on(0, (), tuple(sorted(jobs, key=lambda job: -job.unit_s)))

    # Branches: what makes it stop, and a step into each choice.
    def _go_on(self, now_s: int, runs: JobRuns, left: tuple[Job, ...]) -> JobRuns | None:
        """Place the remaining workloads from an instant on, beside those that run."""
        if not left:
            return runs
        running = tuple(sorted(run for run in runs if run.end_s > now_s))
        is_known = (running, left) in self._tried
        self._tried.add((running, left))
        self._steps += 1
        if (
            is_known
            or self._steps > _STEPS_MAX
            or not self._could_end(now_s, running, left)
        ):
            return None
        free = self.count - sum(run.job.units for run in running)
        for chosen in _as_many_as_fit(left, free):
            begun = tuple(JobRun(job, now_s, now_s + job.length_s) for job in chosen)
            next_end_s = min(run.end_s for run in (*running, *begun))
            rest = tuple(job for job in left if job not in chosen)
            found = self._go_on(next_end_s, (*runs, *begun), rest)
            if found is not None:
                return found
        return None

    def _could_end(
        self, now_s: int, running: Sequence[JobRun], left: Sequence[Job]
    ) -> bool:
        room_s = self.room_s - now_s
        busy_unit_s = sum((run.end_s - now_s) * run.job.units for run in running)
        free_unit_s = self.count * room_s - busy_unit_s
        alone_s = sum(job.length_s for job in left if 2 * job.units > self.count)
        return (
            sum(job.unit_s for job in left) <= free_unit_s
            and alone_s <= room_s
            and all(job.length_s <= room_s for job in left)
        )


def _as_many_as_fit(
    left: Sequence[Job], free: int, skipped: int | None = None
) -> Iterator[tuple[Job, ...]]:
    """Yield each choice of jobs beside which none of the others has room, those with the first jobs first.

    ``skipped``: the fewest units that a job needs which was left out and has to have no room in the end.
    """
    at = next((index for index, job in enumerate(left) if job.units <= free), None)
    if at is None:
        if skipped is None or free < skipped:
            yield ()
        return
    job, later = left[at], left[at + 1 :]
    for chosen in _as_many_as_fit(later, free - job.units, skipped):
        yield (job, *chosen)
    fewest = job.units if skipped is None else min(skipped, job.units)
    yield from _as_many_as_fit(later, free, fewest)
