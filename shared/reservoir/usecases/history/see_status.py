"""Everything that an operator looks at each day, read at once. What one source does not say leaves the others whole."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeVar

from reservoir.core.history.past_event import PastEvent
from reservoir.core.history.sample import Sample
from reservoir.core.launching.start_readiness import Missing
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.names import Function, Queue
from reservoir.ports.errors import AwsError
from reservoir.ports.history import HistoryStore
from reservoir.ports.overview import AlarmReader, PassReader, QueueDepth, QueueReader
from reservoir.ports.policy import PolicyStore
from reservoir.ports.safety import UnreadableRowError
from reservoir.ports.state import OfferingStore, ReservationStore
from reservoir.ports.system import Clock
from reservoir.usecases.history.take_sample import CountWhatIsThere
from reservoir.usecases.policy.not_launching import (
    NotLaunching,
    not_launching,
    refused_dry_runs,
)
from reservoir.usecases.policy.start_readiness import missing_for_starts

T = TypeVar("T")

REFUSALS: Final = frozenset(
    {"Launch Failed", "Launches Blocked", "Workload Rejected", "Endings Held"}
)
REFUSED_WITHIN: Final = timedelta(hours=24)
# a reservation that begins soon, and what its first launch lacks
NearStart = tuple[CapacityReservation, tuple[Missing, ...]]


@dataclass(frozen=True, slots=True)
class Unknown:
    """A source did not answer. Its part is unknown, which is never shown as zero."""

    why: str


@dataclass(frozen=True, slots=True)
class LastDiscovery:
    """When an observation of reservations last changed anything, and which reservations could not be read again.

    ``read_at``: when they were last read, to the minute; None where CloudWatch does not say.
    """

    changed_at: datetime | None
    stale: tuple[str, ...]
    read_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """What there is, what was refused within a day, and the health of the deployment."""

    asked_at: datetime
    there: Sample | Unknown
    refused: tuple[PastEvent, ...] | Unknown
    discovery: LastDiscovery | Unknown
    queues: Mapping[Queue, QueueDepth] | Unknown
    alarms: tuple[str, ...] | Unknown
    not_launching: tuple[NotLaunching, ...] | Unknown
    refused_dry_runs: tuple[NotLaunching, ...] | Unknown = ()
    unready: Mapping[str, NearStart] | Unknown = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SeeStatus:
    """Reads all of it."""

    there: CountWhatIsThere
    history: HistoryStore
    reservations: ReservationStore
    queues: QueueReader
    alarms: AlarmReader
    passes: PassReader
    policy: Callable[[], PolicyStore]  # asked for when it is read: not everybody may
    offerings: OfferingStore
    clock: Clock

    def see(self) -> Status:
        """Return how things are now."""
        now = self.clock.now()
        return Status(
            asked_at=now,
            there=_ask(self.there.count),
            refused=_ask(lambda: self._refused(now)),
            discovery=_ask(self._discovery),
            queues=_ask(self.queues.depths),
            alarms=_ask(self.alarms.alarming),
            not_launching=_ask(lambda: not_launching(self.policy().list_all())),
            refused_dry_runs=_ask(lambda: refused_dry_runs(self.policy().list_all())),
            unready=_ask(lambda: self._unready(now)),
        )

    def _unready(self, now: datetime) -> Mapping[str, NearStart]:
        """Return the reservations that begin within a day and for which something is missing."""
        known = [each.reservation for each in self.reservations.list_current()]
        found = missing_for_starts(known, self.policy().list_all(), self.offerings, now)
        return {key: start for key, start in found.items() if start[1]}

    def _refused(self, now: datetime) -> tuple[PastEvent, ...]:
        told = self.history.timeline(now - REFUSED_WITHIN, now + timedelta(minutes=1))
        return tuple(event for event in told if event.detail_type in REFUSALS)

    def _discovery(self) -> LastDiscovery:
        records = self.reservations.list_current()
        read_at = _ask(lambda: self.passes.last(Function.DISCOVER_RESERVATIONS))
        return LastDiscovery(
            max((record.observed_at for record in records), default=None),
            tuple(record.reservation.id for record in records if record.reservation.stale),
            None if isinstance(read_at, Unknown) else read_at,
        )


def _ask(read: Callable[[], T]) -> T | Unknown:
    try:
        return read()
    except (AwsError, UnreadableRowError) as error:
        return Unknown(str(error))
