"""When work that waits will start: its queue played forward many times, each time with other lengths of runs.

What is certain is the same each time: when reservations begin and end, when a ladder reaches what is bought. What is
not certain is drawn: how long that runs which holds units now, and what waits before it, from how long such runs lasted
(`run_lengths`); and what else will arrive, as it arrived on days before. Half of the starts lie before the one that is
told as p50, nine tenths before p90. Where in more than a tenth of them nothing becomes free, nothing is told.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Final

from reservoir.core.advice.lives import Life
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.snapshot import Node, Snapshot
from reservoir.core.model.team import by_namespace
from reservoir.core.model.workload import Demand, Workload
from reservoir.core.scheduling_terms.resources import CPU, MEMORY
from reservoir.core.start_times.queue import Need, Occupied, Order, UnitPlace, starts_of
from reservoir.core.start_times.room import Solve, UnitRoom
from reservoir.core.start_times.run_lengths import LearnedLengths

HORIZON: Final = timedelta(days=30)
LOOKED_BACK: Final = timedelta(days=28)
DRAWS: Final = 100
_DRAWS_LEAST: Final = 20
_STEPS_MAX: Final = 200_000  # of all draws together: a long queue is drawn less often
_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class StartQuantiles:
    """By when a start has come in one of ten, five of ten and nine of ten cases: when all replicas have places."""

    p10: datetime
    p50: datetime
    p90: datetime


@dataclass(frozen=True, slots=True)
class Past:
    """What is known of demand before now.

    ``placed_at`` is when what runs got its first place.
    """

    lives: Sequence[Life] = ()
    placed_at: Mapping[str, datetime] = field(default_factory=dict)
    begins: datetime | None = None


def estimate_starts(
    snapshot: Snapshot,
    past: Past,
    asked: Iterable[str],
    solve: Solve,
    now: datetime,
    draws: int = DRAWS,
) -> Mapping[str, StartQuantiles]:
    """Return when workloads that wait will have all of their places; who is left out, of that too little is known."""
    keys = {demand.workload.key for demand in snapshot.demands} & set(asked)
    if not keys:
        return {}
    return StartQuestion(snapshot, past, solve, now).quantiles(keys, draws)


@dataclass(frozen=True, slots=True)
class _RunningReplicas:
    """Replicas that have a place, of which is drawn how long they stay."""

    workload: Workload
    occupied: Occupied
    age_s: float


class StartQuestion:
    """The present queue, and the random draws of its future."""

    def __init__(self, snapshot: Snapshot, past: Past, solve: Solve, now: datetime) -> None:
        self.snapshot, self.past, self.now = snapshot, past, now
        self.room = UnitRoom(snapshot, solve, now)
        owners = by_namespace(snapshot.teams)
        self.lengths = LearnedLengths(
            past.lives,
            lambda name: owners[name].name if name in owners else name,
        )
        self.places = tuple(
            _place(snapshot, each.id, now) for each in snapshot.reservations
        )
        self.running = list(self._running())
        self.waiting = [
            (demand.workload, self._need(demand)) for demand in snapshot.demands
        ]
        begins = past.begins or now
        self.days_known = min(now - begins, LOOKED_BACK) // timedelta(days=1)
        # work that left without a place is taken not to come again
        self.recent = [
            life
            for life in past.lives
            if life.gone_at is None and now - LOOKED_BACK <= life.arrived_at < now
        ]
        self.known_needs: dict[str, tuple[Need, int | None]] = {}  # by life

    def quantiles(self, keys: set[str], draws: int) -> Mapping[str, StartQuantiles]:
        """Draw, and return for each workload the quantiles of its start."""
        began: dict[str, list[int]] = {key: [] for key in keys}
        steps = len(self.running) + len(self.waiting)
        count = max(_DRAWS_LEAST, min(draws, _STEPS_MAX // (steps + 1)))
        for number in range(count):
            starts = self._drawn(number, keys)
            for key in keys & starts.keys():
                began[key].append(starts[key])
        found: dict[str, StartQuantiles] = {}
        for key in sorted(keys):
            at = [_quantile(sorted(began[key]), count, percent) for percent in (10, 50, 90)]
            known = [self.now + timedelta(seconds=each) for each in at if each is not None]
            if len(known) == len(at):
                found[key] = StartQuantiles(*known)
        return found

    def _drawn(self, number: int, keys: set[str]) -> Mapping[str, int]:
        occupied: list[Occupied] = []
        for each in self.running:
            lengths = self.lengths.of(each.workload)
            chance = _chance(number, each.workload.key)
            ends_s = None if lengths is None else lengths.rest_s(chance, each.age_s)
            occupied.append(replace(each.occupied, ends_s=ends_s))
        needs = [
            replace(need, run_s=self._run_s(workload, number, need.key))
            for workload, need in self.waiting
        ]
        return starts_of(
            self.places,
            occupied,
            chain(needs, self._arrivals(number)),
            keys,
            HORIZON // _SECOND,
        )

    def _arrivals(self, number: int) -> Iterator[Need]:
        """Let work arrive as it did in the last so many days, another number of days each time, again and again."""
        if not self.days_known:
            return
        span = (1 + number % self.days_known) * timedelta(days=1)
        first = bisect_right(self.recent, self.now - span, key=lambda life: life.arrived_at)
        recent = self.recent[first:]
        shift = span
        while recent:
            for life in recent:
                yield self._arriving(life, life.arrived_at + shift, number)
            shift += span

    def _arriving(self, life: Life, at: datetime, number: int) -> Need:
        """Return what arrived once, as it arrives again."""
        known = self.known_needs.get(life.key)
        if known is None:
            known = self._new(life.workload, life.arrived_at)
            self.known_needs[life.key] = known
        need, bought_after_s = known
        arrives_s = (at - self.now) // _SECOND
        return replace(
            need,
            key=f"{life.key} {arrives_s}",
            order=(*need.order[:3], at, ""),
            arrives_s=arrives_s,
            bought_from_s=None if bought_after_s is None else arrives_s + bought_after_s,
            run_s=life.ran_s or self._run_s(life.workload, number, life.key),
        )

    def _new(self, workload: Workload, since: datetime) -> tuple[Need, int | None]:
        """Return what work wants that has just arrived, and after how long it is bought for; None: never."""
        bought_at = self._bought_at(workload, since, frozenset())
        bought_after_s = None if bought_at is None else (bought_at - since) // _SECOND
        return self._asked(workload, workload.replicas, since), bought_after_s

    def _run_s(self, workload: Workload, number: int, name: str) -> int | None:
        """Draw how long work runs that starts; None: nothing is known of such work."""
        lengths = self.lengths.of(workload)
        if lengths is None:
            return None
        return max(1, int(lengths.length_at(_chance(number, name))))

    def _need(self, demand: Demand) -> Need:
        """Return a demand as it waits: the markets that its ladder has reached do not serve it."""
        workload, since = demand.workload, demand.pending_since
        tried = workload.reached_capacity_types(since, self.now)
        bought_at = self._bought_at(workload, since, tried)
        return replace(
            self._asked(workload, demand.pending_count, since),
            bought_from_s=None if bought_at is None else (bought_at - self.now) // _SECOND,
        )

    def _asked(self, workload: Workload, count: int, since: datetime) -> Need:
        return Need(
            workload.key,
            count,
            _order(workload, since),
            self.room.taken_by(workload),
            is_gang=workload.gang is not None,
            declared_s=workload.duration_s,
        )

    def _bought_at(
        self, workload: Workload, since: datetime, tried: Set[CapacityType]
    ) -> datetime | None:
        """Return when its ladder first reaches a market that sells, besides those that were tried."""
        at: datetime | None = since
        while at is not None:
            reached = workload.reached_capacity_types(since, at) - tried
            markets = reached - {CapacityType.RESERVED}
            if any(self.room.is_sold(workload, market) for market in markets):
                return at
            at = workload.next_step_at(since, at)
        return None

    # Branches: one thing that may be unknown after the other.
    def _running(self) -> Iterator[_RunningReplicas]:
        """Return who is on reserved units; with what they want again where they have to leave."""
        closing = {place.id for place in self.places if place.is_drained}
        known = {place.id for place in self.places}
        for node in self.snapshot.nodes:
            if node.reservation_id not in known:
                continue
            for placed in node.placements:
                workload = self.snapshot.workloads.get(placed.workload_key)
                if workload is None:
                    continue
                since = self.past.placed_at.get(workload.key) or node.created_at or self.now
                need = None
                if node.reservation_id in closing:
                    need = self._asked(workload, placed.count, since)
                occupied = Occupied(
                    node.reservation_id,
                    node.claim_id,
                    _part_of(node, workload, placed.count),
                    None,
                    need,
                )
                yield _RunningReplicas(
                    workload, occupied, (self.now - since).total_seconds()
                )


def _place(snapshot: Snapshot, reservation_id: str, now: datetime) -> UnitPlace:
    """Return a reservation as a place; one that has not begun has all of its units then."""
    (found,) = [each for each in snapshot.reservations if each.id == reservation_id]
    drain = found.block_drain()
    closes_at = found.end_at if drain is None else drain.starts_at
    opens_s, free_count = 0, found.free_units
    if found.is_upcoming(now) and found.start_at is not None:
        opens_s = max(1, (found.start_at - now) // _SECOND)
        free_count = found.size
    return UnitPlace(
        found.id,
        free_count,
        opens_s,
        None if closes_at is None else max(0, (closes_at - now) // _SECOND),
        is_drained=drain is not None,
    )


def _part_of(node: Node, workload: Workload, count: int) -> int:
    """Return the part of a node that so many replicas take, in thousandths: of the resource of which it is most."""
    parts = [1]
    for name, amount in workload.requests.items():
        if node.allocatable[name] > 0:
            parts.append(1000 * count * amount // node.allocatable[name])
    return min(1000, max(parts))


def _order(workload: Workload, since: datetime) -> Order:
    """Return where a workload stands in the planner's queue."""
    requests = workload.requests
    return -workload.priority, -requests[CPU], -requests[MEMORY], since, workload.key


def _chance(number: int, name: str) -> float:
    """Return a number from 0 to less than 1 for a draw and whom it is for: the same question has the same answer.

    Replicas of one workload have the same, because they run for about as long.
    """
    digest = hashlib.blake2b(f"{number} {name}".encode(), digest_size=6).digest()
    return int.from_bytes(digest) / 2**48


def _quantile(ascending: Sequence[int], count: int, percent: int) -> int | None:
    """Return the least value that so many percent of all draws do not exceed; None: too few have any."""
    rank = -(-count * percent // 100)
    return ascending[rank - 1] if rank <= len(ascending) else None
