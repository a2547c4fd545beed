"""Remembers instances that ended before they ran, lets what caused it rest, and publishes it (``core.early_end``).

EC2 accepted these launches, so without a rest the same would be launched again as soon as the replicas are demand.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from reservoir.core.capacity.shortage import (
    Shortage,
    after_ending,
    after_failure,
    after_tolerated_failure,
)
from reservoir.core.capacity.unavailable_offerings import (
    BootKey,
    NodeClassKey,
    Remembered,
    Rested,
    Unavailable,
    class_rests,
)
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.node_life.early_end import Cause, cause_of, explanation
from reservoir.manifests.events import LaunchesBlocked
from reservoir.ports.launches import ShortageHistory
from reservoir.ports.messaging import EventPublisher, OutboundEvent
from reservoir.ports.state import OfferingStore
from reservoir.usecases.claims.announce import launch_failed
from reservoir.usecases.node_life.broken_capacity import BrokenCapacity


@dataclass(frozen=True, slots=True)
class EarlyEnd:
    """A node that never ran, with EC2's state reason as far as it was still shown.

    ``is_stuck``: it has not ended, but stayed pending until it was given up.
    """

    claim: NodeClaim
    state_reason: str | None
    is_stuck: bool = False

    @property
    def cause(self) -> Cause:
        """What carries the cause."""
        return Cause.HOST if self.is_stuck else cause_of(self.state_reason)

    @property
    def explanation(self) -> str:
        """Why it never ran, for users."""
        if self.is_stuck:
            return "the instance did not reach running"
        return explanation(self.state_reason)


@dataclass(frozen=True, slots=True)
class EarlyEndReport:
    """How many nodes ended early, how many classes rest for it, and how many reservations have suspected units."""

    ended_count: int = 0
    blocked_count: int = 0
    suspected_count: int = 0


@dataclass(frozen=True, slots=True)
class EarlyEnds:
    """Notes early ends, of every kind of capacity."""

    shortages: ShortageHistory
    offerings: OfferingStore
    broken: BrokenCapacity
    publisher: EventPublisher

    def note(self, ends: Sequence[EarlyEnd], now: datetime) -> EarlyEndReport:
        """Note the ends. To be called before the claims move on: a repeat rests no longer, an omission loses them."""
        if not ends:
            return EarlyEndReport()
        by_cause: dict[Cause, list[EarlyEnd]] = {}
        for end in ends:
            by_cause.setdefault(end.cause, []).append(end)
        of_class = by_cause.get(Cause.NODE_CLASS, [])
        unknown = [
            end
            for end in by_cause.get(Cause.UNKNOWN, [])
            if end.claim.offering.reservation_id is None
        ]
        elsewhere = [*by_cause.get(Cause.HOST, []), *by_cause.get(Cause.UNKNOWN, [])]
        rests = self._of_hosts(elsewhere, now) | self._of_classes(of_class, unknown, now)
        self._publish(ends, rests)
        self._rest(ends, rests)
        on_units = [
            end.claim for end in elsewhere if end.claim.offering.reservation_id is not None
        ]
        suspected = self.broken.note(on_units, now) if on_units else 0
        blocked = sum(isinstance(place, NodeClassKey) for place in rests)
        return EarlyEndReport(len(ends), blocked, suspected)

    def ran(self, claims: Sequence[NodeClaim]) -> None:
        """Forget the early ends of classes whose instances run again; those launched before the rest show nothing."""
        known = (
            self.shortages.get_many({_class_of(claim) for claim in claims})
            if claims
            else {}
        )
        since = {key: shortage.until for key, shortage in known.items()}
        proven = {
            _class_of(c)
            for c in claims
            if _class_of(c) in since and _launched_at(c) >= since[_class_of(c)]
        }
        if proven:
            self.shortages.forget(proven)

    def _of_hosts(self, ends: Iterable[EarlyEnd], now: datetime) -> dict[Rested, datetime]:
        """Return until when offerings rest; units of reservations are suspected one by one instead."""
        bought = sorted(
            {it.claim.offering for it in ends if it.claim.offering.reservation_id is None},
            key=str,
        )
        known = (
            self.shortages.get_many([BootKey(offering) for offering in bought])
            if bought
            else {}
        )
        after = {
            offering: after_ending(known.get(BootKey(offering)), now) for offering in bought
        }
        if after:
            self.shortages.put(
                {BootKey(offering): shortage for offering, shortage in after.items()}
            )
        return {offering: shortage.until for offering, shortage in after.items()}

    def _of_classes(
        self, certain: Sequence[EarlyEnd], unknown: Sequence[EarlyEnd], now: datetime
    ) -> dict[Rested, datetime]:
        """Return until when classes rest: at once where the cause is theirs, else when it happens again and again."""
        at_once = {_class_of(end.claim) for end in certain}
        perhaps = {_class_of(end.claim) for end in unknown} - at_once
        keys = sorted(at_once | perhaps, key=str)
        known = self.shortages.get_many(keys) if keys else {}
        after = {
            key: (after_failure if key in at_once else after_tolerated_failure)(
                known.get(key), now
            )
            for key in keys
        }
        if after:
            self.shortages.put(dict[Remembered, Shortage](after.items()))
        return {key: it.until for key, it in after.items() if not it.tolerated}

    def _rest(self, ends: Sequence[EarlyEnd], rests: Mapping[Rested, datetime]) -> None:
        reasons: dict[Rested, str] = {}
        for end in ends:
            reasons.setdefault(end.claim.offering, end.explanation)
            reasons.setdefault(_class_of(end.claim), end.explanation)
        for place in sorted(rests, key=str):
            self.offerings.mark_unavailable(
                [place], until=rests[place], reason=reasons[place]
            )

    def _publish(self, ends: Sequence[EarlyEnd], rests: Mapping[Rested, datetime]) -> None:
        """Publish it before it is stored: a run that dies in between publishes it again, and it is never lost."""
        events: list[OutboundEvent] = []
        told: set[Rested] = set()
        for end in ends:
            place = _class_of(end.claim)
            until = rests.get(place) or rests.get(end.claim.offering)
            why = end.explanation
            code = end.state_reason or (
                "InstanceNeverStarted" if end.is_stuck else "InstanceTerminated"
            )
            events.append(
                launch_failed([end.claim], code, f"{end.claim.instance_id}: {why}", until)
            )
            if place in rests and place not in told:
                told.add(place)
                message = class_rests(Unavailable(rests[place], why))
                events.append(
                    LaunchesBlocked(node_class=place.name, reason=code, message=message)
                )
        self.publisher.publish(events)


def _launched_at(claim: NodeClaim) -> datetime:
    return claim.launched_at or claim.created_at


def _class_of(claim: NodeClaim) -> NodeClassKey:
    return NodeClassKey(claim.node_class_name, claim.node_class_hash)
