"""Advice: which units to hold, what each change would have saved, and how certain that is.

Changes are found by counting and judged by playing demand again: everything as it is, everything that is advised, and
that without one change at a time. So the saving of a change is what it saves beside all others. A change that does not
save when it is played, or saved in too few weeks, is dropped. Units that demand will need if it goes on growing are not
given back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from reservoir.core.advice.count import Cost, Counted
from reservoir.core.advice.departed import without_departed
from reservoir.core.advice.halves import Halves
from reservoir.core.advice.lives import Life
from reservoir.core.advice.play import Played, play
from reservoir.core.advice.search import LEAST_SAVING_PERMILLE, UnitSearch, weighed
from reservoir.core.advice.trend import kept_for_growth, wanted_by_week
from reservoir.core.advice.units import Ground, Solve, UnitKind

CHANGES_MAX: Final = 8  # each is played without once more
_SURE_PERCENT: Final = 75  # of the weeks in which a change must have saved,
_LATELY: Final = 2  # or in each of so many last ones, if demand has become another


@dataclass(frozen=True, slots=True)
class UnitChange:
    """More or fewer units of a kind, and what that would have saved over the time beside all other changes."""

    kind: UnitKind
    units: int  # afterwards
    saved: Cost  # a negative amount: it costs more
    by_week: tuple[Cost, ...]

    @property
    def weeks(self) -> int:
        """How many weeks were played."""
        return len(self.by_week)

    @property
    def weeks_saved(self) -> int:
        """In how many of them it saved."""
        return sum(week.micro_usd > 0 for week in self.by_week)

    @property
    def is_sure(self) -> bool:
        """Whether it saved in most weeks, or lately in each."""
        lately = self.by_week[-_LATELY:]
        has_turned = len(self.by_week) > _LATELY and all(
            week.micro_usd > 0 for week in lately
        )
        return has_turned or 100 * self.weeks_saved >= _SURE_PERCENT * self.weeks

    @property
    def more(self) -> int:
        """How many units more; negative: fewer."""
        return self.units - self.kind.held


@dataclass(frozen=True, slots=True)
class Advice:
    """What to change, the largest cost first; nothing is an answer too. ``after``: with all of it."""

    since: datetime
    until: datetime
    before: Played
    after: Played
    changes: tuple[UnitChange, ...] = ()
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Question:
    """The question: waiting costs ``worth_percent`` of what the waiting replica's capacity costs on demand."""

    ground: Ground
    lives: Sequence[Life]
    solve: Solve
    since: datetime
    until: datetime
    worth_percent: int = 100
    budget_micro_usd_per_hour: int | None = None

    def advise(self) -> Advice:
        """Find changes and judge them, by the work that has not stopped coming."""
        lives = without_departed(self.lives, self.since, self.until)
        return replace(self, lives=lives)._advised()

    def _advised(self) -> Advice:
        held = {kind.id: kind.held for kind in self.ground.kinds}
        counted = Counted(self.ground, self.lives, self.since, self.until)
        cheapest = UnitSearch(
            counted, self.ground.kinds, self.worth_percent, self.budget_micro_usd_per_hour
        ).best()
        wanted = self._kept({**held, **cheapest})
        wanted = {**held, **_largest(wanted, self.ground.kinds)}
        before = self._played(held)
        after = before if wanted == held else self._played(wanted)
        while wanted != held:
            changes = [
                self._change(kind, wanted, before, after)
                for kind in self.ground.kinds
                if wanted[kind.id] != kind.held
            ]
            doubtful = [change for change in changes if not _is_worthwhile(change, before)]
            if not doubtful:
                in_order = sorted(
                    changes, key=lambda change: (-change.saved.micro_usd, change.kind.id)
                )
                return Advice(self.since, self.until, before, after, tuple(in_order))
            worst = min(
                doubtful, key=lambda change: (weighed(change.by_week), change.kind.id)
            )
            wanted = {**wanted, worst.kind.id: worst.kind.held}
            after = self._played(wanted)
        return Advice(self.since, self.until, before, before)

    def _kept(self, wanted: Mapping[str, int]) -> Mapping[str, int]:
        """Return the units that are wanted, and of those that are held what chance or growth may still want."""
        halves = Halves.of(
            self.ground, self.lives, self.since, self.until, self.worth_percent
        )
        units = dict(wanted)
        for kind in self.ground.kinds:
            if wanted[kind.id] < kind.held:
                weeks = wanted_by_week(
                    kind, self.ground, self.lives, self.since, self.until
                )
                growing = kept_for_growth(wanted[kind.id], weeks)
                units[kind.id] = min(kind.held, max(growing, halves.kept(kind, wanted)))
        return units

    def _played(self, units: Mapping[str, int]) -> Played:
        return play(
            self.ground,
            self.lives,
            units,
            self.solve,
            self.since,
            self.until,
            self.worth_percent,
        )

    def _change(
        self, kind: UnitKind, wanted: Mapping[str, int], before: Played, after: Played
    ) -> UnitChange:
        units = {**wanted, kind.id: kind.held}
        is_only = all(units[each.id] == each.held for each in self.ground.kinds)
        without = before if is_only else self._played(units)
        saved = tuple(
            less(one, other) for one, other in zip(without.weeks, after.weeks, strict=True)
        )
        return UnitChange(kind, wanted[kind.id], sum(saved, Cost()), saved)


def _is_worthwhile(change: UnitChange, before: Played) -> bool:
    least = weighed(before.weeks) * LEAST_SAVING_PERMILLE // 1_000
    return change.is_sure and weighed(change.by_week) > least


def less(one: Cost, other: Cost) -> Cost:
    """Return by how much one is more than another."""
    return Cost(
        one.held_micro_usd - other.held_micro_usd,
        one.bought_micro_usd - other.bought_micro_usd,
        one.waiting_micro_usd - other.waiting_micro_usd,
        one.waiting_replica_s - other.waiting_replica_s,
    )


def _largest(wanted: Mapping[str, int], kinds: Sequence[UnitKind]) -> Mapping[str, int]:
    """Return the changes that are about most money, as many as are worth playing."""
    changed = [kind for kind in kinds if kind.id in wanted and wanted[kind.id] != kind.held]
    changed.sort(
        key=lambda kind: (
            -abs(wanted[kind.id] - kind.held) * kind.micro_usd_per_hour,
            kind.id,
        )
    )
    return {kind.id: wanted[kind.id] for kind in changed[:CHANGES_MAX]}
