"""Collect what fell between two lines: lost messages, orphans of either side, templates that nothing needs.

Only instances that carry our owner tag are ever seen here (the reader returns no others), and only those with a batch
tag besides are terminated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from shared.core.instance import Instance
from shared.core.launch_template import superfluous_templates
from shared.core.node_claim import ClaimState, NodeClaim
from shared.ports.ec2 import InstanceReader, InstanceTagger, InstanceTerminator, LaunchTemplateStore
from shared.ports.launches import LaunchAttemptStore, LaunchPolicy
from shared.ports.messaging import LaunchBatch, WorkQueue
from shared.ports.state import NodeClaimStore, ReservationStore, WorkloadStore
from shared.ports.system import Clock
from shared.usecases.node_life import NodeLife

# A batch that still waits after this lost its message; launches take seconds.
RESEND_AFTER: Final = timedelta(minutes=1)
# An instance without a claim after this is nobody's: indexes lag moments, an open attempt adopts within 6 minutes.
ORPHAN_AFTER: Final = timedelta(minutes=10)
# More at once is no leftover but a mistake of ours (a wrong table); somebody must look before everything is terminated.
ORPHANS_MAX: Final = 50
_TAGS_MAX: Final = 250  # calls of one run; at the rate that EC2 allows they take less than a minute
_WAITING: Final = frozenset({ClaimState.PLANNED, ClaimState.LAUNCHING})


@dataclass(frozen=True, slots=True)
class CollectReport:
    """Counts of one run. ``spared_count``: orphans that were not terminated because there are too many."""

    resent_count: int
    orphan_count: int
    spared_count: int
    tagged_count: int
    deleted_template_count: int
    refused: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Collect:
    """The collection use case."""

    claims: NodeClaimStore
    workloads: WorkloadStore
    attempts: LaunchAttemptStore
    reservations: ReservationStore
    policy: LaunchPolicy
    instances: InstanceReader
    terminator: InstanceTerminator
    tagger: InstanceTagger
    templates: LaunchTemplateStore
    life: NodeLife
    queue: WorkQueue
    clock: Clock

    def run(self) -> CollectReport:
        """Collect once."""
        now = self.clock.now()
        # Instances first: a claim that is read later knows at least as much about them.
        owned = self.instances.list_owned()
        live = self.claims.list_live()
        resent = self._resend(live, now)
        self.life.follow([claim for claim in live if claim.state not in _WAITING], now)
        orphans = self._orphans(owned, now)
        spared = len(orphans) if len(orphans) > ORPHANS_MAX else 0
        receipt = self.terminator.terminate(orphans) if orphans and not spared else None
        return CollectReport(
            resent_count=resent,
            orphan_count=len(orphans),
            spared_count=spared,
            tagged_count=self._tag(owned),
            deleted_template_count=self._delete_templates(now),
            refused={} if receipt is None or receipt.refused is None else receipt.refused,
        )

    def _resend(self, live: Sequence[NodeClaim], now: datetime) -> int:
        """Send batches again whose claims still wait; a launch that is under way is not disturbed by it."""
        old = [
            claim
            for claim in live
            if claim.state in _WAITING and not claim.waits_for_slot and now - claim.created_at >= RESEND_AFTER
        ]
        broken = self._broken_gangs(old)
        waiting: dict[str, list[str]] = {}
        for claim in old:
            if claim.state is ClaimState.LAUNCHING or claim.gang_key not in broken:
                waiting.setdefault(claim.batch_id, []).append(claim.id)
        batches = [LaunchBatch(batch_id, tuple(sorted(waiting[batch_id]))) for batch_id in sorted(waiting)]
        if batches:
            self.queue.send_launches(batches)
        return len(batches)

    def _broken_gangs(self, waiting: Sequence[NodeClaim]) -> frozenset[str]:
        """Return gangs that are not whole: the planner died half-way, and its next pass gives their claims back.

        Launching them now would bring part of a gang.
        """
        gangs = {claim.gang_key for claim in waiting if claim.gang_key is not None}
        records = self.workloads.get_many(gangs) if gangs else {}
        return frozenset(key for key, record in records.items() if record.pending_count > 0)

    def _orphans(self, owned: Sequence[Instance], now: datetime) -> list[str]:
        """Return instances of ours that no claim has or can come to have."""
        old = [i for i in owned if not i.is_gone and i.batch_id is not None and now - i.launched_at >= ORPHAN_AFTER]
        taken = self.claims.find_by_instance([instance.id for instance in old]) if old else {}
        orphans = []
        for instance in old:
            claim = taken.get(instance.id)
            if claim is not None and claim.is_live:
                continue
            attempt = None if instance.batch_id is None else self.attempts.latest(instance.batch_id)
            if attempt is None or attempt.completed or claim is not None:
                orphans.append(instance.id)
        return sorted(orphans)

    def _tag(self, owned: Sequence[Instance]) -> int:
        """Tag instances with their claims where the launch did not come to it."""
        untagged = [i.id for i in owned if i.claim_id is None and i.batch_id is not None and not i.is_gone]
        found = self.claims.find_by_instance(untagged[:_TAGS_MAX]) if untagged else {}
        if found:
            self.tagger.tag_claims({instance_id: claim.id for instance_id, claim in found.items()}, patient=True)
        return len(found)

    def _delete_templates(self, now: datetime) -> int:
        hashes = {node_class.name: node_class.static_hash for node_class in self.policy.node_classes()}
        known = frozenset(record.reservation.id for record in self.reservations.list_current())
        names = superfluous_templates(self.templates.list_owned(), hashes, known, now)
        if names:
            self.templates.delete(names)
        return len(names)
