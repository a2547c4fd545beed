"""Collect what fell between two lines: lost messages, instances without a claim, templates that nothing needs.

Claims whose instances are gone are for the minute's sweep (``expire``), the one place that follows them without events.

Only instances that carry our owner tag are ever seen here (the reader returns no others). To be terminated, one needs
our batch tag too, a proof beside its tags that we launched it (``reservoir.core.safety.orphans``), tables that are
known to be whole, and room in the safety envelope.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.launching.launch_outcome import LaunchAttempt
from reservoir.core.launching.launch_template import StoredTemplate, superfluous_templates
from reservoir.core.model.instance import Instance
from reservoir.core.model.node_claim import (
    AWAITING_LAUNCH,
    ClaimState,
    NodeClaim,
    placed_keys,
)
from reservoir.core.safety.endings import EndingKind
from reservoir.core.safety.orphans import Traces, is_proven, is_suspect, is_wanted
from reservoir.core.safety.table_mark import Recognition
from reservoir.ports.ec2 import (
    InstanceReader,
    InstanceTagger,
    InstanceTerminator,
    LaunchTemplateStore,
)
from reservoir.ports.errors import AwsError
from reservoir.ports.launches import LaunchAttemptStore, LaunchPolicy
from reservoir.ports.messaging import UnpublishedEvents, WorkQueue
from reservoir.ports.state import (
    NodeClaimStore,
    ReservationStore,
    UnreadableRowsError,
    WorkloadStore,
)
from reservoir.ports.system import Clock
from reservoir.usecases.claims import unreadable
from reservoir.usecases.provisioning.commit_plan import launch_batches
from reservoir.usecases.safety.envelope import Envelope

# A batch that still waits after this lost its message; launches take seconds.
RESEND_AFTER: Final = timedelta(minutes=1)
# calls of one run; at the rate that EC2 allows they take less than a minute
_TAGS_MAX: Final = 250


@dataclass(frozen=True, slots=True)
class CollectReport:
    """Counts of one run.

    ``orphan_count`` instances have no claim; ``spared`` gives the reason for each that was not terminated. ``held``
    maps each kind of endings that is held back to what was asked for last; ``unknown_tables`` says why the tables are
    not taken to be complete.
    """

    resent_count: int
    orphan_count: int
    tagged_count: int
    deleted_template_count: int
    refused: Mapping[str, str]
    spared: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[EndingKind, int] = field(default_factory=dict)
    unknown_tables: Sequence[str] = ()
    tags_refused: str | None = None  # EC2's code
    published_count: int = 0  # requests that the outbound bus had refused before
    bus_refusal: str | None = None  # with which code it refuses some still


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
    envelope: Envelope
    queue: WorkQueue
    unpublished: UnpublishedEvents | None
    clock: Clock

    def run(self) -> CollectReport:
        """Collect once. Raises UnreadableRowError when the tallies of the envelope cannot be read."""
        now = self.clock.now()
        # Instances first: a claim that is read later knows at least as much about them.
        owned = self.instances.list_owned()
        live = self.claims.list_live()
        tables = self.envelope.tables.mark_if_new(
            owned, lambda: self._explained_ids(owned), now
        )
        resent = self._resend(live, now)
        templates = self.templates.list_owned()
        orphans, spared = self._orphans(owned, templates, tables, now)
        admission = self.envelope.admit(
            EndingKind.ORPHANS,
            orphans,
            now,
            fleet=[instance.id for instance in owned if not instance.is_gone],
        )
        ending = sorted(admission.admitted)
        receipt = self.terminator.terminate(ending) if ending else None
        tagged_count, tags_refused = self._tag(owned)
        published_count, bus_refusal = self._publish_kept()
        return CollectReport(
            resent_count=resent,
            orphan_count=len(orphans) + len(spared),
            tagged_count=tagged_count,
            deleted_template_count=self._delete_templates(templates, now)
            if tables.is_whole
            else 0,
            refused={} if receipt is None or receipt.refused is None else receipt.refused,
            spared=spared
            | {key: admission.why for key in orphans if key not in admission.admitted},
            held={
                tally.kind: tally.held.wanted_count
                for tally in self.envelope.holding(now)
                if tally.held is not None
            },
            unknown_tables=tables.problems,
            tags_refused=tags_refused,
            published_count=published_count,
            bus_refusal=bus_refusal,
        )

    def _resend(self, live: Sequence[NodeClaim], now: datetime) -> int:
        """Send batches again whose claims still wait; a launch in progress is not disturbed by it."""
        old = [
            claim
            for claim in live
            if claim.state in AWAITING_LAUNCH
            and not claim.waits_for_slot
            and now - claim.created_at >= RESEND_AFTER
        ]
        broken = self._broken_gangs(old)
        waiting = [
            claim
            for claim in old
            if claim.state is ClaimState.LAUNCHING or claim.gang_key not in broken
        ]
        batches = launch_batches(
            sorted(waiting, key=lambda claim: (claim.batch_id, claim.id))
        )
        if batches:
            self.queue.send_launches(batches)
        return len(batches)

    def _broken_gangs(self, waiting: Sequence[NodeClaim]) -> frozenset[str]:
        """Return gangs that are not whole: the planner died half-way, and its next pass gives their claims back.

        Launching them now would launch part of a gang.
        """
        gangs = {claim.gang_key for claim in waiting if claim.gang_key is not None}
        records, lost = unreadable.workloads(self.workloads, gangs)
        return lost | frozenset(
            key for key, record in records.items() if record.pending_count > 0
        )

    def _explained_ids(self, owned: Sequence[Instance]) -> frozenset[str]:
        """Return the instances that a claim of a known workload names, or whose batch has a known launch."""
        named = self.claims.find_by_instance([instance.id for instance in owned])
        placed = placed_keys(named.values())
        missing = placed - self.workloads.get_many(placed).keys()
        whole = {
            key for key, claim in named.items() if missing.isdisjoint(placed_keys([claim]))
        }
        unnamed = [instance for instance in owned if instance.id not in named]
        batches = {
            instance.batch_id for instance in unnamed if instance.batch_id is not None
        }
        known = {
            batch_id
            for batch_id in sorted(batches)
            if self.attempts.latest(batch_id) is not None
        }
        return frozenset(whole) | {
            instance.id for instance in unnamed if instance.batch_id in known
        }

    def _orphans(
        self,
        owned: Sequence[Instance],
        templates: Sequence[StoredTemplate],
        tables: Recognition,
        now: datetime,
    ) -> tuple[list[str], dict[str, str]]:
        """Return instances that no claim has or can get: those proven to be ours, and why others are spared."""
        suspects = [instance for instance in owned if is_suspect(instance, now)]
        taken, lost = unreadable.claims_by_instance(
            self.claims, [instance.id for instance in suspects]
        )
        ours = frozenset(template.id for template in templates)
        unclaimed = [each for each in suspects if each.id not in taken.keys() | lost]
        attempts = {
            each.id: self.attempts.latest(each.batch_id or "") for each in unclaimed
        }
        # A launch that was in progress when claims were read may be over by now; it has written its claims first.
        taken = {**taken, **self._claimed_by(attempts.values())}
        orphans: list[str] = []
        spared = dict.fromkeys(sorted(lost), "its claim cannot be read")
        for instance in (each for each in suspects if each.id not in lost):
            claim = taken.get(instance.id)
            attempt = attempts.get(instance.id) if claim is None else None
            traces = Traces(
                claim, attempt, ours, now if tables.mark is None else tables.mark.made_at
            )
            if is_wanted(traces):
                continue
            if is_proven(instance, traces):
                orphans.append(instance.id)
            else:
                spared[instance.id] = (
                    "it has Reservoir's tags, but nothing else shows that Reservoir launched it"
                )
        return sorted(orphans), spared

    def _claimed_by(
        self, attempts: Iterable[LaunchAttempt | None]
    ) -> Mapping[str, NodeClaim]:
        """Return, by instance, the claims that attempts name; their rows may show what the index does not show yet."""
        ids: set[str] = set()
        for attempt in attempts:
            if attempt is not None:
                ids.update(attempt.claim_ids)
        named = unreadable.claims_named(self.claims, sorted(ids)).values()
        return {
            claim.instance_id: claim for claim in named if claim.instance_id is not None
        }

    def _tag(self, owned: Sequence[Instance]) -> tuple[int, str | None]:
        """Tag instances with their claims where the launch did not get to it; return how many, or EC2's error."""
        untagged = [
            i.id
            for i in owned
            if i.claim_id is None and i.batch_id is not None and not i.is_gone
        ]
        found, _ = unreadable.claims_by_instance(self.claims, untagged[:_TAGS_MAX])
        named = {instance_id: claim.id for instance_id, claim in found.items()}
        try:
            self.tagger.tag_claims(named, patient=True)
        except AwsError as error:
            return (
                0,
                error.code,
            )  # the tag is for people and bills; nothing here depends on it
        return len(named), None

    def _publish_kept(self) -> tuple[int, str | None]:
        """Publish the events that the outbound bus refused before; return how many requests, and its last error."""
        if self.unpublished is None:
            return 0, None
        try:
            return self.unpublished.publish(), None
        except AwsError as error:
            return 0, error.code

    def _delete_templates(
        self, templates: tuple[StoredTemplate, ...], now: datetime
    ) -> int:
        try:
            hashes = {
                node_class.name: node_class.static_hash
                for node_class in self.policy.node_classes()
            }
        except UnreadableRowsError:
            return 0  # whose templates they are is not known
        known = frozenset(
            record.reservation.id for record in self.reservations.list_current()
        )
        names = superfluous_templates(templates, hashes, known, now)
        if names:
            self.templates.delete(names)
        return len(names)
