"""The gate for every ending by our own choice: known tables, a tally under its bound, and an event when held back.

The tally is written before anything ends, under the condition that it has not changed: passes that overlap, and
functions that run at once, share one bound. A tally that cannot be read or written never counts as permission.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Final

from reservoir.core.safety.endings import Bounds, EndingKind
from reservoir.core.safety.tally import Lift, Tally, admit, lifted
from reservoir.manifests.events import EndingsHeld, EnvelopeLifted
from reservoir.ports.errors import AwsError
from reservoir.ports.messaging import EventPublisher
from reservoir.ports.safety import TallyStore, UnreadableRowError
from reservoir.ports.state import ConflictError, NodeClaimStore
from reservoir.usecases.safety.tables import OwnTables

_TRIES: Final = 6


@dataclass(frozen=True, slots=True)
class Admission:
    """What may end, by id; ``why`` gives the reason for each of the others."""

    admitted: frozenset[str]
    why: str = ""


@dataclass(frozen=True, slots=True)
class Envelope:
    """The gate of one deployment."""

    tables: OwnTables
    tallies: TallyStore
    claims: NodeClaimStore
    publisher: EventPublisher
    bounds: Bounds = field(default_factory=Bounds)

    def admit(
        self,
        kind: EndingKind,
        ids: Collection[str],
        now: datetime,
        *,
        wanted_count: int = 0,
        fleet: Collection[str] | None = None,
    ) -> Admission:
        """Return which of ``ids`` may end now: those let pass before, and all others or none of them.

        ``ids`` are claims; or instances, if ``fleet`` has all instances (None: all live claims). ``wanted_count`` is
        how many shall end in all, where ``ids`` are one batch of them. Asking again for the same costs nothing, nor
        is the fleet listed for it.
        """
        if not ids:
            return Admission(frozenset())
        recognition = self.tables.recognition()
        if not recognition.is_whole:
            return Admission(
                frozenset(),
                f"the tables are not known to be complete: {'; '.join(recognition.problems)}",
            )
        for _ in range(_TRIES):
            try:
                stored = self.tallies.get(kind)
                if fleet is None and not stored.tally.recent_ids(now).issuperset(ids):
                    fleet = [claim.id for claim in self.claims.list_live()]
                verdict = admit(
                    stored.tally, self.bounds.of(kind), ids, wanted_count, fleet or (), now
                )
                if verdict.tally != stored.tally:
                    self.tallies.put(verdict.tally, expected_revision=stored.revision)
            except ConflictError:
                continue
            except (UnreadableRowError, AwsError) as error:
                return Admission(
                    frozenset(),
                    f"the tally of endings, or the fleet, cannot be read or written: {error}",
                )
            if verdict.began:
                self._publish(verdict.tally, verdict.why)
            return Admission(verdict.admitted, verdict.why)
        return Admission(frozenset(), "others keep writing the tally of endings")

    def let_pass(self, kind: EndingKind) -> frozenset[str]:
        """Return the ids that were let pass of late, an hour at least. Raises UnreadableRowError, AwsError."""
        passed = self.tallies.get(kind).tally.passed
        return frozenset(chain.from_iterable(each.ids for each in passed))

    def holding(self, now: datetime) -> tuple[Tally, ...]:
        """Return the tallies of endings that are held back. Raises UnreadableRowError, AwsError."""
        tallies = [self.tallies.get(kind).tally for kind in EndingKind]
        return tuple(tally for tally in tallies if tally.is_holding(now))

    def _publish(self, tally: Tally, why: str) -> None:
        if tally.held is not None:
            self.publisher.publish(
                [
                    EndingsHeld(
                        kind=tally.kind,
                        wanted_count=tally.held.wanted_count,
                        passed_count=tally.held.passed_count,
                        limit=tally.held.limit,
                        fleet_count=tally.held.fleet_count,
                        is_shut=tally.is_shut,
                        message=why,
                    )
                ]
            )


@dataclass(frozen=True, slots=True)
class LiftEnvelope:
    """Lets more end than a bound allows, once; who, when and why stay in the tally and go out on the bus."""

    tallies: TallyStore
    publisher: EventPublisher

    def show(self) -> tuple[Tally, ...]:
        """Return all tallies, by kind. Raises UnreadableRowError."""
        return tuple(self.tallies.get(kind).tally for kind in EndingKind)

    def lift(self, kind: EndingKind, lift: Lift) -> Tally:
        """Store the lift in place of the one before.

        Raises ConflictError when the tally is fought over, and UnreadableRowError.
        """
        for _ in range(_TRIES):
            stored = self.tallies.get(kind)
            after = lifted(stored.tally, lift)
            try:
                self.tallies.put(after, expected_revision=stored.revision)
            except ConflictError:
                continue
            self.publisher.publish(
                [
                    EnvelopeLifted(
                        kind=kind,
                        count=lift.count,
                        until=lift.until,
                        by=lift.by,
                        reason=lift.reason,
                    )
                ]
            )
            return after
        raise ConflictError([kind])
