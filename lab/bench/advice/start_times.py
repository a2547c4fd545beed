"""When work will start, told while it waits, against when it did; beside Slurm's rule, which takes declared limits.

Demand is played through the scheduler. Whenever work arrives that gets no place at once, it is told what was known at
that instant; what became of it is compared in the end. Nobody is told of the first two weeks: they are what is learned.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Final

from lab.bench.advice.advise import solve
from lab.bench.harness import fresh
from lab.calibration import Figures
from lab.worlds.demand_traces import SINCE, WEEK, Trace, lives_of, snapshot_of
from lab.worlds.waiting_traces import JUDGING
from reservoir.core.advice.lives import Life
from reservoir.core.advice.play import play
from reservoir.core.advice.units import ground_of
from reservoir.core.model.plan import Plan
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.start_times.estimate import (
    HORIZON,
    Past,
    StartQuantiles,
    StartQuestion,
    estimate_starts,
)
from reservoir.core.start_times.queue import starts_of

SEED: Final = 1
_TOLD_FROM: Final = SINCE + 2 * WEEK
_UNTIL: Final = SINCE + 4 * WEEK
_ASKED_EACH: Final = timedelta(
    hours=4
)  # at most: who waits together is told about the same
_SECOND: Final = timedelta(seconds=1)
_HOUR_S: Final = 3600
# Limits that people write, in hours; a run uses any part of its limit (Mu'alem and Feitelson, 2001, of four archives).
_LIMITS_H: Final = (0.25, 0.5, 1, 2, 4, 8, 12, 24, 48, 72, 168, 336)
_LEAST_PART: Final = 0.1


def cases() -> Sequence[str]:
    """Name a case for each trace that judges."""
    return [f"starts-{trace.name}" for trace in JUDGING]


def run(case: str) -> Figures:
    """Measure one case."""
    return fresh("lab.bench.advice.start_times:answer", case)


def answer(case: str) -> Figures:
    """Judge one trace."""
    return judged(next(trace for trace in JUDGING if case == f"starts-{trace.name}"), SEED)


@dataclass(frozen=True)
class Told:
    """What somebody was told who waited, and what Slurm's rule would have said; None: nothing."""

    key: str
    at: datetime
    quantiles: StartQuantiles | None
    by_limits: datetime | None


@dataclass
class Witness:
    """Plans what is played, asks at once about what it leaves waiting, and notes when everything was placed."""

    lives: Mapping[str, Life]  # by the name that the play gives them
    placed_at: dict[str, datetime] = field(default_factory=dict)
    complete_at: dict[str, datetime] = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)
    next_at: datetime = _TOLD_FROM

    def solve(self, snapshot: Snapshot, now: datetime) -> Plan:
        """Plan, and look on."""
        plan = solve(snapshot, now)
        waits = {each.workload_key for each in plan.unplaced}
        new = [
            demand.workload.key
            for demand in snapshot.demands
            if demand.workload.key in waits
            and demand.pending_since == now
            and demand.workload.key not in self.placed_at
        ]
        if new and now >= self.next_at:
            self.next_at = now + _ASKED_EACH
            self.told.append(self._ask(snapshot, new[0], now))
        for demand in snapshot.demands:
            key = demand.workload.key
            if key not in waits:
                self.complete_at.setdefault(key, now)
        made = [node.placements for node in plan.launches]
        made += [node.placements for node in plan.existing]
        for placed in chain.from_iterable(made):
            self.placed_at.setdefault(placed.workload_key, now)
        return plan

    def _ask(self, snapshot: Snapshot, key: str, now: datetime) -> Told:
        past = Past(tuple(self._known(now)), dict(self.placed_at), SINCE)
        found = estimate_starts(snapshot, past, [key], solve, now)
        return Told(key, now, found.get(key), self._by_limits(snapshot, key, now))

    def _known(self, now: datetime) -> Iterable[Life]:
        for key, life in self.lives.items():
            if life.arrived_at > now:
                continue
            began = self.placed_at.get(key)
            is_over = began is not None and began + (life.ran_s or 0) * _SECOND <= now
            yield life if is_over else replace(life, ran_s=None)

    def _by_limits(self, snapshot: Snapshot, key: str, now: datetime) -> datetime | None:
        """Return when it would start if everything ran for as long as it said, and nothing else arrived."""
        question = StartQuestion(snapshot, Past((), dict(self.placed_at)), solve, now)
        occupied = []
        for each in question.running:
            limit_s = each.workload.duration_s or 0
            occupied.append(
                replace(each.occupied, ends_s=max(1, limit_s - int(each.age_s)))
            )
        needs = [
            replace(need, run_s=workload.duration_s) for workload, need in question.waiting
        ]
        starts = starts_of(question.places, occupied, needs, [key], HORIZON // _SECOND)
        return now + starts[key] * _SECOND if key in starts else None


def judged(trace: Trace, seed: int) -> Figures:
    """Play a trace, and compare what was told with what came."""
    witness = watched(trace, seed)
    pairs: list[tuple[float, Told]] = []
    for told in witness.told:
        came = witness.complete_at.get(told.key)
        if came is not None and told.quantiles is not None and told.by_limits is not None:
            pairs.append(((came - told.at).total_seconds() / _HOUR_S, told))
    inside = losses = limit_losses = 0.0
    for came_h, told in pairs:
        assert told.quantiles is not None
        p10, p50, p90 = (
            _hours(told, at)
            for at in (told.quantiles.p10, told.quantiles.p50, told.quantiles.p90)
        )
        limit_h = _hours(told, told.by_limits)
        inside += p10 <= came_h <= p90
        losses += pinball(p50, came_h, 50) + pinball(p90, came_h, 90)
        limit_losses += pinball(limit_h, came_h, 50) + pinball(limit_h, came_h, 90)
    count = max(1, len(pairs))
    return {
        "asked": len(witness.told),
        "told": len(pairs),
        "inside_80_percent": round(100 * inside / count),
        "pinball_h": round(losses / count, 3),
        "pinball_of_limits_h": round(limit_losses / count, 3),
        "waited_h": round(sum(came for came, _ in pairs) / count, 2),
    }


def watched(trace: Trace, seed: int) -> Witness:
    """Play four weeks of a trace under the eyes of a witness."""
    drawn = lives_of(trace, seed)
    lives = [
        replace(life, workload=replace(life.workload, duration_s=limit_s))
        for life, limit_s in zip(drawn, limits_s(drawn, seed), strict=True)
        if life.arrived_at < _UNTIL
    ]
    named = {f"{life.workload.key}.{life.number}": life for life in lives}
    ground = ground_of(snapshot_of(trace), lives, solve, SINCE)
    units = {kind.id: kind.held for kind in ground.kinds}
    witness = Witness(named, next_at=_TOLD_FROM)
    play(ground, lives, units, witness.solve, SINCE, _UNTIL, 100)
    return witness


def limits_s(lives: Sequence[Life], seed: int) -> list[int]:
    """Return the limit that each life declares: a round figure, of which it uses any part."""
    draw = random.Random(f"limits {seed}")
    found: list[int] = []
    for life in lives:
        least_h = (life.ran_s or 0) / _HOUR_S / draw.uniform(_LEAST_PART, 1)
        limit_h = next((each for each in _LIMITS_H if each >= least_h), _LIMITS_H[-1])
        found.append(max(int(limit_h * _HOUR_S), life.ran_s or 0))
    return found


def pinball(told: float, came: float, percent: int) -> float:
    """Return what a quantile loses: its percentage of what it fell short by, or the rest of what it was over."""
    short = came - told
    return max(percent * short, (percent - 100) * short) / 100


def _hours(told: Told, at: datetime | None) -> float:
    return 0.0 if at is None else (at - told.at).total_seconds() / _HOUR_S
