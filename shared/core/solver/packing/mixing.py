"""The best of several ways to deal out reserved units, taken part by part.

Each trial fills some reservations better than the others do, and the best as a whole has units whose content would be
worth more if only others had chosen differently. So all contents that were found are put together: a linear program
asks how many units of each reservation should get which content, such that no shape is used more often than it has
replicas and the worth of all is largest. Its solution in fractions is approached with an augmented Lagrangian: what is
used too often loses a part of its worth until it is used as often as it can be, and each reservation in turn moves
units from its poorest content to its best, as far as that gains. Whole numbers of it are then planned; the units that
are left over are the caller's to fill anew.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import floor

from shared.core.solver.packing.item_types import Candidate
from shared.core.solver.packing.knapsack import Contents
from shared.core.solver.packing.packing import Packing

# Found by trial: a sweep takes some 0.8 ms with 60 reservations and 500 contents; twice as many gain 0.1 % more.
_SWEEPS = 30
_SWEEPS_A_RENT = 3
# A larger part of a unit than this gets the whole content, as far as there is demand for it.
_ROUNDED_UP = 0.5
_TINY = 1e-9


@dataclass(slots=True)
class _Units:
    """The units of one reservation: contents to choose from, how many units (in parts) have each, and how many none."""

    candidates: list[Candidate]
    contents: list[Contents]
    counts: list[float]
    spare: float


def deal_mixed(packing: Packing, trials: Sequence[Packing], worth: Sequence[float]) -> None:
    """Plan, in ``packing``, the best mix of what the trials, which started from it, put on reserved units."""
    mix = _Mix(packing, trials, worth)
    for sweep in range(1, _SWEEPS + 1):
        mix.improve()
        if sweep % _SWEEPS_A_RENT == 0:
            mix.raise_rents()
    found = list(mix.shares())
    for share, candidate, content in sorted(found, key=lambda item: -item[0]):
        packing.repeat(candidate, content, floor(share + _TINY))
    parts = [(share - floor(share + _TINY), candidate, content) for share, candidate, content in found]
    for part, candidate, content in sorted(parts, key=lambda item: -item[0]):
        if part >= _ROUNDED_UP:
            packing.repeat(candidate, content, 1)


class _Mix:
    """How many units of each reservation get which content, in parts."""

    def __init__(self, packing: Packing, trials: Sequence[Packing], worth: Sequence[float]) -> None:
        self._worth = worth
        self._left = packing.left
        self._units = _gathered(packing, trials)
        self._rent = [0.0] * len(worth)  # the part of a shape's worth that it earns wherever it is
        self._used = [0.0] * len(worth)
        for units in self._units:
            for content, count in zip(units.contents, units.counts, strict=True):
                for index, copies in content:
                    self._used[index] += copies * count
        self._net = list(worth)  # what is left of the worth for the unit
        self._concerned = sorted({index for units in self._units for content in units.contents for index, _ in content})

    def shares(self) -> Iterator[tuple[float, Candidate, Contents]]:
        """Yield how many units get each content."""
        for units in self._units:
            yield from zip(units.counts, units.candidates, units.contents, strict=True)

    def raise_rents(self) -> None:
        """Let what is used too often cost that from now on, and what is used too little cost less."""
        for index in self._concerned:
            self._rent[index] = 1.0 - self._kept(index)
            self._net[index] = self._worth[index] * self._kept(index)

    def _kept(self, index: int) -> float:
        """Return the part of a shape's worth that a unit keeps: without its rent, and less if it is used too often."""
        kept = 2.0 - self._rent[index] - self._used[index] / self._left[index]
        return 0.0 if kept < 0.0 else 1.0 if kept > 1.0 else kept

    def improve(self) -> None:
        """Let each reservation once move units to its best content."""
        net = self._net
        for units in self._units:
            if len(units.contents) == 1 and units.spare < _TINY:
                continue
            values = []
            for content in units.contents:
                value = 0.0
                for index, copies in content:
                    value += net[index] * copies
                values.append(value)
            best = values.index(max(values))
            while self._move(units, values, best):
                values[best] = sum([net[index] * copies for index, copies in units.contents[best]])

    def _move(self, units: _Units, values: list[float], best: int) -> bool:
        """Move units from no content, or else the poorest, to the best, as far as that gains; whether more would."""
        change = dict(units.contents[best])
        poorest, count = -1, units.spare
        gain = values[best]
        if count < _TINY:
            poorest = min([p for p, held in enumerate(units.counts) if held > _TINY], key=values.__getitem__)
            count = units.counts[poorest]
            gain -= values[poorest]
            for index, copies in units.contents[poorest]:
                change[index] = change.get(index, 0) - copies
        if gain < _TINY:
            return False
        left, worth, net, used, kept = self._left, self._worth, self._net, self._used, self._kept
        # By so much does the gain fall with each unit.
        slope = sum([worth[index] * copies * copies / left[index] for index, copies in change.items()])
        moved = min(count, gain / slope) if slope else count
        if poorest < 0:
            units.spare -= moved
        else:
            units.counts[poorest] -= moved
        units.counts[best] += moved
        for index, copies in change.items():
            used[index] += copies * moved
            net[index] = worth[index] * kept(index)
        return moved == count


def _gathered(packing: Packing, trials: Sequence[Packing]) -> list[_Units]:
    """Return all contents by reservation, each for as many units as it has in the mean of the trials."""
    gathered: dict[str, dict[tuple[int, Contents], tuple[Candidate, float]]] = {}
    for trial in trials:
        for pattern in trial.patterns[len(packing.patterns) :]:
            candidate = pattern.candidate
            assert candidate is not None
            assert candidate.option.reservation is not None
            own = gathered.setdefault(candidate.option.reservation.id, {})
            key = (candidate.option.index, tuple(sorted(pattern.content.items())))
            _, count = own.get(key, (candidate, 0.0))
            own[key] = (candidate, count + pattern.count / len(trials))
    found = []
    for name, own in gathered.items():
        counts = [count for _, count in own.values()]
        spare = packing.supply.units[name] - sum(counts)
        found.append(_Units([candidate for candidate, _ in own.values()], [key[1] for key in own], counts, spare))
    return found
