"""Counts what there is: for the history, for metrics, and for questions about the moment."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain

from reservoir.core.history.sample import (
    UNPLANNED,
    PendingForReason,
    Sample,
    measure,
)
from reservoir.core.history.teams import measure_teams, with_owners
from reservoir.core.model.node_claim import placed_keys
from reservoir.core.model.team import Team
from reservoir.core.sharing.reading_turns import COUNTED_AT_ONCE, ReadingTurns
from reservoir.ports.history import HistoryStore
from reservoir.ports.state import (
    NodeClaimStore,
    OfferingStore,
    ReservationStore,
    WorkloadRecord,
    WorkloadStore,
)
from reservoir.ports.system import Clock
from reservoir.usecases.claims import unreadable
from reservoir.usecases.claims.checkpoints import placed_terms


@dataclass(frozen=True, slots=True)
class CountWhatIsThere:
    """Reads the tables and counts. Listings may lag by moments."""

    reservations: ReservationStore
    claims: NodeClaimStore
    workloads: WorkloadStore
    offerings: OfferingStore
    clock: Clock
    # a caller who may not read policy counts none
    teams: Callable[[], Sequence[Team]] = tuple
    turns: ReadingTurns = field(default_factory=lambda: ReadingTurns(COUNTED_AT_ONCE))

    def count(self) -> Sample:
        """Return what there is now."""
        taken_at = self.clock.now()
        reservations = [record.reservation for record in self.reservations.list_current()]
        claims = self.claims.list_live()
        waiting = self._what_waits(taken_at)
        types = {it.instance_type for it in reservations} | {
            claim.offering.instance_type for claim in claims
        }
        counted = measure(
            taken_at, reservations, claims, waiting, self.offerings.on_demand_prices(types)
        )
        sample = replace(counted, unread_count=self.turns.unread_count)
        teams = self.teams()
        if not teams:
            return sample
        keys = placed_keys(claims)
        records, _ = unreadable.workloads(self.workloads, keys)
        terms = placed_terms(records)
        running = terms.claims({claim.id: claim for claim in claims}).values()
        return replace(
            sample,
            reservations=with_owners(
                sample.reservations, teams, reservations, running, terms.workloads
            ),
            teams=tuple(
                measure_teams(teams, running, terms.workloads, waiting, sample.bought)
            ),
        )

    def _what_waits(self, now: datetime) -> list[PendingForReason]:
        """Return what waits; of more than there is room for the rest counts as one replica each."""
        self.turns.begin(now)
        read = self.workloads.read_waiting(
            # by namespace: a caller who may not read policy knows no teams
            lambda keys: self.turns.reading(keys, (), lambda: str)
        )
        unread = (PendingForReason(key, 1, UNPLANNED, None) for key in self.turns.unread())
        return [*chain.from_iterable(map(_waiting, read)), *unread]


@dataclass(frozen=True, slots=True)
class TakeSample:
    """Counts, and keeps the counts."""

    there: CountWhatIsThere
    history: HistoryStore

    def take(self) -> Sample:
        """Take a sample; two within a second are one."""
        sample = self.there.count()
        self.history.keep_sample(sample)
        return sample


def _waiting(record: WorkloadRecord) -> Iterator[PendingForReason]:
    """Yield what waits of a workload, by reason; what no plan has spoken of has none yet."""
    left = record.pending_count
    for unplaced in record.unplaced:
        count = min(left, unplaced.count)
        left -= count
        if count:
            yield PendingForReason(
                record.key, count, unplaced.code.value, record.pending_since
            )
    if left:
        yield PendingForReason(
            record.key, left, UNPLANNED, record.pending_since or record.submitted_at
        )
