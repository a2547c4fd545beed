"""How near plans for small worlds are to the best that there is, which an exact program of this bench's own says.

The program knows nothing of the solver: it enumerates everything that a node of each offering can hold, and chooses
among these with HiGHS. What is *bought* is compared, without what a node costs beside its price. ``exact-small`` has
worlds that nothing is tuned with; the shares and means are over those in which the best plan buys anything.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import highspy
import numpy as np

from lab.bench.harness import fresh
from lab.bench.worlds.common import NOW
from lab.bench.worlds.small import ZONE, small_snapshot
from lab.calibration import Figures
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import Workload
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms import labels

_FIRST_SEED: Final = 500_000
_WORLDS: Final = 1_000
_UNPLACED_USD: Final = 1e4  # more than all nodes of a world
_SAME_USD: Final = 1e-6
# of one world: beyond it the world is not judged, and counted as such
_CONTENTS_MAX: Final = 60_000


@dataclass(frozen=True, slots=True)
class Place:
    """A type in a market, or the free units of a reservation (``units``); ``price_usd`` of one node."""

    instance_type: InstanceType
    market: CapacityType
    price_usd: float
    units: int | None = None


@dataclass(frozen=True, slots=True)
class Best:
    """What the best plan leaves over and buys, in USD an hour, and the fewest units with which it does."""

    left_over: int
    bought_usd_per_hour: float
    units: int


def cases() -> Sequence[str]:
    """Return the first and the certified form."""
    return ["exact-small-first", "exact-small-certified"]


def run(case: str) -> Figures:
    """Compare so many worlds in a process of their own."""
    form = case.rpartition("-")[2]
    return fresh(
        "lab.bench.exact.exact_small:measure", form, str(_FIRST_SEED), str(_WORLDS)
    )


def measure(form: str, first_seed: str, worlds: str) -> Figures:
    """Plan so many worlds, and tell how much more is bought than need be, and how many more units are used."""
    policy = SchedulingPolicy(with_certificate=form == "certified")
    ratios: list[float] = []
    units = units_least = left_more = not_judged = 0
    for seed in range(int(first_seed), int(first_seed) + int(worlds)):
        snapshot = small_snapshot(seed)
        best = best_plan(snapshot)
        if best is None:
            not_judged += 1
            continue
        plan = solve(snapshot, now=NOW, policy=policy)
        left_more += sum(item.count for item in plan.unplaced) > best.left_over
        units += used_units(plan)
        units_least += best.units
        if best.bought_usd_per_hour > _SAME_USD:
            ratios.append(bought_usd_per_hour(snapshot, plan) / best.bought_usd_per_hour)
    dearer = sum(ratio > 1 + _SAME_USD for ratio in ratios)
    return {
        "worlds": int(worlds),
        "worlds_not_judged": not_judged,
        "worlds_that_buy": len(ratios),
        "worlds_that_leave_more": left_more,
        "dearer_percent": round(100 * dearer / len(ratios), 2),
        "bought_over_least_mean": round(sum(ratios) / len(ratios), 5),
        "bought_over_least_worst": round(max(ratios), 4),
        "units_over_fewest": round(units / units_least, 4) if units_least else 1.0,
    }


def used_units(plan: Plan) -> int:
    """Return how many reserved units a plan launches on."""
    return sum(
        launch.count
        for launch in plan.launches
        if launch.offering.reservation_id is not None
    )


def bought_usd_per_hour(snapshot: Snapshot, plan: Plan) -> float:
    """Return the prices of all nodes that are not on reserved units."""
    prices = {
        (place.instance_type.name, place.market): place.price_usd
        for place in places_of(snapshot)
    }
    bought = [launch for launch in plan.launches if launch.offering.reservation_id is None]
    return sum(
        prices[it.offering.instance_type, it.offering.capacity_type] * it.count
        for it in bought
    )


def best_plan(snapshot: Snapshot) -> Best | None:
    """Return the best of all plans; None where a node can hold too many different things."""
    places = list(places_of(snapshot))
    columns: list[tuple[int, tuple[int, ...]]] = []
    for number, place in enumerate(places):
        for content in _contents(snapshot, place):
            columns.append((number, content))
            if len(columns) > _CONTENTS_MAX:
                return None
    prices = [places[number].price_usd for number, _ in columns]
    money, counts = _chosen(snapshot, places, columns, prices, None)
    left = _left_over(snapshot, columns, counts)
    bought = sum(price * count for price, count in zip(prices, counts, strict=True))
    on_units = [0.0 if places[number].units is None else 1.0 for number, _ in columns]
    _, fewest = _chosen(snapshot, places, columns, on_units, (prices, money + _SAME_USD))
    return Best(
        left,
        bought,
        round(sum(unit * count for unit, count in zip(on_units, fewest, strict=True))),
    )


def places_of(snapshot: Snapshot) -> Iterator[Place]:
    """Yield what is sold in the zone, then the free units of each reservation."""
    types = {item.name: item for item in snapshot.instance_types}
    for item in snapshot.instance_types:
        for offering in item.offerings:
            if offering.zone == ZONE:
                yield Place(
                    item, offering.capacity_type, offering.price_micro_usd_per_hour / 1e6
                )
    for reservation in snapshot.reservations:
        yield Place(
            types[reservation.instance_type],
            CapacityType.RESERVED,
            0.0,
            reservation.free_units,
        )


def _contents(snapshot: Snapshot, place: Place) -> Iterator[tuple[int, ...]]:
    """Yield all that a node can hold beside which no further replica fits: a count for each demand."""
    named: set[str] = set()
    for demand in snapshot.demands:
        named.update(demand.workload.requests)
    names = sorted(named)
    asked: list[list[int]] = []
    for demand in snapshot.demands:
        asked.append([demand.workload.requests[name] for name in names])
    most = [
        demand.pending_count if accepts(demand.workload, place) else 0
        for demand in snapshot.demands
    ]

    def fits(index: int, room: list[int]) -> bool:
        return all(need <= free for need, free in zip(asked[index], room, strict=True))

    def fill(
        index: int, room: list[int], held: tuple[int, ...]
    ) -> Iterator[tuple[int, ...]]:
        if index == len(most):
            is_full = not any(
                held[other] < most[other] and fits(other, room)
                for other in range(len(most))
            )
            if any(held) and is_full:
                yield held
            return
        count = 0
        while True:
            yield from fill(index + 1, room, (*held, count))
            if count == most[index] or not fits(index, room):
                return
            count += 1
            room = [free - need for free, need in zip(room, asked[index], strict=True)]

    yield from fill(0, [place.instance_type.allocatable[name] for name in names], ())


def accepts(workload: Workload, place: Place) -> bool:
    """Whether a workload may run at a place, whatever the room."""
    market = workload.node_selector[labels.CAPACITY_TYPE]
    arch = workload.node_selector[labels.ARCH]
    return market.has(place.market) and arch.has_intersection(
        place.instance_type.requirements[labels.ARCH]
    )


def _chosen(
    snapshot: Snapshot,
    places: Sequence[Place],
    columns: Sequence[tuple[int, tuple[int, ...]]],
    costs: Sequence[float],
    at_most: tuple[Sequence[float], float] | None,
) -> tuple[float, list[float]]:
    """Minimise a cost over whole uses of contents; ``at_most`` bounds another cost, with who is left over in both."""
    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call] # has no type information
    for option, value in {
        "output_flag": False,
        "threads": 1,
        "mip_rel_gap": 0.0,
        "mip_abs_gap": 1e-9,
    }.items():
        highs.setOptionValue(option, value)
    demands = [float(demand.pending_count) for demand in snapshot.demands]
    units = [
        (number, place.units)
        for number, place in enumerate(places)
        if place.units is not None
    ]
    unit_row = {number: len(demands) + row for row, (number, _) in enumerate(units)}
    lower = [*demands, *(0.0 for _ in units)]
    upper = [*(highspy.kHighsInf for _ in demands), *(float(most) for _, most in units)]
    if at_most is not None:
        lower, upper = [*lower, -highspy.kHighsInf], [*upper, at_most[1]]
    highs.addRows(
        len(lower),
        np.array(lower),
        np.array(upper),
        0,
        np.zeros(0),
        np.zeros(0),
        np.zeros(0),
    )
    last = len(lower) - 1
    for index in range(len(demands)):  # who is left over
        entries = {index: 1.0, **({last: _UNPLACED_USD} if at_most is not None else {})}
        _add(highs, _UNPLACED_USD, entries)
    for position, ((number, content), cost) in enumerate(zip(columns, costs, strict=True)):
        entries = {index: float(count) for index, count in enumerate(content) if count}
        if number in unit_row:
            entries[unit_row[number]] = 1.0
        if at_most is not None:
            entries[last] = at_most[0][position]
        _add(highs, cost, entries)
    highs.run()
    assert highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    values = list(highs.getSolution().col_value)
    return float(highs.getInfo().objective_function_value), values[len(demands) :]


def _add(highs: Any, cost: float, entries: dict[int, float]) -> None:
    rows = sorted(entries)
    values = np.array([entries[row] for row in rows])
    highs.addCol(
        cost, 0.0, highspy.kHighsInf, len(rows), np.array(rows, dtype=np.int32), values
    )
    highs.changeColIntegrality(highs.getNumCol() - 1, highspy.HighsVarType.kInteger)


def _left_over(
    snapshot: Snapshot,
    columns: Sequence[tuple[int, tuple[int, ...]]],
    counts: Sequence[float],
) -> int:
    left = 0
    for index, demand in enumerate(snapshot.demands):
        held = sum(
            content[index] * count
            for (_, content), count in zip(columns, counts, strict=True)
        )
        left += max(0, round(demand.pending_count - held))
    return left
