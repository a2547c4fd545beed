"""``reservoir advise`` walked forward: advised on four weeks of demand, judged on the four weeks after them.

Hindsight knows the four weeks after, and tries every number of units: it is what nobody could beat.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from lab.bench.harness import fresh
from lab.calibration import Figures
from lab.worlds.demand_traces import (
    JUDGING,
    SINCE,
    WEEK,
    Trace,
    lives_of,
    many_reservations,
    snapshot_of,
)
from reservoir.core import scheduler
from reservoir.core.advice.advise import Advice, Question
from reservoir.core.advice.count import Cost, Counted
from reservoir.core.advice.lives import Life
from reservoir.core.advice.units import ground_of
from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot

HALF: Final = SINCE + 4 * WEEK
END: Final = SINCE + 8 * WEEK
MONTH: Final = "advise-month"
SEED: Final = 1
_POLICY: Final = SchedulingPolicy()
_SECOND: Final = timedelta(seconds=1)
_MICRO: Final = 1_000_000
_WORTH_PERCENT: Final = 100


def cases() -> Sequence[str]:
    """Name a case for each trace that judges, and one for how long a month takes."""
    return [*(f"advise-{trace.name}" for trace in JUDGING), MONTH]


def run(case: str) -> Figures:
    """Measure one case."""
    return fresh("lab.bench.advice.advise:answer", case)


def answer(case: str) -> Figures:
    """Advise once; what a month takes is measured with 20 reservations."""
    if case == MONTH:
        trace = many_reservations(20)
        lives = [
            life
            for life in lives_of(trace, SEED)
            if life.arrived_at < SINCE + timedelta(days=30)
        ]
        began = time.process_time()
        advice = _advised(trace, lives, SINCE, SINCE + timedelta(days=30))
        return {
            "advise_cpu_s": round(time.process_time() - began, 2),
            "workloads": len(lives),
            "changes": len(advice.changes),
        }
    return walked(next(trace for trace in JUDGING if case == f"advise-{trace.name}"), SEED)


def walked(trace: Trace, seed: int) -> Figures:
    """Advise on the first half of a trace, and judge on the second."""
    past, future = halves(lives_of(trace, seed))
    began = time.process_time()
    advice = _advised(trace, past, SINCE, HALF)
    advise_s = time.process_time() - began
    counted = Counted(ground_of(snapshot_of(trace), future, solve, HALF), future, HALF, END)
    held = {f"cr-{name}": count for name, count in trace.units.items()}
    advised = {**held, **{change.kind.id: change.units for change in advice.changes}}
    before = _cost(counted, held)
    saved = before - _cost(counted, advised)
    best = _least(counted, held)
    predicted = advice.before.cost.micro_usd - advice.after.cost.micro_usd
    losing = sum(
        _cost(counted, {**advised, it.kind.id: it.kind.held}) < before - saved
        for it in advice.changes
    )
    return {
        "is_stationary": trace.is_stationary,
        "saved_usd": saved // _MICRO,
        "hindsight_usd": (before - best) // _MICRO,
        "saved_percent": 100 * saved // (before - best) if before > best else 100,
        "predicted_percent": 100 * predicted // saved if saved else 100,
        "changes": len(advice.changes),
        "losing_changes": losing,
        "advise_cpu_s": round(advise_s, 2),
    }


def halves(lives: Sequence[Life]) -> tuple[list[Life], list[Life]]:
    """Return what is known after four weeks, and what comes then; what runs at that instant goes on."""
    past: list[Life] = []
    future: list[Life] = []
    for life in lives:
        end = life.arrived_at + timedelta(seconds=life.ran_s or 0)
        if life.arrived_at >= HALF:
            future.append(life)
        elif end <= HALF:
            past.append(life)
        else:
            past.append(replace(life, ran_s=None))
            future.append(
                replace(life, arrived_at=HALF, ran_s=max(1, (end - HALF) // _SECOND))
            )
    return past, future


def solve(snapshot: Snapshot, now: datetime) -> Plan:
    """Plan as advice does."""
    return scheduler.solve(snapshot, now=now, policy=_POLICY)


def _advised(
    trace: Trace, lives: Sequence[Life], since: datetime, until: datetime
) -> Advice:
    ground = ground_of(snapshot_of(trace), lives, solve, until)
    return Question(ground, lives, solve, since, until, _WORTH_PERCENT).advise()


def _cost(counted: Counted, units: Mapping[str, int]) -> int:
    known = {kind: count for kind, count in units.items() if kind in counted.prices}
    return sum(counted.cost(known, _WORTH_PERCENT), Cost()).micro_usd


def _least(counted: Counted, held: Mapping[str, int]) -> int:
    """Return what the best numbers of units would have cost: of each kind by itself, as no work may use two of them."""
    best = dict(held)
    for kind in sorted(held):
        numbers = range(2 * held[kind] + 9)
        best[kind] = min(
            numbers, key=lambda count: (_cost(counted, {**best, kind: count}), count)
        )
    return _cost(counted, best)
