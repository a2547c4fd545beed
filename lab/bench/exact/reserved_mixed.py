"""How sparingly plans use reserved units where there are more than enough, of many types and with GPUs among them.

A program of this bench's own says how few units would do for the same purchase: column generation whose pricing is
exact (an integer program for each kind of node). Its optimum, in fractions of nodes, bounds every plan from below; with
its columns as whole nodes it finds a plan of its own, which need not be the best. The least lies between. It knows
nothing of the solver. ``reserved-mixed`` has worlds that nothing is tuned with.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf, sqrt
from typing import Any, Final

import highspy
import numpy as np

from lab.bench.exact.exact_small import (
    Place,
    accepts,
    bought_usd_per_hour,
    places_of,
    used_units,
)
from lab.bench.harness import fresh
from lab.bench.worlds.catalogue import GPU
from lab.bench.worlds.common import NOW
from lab.bench.worlds.reserved_mixed import ZONE, reserved_mixed_snapshot
from lab.calibration import Figures
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.plan import Plan, PlannedNodes
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduler import solve

_FIRST_SEED: Final = 510_000
_WORLDS: Final = 24
_SAME_USD: Final = 1e-6
_TINY: Final = 1e-6
_ROUNDS_MAX: Final = 200
_NODES_MAX: Final = 300

# How many replicas of each demand are on a node.
Content = tuple[int, ...]


def cases() -> Sequence[str]:
    """Return the first and the certified form."""
    return ["reserved-mixed-first", "reserved-mixed-certified"]


def run(case: str) -> Figures:
    """Plan so many worlds in a process of their own."""
    form = case.rpartition("-")[2]
    module = "lab.bench.exact.reserved_mixed:measure"
    return fresh(module, form, str(_FIRST_SEED), str(_WORLDS))


def measure(form: str, first_seed: str, worlds: str) -> Figures:
    """Plan so many worlds, and tell how many units more are used than would do."""
    policy = SchedulingPolicy(with_certificate=form == "certified")
    units = least = misused = avoidable = left = 0
    worth = worth_least = worth_known = 0.0
    ratios: list[float] = []
    for seed in range(int(first_seed), int(first_seed) + int(worlds)):
        snapshot = reserved_mixed_snapshot(seed)
        plan = solve(snapshot, now=NOW, policy=policy)
        left += sum(item.count for item in plan.unplaced)
        units += used_units(plan)
        least += ceil(least_units(snapshot, plan, weigh_one).at_least - _TINY)
        used = worth_of_units(snapshot, plan)
        enough = least_units(snapshot, plan, weigh_worth)
        worth += used
        worth_least += enough.at_least
        worth_known += min(used, enough.found)
        if used:
            ratios.append(used / min(used, enough.found))
        for launch in misused_launches(snapshot, plan):
            misused += launch.count
            avoidable += launch.count * would_fit_elsewhere(snapshot, plan, launch)
    return {
        "worlds": int(worlds),
        "left_over": left,
        "units": units,
        "units_least": least,
        "units_over_least": round(units / least, 4),
        "worth_over_least": round(worth / worth_least, 4),
        "worth_over_best_known": round(worth / worth_known, 4),
        "worth_over_best_known_worst": round(max(ratios), 4),
        "misused_accelerated_units": misused,
        "misused_avoidably": avoidable,
    }


def misused_launches(snapshot: Snapshot, plan: Plan) -> Iterator[PlannedNodes]:
    """Yield reserved nodes with GPUs under work that asks for none."""
    types = {item.name: item for item in snapshot.instance_types}
    asking = {it.workload.key for it in snapshot.demands if it.workload.requests[GPU]}
    for launch in plan.launches:
        has_gpus = bool(types[launch.offering.instance_type].capacity[GPU])
        keys = {placed.workload_key for placed in launch.placements}
        is_reserved = launch.offering.reservation_id is not None
        if is_reserved and has_gpus and keys.isdisjoint(asking):
            yield launch


def would_fit_elsewhere(snapshot: Snapshot, plan: Plan, launch: PlannedNodes) -> bool:
    """Whether a free unit without GPUs would hold all that is on a node."""
    free = {item.id: item.free_units for item in snapshot.reservations}
    for other in plan.launches:
        if other.offering.reservation_id is not None:
            free[other.offering.reservation_id] -= other.count
    counts = {placed.workload_key: placed.count for placed in launch.placements}
    content = tuple(counts.get(item.workload.key, 0) for item in snapshot.demands)
    for reservation, place in _units(snapshot):
        is_free = free[reservation] > 0 and not place.instance_type.capacity[GPU]
        if is_free and _holds(snapshot, place, content):
            return True
    return False


def _units(snapshot: Snapshot) -> Iterator[tuple[str, Place]]:
    reserved = [place for place in places_of(snapshot) if place.units is not None]
    for reservation, place in zip(snapshot.reservations, reserved, strict=True):
        yield reservation.id, place


def _holds(snapshot: Snapshot, place: Place, content: Content) -> bool:
    for name in _names(snapshot):
        asked = 0
        for demand, count in zip(snapshot.demands, content, strict=True):
            asked += demand.workload.requests[name] * count
        if asked > place.instance_type.allocatable[name]:
            return False
    return all(
        accepts(demand.workload, place)
        for demand, count in zip(snapshot.demands, content, strict=True)
        if count
    )


def _names(snapshot: Snapshot) -> list[str]:
    names: set[str] = set()
    for demand in snapshot.demands:
        names.update(name for name in demand.workload.requests)
    return sorted(names)


def weigh_one(_place: Place) -> float:
    """Count units."""
    return 1.0


def weigh_worth(place: Place) -> float:
    """Weigh a unit as the documents say: by the root of what it costs on demand, in USD an hour."""
    return sqrt(_on_demand_usd(place.instance_type))


def _on_demand_usd(instance_type: InstanceType) -> float:
    prices = [
        offering.price_micro_usd_per_hour / 1e6
        for offering in instance_type.offerings
        if offering.zone == ZONE and offering.capacity_type is CapacityType.ON_DEMAND
    ]
    return prices[0]


def worth_of_units(snapshot: Snapshot, plan: Plan) -> float:
    """Return the worth of the units that a plan uses."""
    by_id = dict(_units(snapshot))
    reserved = [it for it in plan.launches if it.offering.reservation_id is not None]
    return sum(
        weigh_worth(by_id[launch.offering.reservation_id or ""]) * launch.count
        for launch in reserved
    )


@dataclass(frozen=True, slots=True)
class Least:
    """What units weigh at least in any plan, and in the best that the program found with whole nodes."""

    at_least: float
    found: float


def least_units(snapshot: Snapshot, plan: Plan, weigh: Callable[[Place], float]) -> Least:
    """Return what the units weigh at least of plans that place as much as this one, buy and misuse no more."""
    program = _Units(snapshot, plan, weigh)
    nodes = list(_nodes(snapshot, program.places))
    for _ in range(_ROUNDS_MAX):
        prices = program.solved()
        found = 0
        for number, node in nodes:
            content, value = node.best(prices.of_replicas)
            if value > prices.of_node(number, content) + _TINY:
                program.add(number, content)
                found += 1
        if not found:
            at_least = program.optimum()
            return Least(at_least, program.in_whole_nodes())
    raise RuntimeError("no optimum in so many rounds")


def _nodes(snapshot: Snapshot, places: Sequence[Place]) -> Iterator[tuple[int, "_Node"]]:
    """Yield what is to be filled; one with GPUs twice, with work for them and without."""
    gpu_is_asked = [bool(demand.workload.requests[GPU]) for demand in snapshot.demands]
    anything = [True] * len(gpu_is_asked)
    for number, place in enumerate(places):
        if place.units is None or not place.instance_type.capacity[GPU]:
            yield number, _Node(snapshot, place, anything)
            continue
        yield number, _Node(snapshot, place, [not asked for asked in gpu_is_asked])
        for index, asked in enumerate(gpu_is_asked):
            if asked and accepts(snapshot.demands[index].workload, place):
                yield number, _Node(snapshot, place, anything, with_one_of=index)


class _Misuse:
    """Whether a node leaves the GPUs of a reserved unit idle."""

    def __init__(self, snapshot: Snapshot, places: Sequence[Place]) -> None:
        self._places = places
        self._asking = [
            index
            for index, demand in enumerate(snapshot.demands)
            if demand.workload.requests[GPU]
        ]

    def of(self, number: int, content: Content) -> bool:
        """Say it of a node of this place with this content."""
        place = self._places[number]
        has_idle = place.units is not None and bool(place.instance_type.capacity[GPU])
        return has_idle and not any(content[index] for index in self._asking)


@dataclass(frozen=True, slots=True)
class _Prices:
    """What one more replica is worth to the program, and what a node of each place, and idle GPUs, cost it."""

    of_replicas: Sequence[float]
    of_places: Sequence[float]
    of_misuse: float
    misuse: _Misuse

    def of_node(self, number: int, content: Content) -> float:
        """Return what a node of this place with this content costs."""
        idle = self.of_misuse if self.misuse.of(number, content) else 0.0
        return self.of_places[number] + idle


class _Units:
    """The linear program: the units that weigh least for the demand that is placed and the money that is spent.

    Rows: replicas by demand, units by place, nodes with idle GPUs, money. Columns: a node of a place with a content.
    Idle GPUs come before what units weigh, as in the order that plans keep: no more are idle than in the plan.
    """

    def __init__(
        self, snapshot: Snapshot, plan: Plan, weigh: Callable[[Place], float]
    ) -> None:
        self.places = list(places_of(snapshot))
        self._weights = [
            0.0 if place.units is None else weigh(place) for place in self.places
        ]
        placed = _placed(snapshot, plan)
        money_usd = bought_usd_per_hour(snapshot, plan) + _SAME_USD
        unlimited = highspy.kHighsInf
        most = [
            unlimited if place.units is None else float(place.units)
            for place in self.places
        ]
        self._misuse = _Misuse(snapshot, self.places)
        idle = float(sum(launch.count for launch in misused_launches(snapshot, plan)))
        lower = [*map(float, placed), *[-unlimited] * (len(most) + 2)]
        upper = [*[unlimited] * len(placed), *most, idle, money_usd]
        self._replicas = len(placed)
        self._highs = _solver()
        none = np.zeros(0)
        self._highs.addRows(
            len(lower), np.array(lower), np.array(upper), 0, none, none, none
        )
        self._start(snapshot, plan)

    def _start(self, snapshot: Snapshot, plan: Plan) -> None:
        """Begin with what the plan does, so that there is a solution."""
        for launch in plan.launches:
            counts = {item.workload_key: item.count for item in launch.placements}
            content = tuple(counts.get(it.workload.key, 0) for it in snapshot.demands)
            self.add(self._place_of(snapshot, launch), content)

    def _place_of(self, snapshot: Snapshot, launch: PlannedNodes) -> int:
        offering = launch.offering
        if offering.reservation_id is not None:
            ids = [item.id for item in snapshot.reservations]
            first = len(self.places) - len(ids)
            return first + ids.index(offering.reservation_id)
        for number, place in enumerate(self.places):
            is_type = place.instance_type.name == offering.instance_type
            if is_type and place.market == offering.capacity_type:
                return number
        raise KeyError(offering)

    def add(self, number: int, content: Content) -> None:
        """Add a node of a place with this content."""
        place = self.places[number]
        entries = {index: float(count) for index, count in enumerate(content) if count}
        entries[self._replicas + number] = 1.0
        if self._misuse.of(number, content):
            entries[self._replicas + len(self.places)] = 1.0
        entries[self._replicas + len(self.places) + 1] = place.price_usd
        rows = np.array(list(entries), dtype=np.int32)
        values = np.array(list(entries.values()))
        self._highs.addCol(
            self._weights[number], 0.0, highspy.kHighsInf, len(rows), rows, values
        )

    def solved(self) -> _Prices:
        """Solve, and return the prices of the solution."""
        self._highs.run()
        assert self._highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
        duals = list(self._highs.getSolution().row_dual)
        of_places = []
        for number, place in enumerate(self.places):
            own = self._weights[number] - duals[self._replicas + number]
            of_places.append(own - duals[-1] * place.price_usd)
        of_replicas = duals[: self._replicas]
        return _Prices(of_replicas, of_places, -duals[-2], self._misuse)

    def optimum(self) -> float:
        """Return what the units of the last solution weigh, in fractions of units."""
        return float(self._highs.getInfo().objective_function_value)

    def in_whole_nodes(self) -> float:
        """Return what the units weigh of the best combination of whole nodes that is found in a few steps."""
        for column in range(self._highs.getNumCol()):
            self._highs.changeColIntegrality(column, highspy.HighsVarType.kInteger)
        self._highs.setOptionValue("mip_max_nodes", _NODES_MAX)
        self._highs.run()
        info = self._highs.getInfo()
        return float(info.objective_function_value) if info.primal_solution_status else inf


class _Node:
    """The integer program: which content of a node of a place is worth most."""

    def __init__(
        self,
        snapshot: Snapshot,
        place: Place,
        may_join: Sequence[bool],
        *,
        with_one_of: int | None = None,
    ) -> None:
        self._highs = _solver()
        names = _names(snapshot)
        sizes = np.array([float(place.instance_type.allocatable[name]) for name in names])
        scale = np.maximum(sizes, 1.0)
        lowest = np.full(len(names), -highspy.kHighsInf)
        none = np.zeros(0)
        self._highs.addRows(len(names), lowest, sizes / scale, 0, none, none, none)
        rows = np.arange(len(names), dtype=np.int32)
        for index, demand in enumerate(snapshot.demands):
            is_allowed = may_join[index] and accepts(demand.workload, place)
            most = demand.pending_count if is_allowed else 0
            least = 1.0 if index == with_one_of else 0.0
            asked = np.array([float(demand.workload.requests[name]) for name in names])
            self._highs.addCol(0.0, least, float(most), len(rows), rows, asked / scale)
            self._highs.changeColIntegrality(index, highspy.HighsVarType.kInteger)

    def best(self, worth: Sequence[float]) -> tuple[Content, float]:
        """Return the content that is worth most where a replica of each demand is worth so much."""
        for index, value in enumerate(worth):
            self._highs.changeColCost(index, -value)
        self._highs.run()
        values = list(self._highs.getSolution().col_value)
        content = tuple(round(value) for value in values)
        total = sum(value * count for value, count in zip(worth, content, strict=True))
        return content, total


def _placed(snapshot: Snapshot, plan: Plan) -> list[int]:
    left: Mapping[str, int] = {item.workload_key: item.count for item in plan.unplaced}
    return [
        demand.pending_count - left.get(demand.workload.key, 0)
        for demand in snapshot.demands
    ]


def _solver() -> Any:
    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call] # has no type information
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("mip_rel_gap", 0.0)
    highs.setOptionValue("mip_abs_gap", 1e-9)
    return highs
