"""Launch a batch of planned claims: exactly once, whatever happens between two lines.

As docs/architecture.md#launching-exactly-once tells it::

    intent            record the attempt (request, token, claims); move its claims to launching
    call              CreateFleet with the attempt's token, unless a claim of it was given back meanwhile
    outcome           record what came of it; the first record wins
    apply             shortages, settle, return, announce, tag        (all of it may be repeated)
    completed         close the attempt; claims that still wait get the next one

A function that dies anywhere, and a message that comes twice, goes on from what is stored. Between intent and outcome
the only question is whether EC2 was called:

* for REPLAY_WINDOW after the intent, the recorded request is sent again with its token: EC2 answers what it answered
  before, or launches now;
* from ADOPTION_AGE on, nobody can still be about to call (a function lives shorter than the gap between the two), EC2
  shows everything that was launched, and how long it remembers a token no longer matters: what carries the batch's tag
  is adopted, and only what is missing is launched again, as the next attempt.

Where EC2 was called and gave no answer, that is recorded, and all this happens sooner: something else is to serve
within two minutes. Whoever reads the record asks only for UNANSWERED_REPLAY_WINDOW after the intent; whoever began
before it was written has ended after CALLS_END_AFTER.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from reservoir.core.capacity.shortage import needs_probe
from reservoir.core.capacity.unavailable_offerings import NodeClassKey
from reservoir.core.launching.launch_outcome import (
    LaunchAttempt,
    LaunchErrorKind,
    LaunchOutcome,
    react_to,
)
from reservoir.core.launching.launch_pools import AllRestError, NoLaunchablePoolError
from reservoir.core.launching.launch_request import (
    LaunchRequest,
    build_launch_request,
    client_token,
    launch_key,
)
from reservoir.core.launching.launch_template import NodeClassUnlaunchableError
from reservoir.core.model.node_claim import (
    AWAITING_LAUNCH,
    ClaimState,
    NodeClaim,
    placed_keys,
)
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.plan import OfferingKey
from reservoir.manifests.events import LaunchesBlocked
from reservoir.ports.ec2 import FleetLauncher, InstanceReader, LaunchTemplateStore
from reservoir.ports.errors import (
    AccessDeniedError,
    ConfigurationError,
    IdempotencyMismatchError,
    RefusedError,
    ThrottledError,
    TransientError,
    UnknownOutcomeError,
)
from reservoir.ports.launches import LaunchAttemptStore, LaunchPolicy, ShortageHistory
from reservoir.ports.messaging import EventPublisher, LaunchBatch, WorkQueue
from reservoir.ports.state import NodeClaimStore, UnreadableRowsError
from reservoir.ports.system import Clock
from reservoir.usecases.claims.announce import launch_failed
from reservoir.usecases.claims.claim_moves import return_all_replicas, save_claims
from reservoir.usecases.launching.adoption import Adoption
from reservoir.usecases.launching.apply_outcome import ApplyOutcome
from reservoir.usecases.launching.launch_reader import LaunchReader, LaunchReading

# EC2 documents no lifetime of CreateFleet's tokens; minutes are far below what any idempotent AWS call remembers.
REPLAY_WINDOW: Final = timedelta(minutes=4)
ADOPTION_AGE: Final = timedelta(minutes=6)
UNANSWERED_REPLAY_WINDOW: Final = timedelta(seconds=30)
# A function lives a minute. EC2 shows in seconds what it has launched; what it shows later is ended as an orphan.
CALLS_END_AFTER: Final = timedelta(seconds=65)
# Attempts in one run that launch nothing; after them the batch comes back by itself.
ATTEMPTS_PER_RUN: Final = 3
FIRST_RETRY_DELAY_S: Final = 15
# After 15, 30, 60 and 120 seconds this long, so that a batch without an answer comes back as it may be adopted.
LONGEST_RETRY_DELAY_S: Final = 150
# Where EC2 throttles, the call had no effect: it may be repeated as soon as the account's bucket has filled a little.
FIRST_THROTTLED_DELAY_S: Final = 3
LONGEST_THROTTLED_DELAY_S: Final = 60
# A claim that could not be launched for this long gives its replicas and its unit back (R-140: 5 minutes upstream; ours
# spans one adoption and a new attempt).
LAUNCH_DEADLINE: Final = timedelta(minutes=15)

_QUOTAS: Final = frozenset({LaunchErrorKind.QUOTA, LaunchErrorKind.TYPE_QUOTA})
_FOR_OPERATORS: Final = frozenset(
    {LaunchErrorKind.SPOT_NOT_PERMITTED, LaunchErrorKind.UNKNOWN}
)


class LaunchResult(StrEnum):
    """How a run ended."""

    DONE = "done"
    DELAYED = "delayed"  # the batch was sent again and comes back later


@dataclass(slots=True)
class LaunchReport:
    """Counts of one run, for metrics, and the workloads that it concerned."""

    result: LaunchResult = LaunchResult.DONE
    launched_count: int = 0
    failed_count: int = 0
    attempt_count: int = 0
    blocked_count: int = 0  # classes that were stopped
    quota_count: int = 0  # attempts that met a quota of the account
    refused_count: int = 0  # attempts refused for what only an operator can mend or explain
    is_throttled: bool = False  # the last that EC2 said is that it is asked too often
    error_codes: list[str] = field(default_factory=list)
    workload_keys: set[str] = field(default_factory=set)


class _UnsettledError(TransientError):
    """The answer is not known yet: of an attempt that EC2 left without one, or of a probe.

    ``adopted_from``: when an attempt is too old to be replayed, the time from which what it launched is adopted.
    """

    def __init__(
        self, code: str, operation: str, adopted_from: datetime | None = None
    ) -> None:
        super().__init__(code, operation)
        self.adopted_from = adopted_from


@dataclass(frozen=True, slots=True)
class Launch:
    """The launch use case."""

    claims: NodeClaimStore
    attempts: LaunchAttemptStore
    reader: LaunchReader
    shortages: ShortageHistory
    policy: LaunchPolicy
    fleet: FleetLauncher
    templates: LaunchTemplateStore
    instances: InstanceReader
    outcomes: ApplyOutcome
    queue: WorkQueue
    publisher: EventPublisher
    clock: Clock
    executor: Executor
    deployment: str

    @property
    def adoption(self) -> Adoption:
        """Return what finds instances whose launch was not recorded."""
        return Adoption(self.instances, self.claims, self.clock)

    def run(self, batch: LaunchBatch) -> LaunchReport:
        """Launch the claims of the batch that still wait. Safe to repeat, concurrently too.

        Throttles and lost answers send the batch again with a delay. Any other AwsError is raised, so that the message
        comes back; so are ConflictError (other processes keep changing a claim) and UnreadableRowsError (of the batch).
        """
        report = LaunchReport()
        adopted_from = None
        try:
            finished = self._attempt_all(batch, report)
        except TransientError as error:
            if isinstance(error, _UnsettledError):
                adopted_from = error.adopted_from
            report.error_codes.append(error.code)
            report.is_throttled = isinstance(error, ThrottledError)
            finished = False
        if report.launched_count < len(batch.claim_ids) and self._any_failed(batch):
            # Again on every repeat: losing a wake-up would be worse.
            self.queue.wake_planner(
                reason="launch failed", workload_keys=report.workload_keys
            )
        if not finished:
            again = sent_again(batch, is_throttled=report.is_throttled)
            delay_s = retry_delay_s(again)
            if adopted_from is not None:
                delay_s = _seconds_until(adopted_from, self.clock.now())
            self.queue.send_launches([again], delay_s=delay_s)
            report.result = LaunchResult.DELAYED
        return report

    def _attempt_all(self, batch: LaunchBatch, report: LaunchReport) -> bool:
        fruitless, observed_at = 0, None
        while fruitless < ATTEMPTS_PER_RUN:
            before = report.launched_count
            reading = self.executor.submit(self.claims.get_many, batch.claim_ids)
            attempt = self.attempts.latest(batch.batch_id)
            claims = reading.result()
            if attempt is None or attempt.completed:
                attempt, observed_at = self._begin(batch, claims, attempt, report)
            if attempt is None:
                return True
            if not self._finish(batch, claims, attempt, observed_at, report):
                break
            if report.launched_count == len(batch.claim_ids):
                return True  # no claim is left, and nothing need be read to know it
            fruitless += report.launched_count == before
        return not _waiting(batch, self.claims.get_many(batch.claim_ids))

    def _any_failed(self, batch: LaunchBatch) -> bool:
        gave_back = (ClaimState.FAILED, ClaimState.TERMINATING)
        return any(
            claim.state in gave_back
            for claim in self.claims.get_many(batch.claim_ids).values()
        )

    def _begin(
        self,
        batch: LaunchBatch,
        claims: Mapping[str, NodeClaim],
        previous: LaunchAttempt | None,
        report: LaunchReport,
    ) -> tuple[LaunchAttempt | None, datetime | None]:
        """Record the intent of the next attempt; None when nothing is left to launch.

        Returns with it when its reservation was observed, as far as this run has read.
        """
        waiting = _waiting(batch, claims)
        if any(map(_is_superfluous, waiting)):
            self._drop_superfluous(waiting, report)
            claims = self.claims.get_many(batch.claim_ids)
            waiting = _waiting(batch, claims)
        if not waiting:
            return None, None
        report.workload_keys.update(placed_keys(waiting))
        now = self.clock.now()
        if now - waiting[0].created_at > LAUNCH_DEADLINE:
            late = "no launch succeeded in time"
            self._give_up(
                waiting,
                "LaunchDeadlineExceeded",
                late,
                report,
                self._rest(waiting[0], late, now),
            )
            return None, None
        if previous is not None and _is_unanswered(batch, previous):
            why = f"EC2 gave no answer ({previous.unanswered_code}), and shows nothing that it launched"
            until = self._rest(waiting[0], why, now)
            self._give_up(waiting, "LaunchUnanswered", why, report, until)
            return None, None
        try:
            reading = self.reader.read(waiting[0])
        except UnreadableRowsError as error:  # the batch comes back until its deadline
            raise _UnsettledError("RowUnreadable", "launch") from error
        node_class = reading.node_class
        if reading.paused is not None:
            name = waiting[0].node_pool_name
            self._give_up(
                waiting,
                "NodePoolPaused",
                f"NodePool {name} is paused {reading.paused}",
                report,
            )
            return None, None
        if node_class is None or node_class.status.launch_blocked_reason is not None:
            reason = (
                "the class does not exist"
                if node_class is None
                else node_class.status.launch_blocked_reason
            )
            self._give_up(waiting, "NodeClassNotReady", reason or "", report)
            return None, None
        going = self._going(waiting, node_class, now)
        # Their addresses are taken, whether or not EC2's count was read since.
        launched = () if previous is None else claims.values()
        request = self._request(going, waiting, launched, node_class, reading, now, report)
        if request is None:
            return None, None
        observed_at = (
            None if reading.reservation is None else reading.reservation.observed_at
        )
        number = 1 if previous is None else previous.number + 1
        token = client_token(batch.batch_id, number, request)
        claim_ids = tuple(claim.id for claim in going[: request.count])
        intent = LaunchAttempt(batch.batch_id, number, claim_ids, request, token, now)
        return self.attempts.begin(intent), observed_at

    def _going(
        self, waiting: Sequence[NodeClaim], node_class: NodeClass, now: datetime
    ) -> Sequence[NodeClaim]:
        """Return the claims that may launch now: of a class that has rested, one claim that finds out for all others.

        The others wait until its instance runs or has failed: EC2 accepts launches of which nothing starts. A gang goes
        as a whole.
        """
        key = NodeClassKey(node_class.name, node_class.static_hash)
        shortage = self.shortages.get_many([key]).get(key)
        if shortage is None or not needs_probe(shortage, now):
            return waiting
        if self.shortages.begin_probes([key], waiting[0].id, now):
            raise _UnsettledError("NodeClassProbed", "launch")
        return waiting if waiting[0].gang_key is not None else waiting[:1]

    def _request(
        self,
        going: Sequence[NodeClaim],
        waiting: Sequence[NodeClaim],
        launched: Iterable[NodeClaim],
        node_class: NodeClass,
        reading: LaunchReading,
        now: datetime,
        report: LaunchReport,
    ) -> LaunchRequest | None:
        """Build the request for the claims ``going`` and make its launch templates; None when EC2 will not be called.

        Templates come before the attempt is recorded: where EC2 refuses one, nothing can have been launched yet.
        """
        probed = self._probed_by_others(waiting[0], now)
        try:
            market = waiting[0].offering.capacity_type
            facts = reading.facts(
                node_class, self.deployment, now, probed, launched, market
            )
            request = build_launch_request(going, facts)
            for config in request.configs:
                self.templates.ensure(config.template)
        except NoLaunchablePoolError as error:
            if probed:
                # the probe's outcome decides
                raise _UnsettledError("OfferingProbed", "launch") from error
            until = (
                None
                if isinstance(error, AllRestError)
                else self._rest(waiting[0], str(error), now)
            )
            self._give_up(waiting, "NoLaunchablePool", str(error), report, until)
            return None
        except (NodeClassUnlaunchableError, ConfigurationError, AccessDeniedError) as error:
            self._block(node_class.name, str(error))
            report.blocked_count += 1
            self._give_up(waiting, "NodeClassUnlaunchable", str(error), report)
            return None
        except RefusedError as error:
            # EC2's limit on templates, say: the batch comes back until its deadline
            report.refused_count += 1
            raise _UnsettledError(error.code, error.operation) from error
        return request

    def _drop_superfluous(self, waiting: Sequence[NodeClaim], report: LaunchReport) -> None:
        """Fail claims that lost all their replicas while they waited; their units are free for others.

        Replacements of nodes that are about to drain wait for their replicas and stay. So does the rest of a gang.
        """

        def failed(claim: NodeClaim) -> NodeClaim | None:
            if not _is_superfluous(claim):
                return None
            return replace(
                claim, state=ClaimState.FAILED, failure="no work needs it any more"
            )

        for claim in waiting:
            gone = return_all_replicas(self.claims, claim, self.clock.now(), failed)
            report.failed_count += gone is not None

    def _probed_by_others(self, claim: NodeClaim, now: datetime) -> frozenset[OfferingKey]:
        """Take the right to probe offerings that were short, where it is free; return those that others probe."""
        if claim.offering.reservation_id is not None:
            return frozenset()
        market = claim.offering.capacity_type
        pools = [
            pool
            for pool in (claim.offering, *claim.alternatives)
            if pool.capacity_type is market
        ]
        return self.shortages.begin_probes(pools, claim.batch_id, now)

    def _finish(
        self,
        batch: LaunchBatch,
        claims: Mapping[str, NodeClaim],
        attempt: LaunchAttempt,
        observed_at: datetime | None,
        report: LaunchReport,
    ) -> bool:
        """Bring the attempt to its end; return whether the next one may begin at once."""
        report.attempt_count += 1
        marked: Mapping[str, NodeClaim] = {}
        if attempt.outcome is None:
            marked = self._mark_launching(attempt, claims)
            all_wait = all(
                _is_marked(attempt, marked.get(claim_id)) for claim_id in attempt.claim_ids
            )
            others = [
                claim.instance_id
                for claim in claims.values()
                if claim.id not in attempt.claim_ids
            ]
            outcome = self._outcome(attempt, claims, all_wait=all_wait).without(
                [key for key in others if key]
            )
            attempt = self.attempts.resolve(attempt, outcome.not_before(observed_at))
        if attempt.outcome is None:
            # another run is ahead and has begun the next attempt: continue with that one
            return True
        kinds = {error.kind for error in attempt.result.errors}
        report.error_codes += [error.code for error in attempt.result.errors]
        report.is_throttled = attempt.result.is_throttled
        report.quota_count += bool(kinds & _QUOTAS)
        report.refused_count += bool(kinds & _FOR_OPERATORS)
        reaction = react_to(attempt.request, attempt.result, attempt.number)
        report.blocked_count += reaction.blocked_reason is not None
        report.refused_count += bool(reaction.refused)
        counts = self.outcomes.apply(batch, attempt, reaction, marked)
        report.launched_count += counts.launched
        report.failed_count += counts.failed
        self.attempts.complete(attempt)
        return not (reaction.retry and reaction.pause)

    def _mark_launching(
        self, attempt: LaunchAttempt, claims: Mapping[str, NodeClaim]
    ) -> Mapping[str, NodeClaim]:
        """Record that EC2 is about to be called; return the attempt's claims, each of which is to be launching now.

        From then on no other process gives them back before the outcome is recorded. One may have been given back
        before, after this run had read it as ``claims``, and its unit may be promised to another claim; its revision
        then refuses the mark.
        """
        found = {
            claim_id: claims[claim_id]
            for claim_id in sorted(attempt.claim_ids)
            if claim_id in claims
        }

        def launching(claim: NodeClaim) -> NodeClaim | None:
            if claim.state not in AWAITING_LAUNCH or _is_marked(attempt, claim):
                return None
            return replace(claim, state=ClaimState.LAUNCHING, attempt=attempt.number)

        current = {**found, **save_claims(self.claims, list(found.values()), launching)}
        unmarked = [
            claim_id
            for claim_id, claim in current.items()
            if not _is_marked(attempt, claim)
        ]
        # or another run of the batch marked them meanwhile, and may be asking EC2 right now
        if unmarked:
            current |= self.claims.get_many(unmarked)
        return current

    def _outcome(
        self, attempt: LaunchAttempt, claims: Mapping[str, NodeClaim], *, all_wait: bool
    ) -> LaunchOutcome:
        now = self.clock.now()
        is_replayed = now <= _replayed_until(attempt)
        if is_replayed and not all_wait:
            # EC2 was not called in this attempt: its claims were never all launching. The next attempt asks for the
            # claims that still wait.
            return LaunchOutcome(launched_at=now, adopted=True)
        if is_replayed:
            forgotten = self.adoption.of_forgotten(attempt, claims)
            if forgotten.instances:
                return forgotten
            return self._asked(attempt)
        if now < _adopted_from(attempt):
            raise _UnsettledError("Unsettled", "launch", _adopted_from(attempt))
        return self.adoption.of(attempt)

    def _asked(self, attempt: LaunchAttempt) -> LaunchOutcome:
        """Call EC2, and record where it gives no answer: other runs of the batch then stop asking."""
        try:
            return self.fleet.launch(attempt.request, attempt.client_token)
        except (UnknownOutcomeError, IdempotencyMismatchError) as error:
            now = self.clock.now()
            if attempt.unanswered_at is None:
                attempt = self.attempts.leave_unanswered(attempt, error.code, now)
            next_at = now + timedelta(seconds=FIRST_RETRY_DELAY_S)
            # A token that EC2 knows with other parameters has launched something: asking again tells no more.
            if isinstance(error, UnknownOutcomeError) and next_at <= _replayed_until(
                attempt
            ):
                raise
            raise _UnsettledError(
                error.code, error.operation, _adopted_from(attempt)
            ) from error

    def _block(self, node_class_name: str, reason: str) -> None:
        self.policy.block_launches(node_class_name, reason)
        blocked = LaunchesBlocked(
            node_class=node_class_name, reason="Configuration", message=reason
        )
        self.publisher.publish([blocked])

    def _rest(self, claim: NodeClaim, reason: str, now: datetime) -> datetime:
        """Let every offering rest as which the claim could have been launched; return until when.

        The planner does not know what stops the launch, and would plan the same again at once.
        """
        market = claim.offering.capacity_type
        pools = [
            pool
            for pool in (claim.offering, *claim.alternatives)
            if pool.capacity_type is market
        ]
        return self.outcomes.recorder.rest(
            pools, now, f"the launch could not be requested: {reason}"
        )

    def _give_up(
        self,
        waiting: Sequence[NodeClaim],
        code: str,
        message: str,
        report: LaunchReport,
        until: datetime | None = None,
    ) -> None:
        """Fail claims for which EC2 is not called, or no longer: announce, then give back."""
        self.publisher.publish([launch_failed(waiting, code, message, until)])
        report.failed_count += self.outcomes.fail(waiting, message)


def _waiting(batch: LaunchBatch, claims: Mapping[str, NodeClaim]) -> list[NodeClaim]:
    """Return the claims of the batch without an instance that are like the first: one that differs spoils no batch."""
    found = (claims[claim_id] for claim_id in sorted(claims))
    waiting = [
        claim
        for claim in found
        if claim.state in AWAITING_LAUNCH and claim.batch_id == batch.batch_id
    ]
    return [claim for claim in waiting if launch_key(claim) == launch_key(waiting[0])]


def _is_marked(attempt: LaunchAttempt, claim: NodeClaim | None) -> bool:
    return (
        claim is not None
        and claim.state is ClaimState.LAUNCHING
        and claim.attempt >= attempt.number
    )


def _replayed_until(attempt: LaunchAttempt) -> datetime:
    """Return until when the attempt's request is sent to EC2 (again)."""
    if attempt.unanswered_at is None:
        return attempt.recorded_at + REPLAY_WINDOW
    return attempt.recorded_at + UNANSWERED_REPLAY_WINDOW


def _adopted_from(attempt: LaunchAttempt) -> datetime:
    """Return from when on nobody calls EC2 for the attempt, so that what it shows is all that was launched."""
    latest = attempt.recorded_at + ADOPTION_AGE
    if attempt.unanswered_at is None:
        return latest
    last_call = max(attempt.unanswered_at, _replayed_until(attempt))
    return min(latest, last_call + CALLS_END_AFTER)


def _is_unanswered(batch: LaunchBatch, previous: LaunchAttempt) -> bool:
    """Whether EC2 gave no answer to the batch's last attempt, when asked again either, and nothing is found of it.

    A new attempt would stay open for as long again; the old one can launch nothing any more. A batch that was never
    sent again is asked for once more: its function died with one lost answer.
    """
    came_back = previous.unanswered_at is not None and batch.retry_count > 0
    return came_back and previous.result.adopted and not previous.result.instances


def _seconds_until(due: datetime, now: datetime) -> int:
    return max(1, math.ceil((due - now).total_seconds()))


def _is_superfluous(claim: NodeClaim) -> bool:
    is_for_nothing = not (
        claim.placements or claim.replaces or claim.is_static or claim.is_kept_warm
    )
    return claim.state in AWAITING_LAUNCH and is_for_nothing


def sent_again(batch: LaunchBatch, *, is_throttled: bool) -> LaunchBatch:
    """Return the batch with its counts of the times that it came back."""
    if is_throttled:
        return replace(batch, throttle_count=batch.throttle_count + 1)
    return replace(batch, retry_count=batch.retry_count + 1, throttle_count=0)


def retry_delay_s(again: LaunchBatch) -> int:
    """Return how long a batch that is sent again waits: longer each time, and not as long as others.

    Batches that EC2 throttled together would meet the same bucket together again: they wait up to twice as long as
    each other. Others are spread by a tenth, so that what EC2 did not answer still comes back as it may be adopted.
    """
    if again.throttle_count:
        first_s, longest_s = FIRST_THROTTLED_DELAY_S, LONGEST_THROTTLED_DELAY_S
        delay_s = min(longest_s, first_s << min(again.throttle_count - 1, 10))
        spread_s = delay_s
    else:
        first_s, longest_s = FIRST_RETRY_DELAY_S, LONGEST_RETRY_DELAY_S
        delay_s = min(longest_s, first_s << min(again.retry_count - 1, 10))
        spread_s = delay_s // 10
    count = again.retry_count + again.throttle_count
    drawn = hashlib.sha256(f"{again.batch_id} {count}".encode()).digest()
    return delay_s + int.from_bytes(drawn[:4]) % (spread_s + 1)
