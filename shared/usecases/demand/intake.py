"""Demand in: messages become Workloads. Order and delivery are not trusted; ``metadata.generation`` decides."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from shared.core.model.workload import Workload
from shared.core.scheduling_terms.labels import NODE_POOL, closest
from shared.manifests.messages import DemandMessage, ReleaseMessage, SubmitMessage, WithdrawMessage
from shared.manifests.parsing.problems import ManifestError, Problem, shown
from shared.ports.messaging import WorkQueue
from shared.ports.state import ConflictError, WorkloadRecord, WorkloadStore
from shared.ports.system import Clock

# Longer than SQS keeps a message (14 days): no submit can arrive that is older than the tombstone of its withdraw.
TOMBSTONE_KEPT: Final = timedelta(days=15)
_ATTEMPTS_MAX: Final = 5


class AcknowledgeRelease(Protocol):
    """The drain protocol's ear."""

    def __call__(self, workload_key: str, claim_id: str, count: int | None, now: datetime) -> None:
        """Note that ``count`` replicas (None: all) of the workload left the claim's node."""
        ...


@dataclass(frozen=True, slots=True)
class Intake:
    """Applies demand messages."""

    workloads: WorkloadStore
    acknowledge_release: AcknowledgeRelease
    queue: WorkQueue
    clock: Clock

    def apply(self, message: DemandMessage, node_pool_names: Collection[str]) -> str | None:
        """Apply a message; return the key of the workload whose demand changed, if any did.

        Raises ManifestError when the message asks for something that cannot exist, ConflictError when the workload
        changes faster than it can be written.
        """
        now = self.clock.now()
        if isinstance(message, ReleaseMessage):
            self.acknowledge_release(message.workload.key, message.node_claim, message.replicas, now)
            return None
        if isinstance(message, SubmitMessage):
            wanted = message.workload.to_core()
            _refuse_unknown_pools(wanted, node_pool_names)
            return self._put(wanted.key, lambda record: submitted(record, wanted, now))
        return self._put(message.workload.key, lambda record: withdrawn(record, message, now))

    def wake_planner(self, workload_keys: Collection[str]) -> None:
        """Have what was applied planned; once a batch of messages."""
        self.queue.wake_planner(reason="demand changed", workload_keys=workload_keys)

    def _put(self, key: str, decide: "Decide") -> str | None:
        for attempt in range(_ATTEMPTS_MAX):
            record = self.workloads.get(key)
            after = decide(record)
            if after is None:
                return None
            try:
                self.workloads.put(after, expected_revision=None if record is None else record.revision)
            except ConflictError:
                # Plans and launches move its counts at the same time; what is wanted is decided on the new row.
                if attempt == _ATTEMPTS_MAX - 1:
                    raise
            else:
                return key
        return None


class Decide(Protocol):
    """What to write over what is stored."""

    def __call__(self, record: WorkloadRecord | None, /) -> WorkloadRecord | None:
        """Return the record to write, None when nothing changes."""
        ...


def submitted(record: WorkloadRecord | None, wanted: Workload, now: datetime) -> WorkloadRecord | None:
    """Return the record after a submit or update, None when the message is a repeat or older than what is known.

    Replicas that run stay where they are; a changed spec is what replicas are placed by from now on. Raises
    ManifestError when the generation is taken by other content: of two that were sent together the first counts, and
    whoever sent the other must hear that it does not.
    """
    if record is None:
        return WorkloadRecord(
            wanted.key, wanted.generation, 0, wanted, submitted_at=now, pending_since=now if wanted.replicas else None
        )
    known = record.workload  # a withdraw moves the record's generation on, not that of what was submitted
    if known is not None and known.generation == wanted.generation and known != wanted:
        raise ManifestError([_generation_taken(wanted)])
    if wanted.generation <= record.generation:
        return None
    after = replace(
        record,
        generation=wanted.generation,
        workload=wanted,
        withdrawn=False,
        submitted_at=record.submitted_at or now,
        expires_at=None,
    )
    if after.pending_count == 0:
        return replace(after, pending_since=None, unplaced=())
    # The ladder's clock runs on for replicas that were waiting already.
    return after if record.pending_count > 0 and record.pending_since else replace(after, pending_since=now)


def withdrawn(record: WorkloadRecord | None, message: WithdrawMessage, now: datetime) -> WorkloadRecord | None:
    """Return the record after a withdraw, None when it is a repeat or older than what is known."""
    generation = message.workload.metadata.generation
    if record is None:
        return WorkloadRecord(
            message.workload.key, generation, 0, None, withdrawn=True, expires_at=now + TOMBSTONE_KEPT
        )
    if generation < record.generation or (record.withdrawn and generation == record.generation):
        return None
    return replace(
        record,
        generation=generation,
        withdrawn=True,
        pending_since=None,
        unplaced=(),
        expires_at=now + TOMBSTONE_KEPT if record.placed_count == 0 else None,
    )


def _generation_taken(wanted: Workload) -> Problem:
    return Problem(
        "workload.metadata.generation",
        "generation-taken",
        f"generation {wanted.generation} of {wanted.key} is stored with other content, which stays as it is; a change"
        " needs a higher generation",
        suggestion=str(wanted.generation + 1),
    )


def _refuse_unknown_pools(wanted: Workload, node_pool_names: Collection[str]) -> None:
    """Refuse a pool that nobody defined: a typing error, for which the workload would wait for ever."""
    if NODE_POOL not in wanted.node_selector:
        return
    asked = sorted(wanted.node_selector[NODE_POOL].values)
    if any(name in node_pool_names for name in asked):
        return
    problems = [
        Problem(
            f"workload.spec.nodeSelector['{NODE_POOL}']",
            "unknown-node-pool",
            f"{shown(name)} is not a NodePool",
            suggestion=closest(name, node_pool_names),
        )
        for name in asked
    ]
    raise ManifestError(problems)
