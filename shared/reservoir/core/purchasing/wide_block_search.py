"""Which Capacity Blocks to buy for more workloads than can be tried in every way.

Workloads that share a block are a group, and a group takes the cheapest block on sale in which it can run. The search
begins with several ways to form groups, and changes the groups for as long as that lowers the cost: workloads move, or
change places; groups are divided again; or a block is filled as far as possible. The result need not be the best.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import chain, combinations, permutations
from typing import Final, NamedTuple

from reservoir.core.purchasing.block_filling import Job, filled, waited_unit_s
from reservoir.core.purchasing.block_search import (
    BlockChoice,
    BlockQuestion,
    BlockWindow,
    Score,
    Shift,
    choice_of,
    within_quota,
    without_fee,
)

WIDE_NEEDS_MAX: Final = 20
_FILLINGS_MAX: Final = 15_000
_STARTS_FOLLOWED: Final = 2
_CANDIDATES_FOLLOWED: Final = 8
_OFFERS_KEPT: Final = 3
_SPLIT_TOGETHER_MAX: Final = 3
_S: Final = timedelta(seconds=1)
_HOUR_S: Final = 3_600

_Part = int  # needs, as the bits of their indexes


class _Grouping(NamedTuple):
    """Who runs outside blocks, in each slot that is owned, and together in a block that is bought."""

    outside: _Part
    owned: tuple[_Part, ...]
    groups: tuple[_Part, ...]


class _WindowUse(NamedTuple):
    """A window of a slot, how a part runs in there, and what that costs with its fee."""

    micro_usd: int
    slot: int
    window: BlockWindow
    shift: Shift


@dataclass
class WideBlockSearch(BlockQuestion):
    """One search of groups."""

    _shifts: dict[tuple[str, _Part], Shift | None] = field(default_factory=dict)
    _cheapest: dict[_Part, list[_WindowUse]] = field(default_factory=dict)
    _scores: dict[_Grouping, Score | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what would take too long."""
        if len(self.needs) > WIDE_NEEDS_MAX:
            raise ValueError(
                f"the search is about {WIDE_NEEDS_MAX} workloads at most, not {len(self.needs)}"
            )

    def best(self) -> BlockChoice:
        """Return the best choice that was found."""
        ends = {self._descended(each) for each in self._starts() if self._score(each)}
        followed = sorted(ends, key=self._rank)[:_STARTS_FOLLOWED]
        best = min((self._improved(each) for each in followed), key=self._rank)
        uses = self._uses(best)
        assert uses is not None
        return choice_of(self.needs, [(use.window, use.shift) for use in uses])

    def without_buying(self) -> BlockChoice:
        """Return the best choice that was found and buys no block."""
        owned = [without_fee(slot) for slot in self.slots]
        return replace(self, slots=owned, _shifts={}, _cheapest={}, _scores={}).best()

    # --- what a grouping costs

    def _rank(self, grouping: _Grouping) -> tuple[Score, _Grouping]:
        score = self._score(grouping)
        assert score is not None
        return score, grouping

    def _score(self, grouping: _Grouping) -> Score | None:
        """Return what a grouping costs; None: it cannot be had."""
        if grouping not in self._scores:
            uses = self._uses(grouping)
            left_over, micro_usd = self._elsewhere(grouping.outside)
            self._scores[grouping] = (
                None
                if uses is None
                else Score(left_over, micro_usd + sum(use.micro_usd for use in uses))
            )
        return self._scores[grouping]

    # Branches: owned blocks, blocks on sale, and workloads that get none.
    def _uses(self, grouping: _Grouping) -> list[_WindowUse] | None:
        """Give each group a window: first to those for which the next best would cost most more."""
        found = []
        for slot, part in zip(self._owned_slots, grouping.owned, strict=True):
            if part:
                use = self._owned_use(slot, part)
                if use is None:
                    return None
                found.append(use)
        offered = [self._offered_uses(part) for part in grouping.groups]
        if not all(offered):
            return None
        taken: set[int] = set()
        for uses in sorted(offered, key=_regret):
            free = next((use for use in uses if use.slot not in taken), None)
            if free is None:
                return None
            taken.add(free.slot)
            found.append(free)
        bought = [use.window for use in found if use.window.fee_micro_usd]
        return found if within_quota(bought, self.held, self.at_once_max) else None

    def _elsewhere(self, part: _Part) -> Score:
        prices = [self.needs[each].on_demand_micro_usd for each in _members(part)]
        return Score(prices.count(None), sum(each or 0 for each in prices))

    @cached_property
    def _owned_slots(self) -> list[int]:
        owned = []
        for index, slot in enumerate(self.slots):
            if any(not window.fee_micro_usd for window in slot):
                owned.append(index)
        return owned

    @cached_property
    def _offers(self) -> list[tuple[int, BlockWindow]]:
        """The windows that are not owned with their slots, the cheapest first, and of these the first to end."""
        offers: list[tuple[int, BlockWindow]] = []
        for index, slot in enumerate(self.slots):
            if index not in self._owned_slots:
                offers.extend((index, window) for window in slot)
        return sorted(
            offers,
            key=lambda offer: (offer[1].fee_micro_usd, offer[1].end_at, offer[0]),
        )

    def _owned_use(self, slot: int, part: _Part) -> _WindowUse | None:
        uses = [self._use(slot, window, part) for window in self.slots[slot]]
        return min(
            (use for use in uses if use is not None),
            default=None,
            key=lambda use: use.micro_usd,
        )

    def _offered_uses(self, part: _Part) -> list[_WindowUse]:
        """Return the cheapest uses of so many different slots, the cheapest first."""
        if part not in self._cheapest:
            found: list[_WindowUse] = []
            for slot, window in self._offers:
                is_dearer = len(found) == _OFFERS_KEPT and (
                    window.fee_micro_usd >= found[-1].micro_usd
                )
                if is_dearer:
                    break
                use = self._use(slot, window, part)
                if use is not None:
                    found = sorted([*found, use], key=_dearness)[:_OFFERS_KEPT]
            self._cheapest[part] = found
        return self._cheapest[part]

    def _use(self, slot: int, window: BlockWindow, part: _Part) -> _WindowUse | None:
        shift = self._shift(window, part)
        if shift is None:
            return None
        return _WindowUse(window.fee_micro_usd + shift.micro_usd, slot, window, shift)

    def _shift(self, window: BlockWindow, part: _Part) -> Shift | None:
        if part & ~self._can_run[window.id]:
            return None
        key = (window.id, part)
        if key not in self._shifts:
            self._shifts[key] = self._planned(window, part)
        return self._shifts[key]

    @cached_property
    def _can_run(self) -> dict[str, _Part]:
        """Which workloads can run alone in each window."""
        windows = chain.from_iterable(self.slots)
        return {window.id: self._who_fits(window) for window in windows}

    def _who_fits(self, window: BlockWindow) -> _Part:
        room = window.end_at - max(self.now, window.start_at)
        part = 0
        for index, need in enumerate(self.needs):
            is_wide_enough = 0 < need.units.get(window.instance_type, 0) <= window.count
            if is_wide_enough and need.duration <= room and window.id not in need.barred:
                part |= 1 << index
        return part

    def _planned(self, window: BlockWindow, part: _Part) -> Shift | None:
        begin_at = max(self.now, window.start_at)
        jobs = [
            Job(
                index,
                self.needs[index].units[window.instance_type],
                self.needs[index].duration // _S,
            )
            for index in _members(part)
        ]
        price = self.waiting_micro_usd_per_unit_hour
        runs = filled(
            jobs,
            window.count,
            (window.end_at - begin_at) // _S,
            is_waiting_priced=price > 0,
        )
        if runs is None:
            return None
        before_unit_s = sum(job.units for job in jobs) * ((begin_at - self.now) // _S)
        waiting = price * (before_unit_s + waited_unit_s(runs)) // _HOUR_S
        return Shift(
            waiting,
            tuple((run.job.number, begin_at + run.begin_s * _S) for run in runs),
        )

    # --- groupings to begin with

    def _starts(self) -> Iterator[_Grouping]:
        """Yield everybody outside, and splits of everybody, with nothing owned in use and with all that is."""
        everybody = (1 << len(self.needs)) - 1
        nobody = (0,) * len(self._owned_slots)
        yield _Grouping(everybody, nobody, ())
        for order in self._orders(everybody):
            outside, groups = self._split(order)
            yield _grouping(outside, nobody, groups)
            owned = self._owned_filled(order)
            inside = _together(owned)
            rest = [index for index in order if not inside >> index & 1]
            outside, groups = self._split(rest)
            yield _grouping(outside, owned, groups)

    def _owned_filled(self, order: Sequence[int]) -> tuple[_Part, ...]:
        """Let each in turn use the first of the owned slots that has room for it without a fee."""
        owned = [0] * len(self._owned_slots)
        for index in order:
            for place, slot in enumerate(self._owned_slots):
                more = owned[place] | 1 << index
                windows = without_fee(self.slots[slot])
                if any(self._shift(window, more) is not None for window in windows):
                    owned[place] = more
                    break
        return tuple(owned)

    def _orders(self, part: _Part) -> list[list[int]]:
        """Return the members in several orders, in which members that fit well together are neighbours."""
        orders = [sorted(_members(part), key=rank) for rank in self._ranks]
        return [order for index, order in enumerate(orders) if order not in orders[:index]]

    @cached_property
    def _ranks(self) -> list[Callable[[int], tuple[object, ...]]]:
        units = [max(need.units.values(), default=0) for need in self.needs]
        length = [need.duration // _S for need in self.needs]
        size = [wide * long for wide, long in zip(units, length, strict=True)]
        types = [len(need.units) for need in self.needs]
        price = [need.on_demand_micro_usd for need in self.needs]
        return [
            lambda index: (-length[index], -units[index], index),
            lambda index: (-units[index], -length[index], index),
            lambda index: (-size[index], index),
            lambda index: (types[index], -length[index], index),
            lambda index: (types[index], -units[index], index),
            lambda index: (
                price[index] is None,
                (price[index] or 0) / max(1, size[index]),
                index,
            ),
        ]

    def _split(self, order: Sequence[int]) -> tuple[_Part, tuple[_Part, ...]]:
        """Return the best way to cut an order into groups and those outside, as if each group had its offer alone."""
        best: list[tuple[Score, _Part, tuple[_Part, ...]]] = [(Score(0, 0), 0, ())]
        for end in range(1, len(order) + 1):
            last = 1 << order[end - 1]
            score, outside, groups = best[end - 1]
            found = (score.plus(self._elsewhere(last)), outside | last, groups)
            group = 0
            for begin in range(end - 1, -1, -1):
                group |= 1 << order[begin]
                uses = self._offered_uses(group)
                if not uses:
                    break
                score, outside, groups = best[begin]
                cost = score.plus(Score(0, uses[0].micro_usd))
                if cost < found[0]:
                    found = (cost, outside, (*groups, group))
            best.append(found)
        return best[-1][1], best[-1][2]

    # --- better groupings

    def _improved(self, grouping: _Grouping) -> _Grouping:
        """Form other groups for as long as that, followed to its end, lowers the cost."""
        tried: set[_Grouping] = set()
        while True:
            candidates = {
                each
                for each in (*self._divided_again(grouping), *self._filled_up(grouping))
                if each not in tried and self._score(each) is not None
            }
            followed = sorted(candidates, key=self._rank)[:_CANDIDATES_FOLLOWED]
            tried.update(followed)
            ends = (self._descended(each) for each in followed)
            better = next((each for each in ends if self._is_better(each, grouping)), None)
            if better is None:
                return grouping
            grouping = better

    def _is_better(self, grouping: _Grouping, other: _Grouping) -> bool:
        score, least = self._score(grouping), self._score(other)
        return score is not None and least is not None and score < least

    def _descended(self, grouping: _Grouping) -> _Grouping:
        """Move single workloads and pairs for as long as that costs less."""
        while True:
            better = next(
                (each for each in self._moved(grouping) if self._is_better(each, grouping)),
                None,
            )
            if better is None:
                return grouping
            grouping = better

    def _has_looked_enough(self) -> bool:
        return len(self._shifts) >= _FILLINGS_MAX

    def _divided_again(self, grouping: _Grouping) -> Iterator[_Grouping]:
        """Yield groupings in which one, two or three groups are divided again, also with workloads in no group."""
        for size in range(1, _SPLIT_TOGETHER_MAX + 1):
            for chosen in combinations(grouping.groups, size):
                rest = tuple(each for each in grouping.groups if each not in chosen)
                for outside in {0, grouping.outside}:
                    for order in self._orders(outside | _together(chosen)):
                        if self._has_looked_enough():
                            return
                        left, groups = self._split(order)
                        yield _grouping(
                            grouping.outside & ~outside | left,
                            grouping.owned,
                            (*rest, *groups),
                        )

    def _filled_up(self, grouping: _Grouping) -> Iterator[_Grouping]:
        """Yield groupings in which one offer is as full as it will be, and the groups that gave to it are split."""
        bought_for = grouping.outside | _together(grouping.groups)
        seen: set[_Part] = set()
        for _, window in self._offers:
            for order in self._orders(bought_for & self._can_run[window.id]):
                if self._has_looked_enough():
                    return
                full = 0
                for index in order:
                    if self._shift(window, full | 1 << index) is not None:
                        full |= 1 << index
                if full and full not in seen:
                    seen.add(full)
                    yield from self._beside(grouping, full)

    def _beside(self, grouping: _Grouping, full: _Part) -> Iterator[_Grouping]:
        """Yield a grouping with a new group, and those in which what others are left with is split."""
        kept = [group for group in grouping.groups if not group & full]
        left = [group & ~full for group in grouping.groups if group & full]
        outside = grouping.outside & ~full
        yield _grouping(outside, grouping.owned, (*kept, *left, full))
        for order in self._orders(_together(left)):
            more, groups = self._split(order)
            yield _grouping(outside | more, grouping.owned, (*kept, *groups, full))

    def _moved(self, grouping: _Grouping) -> Iterator[_Grouping]:
        """Yield groupings in which workloads are elsewhere, one or two or a whole group, or two have changed places."""
        places = [grouping.outside, *grouping.owned, *grouping.groups, 0]
        owned = len(grouping.owned)
        for source, target in permutations(range(len(places)), 2):
            for leaving, coming in _exchanges(places[source], places[target]):
                new = list(places)
                new[source] = places[source] & ~leaving | coming
                new[target] = places[target] & ~coming | leaving
                yield _grouping(new[0], tuple(new[1 : owned + 1]), new[owned + 1 :])


def _exchanges(source: _Part, target: _Part) -> Iterator[tuple[_Part, _Part]]:
    """Yield what could leave a place for another one, and what could come from there instead."""
    singles = [1 << index for index in _members(source)]
    pairs = [one | other for one, other in combinations(singles, 2)]
    for leaving in dict.fromkeys((*singles, *pairs, source)):
        if leaving:
            yield leaving, 0
    for leaving in singles:
        for index in _members(target):
            yield leaving, 1 << index


def _grouping(
    outside: _Part, owned: tuple[_Part, ...], groups: Iterable[_Part]
) -> _Grouping:
    return _Grouping(outside, owned, tuple(sorted(each for each in groups if each)))


def _dearness(use: _WindowUse) -> tuple[int, datetime, int]:
    return use.micro_usd, use.window.end_at, use.slot


def _regret(uses: Sequence[_WindowUse]) -> int:
    """Return what the next best costs less than the best, so that the largest comes first; with no other: all."""
    if len(uses) == 1:
        return -(10**18)
    return uses[0].micro_usd - uses[1].micro_usd


def _members(part: _Part) -> list[int]:
    return [index for index in range(part.bit_length()) if part >> index & 1]


def _together(parts: Iterable[_Part]) -> _Part:
    found = 0
    for part in parts:
        found |= part
    return found
