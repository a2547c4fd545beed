"""One way in which a queue may go: units become free, work that waits takes them, more work arrives.

This is no plan. What fits where was asked of the scheduler before; here only units, and parts of them, are counted
(thousandths, as several nodes' worth of small work share a unit), in the order in which the planner looks at demand.
"""

import heapq
from bisect import insort
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

UNIT_MILLI: Final = 1000
# in the order in which they happen within a second
_END, _CLOSE, _OPEN, _ARRIVAL, _LOOK = range(5)
Order = tuple[int, int, int, datetime, str]


@dataclass(frozen=True, slots=True)
class UnitPlace:
    """Units that stand for each other: those of one reservation.

    Nothing starts there before ``opens_s``, and nothing after ``closes_s``; None: it lasts. ``is_drained``: what runs
    there has to leave by then, and does not stay on what has become an ordinary instance.
    """

    id: str
    free_count: int
    opens_s: int = 0
    closes_s: int | None = None
    is_drained: bool = False


@dataclass(frozen=True, slots=True)
class Need:
    """Replicas that want a place.

    ``milli`` is what one of them takes of a unit, by place; where it may not run is not in it. ``bought_from_s`` is
    from when on what is missing is bought; None: never. ``run_s`` is how long it runs once it has a place; None: that
    is not known, and it is taken to stay.
    """

    key: str
    count: int
    order: Order
    milli: Mapping[str, int]
    is_gang: bool = False
    bought_from_s: int | None = None
    declared_s: int | None = None
    arrives_s: int = 0
    run_s: int | None = None


@dataclass(frozen=True, slots=True)
class Occupied:
    """Replicas that have a part of a unit already; ``unit`` tells units of a place apart.

    ``ends_s`` None: nobody knows. ``need`` is what they want again if their place closes; None: nothing.
    """

    place_id: str
    unit: str
    milli: int
    ends_s: int | None
    need: Need | None = None


@dataclass(slots=True, eq=False)
class _PartedUnit:
    place_id: str
    free_milli: int


@dataclass(slots=True, eq=False)
class _UnitStay:
    unit: _PartedUnit
    milli: int
    ends_s: int | None
    need: Need | None
    is_over: bool = False


@dataclass(slots=True)
class _QueueState:
    """What is known at one instant."""

    places: Mapping[str, UnitPlace]
    empty: Counter[str] = field(default_factory=Counter)
    used: dict[str, list[_PartedUnit]] = field(default_factory=dict)
    stays: dict[str, list[_UnitStay]] = field(default_factory=dict)  # by place that closes
    waiting: list[tuple[Order, int, Need]] = field(default_factory=list)
    started: dict[str, int] = field(default_factory=dict)
    events: list[tuple[int, int, int, object]] = field(default_factory=list)
    sequence: int = 0


def starts_of(
    places: Iterable[UnitPlace],
    occupied: Iterable[Occupied],
    needs: Iterable[Need],
    asked: Iterable[str],
    until_s: int,
) -> Mapping[str, int]:
    """Return after how many seconds needs have all of their places; those that have not by then are left out.

    ``needs`` are in the order in which they arrive; no more of them are looked at than matter.
    """
    queue = _QueueState({place.id: place for place in places})
    _fill(queue, occupied)
    coming = iter(needs)
    following = next(coming, None)
    missing = set(asked)
    while missing and (queue.events or following is not None):
        if following is not None and _is_first(following, queue):
            _after(queue, following.arrives_s, _ARRIVAL, following)
            following = next(coming, None)
            continue
        at_s = queue.events[0][0]
        if at_s > until_s:
            break
        while queue.events and queue.events[0][0] == at_s:
            _, kind, _, what = heapq.heappop(queue.events)
            _happen(queue, at_s, kind, what)
        _serve(queue, at_s)
        missing -= queue.started.keys()
    return queue.started


def _is_first(need: Need, queue: _QueueState) -> bool:
    """Whether a need arrives before, or when, the next thing happens."""
    return not queue.events or need.arrives_s <= queue.events[0][0]


def _fill(queue: _QueueState, occupied: Iterable[Occupied]) -> None:
    """Let places be as they are, and note what is certain to happen to them."""
    for place in queue.places.values():
        queue.used[place.id] = []
        _after(queue, place.opens_s, _OPEN, place)
        if place.closes_s is not None:
            _after(queue, place.closes_s, _CLOSE, place)
    units: dict[tuple[str, str], _PartedUnit] = {}
    for each in occupied:
        name = each.place_id, each.unit
        if name not in units:
            units[name] = _PartedUnit(each.place_id, UNIT_MILLI)
            queue.used[each.place_id].append(units[name])
        _stay(queue, units[name], each.milli, each.ends_s, each.need)


def _after(queue: _QueueState, at_s: int, kind: int, what: object) -> None:
    queue.sequence += 1
    heapq.heappush(queue.events, (at_s, kind, queue.sequence, what))


def _stay(
    queue: _QueueState, unit: _PartedUnit, milli: int, ends_s: int | None, need: Need | None
) -> None:
    unit.free_milli = max(0, unit.free_milli - milli)
    stay = _UnitStay(unit, milli, ends_s, need)
    if ends_s is not None:
        _after(queue, ends_s, _END, stay)
    if queue.places[unit.place_id].closes_s is not None:
        queue.stays.setdefault(unit.place_id, []).append(stay)


def _happen(queue: _QueueState, at_s: int, kind: int, what: object) -> None:
    if isinstance(what, Need):
        _arrive(queue, at_s, what)
    elif isinstance(what, _UnitStay):
        _end(queue, what)
    elif isinstance(what, UnitPlace) and kind == _OPEN:
        queue.empty[what.id] += what.free_count
    elif isinstance(what, UnitPlace):
        _close(queue, at_s, what)


def _arrive(queue: _QueueState, at_s: int, need: Need) -> None:
    queue.sequence += 1
    insort(queue.waiting, (need.order, queue.sequence, need), key=lambda each: each[:2])
    if need.bought_from_s is not None and need.bought_from_s > at_s:
        _after(queue, need.bought_from_s, _LOOK, None)


def _end(queue: _QueueState, stay: _UnitStay) -> None:
    if stay.is_over:
        return
    stay.is_over = True
    unit = stay.unit
    unit.free_milli = min(UNIT_MILLI, unit.free_milli + stay.milli)
    if unit.free_milli == UNIT_MILLI:
        queue.used[unit.place_id].remove(unit)
        queue.empty[unit.place_id] += 1


def _close(queue: _QueueState, at_s: int, place: UnitPlace) -> None:
    """Take a place away for good; what has to leave it waits again."""
    queue.empty[place.id] = 0
    queue.used[place.id] = []
    for stay in queue.stays.pop(place.id, []):
        if place.is_drained and not stay.is_over and stay.need is not None:
            rest_s = None if stay.ends_s is None else stay.ends_s - at_s
            _arrive(queue, at_s, replace(stay.need, run_s=rest_s))
        stay.is_over = True


def _serve(queue: _QueueState, at_s: int) -> None:
    """Give places to waiting work that fits, in the planner's order."""
    # what found no room, with how many replicas
    short: dict[tuple[int, bool, int | None], int] = {}
    left_over: list[tuple[Order, int, Need]] = []
    for order, number, need in queue.waiting:
        alike = id(need.milli), need.is_gang, need.declared_s
        is_bought = need.bought_from_s is not None and need.bought_from_s <= at_s
        if not is_bought and need.count >= short.get(alike, need.count + 1):
            left_over.append((order, number, need))
            continue
        count = _placed(queue, at_s, need, is_bought=is_bought)
        if count == need.count:
            queue.started.setdefault(need.key, at_s)
            continue
        short[alike] = need.count if need.is_gang else 1
        left = replace(need, count=need.count - count) if count else need
        left_over.append((order, number, left))
    queue.waiting = left_over


def _placed(queue: _QueueState, at_s: int, need: Need, *, is_bought: bool) -> int:
    """UnitPlace what there is room for, and return how many; a gang all of it or nothing."""
    chosen: list[tuple[str, int]] = []
    left = need.count
    # what fills a unit best comes first
    for place_id in sorted(need.milli, key=lambda each: (-need.milli[each], each)):
        room = min(left, _room(queue, at_s, need, place_id))
        if room:
            chosen.append((place_id, room))
            left -= room
    if left and need.is_gang and not is_bought:
        return 0
    ends_s = None if need.run_s is None else at_s + max(1, need.run_s)
    for place_id, count in chosen:
        _take(queue, need, place_id, count, ends_s)
    return need.count if is_bought else need.count - left


def _room(queue: _QueueState, at_s: int, need: Need, place_id: str) -> int:
    place = queue.places[place_id]
    if place.closes_s is not None and at_s + (need.declared_s or 0) > place.closes_s:
        return 0
    milli = need.milli[place_id]
    in_used = sum(unit.free_milli // milli for unit in queue.used[place_id])
    return in_used + queue.empty[place_id] * (UNIT_MILLI // milli)


def _take(
    queue: _QueueState, need: Need, place_id: str, count: int, ends_s: int | None
) -> None:
    """Take room for so many replicas, of units in use before others."""
    milli = need.milli[place_id]
    has_to_leave = queue.places[place_id].is_drained
    left = count
    for unit in queue.used[place_id]:
        taken = min(left, unit.free_milli // milli)
        if taken:
            again = replace(need, count=taken) if has_to_leave else None
            _stay(queue, unit, taken * milli, ends_s, again)
            left -= taken
    while left:
        taken = min(left, UNIT_MILLI // milli)
        unit = _PartedUnit(place_id, UNIT_MILLI)
        queue.used[place_id].append(unit)
        queue.empty[place_id] -= 1
        again = replace(need, count=taken) if has_to_leave else None
        _stay(queue, unit, taken * milli, ends_s, again)
        left -= taken
