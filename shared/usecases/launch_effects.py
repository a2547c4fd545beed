"""Applying a launch outcome: every step may be repeated, and comes to the same end.

Shortages are remembered before replicas go back to demand (R-162): the planner that they wake must already see them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from shared.core import labels
from shared.core.drain import block_drain
from shared.core.instance_type import CapacityType, InstanceType
from shared.core.launch_outcome import LaunchAttempt, LaunchReaction, launched_offering
from shared.core.money import ATTO_USD_PER_MICRO_USD
from shared.core.node_claim import ClaimState, NodeClaim
from shared.core.plan import OfferingKey
from shared.core.shortage import UNSUPPORTED_REST, Shortage, after_failure
from shared.manifests.events import LaunchesBlocked, ReservationExhausted
from shared.ports.ec2 import InstanceTagger, InstanceTerminator, LaunchTemplateStore
from shared.ports.launches import LaunchPolicy, ShortageHistory
from shared.ports.messaging import DrainTimers, EventPublisher, LaunchBatch, OutboundEvent
from shared.ports.state import NodeClaimStore, OfferingStore, ReservationStore, WorkloadStore
from shared.ports.system import Clock
from shared.usecases.announce import launch_failed, node_launched
from shared.usecases.checkpoints import checkpoint_periods_s
from shared.usecases.claim_moves import return_all_replicas, settle_claim

# While Spot's service-linked role is missing every spot launch fails: all spot rests, on-demand goes on.
_SPOT_REST: Final = timedelta(minutes=15)
_WAITING: Final = frozenset({ClaimState.PLANNED, ClaimState.LAUNCHING})


@dataclass(frozen=True, slots=True)
class EffectCounts:
    """Claims that got an instance in this attempt, and claims that failed now."""

    launched: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class LaunchEffects:
    """What a launch changes besides EC2's instances."""

    claims: NodeClaimStore
    workloads: WorkloadStore
    reservations: ReservationStore
    offerings: OfferingStore
    shortages: ShortageHistory
    policy: LaunchPolicy
    templates: LaunchTemplateStore
    terminator: InstanceTerminator
    tagger: InstanceTagger
    publisher: EventPublisher
    timers: DrainTimers
    clock: Clock

    def apply(self, batch: LaunchBatch, attempt: LaunchAttempt, reaction: LaunchReaction) -> EffectCounts:
        """Apply the attempt's recorded outcome."""
        until = self._remember(attempt, reaction)
        launched, unwanted = self._settle(attempt)
        gives_up = len(attempt.assignment()) < len(attempt.claim_ids) and not reaction.retry
        failing = self._without_instance(attempt) if gives_up else []
        undone = self._undoable(batch) if gives_up and attempt.request.all_or_none else []
        launched = [claim for claim in launched if claim.id not in {other.id for other in undone}]
        self._announce(attempt, launched, [*failing, *undone], reaction, until)
        failed_count = self._fail(failing, reaction) + self._undo(undone)
        unwanted += [claim.instance_id for claim in undone if claim.instance_id is not None]
        if unwanted:
            self.terminator.terminate(unwanted)
        if len(attempt.claim_ids) > 1:  # a claim that is alone in its request is named by the fleet's own tags
            named = {claim.instance_id: claim.id for claim in launched if claim.instance_id is not None}
            # Nothing depends on this tag: what EC2's rate leaves out now, the collector makes up for.
            self.tagger.tag_claims(named, patient=False)
        return EffectCounts(len(launched), failed_count)

    # --- reactions

    def _remember(self, attempt: LaunchAttempt, reaction: LaunchReaction) -> datetime | None:
        """Remember shortages, exhausted reservations and blocked classes; return until when the offering rests."""
        at = attempt.settled_at
        rests: dict[OfferingKey, Shortage] = {}
        if reaction.resting:
            known = self.shortages.get_many(reaction.resting)
            rests |= {offering: after_failure(known.get(offering), at) for offering in reaction.resting}
        rests |= {offering: Shortage(at + UNSUPPORTED_REST) for offering in reaction.unsupported}
        if rests:
            self.shortages.put(rests)
        if reaction.spot_not_permitted:
            rests |= {offering: Shortage(at + _SPOT_REST) for offering in self._all_spot()}
        by_until: dict[datetime, list[OfferingKey]] = {}
        for offering, shortage in rests.items():
            by_until.setdefault(shortage.until, []).append(offering)
        for until in sorted(by_until):
            self.offerings.mark_unavailable(by_until[until], until=until)
        if reaction.exhausted_reservation_id is not None:
            self.reservations.mark_exhausted(reaction.exhausted_reservation_id, refused_at=at)
        if reaction.blocked_reason is not None:
            node_class_name = attempt.request.node_class_name
            self.policy.block_launches(node_class_name, reaction.blocked_reason)
        self.templates.forget([] if not reaction.retry else [c.template.name for c in attempt.request.configs])
        return max(by_until, default=None)

    def _all_spot(self) -> Collection[OfferingKey]:
        return [
            OfferingKey(instance_type.name, offering.zone, offering.zone_id, offering.capacity_type)
            for instance_type in self.offerings.load_catalogue()
            for offering in instance_type.offerings
            if offering.capacity_type is CapacityType.SPOT
        ]

    # --- claims

    def _settle(self, attempt: LaunchAttempt) -> tuple[list[NodeClaim], list[str]]:
        """Give each claim its instance; return the claims that have theirs, and instances that nobody wants."""
        found = self.claims.get_many(attempt.claim_ids)
        surplus = list(attempt.surplus())
        launched = []
        assignment = attempt.assignment()
        if not assignment:
            return [], surplus
        catalogue = {instance_type.name: instance_type for instance_type in self.offerings.load_catalogue()}
        for claim_id in sorted(assignment):
            claim = None if claim_id not in found else self._settled(found[claim_id], attempt, catalogue)
            if claim is None or claim.instance_id != assignment[claim_id].id:
                surplus.append(assignment[claim_id].id)
            else:
                launched.append(claim)
        return launched, surplus

    def _settled(
        self, claim: NodeClaim, attempt: LaunchAttempt, catalogue: Mapping[str, InstanceType]
    ) -> NodeClaim | None:
        """Return the claim with its instance, settled now or earlier; None when it ended meanwhile."""
        instance = attempt.assignment()[claim.id]
        drain_at = self._drain_at(claim)

        def launched(current: NodeClaim) -> NodeClaim | None:
            if current.state not in _WAITING:
                return None
            return replace(
                with_instance(current, launched_offering(attempt.request, instance), catalogue),
                state=ClaimState.LAUNCHED,
                instance_id=instance.id,
                launched_at=attempt.settled_at,
                drain_at=drain_at,
                subnet_id=instance.subnet_id,
                image_id=instance.image_id,
                security_group_ids=attempt.request.security_group_ids,
            )

        settled = settle_claim(self.claims, claim, launched)
        return settled if settled is not None else self.claims.get(claim.id)

    def _drain_at(self, claim: NodeClaim) -> datetime | None:
        """Return when the Capacity Block under the claim starts to drain, and set its timer."""
        if claim.lease is None:
            return None
        record = self.reservations.get(claim.lease.reservation_id)
        drain = (
            None
            if record is None
            else block_drain(record.reservation, checkpoint_periods_s([claim], self.workloads)[claim.id])
        )
        if drain is None:
            return None
        self.timers.set_timer(claim.lease.reservation_id, drain.starts_at)
        return drain.starts_at

    def _without_instance(self, attempt: LaunchAttempt) -> list[NodeClaim]:
        rest = attempt.claim_ids[len(attempt.assignment()) :]
        found = self.claims.get_many(rest)
        return [found[claim_id] for claim_id in sorted(found) if found[claim_id].state in _WAITING]

    def _fail(self, failing: Sequence[NodeClaim], reaction: LaunchReaction) -> int:
        def failed(claim: NodeClaim) -> NodeClaim | None:
            if claim.state not in _WAITING:
                return None
            return replace(claim, state=ClaimState.FAILED, failure=reaction.reason)

        now = self.clock.now()
        return sum(1 for claim in failing if return_all_replicas(self.claims, claim, now, failed) is not None)

    # --- gangs that came in part, where EC2 cannot promise all or nothing

    def _undoable(self, batch: LaunchBatch) -> list[NodeClaim]:
        """Return the claims of the gang that have an instance, also those whose undoing was cut short."""
        found = self.claims.get_many(batch.claim_ids)
        undoable = (ClaimState.LAUNCHED, ClaimState.RUNNING, ClaimState.TERMINATING)
        return [found[claim_id] for claim_id in sorted(found) if found[claim_id].state in undoable]

    def _undo(self, undone: Sequence[NodeClaim]) -> int:
        def terminating(claim: NodeClaim) -> NodeClaim | None:
            if not claim.may_become(ClaimState.TERMINATING):
                return None
            return replace(claim, state=ClaimState.TERMINATING, failure="its gang could not be launched whole")

        now = self.clock.now()
        return sum(1 for claim in undone if return_all_replicas(self.claims, claim, now, terminating) is not None)

    # --- events

    def _announce(
        self,
        attempt: LaunchAttempt,
        launched: Sequence[NodeClaim],
        failing: Sequence[NodeClaim],
        reaction: LaunchReaction,
        until: datetime | None,
    ) -> None:
        events: list[OutboundEvent] = [node_launched(claim, attempt.settled_at) for claim in launched]
        if failing:
            events.append(launch_failed(failing, reaction.reason, f"EC2 refused: {reaction.reason}", until))
        if reaction.blocked_reason is not None:
            events.append(
                LaunchesBlocked(
                    node_class=attempt.request.node_class_name,
                    reason=reaction.blocked_reason,
                    message="no launch can succeed until the class or the permissions change",
                )
            )
        if reaction.exhausted_reservation_id is not None:
            record = self.reservations.get(reaction.exhausted_reservation_id)
            if record is not None:
                events.append(
                    ReservationExhausted(
                        capacity_reservation_id=record.reservation.id,
                        instance_type=record.reservation.instance_type,
                        zone=record.reservation.zone,
                        zone_id=record.reservation.zone_id,
                        total_count=record.reservation.total_count,
                    )
                )
        if events:
            self.publisher.publish(events)


def with_instance(claim: NodeClaim, offering: OfferingKey, catalogue: Mapping[str, InstanceType]) -> NodeClaim:
    """Return the claim as what was really bought: offering, price, labels and room.

    On spot and on-demand EC2 chooses among the alternatives, so type and zone may differ from the plan's first choice.
    """
    if offering == claim.offering:
        return claim
    instance_type = catalogue.get(offering.instance_type)
    own = {
        labels.INSTANCE_TYPE: offering.instance_type,
        labels.ZONE: offering.zone,
        labels.ZONE_ID: offering.zone_id,
        labels.CAPACITY_TYPE: offering.capacity_type.value,
    }
    if instance_type is None:
        return replace(claim, offering=offering, labels={**claim.labels, **own})
    prices = [
        o.price_micro_usd_per_hour
        for o in instance_type.offerings
        if o.zone_id == offering.zone_id and o.capacity_type is offering.capacity_type
    ]
    price = min(prices) * ATTO_USD_PER_MICRO_USD if prices else claim.price_atto_usd_per_hour
    kept = {key: value for key, value in claim.labels.items() if key not in _TYPE_LABELS}
    return replace(
        claim,
        offering=offering,
        price_atto_usd_per_hour=price,
        labels={**kept, **instance_type.requirements.labels(), **own},
        allocatable=instance_type.allocatable,
    )


# Labels that say what the machine is: those of the planned type must not outlive it on a machine of another.
_TYPE_LABELS: Final = (
    labels.WELL_KNOWN
    - labels.RESERVATION_LABELS
    - {
        labels.NODE_POOL,
        labels.REGION,
        labels.OS,
        labels.PLACEMENT_GROUP_ID,
        labels.PLACEMENT_GROUP_PARTITION,
    }
)
