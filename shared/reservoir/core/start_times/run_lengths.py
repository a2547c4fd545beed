"""How long work runs, learned from runs that have ended.

Runs of one name tell most: ``train-17`` is taken to run as ``train-16`` did. Where too few of them are over, those of
the whole team tell. Where work says how long it will take, those tell that said about the same: how long they then ran
is what counts, and not what they said.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from reservoir.core.advice.lives import Life
from reservoir.core.model.workload import Workload

RUNS_NEEDED: Final = 5  # fewer say too little
_RUNS_KEPT: Final = 500  # of one name or team, the latest
_NEAREST: Final = 50  # of these, where work says how long it will take
_TAIL_PART: Final = (
    5  # the longest fifth of the runs says how much longer still others may be
)
_FLATTEST: Final = (
    0.05  # runs that were all as long do not say that none will ever be longer
)
_SEPARATORS: Final = re.compile(r"[-._]")


@dataclass(frozen=True, slots=True)
class RunLengths:
    """Lengths of runs in seconds, ascending, of which the next run is one more.

    The next run is as likely to fall into any of the gaps before, between and after them. Within a gap it may be
    anything; after the longest it falls off as the longest ones do.
    """

    lengths_s: tuple[float, ...]

    def length_at(self, chance: float) -> float:
        """Return the length that the next run does not exceed with this chance, from 0 to less than 1."""
        count = len(self.lengths_s)
        place = chance * (count + 1)
        gap = int(place)
        part = place - gap
        if gap == 0:
            return self.lengths_s[0] * (1 + part) / 2
        if gap >= count:
            return self.lengths_s[-1] * math.pow(count + 1 - place, -self._tail())
        shorter, longer = self.lengths_s[gap - 1 : gap + 1]
        return shorter + part * (longer - shorter)

    def chance_of(self, length_s: float) -> float:
        """Return the chance that the next run is no longer than this."""
        count = len(self.lengths_s)
        gap = bisect_right(self.lengths_s, length_s)
        if gap == 0:
            place = max(0.0, 2 * length_s / self.lengths_s[0] - 1)
        elif gap == count:
            place = count + 1 - math.pow(length_s / self.lengths_s[-1], -1 / self._tail())
        else:
            shorter, longer = self.lengths_s[gap - 1 : gap + 1]
            place = gap + (length_s - shorter) / (longer - shorter)
        return place / (count + 1)

    def rest_s(self, chance: float, age_s: float) -> int:
        """Return how much longer a run of this age lasts, for a chance drawn from 0 to less than 1."""
        passed = self.chance_of(age_s)
        # What is older than nearly all is not taken to end at once.
        chance = min(passed + (1 - passed) * chance, 1 - 1e-9)
        return max(1, int(self.length_at(chance) - age_s))

    def _tail(self) -> float:
        """Return by how much the longest exceed those before them, in natural logarithms."""
        count = max(1, len(self.lengths_s) // _TAIL_PART)
        before = self.lengths_s[-count - 1]
        longest = self.lengths_s[-count:]
        return max(_FLATTEST, fmean(math.log(each / before) for each in longest))


class LearnedLengths:
    """What runs that are over say about each workload."""

    def __init__(self, lives: Iterable[Life], team_of: Callable[[str], str]) -> None:
        """``lives`` are in the order of their arrival; ``team_of`` returns whose a namespace is."""
        self._team_of = team_of
        self._runs: dict[tuple[str, str], list[tuple[int, int | None]]] = {}
        for life in lives:
            if life.ran_s is not None:
                for group in self._groups(life.workload):
                    runs = self._runs.setdefault(group, [])
                    runs.append((life.ran_s, life.workload.duration_s))
        self._known: dict[tuple[tuple[str, str], int | None], RunLengths] = {}

    def of(self, workload: Workload) -> RunLengths | None:
        """Return how long it may run; None: too few runs of its name or its team are over."""
        for group in self._groups(workload):
            runs = self._runs.get(group, [])[-_RUNS_KEPT:]
            if len(runs) < RUNS_NEEDED:
                continue
            about = group, workload.duration_s
            if about not in self._known:
                self._known[about] = _nearest(runs, workload.duration_s)
            return self._known[about]
        return None

    def _groups(self, workload: Workload) -> tuple[tuple[str, str], tuple[str, str]]:
        by_name = workload.namespace, family(workload.name)
        return by_name, ("", self._team_of(workload.namespace))


def family(name: str) -> str:
    """Return a name without the parts at its end that number or identify a single run."""
    parts = _SEPARATORS.split(name)
    while len(parts) > 1 and any(letter.isdigit() for letter in parts[-1]):
        parts.pop()
    return "-".join(parts)


def _nearest(runs: list[tuple[int, int | None]], declared_s: int | None) -> RunLengths:
    """Return the runs whose durations were said to be most like this one; of those as near, the latest."""
    if declared_s:
        said = math.log(declared_s)
        runs = runs[::-1]
        runs.sort(key=lambda run: abs(math.log(run[1] or declared_s) - said))
        runs = runs[:_NEAREST]
    return RunLengths(tuple(sorted(float(ran_s) for ran_s, _ in runs)))
