"""Demand as it lived: what arrived when, and how long it ran once it had a place."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.history.past_demand import DemandStep, DemandStepKind
from reservoir.core.model.workload import Workload

_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Life:
    """Replicas of one workload that arrived together.

    ``ran_s`` is how long they ran from their first place on, None while they still do. ``gone_at`` is when replicas
    that never had a place were withdrawn. ``number`` distinguishes lives of one workload.
    """

    workload: Workload  # its replicas are those of this life
    arrived_at: datetime
    ran_s: int | None = None
    gone_at: datetime | None = None
    number: int = 0

    @property
    def key(self) -> str:
        """Return the key by which it differs from all others."""
        return f"{self.workload.key}#{self.number}"


@dataclass(frozen=True, slots=True)
class Lives:
    """All of them, by arrival. ``unknown_count`` more were wanted, and had gone before anybody saw what they were."""

    lives: tuple[Life, ...]
    unknown_count: int = 0
    begins: datetime | None = None  # the first step that is kept


@dataclass(slots=True)
class _OpenLife:
    workload: Workload
    arrived_at: datetime
    placed_at: datetime | None = None
    finished: int = 0


@dataclass(slots=True)
class _LivesSoFar:
    since: datetime
    lives: list[Life] = field(default_factory=list)
    unknown_count: int = 0
    count: int = 0

    def close(self, opened: _OpenLife, at: datetime | None, replicas: int) -> None:
        """Add the life of some replicas that left at ``at``; None: they are still there."""
        if replicas <= 0 or (at is not None and at <= self.since):
            return
        started_at = opened.placed_at
        arrived_at = opened.arrived_at
        if started_at is not None and started_at < self.since:
            arrived_at = started_at = self.since  # they ran when the look back begins
        ran_s = gone_at = None
        if at is not None and started_at is not None:
            ran_s = max(1, (at - started_at) // _SECOND)
        elif at is not None:
            gone_at = at
        self.count += 1
        wanted = replace(opened.workload, replicas=replicas)
        self.lives.append(Life(wanted, arrived_at, ran_s, gone_at, self.count))


def lives_of(steps: Iterable[DemandStep], since: datetime) -> Lives:
    """Return the lives that reach beyond ``since``; what ran at that instant arrives with it."""
    reading = _LivesSoFar(since)
    opened: dict[str, _OpenLife] = {}
    begins = None
    for step in steps:
        begins = begins or step.at
        _take(step, opened, reading)
    for key in sorted(opened):
        left = opened[key]
        reading.close(left, None, left.workload.replicas - left.finished)
    in_order = sorted(
        reading.lives, key=lambda life: (life.arrived_at, life.workload.key, life.number)
    )
    return Lives(tuple(in_order), reading.unknown_count, begins)


# Branches: one kind of step after the other.
def _take(step: DemandStep, opened: dict[str, _OpenLife], reading: _LivesSoFar) -> None:
    known = opened.get(step.workload_key)
    if step.kind is DemandStepKind.WANTED:
        if step.workload is None:
            reading.unknown_count += known is None
        elif known is None:
            opened[step.workload_key] = _OpenLife(step.workload, step.at)
        elif not _is_same(known.workload, step.workload):
            reading.close(known, step.at, known.workload.replicas - known.finished)
            # What runs goes on with other terms, or beside more of its kind.
            placed_at = None if known.placed_at is None else step.at
            opened[step.workload_key] = _OpenLife(
                step.workload, step.at, placed_at, known.finished
            )
    elif known is None:
        return
    elif step.kind is DemandStepKind.PLACED:
        known.placed_at = known.placed_at or step.at
    elif step.kind is DemandStepKind.FINISHED:
        reading.close(known, step.at, step.replicas)
        known.finished += step.replicas
    elif step.kind is DemandStepKind.WITHDRAWN:
        reading.close(known, step.at, known.workload.replicas - known.finished)
        del opened[step.workload_key]


def _is_same(before: Workload, after: Workload) -> bool:
    return replace(before, generation=after.generation) == after


def with_present(lives: Lives, present: Mapping[str, tuple[Workload, datetime]]) -> Lives:
    """Add present workloads that no step mentions: they arrived before steps were kept."""
    told = {life.workload.key for life in lives.lives}
    more = tuple(_from_before(present, told))
    in_order = sorted(
        (*more, *lives.lives),
        key=lambda life: (life.arrived_at, life.workload.key, life.number),
    )
    return replace(lives, lives=tuple(in_order))


def _from_before(
    present: Mapping[str, tuple[Workload, datetime]], told: set[str]
) -> Iterator[Life]:
    for key in sorted(present.keys() - told):
        workload, arrived_at = present[key]
        yield Life(workload, arrived_at)
