"""Units that either half of the time would have kept: chance is no reason to give a unit back.

Demand of a few weeks is a draw. What is cheapest for all of it may be too little for the next draw, and too few units
cost more than too many: work waits for each other, and every hour of all of it counts. So the time is cut in two, and
of the units that could be given back those stay that would have been worth their price in one of the halves.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.advice.count import Cost, Counted
from reservoir.core.advice.lives import Life
from reservoir.core.advice.units import Ground, UnitKind

_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Halves:
    """Demand of the first and of the second half of a time."""

    counted: tuple[Counted, Counted]
    worth_percent: int

    @classmethod
    def of(
        cls,
        ground: Ground,
        lives: Sequence[Life],
        since: datetime,
        until: datetime,
        worth_percent: int,
    ) -> "Halves":
        """Cut demand in two; what runs in the middle belongs to both."""
        middle = since + (until - since) / 2
        first = Counted(ground, tuple(_within(lives, since, middle)), since, middle)
        second = Counted(ground, tuple(_within(lives, middle, until)), middle, until)
        return cls((first, second), worth_percent)

    def kept(self, kind: UnitKind, units: Mapping[str, int]) -> int:
        """Return how many units of those held one of the halves would have kept, beside the others."""
        return max(self._cheapest(half, kind, units) for half in self.counted)

    def _cheapest(self, half: Counted, kind: UnitKind, units: Mapping[str, int]) -> int:
        def cost(count: int) -> tuple[int, int]:
            weeks = half.cost({**units, kind.id: count}, self.worth_percent)
            return sum(weeks, Cost()).micro_usd, count

        return min(range(units[kind.id], kind.held + 1), key=cost)


def _within(lives: Iterable[Life], since: datetime, until: datetime) -> Iterator[Life]:
    """Yield the lives of a time; what runs when it begins arrives with it."""
    for life in lives:
        is_gone = life.gone_at is not None and life.gone_at <= since
        if life.arrived_at >= until or is_gone:
            continue
        if life.arrived_at >= since or life.ran_s is None:
            yield replace(life, arrived_at=max(life.arrived_at, since))
            continue
        rest_s = life.ran_s - (since - life.arrived_at) // _SECOND
        if rest_s > 0:
            yield replace(life, arrived_at=since, ran_s=rest_s)
