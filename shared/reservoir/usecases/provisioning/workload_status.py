"""What the planner writes to workloads: why replicas wait, and that nothing is left to do."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Protocol

from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.plan import Plan, UnplacedReplicas
from reservoir.manifests.events import WorkloadPending
from reservoir.ports.errors import RowsRefusedError
from reservoir.ports.messaging import EventPublisher
from reservoir.ports.state import ConflictError, WorkloadRecord, WorkloadStore
from reservoir.usecases.claims.announce import offering_detail, stored_ref
from reservoir.usecases.demand.intake import TOMBSTONE_KEPT
from reservoir.usecases.provisioning.gather_snapshot import Gathered

# Why replicas wait, as far as a workload's row has room for it: 32 KB.
_UNPLACED_MAX: Final = 16
_MESSAGE_CHARS_MAX: Final = 2_000


class ShedSurplus(Protocol):
    """The drain protocol's way to take replicas off nodes."""

    def __call__(
        self, record: WorkloadRecord, hosts: Sequence[NodeClaim], now: datetime
    ) -> int:
        """Take replicas that the workload has too many of off its nodes; return how many."""
        ...


@dataclass(frozen=True, slots=True)
class WorkloadStatus:
    """Writes statuses and announces changed reasons."""

    workloads: WorkloadStore
    publisher: EventPublisher

    def update(self, gathered: Gathered, plan: Plan, now: datetime) -> None:
        """Bring the records of a pass up to date; unchanged ones are not written.

        A record that was changed meanwhile is left as it is: it is listed, and the next pass sees it. A record that
        DynamoDB refuses is left too, so that it does not keep others from being written. Raises UnreadableRowsError.
        """
        reasons: dict[str, tuple[UnplacedReplicas, ...]] = {}
        for unplaced in plan.unplaced:
            reasons[unplaced.workload_key] = (
                *reasons.get(unplaced.workload_key, ()),
                unplaced,
            )
        left = _left_behind(gathered)
        keys = [
            key
            for key, record in gathered.records.items()
            if record.needs_planning or record.pending_since or key in left
        ]
        stored = self.workloads.get_many(keys)
        changed = {
            key: after
            for key, record in sorted(stored.items())
            if (after := _after(_without(record, left.get(key)), reasons.get(key, ()), now))
            != record
        }
        # Published first, written second: a pass that dies in between publishes the reason again, and it is never lost.
        events: list[WorkloadPending] = []
        for key, after in changed.items():
            if _published_part(after.unplaced) != _published_part(stored[key].unplaced):
                events.extend(_pending(after, unplaced) for unplaced in after.unplaced)
        self.publisher.publish(events)
        for key, after in changed.items():
            try:
                self.workloads.put(after, expected_revision=stored[key].revision)
            except (ConflictError, RowsRefusedError):
                continue


def _after(
    record: WorkloadRecord, unplaced: tuple[UnplacedReplicas, ...], now: datetime
) -> WorkloadRecord:
    unplaced = tuple(map(_shortened, unplaced[:_UNPLACED_MAX]))
    if record.pending_count > 0:
        kept = (
            record.unplaced
            if _published_part(unplaced) == _published_part(record.unplaced)
            else unplaced
        )
        return replace(record, unplaced=kept, pending_since=record.pending_since or now)
    expires_at = (
        now + TOMBSTONE_KEPT if record.withdrawn and record.placed_count == 0 else None
    )
    return replace(
        record, unplaced=(), pending_since=None, expires_at=record.expires_at or expires_at
    )


def _shortened(unplaced: UnplacedReplicas) -> UnplacedReplicas:
    """Return it with no longer a text than a row has room for: some name every workload or node in the way."""
    if len(unplaced.message) <= _MESSAGE_CHARS_MAX:
        return unplaced
    return replace(unplaced, message=f"{unplaced.message[:_MESSAGE_CHARS_MAX]} …")


def _left_behind(gathered: Gathered) -> Mapping[str, frozenset[int]]:
    """Return by workload which of its earlier specs no replica needs any more, where all replicas are seen."""
    former = {key: record for key, record in gathered.records.items() if record.former}
    if not former:
        return {}
    seen: Counter[str] = Counter()
    for claim in gathered.claims.values():
        seen.update({placed.workload_key: placed.count for placed in claim.placements})
    needed = gathered.placed_terms.in_use(gathered.claims.values())
    left_behind: dict[str, frozenset[int]] = {}
    for key, record in former.items():
        if seen[key] != record.placed_count:
            # a replica may be on a node that could not be read: its spec may still be needed
            continue
        earlier = frozenset(each.generation for each in record.former)
        unneeded = earlier - needed.get(key, frozenset())
        if unneeded:
            left_behind[key] = unneeded
    return left_behind


def _without(record: WorkloadRecord, generations: frozenset[int] | None) -> WorkloadRecord:
    if not generations:
        return record
    return replace(
        record,
        former=tuple(each for each in record.former if each.generation not in generations),
    )


def _published_part(
    unplaced: Sequence[UnplacedReplicas],
) -> Mapping[str, tuple[int, datetime | None]]:
    """Return the part of a reason that is published again when it changes; its wording is not part of it."""
    return {str(item.code): (item.count, item.earliest_at) for item in unplaced}


def _pending(record: WorkloadRecord, unplaced: UnplacedReplicas) -> WorkloadPending:
    nearest = unplaced.nearest_offering
    return WorkloadPending(
        workload=stored_ref(record),
        replicas=unplaced.count,
        reason=unplaced.code,
        message=unplaced.message,
        nearest_offering=None if nearest is None else offering_detail(nearest),
        earliest_at=unplaced.earliest_at,
    )
