"""Demand in: messages become Workloads. Order and delivery are not trusted; ``metadata.generation`` decides."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from reservoir.core.launching.placed_terms import same_terms, terms_of
from reservoir.core.model.team import TeamLimits
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.labels import NODE_POOL, closest
from reservoir.core.serialisation.json_codec import dumps
from reservoir.manifests.event_parts import WorkloadRef
from reservoir.manifests.events import IgnoredReason, WorkloadAccepted, WorkloadIgnored
from reservoir.manifests.messages import (
    AnyMessage,
    DemandMessage,
    ReleaseMessage,
    SubmitMessage,
    WithdrawMessage,
)
from reservoir.manifests.parsing.problems import ManifestError, Problem, shown
from reservoir.ports.errors import RowsRefusedError
from reservoir.ports.messaging import EventPublisher, WorkQueue
from reservoir.ports.state import ConflictError, WorkloadRecord, WorkloadStore
from reservoir.ports.system import Clock
from reservoir.usecases.claims.rolling_updates import kept_rollout
from reservoir.usecases.demand.authorise_demand import DemandRules, refuse_jump
from reservoir.usecases.demand.sending_bounds import SendingBounds

# Longer than SQS keeps a message (14 days): no submit can arrive that is older than the tombstone of its withdraw.
TOMBSTONE_KEPT: Final = timedelta(days=15)
_ATTEMPTS_MAX: Final = 5
# Earlier specs that are kept beside a workload's own while replicas run that were placed with them: a row of DynamoDB
# holds 400 KB.
_FORMER_MAX: Final = 4
_FORMER_CHARS_MAX: Final = 96 * 1024


class AcknowledgeRelease(Protocol):
    """Reports to the drain protocol that replicas have left their nodes."""

    def __call__(
        self, workload_key: str, claim_id: str, count: int | None, now: datetime
    ) -> bool:
        """Note that ``count`` replicas (None: all) of the workload left the claim's node; False: none was awaited."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a message. ``ignored`` None: it was applied; ``workload`` is the name that the message gives."""

    action: str
    workload: WorkloadRef
    ignored: IgnoredReason | None = None
    stored_generation: int | None = None

    @property
    def changed_key(self) -> str | None:
        """The workload whose demand changed, if any did: a release wakes the planner itself."""
        is_demand = self.ignored is None and self.action != "release"
        return f"{self.workload.namespace}/{self.workload.name}" if is_demand else None


@dataclass(frozen=True, slots=True)
class Intake:
    """Applies demand messages."""

    workloads: WorkloadStore
    acknowledge_release: AcknowledgeRelease
    queue: WorkQueue
    publisher: EventPublisher
    clock: Clock
    bounds: SendingBounds | None = None  # None: the removal of a deployment is not bounded

    def admit(
        self, message: AnyMessage, rules: DemandRules, sent_by: str | None
    ) -> TeamLimits:
        """Return the limits of the team or namespace that the message counts for.

        Raises
        ------
        ManifestError
            Its sender may not send it, or not so many.
        UnreadableRowsError
            The rows that decide whether the sender may cannot be read.
        """
        limits = rules.authorise(message, sent_by)
        if self.bounds is not None:
            whose = rules.counted_as(message.workload.metadata.namespace)
            self.bounds.count_message(message, whose, limits)
        return limits

    def apply(
        self,
        message: DemandMessage,
        rules: DemandRules,
        sent_by: str | None = None,
        message_id: str | None = None,
    ) -> Answer:
        """Apply a message; return the result.

        ``sent_by`` is SQS's id of the sender, which is kept beside what they sent; ``message_id`` is the message's id,
        which becomes the correlation id of a workload that begins with it.

        Raises
        ------
        ManifestError
            The message asks for something that cannot exist, or that its sender may not ask for.
        ConflictError
            The workload changes faster than it can be written.
        UnreadableRowsError
            The rows that decide whether the sender may cannot be read.
        """
        limits = self.admit(message, rules, sent_by)
        now = self.clock.now()
        metadata = message.workload.metadata
        named = WorkloadRef(namespace=metadata.namespace, name=metadata.name)
        if isinstance(message, ReleaseMessage):
            left = self.acknowledge_release(
                message.workload.key, message.node_claim, message.replicas, now
            )
            named = _named(named, self.workloads.get(message.workload.key))
            return Answer(
                message.action, named, None if left else IgnoredReason.NOT_AWAITED
            )
        named = named.model_copy(update={"generation": metadata.generation})
        if isinstance(message, SubmitMessage):
            wanted = message.workload.to_core()
            _refuse_unknown_pools(wanted, rules.node_pool_names)
            rules.refuse_reach(wanted)
            decide = _Sent(
                lambda record: submitted(record, wanted, now), sent_by, now, message_id
            )
        else:
            decide = _Sent(
                lambda record: withdrawn(record, message, now), sent_by, now, message_id
            )
        written, stands = self._put(named, rules, limits, decide)
        named = _named(named, stands)
        if written or stands is None:
            return Answer(message.action, named)
        return Answer(
            message.action, named, _why_ignored(stands, message), stands.generation
        )

    def publish_answers(self, answers: Mapping[str, Answer]) -> None:
        """Publish the results of messages, by the messages' ids."""
        if answers:
            self.publisher.publish(
                [_event_of(message_id, answer) for message_id, answer in answers.items()]
            )

    def wake_planner(self, workload_keys: Collection[str]) -> None:
        """Wake the planner for what was applied; once a batch of messages."""
        self.queue.wake_planner(reason="demand changed", workload_keys=workload_keys)

    def _put(
        self, named: WorkloadRef, rules: DemandRules, limits: TeamLimits, decide: "Decide"
    ) -> tuple[bool, WorkloadRecord | None]:
        """Write the decision; return whether anything was written, and the record that is stored then."""
        whose = rules.counted_as(named.namespace)
        for attempt in range(_ATTEMPTS_MAX):
            record = self.workloads.get(f"{named.namespace}/{named.name}")
            refuse_jump(
                named.generation or 0, 0 if record is None else record.generation, limits
            )
            after = decide(record)
            if after is None:
                return False, record
            if self.bounds is not None:
                self.bounds.count_workload(record, after, whose, limits, rules)
            try:
                self.workloads.put(
                    after, expected_revision=None if record is None else record.revision
                )
            except ConflictError:
                # Plans and launches change the row's counts at the same time, so the decision is made on the row that
                # is stored now.
                if attempt == _ATTEMPTS_MAX - 1:
                    raise
            except RowsRefusedError as error:
                if not after.withdrawn:
                    raise ManifestError([_no_room(after)]) from error
                self.workloads.put(
                    _slimmed(after),
                    expected_revision=None if record is None else record.revision,
                )
                return True, after
            else:
                return True, after
        raise AssertionError("the last attempt returns or raises")


class Decide(Protocol):
    """Decides what to write over the stored row."""

    def __call__(self, record: WorkloadRecord | None, /) -> WorkloadRecord | None:
        """Return the record to write, None when nothing changes."""
        ...


@dataclass(frozen=True, slots=True)
class _Sent:
    """A decision with its sender: the sender of a change of what is wanted is stored with it.

    Demand that is new, or wanted again after it was withdrawn, takes this message's id as its correlation id.
    """

    decide: Decide
    sent_by: str | None
    now: datetime
    message_id: str | None

    def __call__(self, record: WorkloadRecord | None, /) -> WorkloadRecord | None:
        after = self.decide(record)
        if after is None:
            return None
        begins = (
            record is None
            or record.correlation_id is None
            or (record.withdrawn and not after.withdrawn)
        )
        correlation_id = self.message_id if begins else after.correlation_id
        return replace(
            after, sent_by=self.sent_by, sent_at=self.now, correlation_id=correlation_id
        )


def _named(named: WorkloadRef, record: WorkloadRecord | None) -> WorkloadRef:
    """Add the correlation id to the workload's name."""
    return named.model_copy(
        update={"correlation_id": None if record is None else record.correlation_id}
    )


def submitted(
    record: WorkloadRecord | None, wanted: Workload, now: datetime
) -> WorkloadRecord | None:
    """Return the record after a submit or update, None when the message is a repeat or older than what is known.

    Replicas that run stay where they are with the spec that they were placed by; further replicas are placed by the
    changed spec. Raises ManifestError when the generation is taken by other content: of two that were sent together the
    first counts, and the sender of the other must learn that theirs does not; and when replicas of too many earlier
    specs run.
    """
    if record is None:
        return WorkloadRecord(
            wanted.key,
            wanted.generation,
            0,
            wanted,
            submitted_at=now,
            pending_since=now if wanted.replicas else None,
        )
    # a withdrawal advances the record's generation, and not the generation of the submitted spec
    known = record.workload
    if known is not None and known.generation == wanted.generation and known != wanted:
        raise ManifestError([_generation_taken(wanted, record)])
    if wanted.generation <= record.generation:
        return None
    after = replace(
        record,
        generation=wanted.generation,
        workload=wanted,
        former=_former(record, wanted),
        withdrawn=False,
        # demand that is wanted again waits from now on
        finished_count=0 if record.withdrawn else record.finished_count,
        submitted_at=record.submitted_at or now,
        expires_at=None,
    )
    after = replace(after, rollout=kept_rollout(record, after))
    if after.pending_count == 0:
        return replace(after, pending_since=None, unplaced=())
    # The ladder's clock runs on for replicas that were waiting already.
    if record.pending_count > 0 and record.pending_since:
        return after
    return replace(after, pending_since=now)


def _former(record: WorkloadRecord, wanted: Workload) -> tuple[Workload, ...]:
    """Return the earlier specs that replicas may run with once ``wanted`` is what counts. Raises ManifestError."""
    known = record.workload
    if known is None or same_terms(known, wanted):
        return record.former
    former = (*record.former, terms_of(known))
    while (
        len(former) > _FORMER_MAX
        or sum(len(dumps(each)) for each in former) > _FORMER_CHARS_MAX
    ):
        if record.placed_count > 0:
            raise ManifestError([_too_many_former(wanted, record)])
        former = former[1:]  # what drains still may have been placed with one of the last
    return former


def withdrawn(
    record: WorkloadRecord | None, message: WithdrawMessage, now: datetime
) -> WorkloadRecord | None:
    """Return the record after a withdraw, None when it is a repeat or older than the stored one."""
    generation = message.workload.metadata.generation
    if record is None:
        return WorkloadRecord(
            message.workload.key,
            generation,
            0,
            None,
            withdrawn=True,
            expires_at=now + TOMBSTONE_KEPT,
        )
    if generation < record.generation or (
        record.withdrawn and generation == record.generation
    ):
        return None
    return replace(
        record,
        generation=generation,
        withdrawn=True,
        rollout=None,
        pending_since=None,
        unplaced=(),
        expires_at=now + TOMBSTONE_KEPT if record.placed_count == 0 else None,
    )


def _why_ignored(
    stands: WorkloadRecord, message: SubmitMessage | WithdrawMessage
) -> IgnoredReason:
    """Say why a message did not change the stored record."""
    is_withdraw = isinstance(message, WithdrawMessage)
    if (
        message.workload.metadata.generation == stands.generation
        and stands.withdrawn == is_withdraw
    ):
        return IgnoredReason.UNCHANGED
    if stands.withdrawn and not is_withdraw:
        return IgnoredReason.WITHDRAWN
    return IgnoredReason.OLDER_GENERATION


def _event_of(message_id: str, answer: Answer) -> WorkloadAccepted | WorkloadIgnored:
    if answer.ignored is None:
        return WorkloadAccepted(
            message_id=message_id, action=answer.action, workload=answer.workload
        )
    return WorkloadIgnored(
        message_id=message_id,
        action=answer.action,
        workload=answer.workload,
        reason=answer.ignored,
        stored_generation=answer.stored_generation,
    )


def _generation_taken(wanted: Workload, stored: WorkloadRecord) -> Problem:
    by = "" if stored.sent_by is None else f" by {shown(stored.sent_by)}"
    at = (
        ""
        if stored.sent_at is None
        else f", stored {stored.sent_at.isoformat(timespec='seconds')}"
    )
    return Problem(
        "workload.metadata.generation",
        "generation-taken",
        f"generation {wanted.generation} of {wanted.key} was sent{by} with other content{at}, which stays as it is; a"
        " change needs a higher generation",
        suggestion=str(wanted.generation + 1),
    )


def _slimmed(record: WorkloadRecord) -> WorkloadRecord:
    """Return a withdrawn workload without the parts that are no longer needed, so that its row certainly fits."""
    workload = record.workload
    return replace(
        record,
        workload=None if workload is None else replace(workload, annotations={}),
        unplaced=(),
    )


def _no_room(record: WorkloadRecord) -> Problem:
    message = f"stored bytes: with what {record.key} was before, it is larger than a row of DynamoDB"
    return Problem("workload", "bound", message)


def _too_many_former(wanted: Workload, stored: WorkloadRecord) -> Problem:
    return Problem(
        "workload.spec",
        "rollout-under-way",
        f"replicas of {wanted.key} run that were placed with {len(stored.former) + 1} earlier specs; wait until some"
        " have left, or withdraw it",
    )


def _refuse_unknown_pools(wanted: Workload, node_pool_names: Collection[str]) -> None:
    """Refuse a pool that does not exist: it is a typing error, for which the workload would wait for ever."""
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
