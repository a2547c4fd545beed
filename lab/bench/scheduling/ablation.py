"""What each mechanism of the scheduler buys: without it, worlds that nothing was tuned with are solved again.

A mechanism is taken out by putting an idle one in its place, in a process of its own. What remains is compared with
the whole: cost of first and of certified plans, replicas left over, the bound, processor time. A mechanism that saves
less than 0.2 % needs another reason to stay (docs/scheduler.md). Constants that were found by trial are moved by half.

Single worlds move by a per cent with any change, so a mean comes with its standard error and with the worst world.
Times are counted in calibrations of their own process, since a machine's speed changes within a run.
"""

import importlib
import inspect
import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from operator import attrgetter
from types import ModuleType
from typing import Any, Final

from lab.bench.harness import fresh
from lab.bench.worlds import ladder
from lab.bench.worlds.cases import reserving
from lab.bench.worlds.common import NOW, counted
from lab.bench.worlds.mix import Mix, mix_snapshot
from lab.calibration import Figures, calibrate
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.solver.packing.item_types import BinTypes
from reservoir.core.solver.packing.packing import Packing

_ROOT: Final = "reservoir.core.solver."
_PLACEMENT: Final = "reservoir.core.scheduler.placement"
_BOUGHT: Final = (CapacityType.SPOT, CapacityType.ON_DEMAND)


def _mix(replicas: int, shapes: int, seed: int, percent: int = 100) -> Snapshot:
    return mix_snapshot(Mix(replicas, shapes, seed, reserved_percent=percent))


def _bought(seed: int) -> Snapshot:
    return mix_snapshot(Mix(2000, 100, seed, markets=_BOUGHT))


def _diverse(count: int, seed: int, types: int = 400) -> Snapshot:
    return ladder.snapshot(counted(ladder.diverse(count, seed), "pod"), types)


def _hosts(percent: int, seed: int) -> Snapshot:
    """Few reserved types for the diverse mix, in which two fifths of the replicas share no node with their like."""
    return reserving(_diverse(1000, seed), percent, random.Random(seed))


def _tight(seed: int) -> Snapshot:
    """Sixty replicas of the diverse mix on few small types, with limits that leave some of them over."""
    world = _diverse(60, seed, types=8)
    limits = Resources.of({"cpu": 12_000 + 2000 * (seed % 5), "nodes": 6 + seed % 3})
    pools = tuple(replace(pool, limits=limits) for pool in world.node_pools)
    return replace(world, node_pools=pools)


# Seeds that the scheduler bench does not use, and that no constant was chosen with.
WORLDS: Final[dict[str, Sequence[Callable[[], Snapshot]]]] = {
    "mix": [partial(_mix, 10_000, 200, seed) for seed in range(200, 208)],
    "small_mix": [partial(_mix, 1000, 100, seed, 15) for seed in range(208, 220)],
    "bought": [partial(_bought, seed) for seed in range(220, 226)],
    "ladder": [
        partial(_diverse, count, seed)
        for count in (500, 1000, 2000)
        for seed in range(226, 229)
    ],
    "hosts": [
        partial(_hosts, percent, seed)
        for percent in (1, 2, 3, 5)
        for seed in range(229, 232)
    ],
    "few": [partial(_mix, 200, 20, seed, 10) for seed in range(232, 244)],
    "tight": [partial(_tight, seed) for seed in range(244, 268)],
}


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A part of the solver. ``idle`` takes it out; ``code`` is what its lines are counted of (``module:name``)."""

    idle: Callable[[], None]
    code: tuple[str, ...]


def _module(name: str) -> ModuleType:
    return importlib.import_module(name if name == _PLACEMENT else _ROOT + name)


def _set(module: str, **parts: object) -> None:
    """Put something else in the place of names of a module (``Class.method`` for a method)."""
    for path, value in parts.items():
        owner: Any = _module(module)
        *outer, name = path.split(".")
        for each in outer:
            owner = getattr(owner, each)
        assert hasattr(owner, name), f"{module} has no {path}"
        setattr(owner, name, value)


def _nothing(*_: object, **_named: object) -> None:
    """Stand for a step that is left out."""


def _weights(**changes: object) -> None:
    knapsack = _module("packing.knapsack")
    for name in ("_MANY", "_FEW"):
        _set("packing.knapsack", **{name: getattr(knapsack, name)._replace(**changes)})


def _one_exponent() -> None:
    few = _module("packing.knapsack")._FEW
    _set("packing.knapsack", _FEW=few._replace(exponents=(0.2,)))


def _only_used_patterns() -> None:
    improve = _module("column_generation.improve")
    original = improve.improved

    def improved(
        base: Packing, greedy: Packing, bin_types: BinTypes, *, is_quick: bool
    ) -> Packing | None:
        greedy.filled.clear()
        found: Packing | None = original(base, greedy, bin_types, is_quick=is_quick)
        return found

    _set("column_generation.improve", improved=improved)


def _as_it_is(_empty: Packing, best: Packing, *_others: object) -> Packing:
    """Leave the units to those who have them."""
    return best


class _NoSearch:
    def __init__(self, _insertion: object) -> None:
        """Need nothing."""

    def serve(self, _groups: object) -> None:
        """Leave over who is left over."""


_IMPROVE: Final = "column_generation.improve"
_MASTER: Final = "column_generation.restricted_master"
MECHANISMS: Final = {
    "column-generation": Mechanism(
        lambda: _set(
            "pattern_packing",
            _improved=_nothing,
            _repacked=_nothing,
            _cheapest_exactly=_nothing,
            _spared_exactly=_nothing,
        ),
        (_IMPROVE, _MASTER, "column_generation.pricing"),
    ),
    "column-generation-in-first-plans": Mechanism(
        lambda: _set("pattern_packing", _are_units_short=_nothing),
        ("pattern_packing:_are_units_short",),
    ),
    "unused-patterns-as-columns": Mechanism(_only_used_patterns, ()),
    "units-spared": Mechanism(
        lambda: _set("pattern_packing", with_units_spared=_as_it_is),
        ("packing.outlay", "packing.spared_units", "packing.unit_worth"),
    ),
    "exact-when-small": Mechanism(
        lambda: _set("pattern_packing", _cheapest_exactly=_nothing),
        ("column_generation.whole_program", "column_generation.priced_program"),
    ),
    "ruin-and-recreate": Mechanism(
        lambda: _set(_IMPROVE, _TURNS=0), (f"{_IMPROVE}:_rebuilt", f"{_IMPROVE}:_part")
    ),
    "parts-of-patterns-in-dives": Mechanism(
        lambda: _set("packing.packing", **{"Packing.repeat_in_part": _nothing}),
        ("packing.packing:Packing.repeat_in_part",),
    ),
    "topping-up": Mechanism(
        lambda: _set("packing.buying", top_up=_nothing), ("packing.filling:top_up",)
    ),
    "thinning-sizes": Mechanism(
        lambda: _set(
            "packing.item_types", _thinned=partial(sorted, key=attrgetter("option.index"))
        ),
        ("packing.item_types:_thinned",),
    ),
    "price-bias": Mechanism(
        lambda: _set("packing.reserved_units", _PRICE_BIAS=0.0),
        ("packing.reserved_units:_preferring",),
    ),
    "buying-first-for-one-per-node": Mechanism(
        lambda: _set("packing.buying", open_one_per_node=_nothing),
        tuple(
            f"packing.one_per_node:{name}"
            for name in ("open_one_per_node", "_company", "_best", "_families")
        ),
    ),
    "reserved-units-for-one-per-node": Mechanism(
        lambda: _set("packing.reserved_units", reserve_one_per_node=_nothing),
        ("packing.one_per_node:reserve_one_per_node",),
    ),
    "second-scarcity-exponent": Mechanism(_one_exponent, ()),
    "balance-in-score": Mechanism(partial(_weights, own_balance=0.0), ()),
    "size-in-score": Mechanism(partial(_weights, own_size=0.0), ()),
    "averaged-rates": Mechanism(lambda: _set("packing.item_values", _NEARLY=1.0), ()),
    "value-of-a-slot": Mechanism(
        lambda: _set("packing.item_values", _add_slot_value=_nothing),
        ("packing.item_values:_add_slot_value",),
    ),
    "node-elimination": Mechanism(
        lambda: _set(_PLACEMENT, empty_paid_nodes=_nothing), ("insertion.node_elimination",)
    ),
    "rightsizing": Mechanism(
        lambda: _set(_PLACEMENT, rightsize_paid_nodes=_nothing), ("insertion.rightsizing",)
    ),
    "neighbourhood-search": Mechanism(
        lambda: _set(_PLACEMENT, NeighbourhoodSearch=_NoSearch),
        ("insertion.neighbourhood_search",),
    ),
    "other-strategies": Mechanism(
        lambda: _set(_PLACEMENT, _STRATEGIES=_module(_PLACEMENT)._STRATEGIES[:1]),
        (f"{_PLACEMENT}:_best_of_strategies",),
    ),
    "whole-nodes-in-bound": Mechanism(
        lambda: _set("column_generation.lower_bound", _WHOLE_UNIT_MAX=0), ()
    ),
}


# Constants found by trial. Those near to one are ratios: halving moves them half the way to one.
CONSTANTS: Final = (
    "packing.knapsack:_MANY.own_balance",
    "packing.knapsack:_MANY.own_size",
    "packing.knapsack:_FEW.own_balance",
    "packing.knapsack:_FEW.own_size",
    "packing.knapsack:_NEARLY_FULL",
    "packing.knapsack:_URGENT",
    "packing.item_values:_SLOT",
    "packing.item_values:_NEARLY",
    "packing.item_values:_NO_OTHER_PLACE",
    "packing.one_per_node:_SIZES",
    "packing.one_per_node:_STEP",
    "packing.one_per_node:_SMALLER_FIRST",
    "packing.item_types:_SIZE_STEP",
    "packing.reserved_units:_PRICE_BIAS",
    "insertion.node_elimination:_EVALUATIONS_MAX",
    "insertion.rightsizing:_EVALUATIONS_MAX",
    "insertion.rightsizing:_TYPES_MAX",
    "column_generation.improve:_SLOW_ROUNDS",
    "column_generation.improve:_QUICK_ROUNDS",
    "column_generation.pricing:_STEPS",
    "column_generation.pricing:_LEAST_SHARE",
    "column_generation.pricing:_FILLED_MAX",
    "column_generation.pricing:_PROMISING_MAX",
    "column_generation.pricing:_PROMISING",
    "column_generation.improve:_DIVES",
    "column_generation.improve:_ROUNDED_UP",
    "column_generation.improve:_TURNS",
    "column_generation.improve:_NEAR",
    "column_generation.improve:_LOSS",
    "column_generation.improve:_OTHERS",
)


def halve(constant: str) -> None:
    """Move a constant by half."""
    module, _, path = constant.partition(":")
    name, _, field = path.partition(".")
    whole: Any = getattr(_module(module), name)
    value = getattr(whole, field) if field else whole
    if isinstance(value, int):
        half: float = max(1, value // 2)
    else:
        half = (1 + value) / 2 if 0.8 < value < 1.3 else value / 2
    _set(module, **{name: whole._replace(**{field: half}) if field else half})


def cases() -> Sequence[str]:
    """Name the mechanisms, then the constants."""
    return [
        *(f"without-{name}" for name in MECHANISMS),
        *(f"half-{constant}" for constant in CONSTANTS),
    ]


def run(case: str) -> Figures:
    """Compare the scheduler without a mechanism, or with half of a constant, with the whole one."""
    found: Figures = {}
    if case.startswith("without-"):
        found["lines"] = lines(case.removeprefix("without-"))
    for world in WORLDS:
        whole = _measured("", world)
        less = fresh("lab.bench.scheduling.ablation:measure", case, world)
        for form in ("first", "certified"):
            changes = _changes(less[f"{form}_cost"], whole[f"{form}_cost"])
            found[f"{world}_{form}_cost_change_percent"] = round(
                statistics.mean(changes), 2
            )
            error = statistics.stdev(changes) / math.sqrt(len(changes))
            found[f"{world}_{form}_cost_change_standard_error_percent"] = round(error, 2)
            found[f"{world}_{form}_cost_change_worst_percent"] = round(max(changes), 2)
            figure = f"{form}_cpu_in_calibrations"
            found[f"{world}_{figure}_ratio"] = round(
                sum(_numbers(less[figure])) / sum(_numbers(whole[figure])), 2
            )
        found[f"{world}_bound_change_percent"] = round(
            statistics.mean(_changes(less["bound"], whole["bound"])), 2
        )
        found[f"{world}_unplaced_change"] = sum(_numbers(less["unplaced"])) - sum(
            _numbers(whole["unplaced"])
        )
    return found


@cache
def _measured(name: str, world: str) -> Figures:
    return fresh("lab.bench.scheduling.ablation:measure", name, world)


def measure(case: str, world: str) -> Figures:
    """Solve every seed of a world with a case's change (with an empty name: without any), at once and certified."""
    if case.startswith("without-"):
        MECHANISMS[case.removeprefix("without-")].idle()
    elif case:
        halve(case.removeprefix("half-"))
    found: dict[str, list[float]] = {}
    for make in WORLDS[world]:
        snapshot, calibration = make(), float(str(calibrate()["calibration_python_s"]))
        unplaced = 0
        for form in ("first", "certified"):
            started = time.process_time()
            plan = solve(
                snapshot,
                now=NOW,
                policy=SchedulingPolicy(with_certificate=form == "certified"),
            )
            cpu_s = time.process_time() - started
            found.setdefault(f"{form}_cpu_in_calibrations", []).append(cpu_s / calibration)
            found.setdefault(f"{form}_cost", []).append(
                plan.cost_atto_usd_per_hour / 10**18
            )
            unplaced += sum(item.count for item in plan.unplaced)
        found.setdefault("unplaced", []).append(unplaced)
        found.setdefault("bound", []).append(
            (plan.lower_bound_atto_usd_per_hour or 0) / 10**18
        )
    return dict(found)


def take_out_all() -> Figures:
    """Halve every constant and take every mechanism out, one after the other; each fails if a name has changed."""
    for constant in CONSTANTS:
        halve(constant)
    for mechanism in MECHANISMS.values():
        mechanism.idle()
    return {"taken_out": len(MECHANISMS), "halved": len(CONSTANTS)}


def _numbers(values: object) -> list[float]:
    assert isinstance(values, list)
    return [float(value) for value in values]


def _changes(less: object, whole: object) -> list[float]:
    """Return by seed how much more it is without the mechanism, in per cent."""
    pairs = zip(_numbers(less), _numbers(whole), strict=True)
    return [100 * (mine / other - 1) if other else 0.0 for mine, other in pairs]


def lines(name: str) -> int:
    """Count the lines that a mechanism takes, as far as they are apart from others."""
    return sum(
        len(inspect.getsource(_found(place)).splitlines())
        for place in MECHANISMS[name].code
    )


def _found(place: str) -> Any:
    module, _, path = place.partition(":")
    found: Any = _module(module)
    for part in path.split(".") if path else ():
        found = getattr(found, part)
    return found
