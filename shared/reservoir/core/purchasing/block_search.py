"""Which Capacity Blocks to buy for some workloads, beside owned blocks and on-demand capacity.

Each workload runs as a whole, for its duration without a break, on one block or on demand, or it is left over. The
choice leaves as few over as possible and then costs the least: fees, on-demand hours, and the given cost of waiting. It
is exact: every combination is covered.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import permutations
from typing import Final, NamedTuple

from reservoir.core.purchasing.block_rules import INSTANCES_AT_ONCE_MAX

NEEDS_MAX: Final = 6
_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class BlockNeed:
    """A workload that is to run. ``units``: how many instances of each type suffice.

    ``on_demand_micro_usd``: what it costs to run it on demand from now on; None: it may not, or the price is not known.
    ``barred``: ids of windows in which it may not run.
    """

    key: str
    units: Mapping[str, int]
    duration: timedelta
    on_demand_micro_usd: int | None = None
    barred: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class BlockWindow:
    """Units that could be used between two instants; ``end_at`` is when the last work has to be over.

    ``held_until``: how long its ``size`` counts against the quota. ``fee_micro_usd`` 0: it is owned.
    """

    id: str
    instance_type: str
    count: int
    start_at: datetime
    end_at: datetime
    fee_micro_usd: int = 0
    size: int = 0
    held_until: datetime | None = None
    extends: str | None = None

    @property
    def last(self) -> datetime:
        """Until when it is held."""
        return self.held_until or self.end_at


class Placed(NamedTuple):
    """A workload in a block, and when it begins."""

    key: str
    window: BlockWindow
    begins_at: datetime


@dataclass(frozen=True, slots=True)
class BlockChoice:
    """What to do. ``bought``: the offers, in the order of their beginning."""

    fee_micro_usd: int
    on_demand_micro_usd: int
    waiting_micro_usd: int
    bought: tuple[BlockWindow, ...]
    placed: tuple[Placed, ...]
    on_demand: tuple[str, ...]
    left_over: tuple[str, ...]

    @property
    def total_micro_usd(self) -> int:
        """All of it."""
        return self.fee_micro_usd + self.on_demand_micro_usd + self.waiting_micro_usd


class Score(NamedTuple):
    """The order of choices: first how many workloads are left over."""

    left_over: int
    micro_usd: int

    def plus(self, other: "Score") -> "Score":
        """Return both together."""
        return Score(self.left_over + other.left_over, self.micro_usd + other.micro_usd)


class Shift(NamedTuple):
    """What some needs, by their index, cost in a window beside its fee, and when each begins."""

    micro_usd: int
    begin: tuple[tuple[int, datetime], ...]


_Taken = tuple[tuple[BlockWindow, int], ...]


@dataclass
class BlockQuestion:
    """The question to a search.

    ``slots``: windows of which at most one is used, as an owned block and its extensions.
    """

    needs: Sequence[BlockNeed]
    slots: Sequence[Sequence[BlockWindow]]
    now: datetime
    waiting_micro_usd_per_unit_hour: int = 0
    held: Sequence[BlockWindow] = ()  # blocks of the account that count against the quota
    at_once_max: int = INSTANCES_AT_ONCE_MAX


@dataclass
class BlockSearch(BlockQuestion):
    """One search of all ways."""

    _shifts: dict[tuple[BlockWindow, int], Shift | None] = field(default_factory=dict)
    _best: tuple[Score, _Taken] | None = None

    def __post_init__(self) -> None:
        """Refuse what would take too long."""
        if len(self.needs) > NEEDS_MAX:
            raise ValueError(
                f"the search is about {NEEDS_MAX} workloads at most, not {len(self.needs)}"
            )

    def best(self) -> BlockChoice:
        """Return the best choice; of equal ones the one that buys less."""
        self._best = None
        self._extend(0, (1 << len(self.needs)) - 1, Score(0, 0), ())
        assert self._best is not None
        return self._choice(self._best[1])

    def without_buying(self) -> BlockChoice:
        """Return the best choice that buys no block."""
        owned = [without_fee(slot) for slot in self.slots]
        return replace(self, slots=owned, _shifts={}).best()

    def _extend(self, index: int, rest: int, score: Score, taken: _Taken) -> None:
        """Decide about the slots from ``index`` on for the needs that are left."""
        if self._best is not None and score.plus(self._least[index][rest]) >= self._best[0]:
            return
        if index == len(self.slots):
            self._best = (score.plus(self._elsewhere(rest)), taken)
            return
        self._extend(index + 1, rest, score, taken)
        for window, part, cost in self._uses(index, rest):
            if self._is_within_quota(window, taken):
                self._extend(
                    index + 1, rest & ~part, score.plus(cost), (*taken, (window, part))
                )

    @cached_property
    def _least(self) -> list[list[Score]]:
        """What the needs of each mask cost at least with the slots from each index on: exact but for the quota."""
        masks = range(1 << len(self.needs))
        found = [[self._elsewhere(mask) for mask in masks]]
        for index in reversed(range(len(self.slots))):
            later = found[-1]
            found.append([self._least_at(index, mask, later) for mask in masks])
        return found[::-1]

    def _least_at(self, index: int, mask: int, later: Sequence[Score]) -> Score:
        used = [cost.plus(later[mask & ~part]) for _, part, cost in self._uses(index, mask)]
        return min([later[mask], *used])

    def _uses(self, index: int, rest: int) -> Iterator[tuple[BlockWindow, int, Score]]:
        """Yield each window of a slot with each part of the needs that fits in there."""
        for window in self.slots[index]:
            part = rest
            while part:
                shift = self._shift(window, part)
                if shift is not None:
                    yield window, part, Score(0, window.fee_micro_usd + shift.micro_usd)
                part = (part - 1) & rest

    def _shift(self, window: BlockWindow, part: int) -> Shift | None:
        key = (window, part)
        if key not in self._shifts:
            self._shifts[key] = self._planned(window, part)
        return self._shifts[key]

    def _planned(self, window: BlockWindow, part: int) -> Shift | None:
        """Return the cheapest way to run these in the window: each as early as it can, in the best order."""
        members = self._members(part)
        if any(
            not 0 < self.needs[each].units.get(window.instance_type, 0) <= window.count
            or window.id in self.needs[each].barred
            for each in members
        ):
            return None
        found = (self._in_order(window, order) for order in permutations(members))
        return min(
            (each for each in found if each is not None),
            default=None,
            key=lambda shift: shift.micro_usd,
        )

    def _in_order(self, window: BlockWindow, order: Sequence[int]) -> Shift | None:
        running: list[tuple[datetime, datetime, int]] = []
        begin, cost = [], 0
        for index in order:
            need = self.needs[index]
            units = need.units[window.instance_type]
            at = _earliest(
                max(self.now, window.start_at), need.duration, window.count - units, running
            )
            if at + need.duration > window.end_at:
                return None
            running.append((at, at + need.duration, units))
            begin.append((index, at))
            cost += self._waiting(units, at)
        return Shift(cost, tuple(begin))

    def _waiting(self, units: int, at: datetime) -> int:
        return self.waiting_micro_usd_per_unit_hour * units * (at - self.now) // _HOUR

    def _is_within_quota(self, window: BlockWindow, taken: _Taken) -> bool:
        """Whether a window may be bought beside the owned blocks and those that were chosen so far."""
        if not window.fee_micro_usd:
            return True
        bought = [*(chosen for chosen, _ in taken if chosen.fee_micro_usd), window]
        return within_quota(bought, self.held, self.at_once_max)

    def _elsewhere(self, mask: int) -> Score:
        prices = [self.needs[each].on_demand_micro_usd for each in self._members(mask)]
        known = [each for each in prices if each is not None]
        return Score(len(prices) - len(known), sum(known))

    def _members(self, mask: int) -> list[int]:
        return [index for index in range(len(self.needs)) if mask >> index & 1]

    def _choice(self, taken: _Taken) -> BlockChoice:
        used: list[tuple[BlockWindow, Shift]] = []
        for window, part in taken:
            shift = self._shift(window, part)
            assert shift is not None
            used.append((window, shift))
        return choice_of(self.needs, used)


# Branches: one for each list that it makes.
def choice_of(
    needs: Sequence[BlockNeed], used: Sequence[tuple[BlockWindow, Shift]]
) -> BlockChoice:
    """Return the choice that uses these windows so; a workload in none of them runs on demand or is left over."""
    placed: list[Placed] = []
    for window, shift in used:
        placed += [Placed(needs[index].key, window, at) for index, at in shift.begin]
    inside = {each.key for each in placed}
    outside = [each for each in needs if each.key not in inside]
    on_demand = {
        each.key: each.on_demand_micro_usd
        for each in outside
        if each.on_demand_micro_usd is not None
    }
    windows = sorted((window for window, _ in used), key=lambda each: each.start_at)
    bought = tuple(window for window in windows if window.fee_micro_usd)
    return BlockChoice(
        sum(each.fee_micro_usd for each in bought),
        sum(on_demand.values()),
        sum(shift.micro_usd for _, shift in used),
        bought,
        tuple(sorted(placed, key=lambda each: (each.begins_at, each.key))),
        tuple(on_demand),
        tuple(each.key for each in outside if each.key not in on_demand),
    )


def within_quota(
    bought: Sequence[BlockWindow], held: Sequence[BlockWindow], at_once_max: int
) -> bool:
    """Whether these may be bought beside the owned blocks: a block and its extension count once."""
    longer = {each.extends for each in bought}
    together = [*(each for each in held if each.id not in longer), *bought]
    # The most units are held at once when some window begins.
    begins = [each.start_at for each in together if _holds_at(each.start_at, bought)]
    return all(_held_at(at, together) <= at_once_max for at in begins)


def _holds_at(at: datetime, windows: Sequence[BlockWindow]) -> bool:
    return any(each.start_at <= at < each.last for each in windows)


def _held_at(at: datetime, held: Sequence[BlockWindow]) -> int:
    return sum(each.size or each.count for each in held if each.start_at <= at < each.last)


def without_fee(slot: Sequence[BlockWindow]) -> list[BlockWindow]:
    """Return the windows of a slot that are owned."""
    return [window for window in slot if not window.fee_micro_usd]


def _earliest(
    at: datetime,
    duration: timedelta,
    room: int,
    running: Sequence[tuple[datetime, datetime, int]],
) -> datetime:
    """Return when there is room for so long, from ``at`` on; room comes only when something ends."""
    later = sorted(end for _, end, _ in running if end > at)
    return next(
        each for each in (at, *later) if _most(each, each + duration, running) <= room
    )


def _most(
    begin: datetime, end: datetime, running: Sequence[tuple[datetime, datetime, int]]
) -> int:
    """Return how many units are in use at once between two instants, at most."""

    def in_use(at: datetime) -> int:
        return sum(units for start, stop, units in running if start <= at < stop)

    # It can only become more where something starts.
    instants = [begin, *(start for start, _, _ in running if begin < start < end)]
    return max(map(in_use, instants))
