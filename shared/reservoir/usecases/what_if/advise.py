"""Say what to reserve: the demand that was, played again with more, fewer and other units."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from reservoir.core.advice.advise import Advice, Question
from reservoir.core.advice.departed import departed
from reservoir.core.advice.lives import Lives, lives_of, with_present
from reservoir.core.advice.units import ground_of
from reservoir.core.history.past_demand import DEMAND_KEPT
from reservoir.core.history.sample import Sample
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.plan import Plan
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import Workload
from reservoir.ports.history import HistoryStore
from reservoir.ports.state import WorkloadRecord
from reservoir.ports.system import Clock
from reservoir.usecases.provisioning.solver import Solver
from reservoir.usecases.what_if.plan_demand import SnapshotSource

SHORTEST: Final = timedelta(days=1)
_SURE_FROM: Final = timedelta(days=14)
_HOUR_S: Final = 3600


class TooYoungError(Exception):
    """Of too little time demand is known."""


@dataclass(frozen=True, slots=True)
class Advised:
    """An advice, the demand that it is made from, and the snapshot that it is about."""

    advice: Advice
    asked_since: datetime
    life_count: int
    snapshot: Snapshot  # with reservations that could be made


@dataclass(frozen=True, slots=True)
class Advise:
    """Reads history and the present, and writes nothing."""

    source: SnapshotSource
    history: HistoryStore
    clock: Clock
    solver: Solver

    def advise(
        self, span: timedelta, worth_percent: int, budget_micro_usd_per_hour: int | None
    ) -> Advised:
        """Advise from the demand of a time up to now.

        Raises
        ------
        TooYoungError
            Demand is known for less than a day.
        """
        now = self.clock.now()
        gathered = self.source.gather(now)
        steps = list(self.history.demand(now - DEMAND_KEPT, now))
        begins = steps[0].at if steps else now
        if now - begins < SHORTEST:
            raise TooYoungError(
                f"demand is known since {begins:%Y-%m-%d %H:%M} UTC: ask again when that is a day ago"
            )
        since = max(now - span, begins)
        lives = with_present(lives_of(steps, since), _present(gathered.records, since))
        ground = ground_of(gathered.snapshot, lives.lives, self._plan, now)
        question = Question(
            ground,
            lives.lives,
            self._plan,
            since,
            now,
            worth_percent,
            budget_micro_usd_per_hour,
        )
        samples = list(self.history.samples(since, now))
        unserved = sum(not ground.fit(life.workload).fits for life in lives.lives)
        notes = tuple(_notes(lives, now - span, since, now, samples, unserved))
        return Advised(
            replace(question.advise(), notes=notes),
            now - span,
            len(lives.lives),
            ground.world,
        )

    def _plan(self, snapshot: Snapshot, now: datetime) -> Plan:
        """Plan as the planner does at first: thousands of plans are not each improved until nothing is better."""
        policy = replace(self.solver.policy, with_certificate=False)
        return self.solver.solve(snapshot, now, policy) if snapshot.demands else Plan()


def _present(
    records: Mapping[str, WorkloadRecord], since: datetime
) -> Mapping[str, tuple[Workload, datetime]]:
    """Return what wants places or has them now; what came before steps were kept counts from the beginning on."""
    return {
        key: (
            replace(record.workload, replicas=record.unfinished_count),
            max(since, record.submitted_at or since),
        )
        for key, record in records.items()
        if record.workload is not None and record.unfinished_count
    }


# Branches: one thing that is to be known after the other.
def _notes(
    lives: Lives,
    asked: datetime,
    since: datetime,
    now: datetime,
    samples: Sequence[Sample],
    unserved: int,
) -> Iterator[str]:
    if since > asked:
        yield f"demand is known since {since:%Y-%m-%d %H:%M} UTC only, which is less than was asked for"
    if now - since < _SURE_FROM:
        yield "less than two weeks of demand say little about the future: ask again later before you give up units"
    if lives.unknown_count:
        yield f"{lives.unknown_count} workloads ended before their requests were recorded, and are left out"
    if unserved:
        yield f"{unserved} workloads fit into no available capacity, and are left out"
    for namespace, at in departed(lives.lives, since, now).items():
        yield (
            f"{namespace} has had hardly any demand since {at:%Y-%m-%d}: its demand before that is left out"
        )
    blocks_s = _used_in_others_s(samples)
    if blocks_s:
        yield (
            f"work that ran for {blocks_s // _HOUR_S} unit-hours in Capacity Blocks and interruptible reservations is"
            " simulated without them: too many units are advised if more of them come"
        )
    yield "on-demand capacity is assumed to be always available: EC2's refusals are not simulated"


def _used_in_others_s(samples: Sequence[Sample]) -> int:
    """Return for how long units were used that come and go by themselves."""
    total = 0
    for sample, following in pairwise(samples):
        units = sum(
            it.ours_count
            for it in sample.reservations
            if it.kind is not ReservationKind.DEFAULT
        )
        total += units * int((following.taken_at - sample.taken_at).total_seconds())
    return total
