"""Which numbers of units would have been cheapest: from the held ones, step by step, while a step still saves."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from reservoir.core.advice.count import Cost, Counted
from reservoir.core.advice.units import UnitKind

# The week before weighs so much of what a week weighs: recent demand is likelier to come again.
_WEEK_BEFORE_PERCENT: Final = 50
# A change must save so much of what everything costs, or it is not worth making.
LEAST_SAVING_PERMILLE: Final = 5
_STEPS: Final = (1, 2, 4, 8, 16, 32, 64)
_ROUNDS_MAX: Final = 60


def weighed(weeks: Sequence[Cost]) -> int:
    """Return what weeks cost, the last of them counting whole and those before it for less."""
    total = 0
    weight = 1_000
    for week in reversed(weeks):
        total += week.micro_usd * weight // 1_000
        weight = weight * _WEEK_BEFORE_PERCENT // 100
    return total


class UnitSearch:
    """Goes from one vector of units to the best beside it.

    ``budget_micro_usd_per_hour`` bounds the units that are held in addition to today's.
    """

    def __init__(
        self,
        counted: Counted,
        kinds: Sequence[UnitKind],
        worth_percent: int,
        budget_micro_usd_per_hour: int | None,
    ) -> None:
        self._counted = counted
        self._kinds = tuple(kind for kind in kinds if kind.micro_usd_per_hour > 0)
        self._worth_percent = worth_percent
        self._budget = budget_micro_usd_per_hour
        self._held = {kind.id: kind.held for kind in self._kinds}
        self._known: dict[tuple[int, ...], int] = {}

    def best(self) -> Mapping[str, int]:
        """Return the units that would have cost least, as far as steps lead."""
        units = dict(self._held)
        least = start = self._value(units)
        for _ in range(_ROUNDS_MAX):
            found = min(
                (
                    (self._value(other), _order(other), other)
                    for other in self._beside(units)
                ),
                default=None,
            )
            if found is None or found[0] >= least:
                break
            least, _, units = found
        worthwhile = start - least > start * LEAST_SAVING_PERMILLE // 1_000
        return units if worthwhile else self._held

    def _value(self, units: Mapping[str, int]) -> int:
        key = tuple(units[kind.id] for kind in self._kinds)
        if key not in self._known:
            self._known[key] = weighed(self._counted.cost(units, self._worth_percent))
        return self._known[key]

    def _beside(self, units: Mapping[str, int]) -> Iterator[dict[str, int]]:
        """Yield what one step leads to: more or fewer of a kind, or some of one instead of another."""
        for kind in self._kinds:
            for step in _STEPS:
                yield from self._allowed({**units, kind.id: units[kind.id] + step})
                if units[kind.id] >= step:
                    fewer = {**units, kind.id: units[kind.id] - step}
                    yield from self._allowed(fewer)
                    if step <= _STEPS[2]:
                        others = (other.id for other in self._kinds if other.id != kind.id)
                        for other in others:
                            yield from self._allowed({**fewer, other: fewer[other] + step})

    def _allowed(self, units: dict[str, int]) -> Iterator[dict[str, int]]:
        more = sum(
            kind.micro_usd_per_hour * (units[kind.id] - kind.held) for kind in self._kinds
        )
        if self._budget is None or more <= self._budget:
            yield units


def _order(units: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(units.items()))
