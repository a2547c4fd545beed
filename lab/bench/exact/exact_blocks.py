"""How near the search for Capacity Blocks comes to the best that there is, which a program of this bench's own says.

The program knows nothing of the search: it has a column for each workload, window and hour at which it could begin, and
one for each offer, and asks HiGHS first for the fewest left over and then for the least cost. Where HiGHS has not
proven its own answer in time, what it proves of every answer is compared with instead, which is never more.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import highspy
import numpy as np

from lab.bench.harness import fresh
from lab.bench.worlds.common import NOW
from lab.calibration import Figures
from reservoir.core.purchasing import block_rules
from reservoir.core.purchasing.block_search import BlockNeed, BlockWindow
from reservoir.core.purchasing.wide_block_search import WideBlockSearch

_FIRST_SEED: Final = 700_000
_WORLDS: Final = 20
_HOUR: Final = timedelta(hours=1)
_STEP: Final = 2 * _HOUR  # all times of a world are multiples of it
_LEAD: Final = 2 * _HOUR
_MICRO: Final = 1_000_000
_USD_PER_HOUR: Final = {"p5.48xlarge": 98.32, "p5en.48xlarge": 110.0}
_LIMIT_S: Final = 300.0
_SAME: Final = 1e-6


@dataclass(frozen=True, slots=True)
class World:
    """Workloads, and windows of which one at most of each slot is used."""

    needs: Sequence[BlockNeed]
    slots: Sequence[Sequence[BlockWindow]]
    waiting_micro_usd: int


@dataclass(frozen=True, slots=True)
class Best:
    """The fewest that are left over, and what everything costs at least then."""

    left_over: int
    least_usd: float
    is_proven: bool


def cases() -> Sequence[str]:
    """Name the cases: how many workloads, and whether waiting costs anything."""
    return ["exact-blocks-12", "exact-blocks-12-waiting"]


def run(case: str) -> Figures:
    """Compare so many worlds in a process of their own."""
    return fresh(
        "lab.bench.exact.exact_blocks:measure", case, str(_FIRST_SEED), str(_WORLDS)
    )


def measure(case: str, first_seed: str, worlds: str) -> Figures:
    """Search in so many worlds, and tell how much more is paid than need be."""
    needs = int(case.split("-")[2])
    waiting_micro_usd = 5 * _MICRO if case.endswith("waiting") else 0
    ratios: list[float] = []
    left_more = proven = 0
    for seed in range(int(first_seed), int(first_seed) + int(worlds)):
        world = block_world(seed, needs, waiting_micro_usd)
        best = best_choice(world)
        found = WideBlockSearch(
            world.needs, world.slots, NOW, world.waiting_micro_usd
        ).best()
        proven += best.is_proven
        left_more += len(found.left_over) > best.left_over
        if len(found.left_over) == best.left_over:
            ratios.append(found.total_micro_usd / _MICRO / best.least_usd)
    return {
        "worlds": int(worlds),
        "worlds_proven": proven,
        "worlds_that_leave_more": left_more,
        "dearer_percent": round(
            100 * sum(ratio > 1 + _SAME for ratio in ratios) / len(ratios), 1
        ),
        "cost_over_least_mean": round(sum(ratios) / len(ratios), 5),
        "cost_over_least_worst": round(max(ratios), 4),
    }


def block_world(seed: int, needs: int, waiting_micro_usd: int) -> World:
    """Make workloads of some hours to three days, offers of sizes and lengths that EC2 sells, and what is owned."""
    rng = random.Random(seed)
    wanted = [_need(rng, index) for index in range(needs)]
    slots = [[_owned(rng, index)] for index in range(rng.randint(0, 2))]
    for name, price in _USD_PER_HOUR.items():
        there = [each for each in wanted if name in each.units]
        for count, days in sorted(_sizes(name, there)):
            for zone in range(rng.choice([1, 2])):
                start_at = NOW + rng.choice([2, 6, 12, 24, 48, 72]) * _HOUR
                hours = count * days * 24
                fee = int(price * rng.uniform(0.3, 0.5) * hours * _MICRO)
                id_ = f"{name}-{count}-{days}-{zone}"
                end_at = start_at + days * 24 * _HOUR
                slots.append(
                    [
                        BlockWindow(
                            id_,
                            name,
                            count,
                            start_at,
                            end_at - _LEAD,
                            fee,
                            held_until=end_at,
                        )
                    ]
                )
    return World(wanted, slots, waiting_micro_usd)


def _need(rng: random.Random, index: int) -> BlockNeed:
    units = rng.choice([1, 1, 2, 2, 3, 4, 4, 6, 8, 12, 16])
    hours = rng.choice([2, 4, 6, 8, 10, 12, 16, 20, 24, 36, 48, 72])
    by_type = {"p5.48xlarge": units}
    if rng.random() < 0.5:
        by_type["p5en.48xlarge"] = max(1, units * 3 // 4)
    hourly = min(_USD_PER_HOUR[name] * count for name, count in by_type.items())
    may_buy = rng.random() >= 0.3
    return BlockNeed(
        f"w{index}",
        by_type,
        hours * _HOUR,
        int(hourly * hours * _MICRO) if may_buy else None,
    )


def _owned(rng: random.Random, index: int) -> BlockWindow:
    end_at = NOW + rng.choice([6, 12, 30]) * _HOUR
    return BlockWindow(f"cr-{index}", "p5.48xlarge", rng.choice([2, 4, 8]), NOW, end_at)


def _sizes(name: str, needs: Sequence[BlockNeed]) -> set[tuple[int, int]]:
    """Return sizes and days for each alone, for the longest side by side, and for the widest one after the other."""
    wanted = [(each.units[name], each.duration) for each in needs]
    longest_first = sorted(needs, key=lambda each: -each.duration)
    widest_first = sorted(needs, key=lambda each: -each.units[name])
    for number in range(1, len(needs) + 1):
        beside, after = longest_first[:number], widest_first[:number]
        wanted.append((sum(each.units[name] for each in beside), beside[0].duration))
        after_each_other = sum((each.duration for each in after), timedelta())
        wanted.append((after[0].units[name], after_each_other))
    found = set()
    for units, length in wanted:
        count, days = block_rules.sold_count(units), block_rules.sold_days(length + _LEAD)
        if count is not None and days is not None:
            found.add((count, days))
    return found


def best_choice(world: World) -> Best:
    """Return what HiGHS finds and proves."""
    program = _Program()
    left_over = program.with_everything(world)
    fewest, _, _ = program.least([float(each) for each in left_over])
    program.row(dict(enumerate(map(float, left_over))), round(fewest))
    least, proven, is_proven = program.least(program.usd)
    return Best(round(fewest), least if is_proven else proven, is_proven)


@dataclass
class _Program:
    """Columns that are 0 or 1, and rows with an upper bound."""

    usd: list[float] = field(default_factory=list)
    rows: list[tuple[dict[int, float], float, float]] = field(default_factory=list)

    def column(self, usd: float) -> int:
        """Add a column."""
        self.usd.append(usd)
        return len(self.usd) - 1

    def row(self, of: dict[int, float], most: float, least: float | None = None) -> None:
        """Add a row."""
        self.rows.append((of, -highspy.kHighsInf if least is None else least, most))

    def with_everything(self, world: World) -> list[bool]:
        """Add all that there is; return for each column whether it leaves a workload over."""
        places: dict[str, dict[int, float]] = {each.key: {} for each in world.needs}
        for slot in world.slots:
            used = {}
            for window in slot:
                column = self.column(window.fee_micro_usd / _MICRO)
                used[column] = 1.0
                self._with_window(world, window, column, places)
            self.row(used, 1)
        over = set()
        for need in world.needs:
            price = need.on_demand_micro_usd
            column = self.column((price or 0) / _MICRO)
            if price is None:
                over.add(column)
            self.row(places[need.key] | {column: 1.0}, 1, 1)
        return [index in over for index in range(len(self.usd))]

    def _with_window(
        self,
        world: World,
        window: BlockWindow,
        window_column: int,
        places: dict[str, dict[int, float]],
    ) -> None:
        load: dict[datetime, dict[int, float]] = {}
        for need in world.needs:
            units = need.units.get(window.instance_type, 0)
            if not 0 < units <= window.count:
                continue
            begun = {}
            begin_at = max(NOW, window.start_at)
            while begin_at + need.duration <= window.end_at:
                waits_unit_hours = units * ((begin_at - NOW) / _HOUR)
                column = self.column(world.waiting_micro_usd * waits_unit_hours / _MICRO)
                begun[column] = 1.0
                at = begin_at
                while at < begin_at + need.duration:
                    load.setdefault(at, {})[column] = units
                    at += _STEP
                begin_at += _STEP
            places[need.key].update(begun)
            self.row(begun | {window_column: -1.0}, 0)
        for together in load.values():
            self.row(together | {window_column: -float(window.count)}, 0)

    def least(self, costs: Sequence[float]) -> tuple[float, float, bool]:
        """Return the least cost that was found, what is proven of all, and whether both are the same."""
        columns = len(costs)
        model: Any = highspy.HighsLp()
        model.num_col_, model.num_row_ = columns, len(self.rows)
        model.col_cost_ = np.array(costs)
        model.col_lower_, model.col_upper_ = np.zeros(columns), np.ones(columns)
        model.row_lower_ = np.array([low for _, low, _ in self.rows])
        model.row_upper_ = np.array([high for _, _, high in self.rows])
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        ends = np.cumsum([0, *(len(of) for of, _, _ in self.rows)])
        model.a_matrix_.start_ = ends
        model.a_matrix_.index_ = np.array([each for of, _, _ in self.rows for each in of])
        model.a_matrix_.value_ = np.array(
            [value for of, _, _ in self.rows for value in of.values()]
        )
        model.integrality_ = [highspy.HighsVarType.kInteger] * columns
        highs: Any = highspy.Highs()  # type: ignore[no-untyped-call] # has no type information
        highs.setOptionValue("output_flag", False)
        highs.setOptionValue("threads", 1)
        highs.setOptionValue("time_limit", _LIMIT_S)
        highs.setOptionValue("mip_rel_gap", 1e-5)
        highs.passModel(model)
        highs.run()
        info = highs.getInfo()
        is_proven = highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
        return info.objective_function_value, info.mip_dual_bound, is_proven
