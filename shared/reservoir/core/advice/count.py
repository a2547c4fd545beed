"""Counts through a month of demand: which numbers of units are worth playing.

It knows units and parts of them, which demand waits and for how long, and what is bought instead. It knows neither
nodes nor rules about neighbours. Its results are judged by playing them (``reservoir.core.advice.play``).
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.advice.lives import Life
from reservoir.core.advice.units import MILLI, Fit, Ground
from reservoir.core.model.instance_type import CapacityType

PARTS: Final = timedelta(days=7)
_HOUR_S: Final = 3600


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a time: of held units, of bought capacity, and of waiting. In micro-USD; waiting also in time."""

    held_micro_usd: int = 0
    bought_micro_usd: int = 0
    waiting_micro_usd: int = 0
    waiting_replica_s: int = 0

    @property
    def micro_usd(self) -> int:
        """All of it."""
        return self.held_micro_usd + self.bought_micro_usd + self.waiting_micro_usd

    @property
    def paid_micro_usd(self) -> int:
        """What AWS is paid."""
        return self.held_micro_usd + self.bought_micro_usd

    def __add__(self, other: "Cost") -> "Cost":
        """Add up."""
        return Cost(
            self.held_micro_usd + other.held_micro_usd,
            self.bought_micro_usd + other.bought_micro_usd,
            self.waiting_micro_usd + other.waiting_micro_usd,
            self.waiting_replica_s + other.waiting_replica_s,
        )


@dataclass(slots=True)
class Bill:
    """Adds up rates over time, in parts of a week."""

    since: datetime
    until: datetime
    parts: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin with nothing."""
        count = max(1, -(-(self.until - self.since) // PARTS))
        self.parts = [[0, 0, 0] for _ in range(count)]

    def add(self, what: int, rate: int, begin_s: int, end_s: int) -> None:
        """Add a rate an hour over seconds since the beginning; 0: bought, 1: waiting, 2: replicas that wait."""
        part_s = int(PARTS.total_seconds())
        end_s = min(end_s, int((self.until - self.since).total_seconds()))
        begin_s = max(0, begin_s)
        while begin_s < end_s:
            part = begin_s // part_s
            stop_s = min(end_s, (part + 1) * part_s)
            self.parts[part][what] += rate * (stop_s - begin_s)
            begin_s = stop_s

    def costs(self, held_rate: int, worth_percent: int) -> tuple[Cost, ...]:
        """Return what each part cost, with so much held for the whole time."""
        total_s = int((self.until - self.since).total_seconds())
        part_s = int(PARTS.total_seconds())
        found = []
        for number, (bought, waiting, replicas) in enumerate(self.parts):
            seconds = min(part_s, total_s - number * part_s)
            worth = waiting * worth_percent // 100 // _HOUR_S
            found.append(
                Cost(held_rate * seconds // _HOUR_S, bought // _HOUR_S, worth, replicas)
            )
        return tuple(found)


@dataclass(slots=True, eq=False)
class _Stay:
    """Replicas of a life in one place; bought ones move into units that become free."""

    item: "_CountedLife"
    replicas: int
    ends_s: int | None
    kind: str | None  # None: bought
    since_s: int
    rate: int = 0


@dataclass(frozen=True, slots=True)
class _CountedLife:
    """A life as it is counted, in seconds since the beginning."""

    number: int
    arrived_s: int
    ran_s: int | None
    gone_s: int | None
    replicas: int
    priority: int
    is_gang: bool
    may_move: bool
    # parts of a unit for a replica, the cheapest kind first
    milli: tuple[tuple[str, int], ...]
    # from when on a market is open to it, and what a replica costs there
    buys_from_s: tuple[tuple[int, int], ...]
    worth: int
    types: frozenset[str]


class Counted:
    """Demand made ready for being counted, once for all numbers of units."""

    def __init__(
        self, ground: Ground, lives: Sequence[Life], since: datetime, until: datetime
    ) -> None:
        self.since, self.until = since, until
        prices = {kind.id: kind.micro_usd_per_hour for kind in ground.kinds}
        self.prices = prices
        self.items = [
            self._item(number, life, ground.fit(life.workload), prices)
            for number, life in enumerate(lives)
        ]
        self.items = [item for item in self.items if item.milli or item.buys_from_s]
        self.items.sort(key=lambda item: (item.arrived_s, item.number))
        self.end_s = int((until - since).total_seconds())

    # Branches: what may be absent of a life and of its ladder, each with its default.
    def _item(
        self, number: int, life: Life, fit: Fit, prices: Mapping[str, int]
    ) -> _CountedLife:
        arrived_s = int((life.arrived_at - self.since).total_seconds())
        workload = life.workload
        kinds = sorted(
            fit.milli_units, key=lambda kind: (fit.milli_units[kind] * prices[kind], kind)
        )
        reached = dict.fromkeys(fit.bought_micro_usd_per_hour, 0)
        if workload.fallback:
            reached = {}
            opens_s = 0
            for step in workload.fallback:
                reached.setdefault(step.capacity_type, opens_s)
                if step.for_s is None:
                    break
                opens_s += step.for_s
        markets = sorted(
            (
                max(0, arrived_s) + reached[market] if arrived_s >= 0 else reached[market],
                price,
            )
            for market, price in fit.bought_micro_usd_per_hour.items()
            if market in reached
        )
        uses_reserved = not workload.fallback or CapacityType.RESERVED in reached
        return _CountedLife(
            number,
            arrived_s,
            life.ran_s,
            None
            if life.gone_at is None
            else int((life.gone_at - self.since).total_seconds()),
            workload.replicas,
            workload.priority,
            workload.gang is not None,
            not workload.do_not_disrupt,
            tuple((kind, fit.milli_units[kind]) for kind in kinds) if uses_reserved else (),
            tuple(markets),
            fit.worth_micro_usd_per_hour,
            fit.bought_types,
        )

    def cost(self, units: Mapping[str, int], worth_percent: int) -> tuple[Cost, ...]:
        """Return what the time would have cost with these units, week by week."""
        held = sum(self.prices[kind] * count for kind, count in units.items())
        return _Count(self, units).run().costs(held, worth_percent)


class _Count:
    """One way through."""

    def __init__(self, counted: Counted, units: Mapping[str, int]) -> None:
        self.counted = counted
        self.free = {kind: MILLI * units.get(kind, 0) for kind in counted.prices}
        self.bill = Bill(counted.since, counted.until)
        self.waiting: dict[
            int, tuple[_CountedLife, int, int]
        ] = {}  # by number: the item, how many of it, and since when
        self.bought: dict[_Stay, None] = {}  # in the order in which they were bought
        self.events: list[tuple[int, int, int, object]] = []
        self.sequence = 0

    def run(self) -> Bill:
        """Go through all of it."""
        for item in self.counted.items:
            self._after(item.arrived_s, 1, item)
        while self.events and self.events[0][0] < self.counted.end_s:
            at_s = self.events[0][0]
            freed = False
            while self.events and self.events[0][0] == at_s:
                _, kind, _, what = heapq.heappop(self.events)
                freed |= self._happen(at_s, kind, what)
            self._serve(at_s)
            if freed:
                self._move_in(at_s)
        for item, count, since_s in self.waiting.values():
            self._waited(item, count, since_s, self.counted.end_s)
        for running in self.bought:
            self.bill.add(0, running.rate, running.since_s, self.counted.end_s)
        return self.bill

    def _after(self, at_s: int, kind: int, what: object) -> None:
        self.sequence += 1
        heapq.heappush(self.events, (at_s, kind, self.sequence, what))

    # Branches: one kind of event after the other.
    def _happen(self, at_s: int, kind: int, what: object) -> bool:
        """Let one thing happen; return whether units became free."""
        if kind == 0 and isinstance(what, _Stay):
            return self._end(at_s, what)
        if kind == 1 and isinstance(what, _CountedLife):
            self.waiting[what.number] = (what, what.replicas, at_s)
            for opens_s, _ in what.buys_from_s:
                if opens_s > at_s:
                    self._after(opens_s, 2, None)
            if what.gone_s is not None and what.gone_s > at_s:
                self._after(what.gone_s, 3, what)
        elif kind == 3 and isinstance(what, _CountedLife) and what.number in self.waiting:
            item, count, since_s = self.waiting.pop(what.number)
            self._waited(item, count, since_s, at_s)
        return False

    def _end(self, at_s: int, running: _Stay) -> bool:
        if running.kind is None:
            self.bought.pop(running, None)
            self.bill.add(0, running.rate, running.since_s, at_s)
            return False
        self.free[running.kind] += running.replicas * dict(running.item.milli)[running.kind]
        return True

    def _waited(self, item: _CountedLife, count: int, since_s: int, until_s: int) -> None:
        self.bill.add(1, item.worth * count, since_s, until_s)
        self.bill.add(2, count, since_s, until_s)

    def _serve(self, at_s: int) -> None:
        in_order = sorted(
            self.waiting.values(),
            key=lambda each: (-each[0].priority, each[2], each[0].number),
        )
        for item, count, since_s in in_order:
            placed = self._place(item, count, at_s)
            if not placed:
                continue
            self._waited(item, placed, since_s, at_s)
            if placed == count:
                del self.waiting[item.number]
            else:
                self.waiting[item.number] = (item, count - placed, since_s)

    # Branches: units, then capacity to buy; a gang first makes sure that it has room as a whole.
    def _place(self, item: _CountedLife, count: int, at_s: int) -> int:
        """Place what there is room for; a gang all of it or nothing."""
        price = min(
            (price for opens_s, price in item.buys_from_s if opens_s <= at_s), default=None
        )
        room = [
            (kind, min(count, self.free[kind] // each))
            for kind, each in item.milli
            if self.free[kind] >= each
        ]
        if item.is_gang and price is None and sum(replicas for _, replicas in room) < count:
            return 0
        ends_s = None if item.ran_s is None else at_s + item.ran_s
        left = count
        for kind, most in room:
            replicas = min(left, most)
            if replicas:
                left -= replicas
                self.free[kind] -= replicas * dict(item.milli)[kind]
                self._start(_Stay(item, replicas, ends_s, kind, at_s))
        if left and price is not None:
            running = _Stay(item, left, ends_s, None, at_s, price * left)
            self.bought[running] = None
            self._start(running)
            left = 0
        return count - left

    def _start(self, running: _Stay) -> None:
        if running.ends_s is not None:
            self._after(running.ends_s, 0, running)

    def _move_in(self, at_s: int) -> None:
        """Move bought replicas into free units: the most expensive first, as many at once as there were."""
        for running in sorted(
            self.bought,
            key=lambda each: (-each.rate // each.replicas, each.item.number),
        ):
            if not running.item.may_move:
                continue
            for kind, each in running.item.milli:
                if self.free[kind] >= each * running.replicas:
                    self.bill.add(0, running.rate, running.since_s, at_s)
                    del self.bought[running]
                    self.free[kind] -= each * running.replicas
                    running.kind, running.rate = kind, 0
                    break
