"""Applying a launch outcome to its claims: every step may be repeated with the same result.

Shortages are remembered before replicas go back to demand (R-162): the planner that they wake must already see them.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from reservoir.core.capacity.node_storage import less_kubelet, storage_elsewhere
from reservoir.core.launching.launch_outcome import (
    LaunchAttempt,
    LaunchedInstance,
    LaunchReaction,
    launched_offering,
)
from reservoir.core.model.capacity_reservation import BlockDrain
from reservoir.core.model.instance_type import InstanceType
from reservoir.core.model.node_claim import AWAITING_LAUNCH, ClaimState, NodeClaim
from reservoir.core.model.node_class import KubeletAmounts
from reservoir.core.model.plan import OfferingKey
from reservoir.core.node_life.drain import LONGEST_NOTICE, block_drain
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.efa import wants_efa, without_efa
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.core.scheduling_terms.resources import EPHEMERAL_STORAGE, Resources
from reservoir.ports.ec2 import InstanceTagger, InstanceTerminator
from reservoir.ports.errors import AwsError
from reservoir.ports.messaging import DrainTimers, LaunchBatch
from reservoir.ports.state import (
    NodeClaimStore,
    OfferingStore,
    ReservationStore,
    UnreadableRowsError,
    WorkloadStore,
)
from reservoir.ports.system import Clock
from reservoir.usecases.claims.checkpoints import checkpoint_periods_s
from reservoir.usecases.claims.claim_moves import return_all_replicas, settle_claims
from reservoir.usecases.launching.gangs import TAKEN_BACK_WITHIN, LaunchGangs
from reservoir.usecases.launching.record_shortages import RecordShortages


@dataclass(frozen=True, slots=True)
class EffectCounts:
    """Claims that got an instance in this attempt, and claims that failed now."""

    launched: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class ApplyOutcome:
    """What a launch changes besides EC2's instances."""

    claims: NodeClaimStore
    workloads: WorkloadStore
    reservations: ReservationStore
    offerings: OfferingStore
    recorder: RecordShortages
    gangs: LaunchGangs
    terminator: InstanceTerminator
    tagger: InstanceTagger
    timers: DrainTimers
    clock: Clock
    longest_notice: timedelta = LONGEST_NOTICE  # that any work gets, whatever it asks for

    def apply(
        self,
        batch: LaunchBatch,
        attempt: LaunchAttempt,
        reaction: LaunchReaction,
        known: Mapping[str, NodeClaim],
    ) -> EffectCounts:
        """Apply the attempt's recorded outcome; ``known`` are claims of it as this run has written or read them.

        Raises ConflictError when a claim is fought over, and UnreadableRowsError.
        """
        until = self.recorder.remember(attempt, reaction)
        launched, unwanted = self._settle(attempt, known)
        gives_up = len(attempt.assignment()) < len(attempt.claim_ids) and not reaction.retry
        failing = self._without_instance(attempt) if gives_up else []
        undone: Sequence[NodeClaim] = ()
        if attempt.request.all_or_none and (gives_up or self.gangs.is_broken(launched)):
            undone, launched = self.gangs.of_batch(batch), []
        self.recorder.announce(attempt, reaction, launched, [*failing, *undone], until)
        failed_count = self.fail([*failing, *undone], reaction.reason)
        taken_back = self._just_launched(attempt, unwanted)
        if taken_back:
            self.terminator.terminate(taken_back)
        # a claim that is alone in its request is named by the fleet's own tags
        if len(attempt.claim_ids) > 1:
            named = {
                claim.instance_id: claim.id
                for claim in launched
                if claim.instance_id is not None
            }
            # Nothing depends on this tag: what EC2's rate leaves out now, or EC2 refuses, the collector makes up for
            # and counts.
            with suppress(AwsError):
                self.tagger.tag_claims(named, patient=False)
        return EffectCounts(len(launched), failed_count)

    def fail(self, claims: Sequence[NodeClaim], reason: str) -> int:
        """Give up claims and, where they are of a gang, everything that was planned together with them.

        Returns how many claims failed. Raises ConflictError when one is fought over, and UnreadableRowsError.
        """
        now = self.clock.now()

        def failed(claim: NodeClaim) -> NodeClaim | None:
            if claim.state in AWAITING_LAUNCH:
                return replace(claim, state=ClaimState.FAILED, failure=reason)
            return None

        count = self.gangs.undo(claims, now)
        for claim in claims:
            count += return_all_replicas(self.claims, claim, now, failed) is not None
        # Again: another batch of the gang that was just being settled may have seen it whole until now.
        return count + self.gangs.undo(claims, now)

    # --- claims

    def _settle(
        self, attempt: LaunchAttempt, known: Mapping[str, NodeClaim]
    ) -> tuple[list[NodeClaim], list[str]]:
        """Give each claim its instance; return the claims that have theirs, and the instances that no claim wants.

        Revisions tell which claims have changed since they were read; these are read again when they are written.
        """
        found = (
            known
            if known.keys() >= set(attempt.claim_ids)
            else self.claims.get_many(attempt.claim_ids)
        )
        surplus = list(attempt.surplus())
        launched = []
        assignment = attempt.assignment()
        if not assignment:
            return [], surplus
        waiting = [found[claim_id] for claim_id in sorted(assignment) if claim_id in found]
        catalogue = self._bought_instead(attempt, waiting)
        block_id, drains = self._block_drains(waiting)

        def change(claim: NodeClaim) -> NodeClaim | None:
            return _launched(
                attempt, assignment[claim.id], catalogue, drains.get(claim.id), claim
            )

        settled = settle_claims(self.claims, waiting, change)
        # settled before, or ended meanwhile
        others = self.claims.get_many(assignment.keys() - settled.keys())
        if block_id is not None:
            self._set_timer(block_id, drains)
        for claim_id, instance in sorted(assignment.items()):
            claim = settled.get(claim_id) or others.get(claim_id)
            if claim is None or claim.instance_id != instance.id:
                surplus.append(instance.id)
            else:
                launched.append(claim)
        return launched, surplus

    def _bought_instead(
        self, attempt: LaunchAttempt, claims: Sequence[NodeClaim]
    ) -> Mapping[str, InstanceType]:
        """Return the types of instances that are not of the offering that was planned first."""
        planned = {claim.offering for claim in claims}
        bought = {
            launched_offering(attempt.request, instance)
            for instance in attempt.assignment().values()
        }
        if len(planned | bought) == 1:
            return {}
        types, _ = self.offerings.load_with_rests(
            {offering.instance_type for offering in bought}
        )
        kubelet = self._kept_from_replicas(claims)
        return {each.name: less_kubelet(each, kubelet) for each in types}

    def _kept_from_replicas(self, claims: Sequence[NodeClaim]) -> KubeletAmounts | None:
        """Return the resources that their class keeps from replicas.

        A class that cannot be read does not stop the outcome.
        """
        try:
            found = self.recorder.policy.node_class(claims[0].node_class_name)
        except UnreadableRowsError:
            return None
        return None if found is None else found.kubelet

    def _just_launched(
        self, attempt: LaunchAttempt, unwanted: Collection[str]
    ) -> list[str]:
        """Return what this launch can still take back by itself; the collector judges older instances."""
        since = {
            it.id: it.launched_at or attempt.settled_at for it in attempt.result.instances
        }
        now = self.clock.now()
        return [key for key in unwanted if now - since[key] <= TAKEN_BACK_WITHIN]

    def _block_drains(
        self, claims: Sequence[NodeClaim]
    ) -> tuple[str | None, Mapping[str, BlockDrain]]:
        """Return the Capacity Block under the claims, if they are in one, and how it will drain them."""
        lease = claims[0].lease if claims else None
        record = None if lease is None else self.reservations.get(lease.reservation_id)
        if record is None or record.reservation.reclaim_at() is None:
            return None, {}
        periods = checkpoint_periods_s(claims, self.workloads, self.longest_notice)
        found = {
            claim.id: block_drain(record.reservation, periods.get(claim.id, ()))
            for claim in claims
        }
        drains = {claim_id: drain for claim_id, drain in found.items() if drain is not None}
        return record.reservation.id, drains

    def _set_timer(self, block_id: str, drains: Mapping[str, BlockDrain]) -> None:
        """Set the block's timer for its next drain. The minute's sweep drains blocks whose time has already come."""
        now = self.clock.now()
        to_come = [drain.starts_at for drain in drains.values() if drain.starts_at > now]
        if to_come:
            self.timers.set_timer(block_id, min(to_come))

    def _without_instance(self, attempt: LaunchAttempt) -> list[NodeClaim]:
        rest = attempt.claim_ids[len(attempt.assignment()) :]
        found = self.claims.get_many(rest)
        return [
            found[claim_id]
            for claim_id in sorted(found)
            if found[claim_id].state in AWAITING_LAUNCH
        ]


def _launched(
    attempt: LaunchAttempt,
    instance: LaunchedInstance,
    catalogue: Mapping[str, InstanceType],
    drain: BlockDrain | None,
    claim: NodeClaim,
) -> NodeClaim | None:
    if claim.state not in AWAITING_LAUNCH:
        return None
    return replace(
        with_instance(claim, launched_offering(attempt.request, instance), catalogue),
        state=ClaimState.LAUNCHED,
        instance_id=instance.id,
        launched_at=instance.launched_at or attempt.settled_at,
        drain_at=None if drain is None else drain.starts_at,
        drain_deadline=None if drain is None else drain.deadline,
        subnet_id=instance.subnet_id,
        image_id=instance.image_id,
        security_group_ids=attempt.request.security_group_ids,
        reclaim_group_arn=attempt.request.reclaim_group_arn,
    )


def with_instance(
    claim: NodeClaim, offering: OfferingKey, catalogue: Mapping[str, InstanceType]
) -> NodeClaim:
    """Return the claim with what was really bought: offering, price, labels and room.

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
    price = (
        min(prices) * ATTO_USD_PER_MICRO_USD if prices else claim.price_atto_usd_per_hour
    )
    room = (
        instance_type.allocatable
        if wants_efa(claim.allocatable)
        else without_efa(instance_type.allocatable)
    )
    if claim.allocatable[EPHEMERAL_STORAGE]:
        size = storage_elsewhere(claim.allocatable, claim.labels, instance_type)
        room = Resources.of({**room, EPHEMERAL_STORAGE: size})
    kept = {key: value for key, value in claim.labels.items() if key not in _TYPE_LABELS}
    return replace(
        claim,
        offering=offering,
        price_atto_usd_per_hour=price,
        labels={**kept, **instance_type.requirements.labels(), **own},
        allocatable=room,
    )


# Labels that describe the machine: those of the planned type must not stay on a machine of another type.
_TYPE_LABELS: Final = (
    labels.WELL_KNOWN
    - labels.RESERVATION_LABELS
    - {
        labels.NODE_POOL,
        labels.NODE_CLASS,
        labels.REGION,
        labels.OS,
        labels.PLACEMENT_GROUP_ID,
        labels.PLACEMENT_GROUP_PARTITION,
    }
)
