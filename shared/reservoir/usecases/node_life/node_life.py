"""Claims follow their instances: one reading of EC2, one decision, for events and sweeps alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import Final

from reservoir.core.model.instance import TERMINATED, Instance
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.node_life.observation import Meaning, meaning, rebought
from reservoir.core.safety.endings import EndingKind
from reservoir.ports.launches import LaunchPolicy
from reservoir.ports.messaging import EventPublisher
from reservoir.ports.state import (
    ConflictError,
    NodeClaimStore,
    OfferingStore,
    ReservationStore,
    UnreadableRowsError,
)
from reservoir.usecases.claims.announce import (
    capacity_type_changed,
    moved_into_reservation,
)
from reservoir.usecases.claims.claim_moves import save_claim, try_to_save_claims
from reservoir.usecases.draining.draining import Draining
from reservoir.usecases.node_life.early_ends import EarlyEnd, EarlyEndReport, EarlyEnds

_TO_TERMINATE: Final = (Meaning.STOPPED, Meaning.STUCK, Meaning.TERMINATE_AGAIN)
_FAILURES: Final = {
    Meaning.STOPPED: "InstanceStopped",
    Meaning.STUCK: "InstanceNeverStarted",
}


@dataclass(slots=True)
class LifeReport:
    """Counts of one reading, for metrics; ``refused`` maps instance ids to EC2's code."""

    by_meaning: dict[Meaning, int] = field(default_factory=dict)
    rebought_count: int = 0
    early: EarlyEndReport = field(default_factory=EarlyEndReport)
    refused: dict[str, str] = field(default_factory=dict)
    # ids of claims that others kept moving: look again later
    lost: set[str] = field(default_factory=set)
    # of instances that are gone
    freed_reservation_ids: set[str] = field(default_factory=set)

    def count(self, found: Meaning) -> int:
        """Return how many claims had this meaning."""
        return self.by_meaning.get(found, 0)


@dataclass(frozen=True, slots=True)
class NodeLife:
    """Moves claims as their instances were read."""

    claims: NodeClaimStore
    reservations: ReservationStore
    offerings: OfferingStore
    policy: LaunchPolicy
    draining: Draining
    early_ends: EarlyEnds
    publisher: EventPublisher

    def apply(
        self, claims: Sequence[NodeClaim], shown: Mapping[str, Instance], now: datetime
    ) -> LifeReport:
        """Do what instances that were just read mean for their claims.

        Raises UnreadableRowsError for claims that cannot be read again.
        """
        report = LifeReport()
        found: dict[Meaning, list[NodeClaim]] = {each: [] for each in Meaning}
        meanings = {
            claim.id: meaning(claim, shown.get(claim.instance_id or ""), now)
            for claim in claims
        }
        held = self._vanished_too_many(claims, shown, meanings, now)
        for claim in sorted(claims, key=lambda claim: claim.id):
            what = Meaning.NOTHING if claim.id in held else meanings[claim.id]
            found[what].append(claim)
            report.by_meaning[what] = report.count(what) + 1
        self.early_ends.ran(found[Meaning.RUNNING])
        report.lost.update(self._run(found[Meaning.RUNNING], shown, now))
        for claim in claims:
            instance = shown.get(claim.instance_id or "")
            # EC2 frees the unit of an instance that ended by itself after its claim has ended.
            left = instance is not None and instance.state == TERMINATED
            if claim.offering.reservation_id is not None and (
                left or (meanings[claim.id] is Meaning.ENDED and claim.id not in held)
            ):
                report.freed_reservation_ids.add(claim.offering.reservation_id)
        never_ran: list[EarlyEnd] = []
        why_gone: dict[str, str] = {}
        last: dict[str, Instance] = {}
        for claim in (*found[Meaning.STUCK], *found[Meaning.ENDED]):
            instance = shown.get(claim.instance_id or "")
            if instance is not None:
                last[claim.id] = instance
            if claim.state is ClaimState.LAUNCHED:
                why = _state_reason(instance)
                is_stuck = meanings[claim.id] is Meaning.STUCK
                never_ran.append(EarlyEnd(claim, why, is_stuck))
                if why is not None:
                    why_gone[claim.id] = why
        report.early = self.early_ends.note(never_ran, now)
        to_end = list(chain.from_iterable(found[what] for what in _TO_TERMINATE))
        failures: dict[str, str] = {}
        for what, failure in _FAILURES.items():
            failures.update(dict.fromkeys((claim.id for claim in found[what]), failure))
        for moves in (
            self.draining.ended(found[Meaning.ENDED], now, why_gone, last),
            self.draining.terminate(to_end, now, failures),
        ):
            report.lost.update(moves.lost)
            report.refused.update(moves.refused)
        alive = [*found[Meaning.NOTHING], *found[Meaning.RUNNING]]
        report.rebought_count = self._follow_purchases(alive, shown, report.lost)
        return report

    def _run(
        self, claims: Sequence[NodeClaim], shown: Mapping[str, Instance], now: datetime
    ) -> Sequence[str]:
        """Note that instances run; return the claims that others kept moving."""
        since = {claim.id: shown[claim.instance_id or ""].launched_at for claim in claims}
        return try_to_save_claims(
            self.claims, claims, lambda claim: _running(now, since[claim.id], claim)
        ).lost

    def _vanished_too_many(
        self,
        claims: Sequence[NodeClaim],
        shown: Mapping[str, Instance],
        meanings: Mapping[str, Meaning],
        now: datetime,
    ) -> frozenset[str]:
        """Return claims that stay although EC2 does not show their instances: so many at once are a bad answer.

        EC2 shows an instance by its id for an hour after it has terminated; sweeps that ran meanwhile have seen it.
        """
        vanished = [
            claim.id
            for claim in claims
            if meanings[claim.id] is Meaning.ENDED
            and (claim.instance_id or "") not in shown
        ]
        admission = self.draining.envelope.admit(EndingKind.VANISHED, vanished, now)
        return frozenset(vanished) - admission.admitted

    def _follow_purchases(
        self, claims: Sequence[NodeClaim], shown: Mapping[str, Instance], lost: set[str]
    ) -> int:
        """Demote and promote claims whose instance left or entered a reservation."""
        moved = [
            claim
            for claim in claims
            if (instance := shown.get(claim.instance_id or "")) is not None
            and instance.capacity_reservation_id != claim.offering.reservation_id
        ]
        if not moved:
            return 0
        catalogue = {
            instance_type.name: instance_type
            for instance_type in self.offerings.load_catalogue()
        }
        reservations = {
            record.reservation.id: record.reservation
            for record in self.reservations.list_current()
        }
        count = 0
        for claim in moved:
            try:
                node_class = self.policy.node_class(claim.node_class_name)
            except UnreadableRowsError:
                continue  # the class's selection is not known, so the node stays as it is
            selected = (
                frozenset()
                if node_class is None
                else frozenset(node_class.status.reservation_ids)
            )
            instance = shown[claim.instance_id or ""]

            def bought(
                current: NodeClaim,
                instance: Instance = instance,
                selected: frozenset[str] = selected,
            ) -> NodeClaim | None:
                return rebought(current, instance, selected, reservations, catalogue)

            after = bought(claim)
            if after is None:
                continue
            moved_in = moved_into_reservation(claim, after, reservations)
            self.publisher.publish([capacity_type_changed(claim, after), *moved_in])
            try:
                count += save_claim(self.claims, claim, bought) is not None
            except ConflictError:
                lost.add(claim.id)
        return count


def _state_reason(instance: Instance | None) -> str | None:
    return None if instance is None else instance.state_reason


def _running(now: datetime, launched_at: datetime, claim: NodeClaim) -> NodeClaim | None:
    """Record that an instance runs, and when EC2 says that it was launched: the launch only knew when EC2 answered."""
    if not claim.may_become(ClaimState.RUNNING):
        return None
    return replace(claim, state=ClaimState.RUNNING, running_at=now, launched_at=launched_at)
