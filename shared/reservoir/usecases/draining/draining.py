"""The drain protocol, one for every reason: notify, wait for releases or the deadline, terminate, publish the end.

Each step is announced before it is committed. A function that dies in between announces again when it is repeated (with
the same drain id); the other order would lose announcements. Before that, the safety envelope decides about every
ending that EC2 does not force.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from reservoir.core.model.instance import Instance
from reservoir.core.model.node_claim import (
    ClaimState,
    Drain,
    DrainReason,
    NodeClaim,
    Operation,
    placed_keys,
    with_operation,
)
from reservoir.core.model.snapshot import PlacedReplicas, count_of
from reservoir.core.node_life import drain, succession
from reservoir.core.safety.endings import EndingKind, kind_of
from reservoir.ports.ec2 import InstanceTerminator
from reservoir.ports.launches import LaunchPolicy
from reservoir.ports.messaging import EventPublisher, OutboundEvent, WorkQueue
from reservoir.ports.state import (
    ConflictError,
    NodeClaimStore,
    WorkloadRecord,
    WorkloadStore,
)
from reservoir.ports.system import Clock
from reservoir.usecases.claims import unreadable
from reservoir.usecases.claims.announce import node_draining, node_terminated
from reservoir.usecases.claims.checkpoints import checkpoint_periods_s
from reservoir.usecases.claims.claim_moves import (
    Decide,
    return_all_replicas_of,
    return_some_replicas,
    save_claim,
)
from reservoir.usecases.draining.let_followers_start import LetFollowersStart
from reservoir.usecases.safety.envelope import Envelope

# Writes the claim that a decision returns and takes its replicas off it; None when nothing is left to do.
TakeOff = Callable[[NodeClaim, Decide], NodeClaim | None]

_UNKNOWN_WORKLOAD: Final = "a workload on it cannot be read"


@dataclass(frozen=True, slots=True)
class DrainRequest:
    """A node that is to drain.

    ``deadline`` None: the usual grace of the reason; ``operation``: the person who asked for it.
    """

    claim: NodeClaim
    reason: DrainReason
    deadline: datetime | None = None
    operation: Operation | None = None


@dataclass(frozen=True, slots=True)
class Moves:
    """The result of moving claims: those that moved, and those that other processes kept changing.

    ``refused`` maps instance ids to the code with which EC2 refused to terminate them; ``held`` maps claims that stay
    to what holds them.
    """

    moved: tuple[NodeClaim, ...] = ()
    lost: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Draining:
    """Drains nodes. Methods take many claims, so that calls of EC2 and of the bus are few."""

    claims: NodeClaimStore
    workloads: WorkloadStore
    policy: LaunchPolicy
    terminator: InstanceTerminator
    envelope: Envelope
    publisher: EventPublisher
    queue: WorkQueue
    clock: Clock
    # that any work gets, whatever it asks for
    longest_notice: timedelta = drain.LONGEST_NOTICE

    def begin_drains(
        self, requests: Sequence[DrainRequest], hand_over: TakeOff | None = None
    ) -> Moves:
        """Start drains, or move the deadlines of current drains forward, as far as the safety envelope allows.

        Deadlines are counted from now, so that a sweep that was delayed announces none that has passed. A deadline is
        at least the longest checkpointPeriod of the workloads on the node, unless it was given; the longest notice of
        the deployment and the pool's terminationGracePeriod bound it. The replicas are demand again at once, so that
        they are replaced before the node is gone; withdrawn ones are simply taken off. ``hand_over`` moves them
        elsewhere instead. Raises UnreadableRowsError.
        """
        now = self.clock.now()
        begins = self._begins(requests, now)
        held: dict[str, str] = {}
        looked_at: list[NodeClaim] = []
        draining: dict[str, NodeClaim] = {}  # as they will be, by claim id
        for claim in (each.claim for each in requests):
            if claim.id not in begins:
                held[claim.id] = _UNKNOWN_WORKLOAD
                continue
            looked_at.append(claim)
            after = begins[claim.id](claim)
            if after is not None:
                draining[claim.id] = after
        held |= self._held(list(draining.values()), now)
        planned = [claim for claim in looked_at if claim.id not in held]
        going = [claim for claim in planned if claim.id in draining]
        given = {each.claim.id for each in requests if each.deadline is not None}
        self._announce([draining[claim.id] for claim in going], given)
        if hand_over is None:
            moves = self._return_all(going, lambda claim: begins[claim.id](claim), now)
        else:
            moves = _each(going, hand_over, begins)
        # Replicas that arrived between the two have not been notified yet.
        arrived = [
            claim
            for claim in moves.moved
            if _awaiting(claim.drain) != _awaiting(draining[claim.id].drain)
        ]
        if arrived:
            self.publisher.publish(_notices(arrived))
        if moves.moved:
            self.queue.wake_planner(
                reason="node draining", workload_keys=placed_keys(planned)
            )
        over = [claim for claim in moves.moved if drain.is_over(claim, now)]
        ended = self.terminate(over, now) if over else Moves()
        return Moves(moves.moved, moves.lost, ended.refused, held)

    def make_way(self, marked: Iterable[NodeClaim]) -> None:
        """End warm nodes whose units others wait for; those that do not run yet end when they do.

        What is left undone, disruption's next pass does. Raises UnreadableRowsError.
        """
        self.begin_drains(
            [
                DrainRequest(claim, claim.disruption.reason)
                for claim in marked
                if claim.state is ClaimState.RUNNING and claim.disruption is not None
            ]
        )

    def end_due(self, claims: Sequence[NodeClaim], now: datetime) -> Moves:
        """Terminate nodes whose drain is over. The envelope decides (again) about nodes that replicas have not left.

        Raises UnreadableRowsError as ``terminate`` does.
        """
        held = self._held([claim for claim in claims if _awaiting(claim.drain)], now)
        ended = self.terminate([claim for claim in claims if claim.id not in held], now)
        return Moves(ended.moved, ended.lost, ended.refused, held)

    def _held(self, draining: Iterable[NodeClaim], now: datetime) -> Mapping[str, str]:
        """Return the draining claims that the envelope does not let go, with what holds them."""
        by_kind: dict[EndingKind, list[str]] = {}
        for claim in draining:
            kind = None if claim.drain is None else kind_of(claim.drain.reason)
            if kind is not None:
                by_kind.setdefault(kind, []).append(claim.id)
        held: dict[str, str] = {}
        for kind, ids in by_kind.items():
            admission = self.envelope.admit(kind, ids, now)
            held |= {
                claim_id: admission.why
                for claim_id in ids
                if claim_id not in admission.admitted
            }
        return held

    def _begins(
        self, requests: Sequence[DrainRequest], now: datetime
    ) -> Mapping[str, Decide]:
        """Return the decision for each claim, with everything read that it needs.

        None for a node that may stay and whose work's notice is not known.
        """
        pool_names = {request.claim.node_pool_name for request in requests}
        pools = {
            name: unreadable.node_pool(self.policy, name) for name in sorted(pool_names)
        }
        unbounded = [each.claim for each in requests if each.deadline is None]
        periods = checkpoint_periods_s(unbounded, self.workloads, self.longest_notice)

        def decision(request: DrainRequest) -> Decide:
            pool = pools[request.claim.node_pool_name]
            grace_s = None if pool is None else pool.termination_grace_period_s
            if request.deadline is None:
                until = drain.voluntary_deadline(
                    request.reason, now, periods[request.claim.id]
                )
                return lambda current: _noted(
                    drain.begin_voluntary(current, request.reason, until, now, grace_s),
                    request.operation,
                )
            given = request.deadline
            return lambda current: _noted(
                drain.begin(current, request.reason, given, now, grace_s), request.operation
            )

        known = [
            request
            for request in requests
            if request.deadline is not None or request.claim.id in periods
        ]
        return {request.claim.id: decision(request) for request in known}

    def _announce(self, draining: Sequence[NodeClaim], given: Collection[str]) -> None:
        """Publish which nodes drain. ``given``: claims with a deadline from outside.

        These drain whether or not the bus accepts the event, and their replicas are replaced meanwhile. A node that we
        choose to drain stays while the event cannot be published.
        """
        forced = [claim for claim in draining if claim.id in given]
        chosen = [claim for claim in draining if claim.id not in given]
        if forced:
            self.publisher.publish(_notices(forced))
        if chosen:
            self.publisher.announce(_notices(chosen))

    def release(
        self, workload_key: str, claim_id: str, count: int | None, now: datetime
    ) -> bool:
        """Record that ``count`` replicas (None: all) of the workload have left the claim's node; False: none was due.

        A draining node is terminated as soon as all replicas have left. Outside a drain, surplus replicas of the
        workload are taken off this node; a release that was not asked for and would leave too few replicas changes
        nothing. Raises ConflictError when every race for the claim was lost, and UnreadableRowsError.
        """
        claim = self.claims.get(claim_id)
        if claim is None:
            return False
        if claim.state is not ClaimState.DRAINING:
            return self._release_surplus(claim, workload_key, count, now)
        after = save_claim(
            self.claims, claim, lambda current: drain.released(current, workload_key, count)
        )
        current = after or self.claims.get(claim_id)
        if current is not None and not succession.awaits(current, workload_key):
            self.let_followers_start(workload_key, claim_id, now)
        if current is not None and drain.is_over(current, now):
            self.terminate([current], now)
        return after is not None

    def let_followers_start(self, workload_key: str, left_id: str, now: datetime) -> None:
        """Let replicas start that waited for replicas that have left a node; the sweep starts the less urgent ones.

        Raises UnreadableRowsError.
        """
        record = self.workloads.get(workload_key)
        is_held = (
            record is not None
            and record.workload is not None
            and record.workload.is_handed_over
        )
        if is_held:
            LetFollowersStart(self.claims).after(left_id, now)

    def shed_surplus(
        self, record: WorkloadRecord, hosts: Sequence[NodeClaim], now: datetime
    ) -> int:
        """Take surplus replicas of a workload off its nodes; return how many.

        ``hosts`` are live claims. Expensive and young nodes lose theirs first, reserved ones last: their units are paid
        for. A node whose last replicas go is drained, so that the workload is notified and can report when it is done.
        Raises ConflictError when other processes keep changing a node's claim, and UnreadableRowsError.
        """
        left = record.surplus_count
        emptied: list[NodeClaim] = []
        for claim in sorted(hosts, key=_shed_order):
            here = count_of(record.key, claim.placements)
            if left == 0 or here == 0:
                continue
            taken = min(left, here)
            if _goes_with(claim, taken):
                emptied.append(claim)
                left -= taken
            elif self._take_off(claim, record.key, taken, now):
                left -= taken
        drained = self._drain_withdrawn(emptied)
        kept = sum(_replica_count(claim) for claim in emptied if claim.id not in drained)
        return record.surplus_count - left - kept

    def terminate(
        self,
        claims: Sequence[NodeClaim],
        now: datetime,
        failures: Mapping[str, str] | None = None,
    ) -> Moves:
        """Terminate the nodes of claims in one call of EC2; ``failures``: reasons by claim, other than drains.

        The intent is committed first; the minute's sweep repeats calls that got lost. Replicas that are still placed
        there are demand again at once, and not only when EC2 reports that the instance has ended. Raises
        UnreadableRowsError when a claim changed and cannot be read again.
        """
        why = failures or {}
        fresh = [claim for claim in claims if claim.state is not ClaimState.TERMINATING]
        moves = self._return_all(
            fresh, lambda claim: _terminating(why.get(claim.id), claim), now
        )
        waiting = placed_keys(fresh) if moves.moved else frozenset()
        if waiting:
            self.queue.wake_planner(reason="node ended", workload_keys=waiting)
        again = [claim for claim in claims if claim.state is ClaimState.TERMINATING]
        asked = [c.instance_id for c in (*moves.moved, *again) if c.instance_id is not None]
        receipt = self.terminator.terminate(asked) if asked else None
        refused = {} if receipt is None or receipt.refused is None else receipt.refused
        return Moves((*moves.moved, *again), moves.lost, refused)

    def ended(
        self,
        claims: Sequence[NodeClaim],
        now: datetime,
        failures: Mapping[str, str] | None = None,
        shown: Mapping[str, Instance] | None = None,
    ) -> Moves:
        """Record that the instances of claims are gone; replicas that still ran there are demand again.

        ``failures`` gives the reason by claim, where neither a drain nor the claim has it; ``shown`` has the instances
        as EC2 last showed them, by claim. Raises UnreadableRowsError as ``terminate`` does.
        """
        why, last = failures or {}, shown or {}
        ending = [claim for claim in claims if claim.may_become(ClaimState.TERMINATED)]
        if ending:
            told = [
                node_terminated(c, _why(c, why.get(c.id)), now, c.placements)
                for c in ending
            ]
            self.publisher.publish(told)
        moves = self._return_all(
            ending,
            lambda claim: _terminated(now, why.get(claim.id), last.get(claim.id), claim),
            now,
        )
        if claims:
            # Also when another run committed it: that one may have died before it woke the planner.
            self.queue.wake_planner(
                reason="node terminated", workload_keys=placed_keys(claims)
            )
        return moves

    def _return_all(
        self, claims: Sequence[NodeClaim], decide: Decide, now: datetime
    ) -> Moves:
        done = return_all_replicas_of(self.claims, claims, now, decide)
        return Moves(
            tuple(done.moved[claim.id] for claim in claims if claim.id in done.moved),
            done.lost,
        )

    def _release_surplus(
        self, claim: NodeClaim, workload_key: str, count: int | None, now: datetime
    ) -> bool:
        record = self.workloads.get(workload_key)
        here = count_of(workload_key, claim.placements)
        if record is None or not claim.is_live or here == 0:
            return False
        taken = min(here if count is None else count, here, record.surplus_count)
        if taken > 0 and _goes_with(claim, taken):
            return bool(self._drain_withdrawn([claim]))
        return taken > 0 and self._take_off(claim, workload_key, taken, now)

    def _drain_withdrawn(self, claims: Sequence[NodeClaim]) -> frozenset[str]:
        """Drain nodes whose last replicas are withdrawn; return these nodes."""
        if not claims:
            return frozenset()
        moves = self.begin_drains(
            [DrainRequest(claim, DrainReason.WITHDRAWN) for claim in claims]
        )
        if moves.lost:
            raise ConflictError(moves.lost)
        return frozenset(claim.id for claim in moves.moved)

    def _take_off(self, claim: NodeClaim, key: str, count: int, now: datetime) -> bool:
        """Take replicas of a workload off a node that stays, or that was not launched yet."""

        def without(current: NodeClaim) -> NodeClaim | None:
            enough = (
                sum(p.count for p in current.placements if p.workload_key == key) >= count
            )
            if not enough or not current.is_live:
                return None
            if (
                current.state is ClaimState.PLANNED
                and count == _replica_count(current)
                and not current.is_static
            ):
                return replace(
                    current, state=ClaimState.FAILED, failure="withdrawn before its launch"
                )
            return replace(current, placements_changed_at=now)

        return (
            return_some_replicas(
                self.claims, claim, now, (PlacedReplicas(key, count),), without
            )
            is not None
        )


def _notices(draining: Iterable[NodeClaim]) -> list[OutboundEvent]:
    return [
        node_draining(claim, claim.drain) for claim in draining if claim.drain is not None
    ]


def _noted(claim: NodeClaim | None, operation: Operation | None) -> NodeClaim | None:
    """Return the claim with the person who asked for its drain."""
    if claim is None or operation is None:
        return claim
    return replace(claim, operations=with_operation(claim.operations, operation))


def _replica_count(claim: NodeClaim) -> int:
    return sum(placed.count for placed in claim.placements)


def _goes_with(claim: NodeClaim, count: int) -> bool:
    """Whether a running node must end because these replicas are all that it has; a node of a static pool stays."""
    if claim.is_static:
        return False
    return count == _replica_count(claim) and claim.state in (
        ClaimState.LAUNCHED,
        ClaimState.RUNNING,
    )


def _shed_order(claim: NodeClaim) -> tuple[bool, int, float, str]:
    reserved = claim.offering.reservation_id is not None
    return (
        reserved,
        -claim.price_atto_usd_per_hour,
        -claim.created_at.timestamp(),
        claim.id,
    )


def _terminating(failure: str | None, claim: NodeClaim) -> NodeClaim | None:
    if not claim.may_become(ClaimState.TERMINATING):
        return None
    return replace(claim, state=ClaimState.TERMINATING, failure=failure or claim.failure)


def _terminated(
    now: datetime, failure: str | None, shown: Instance | None, claim: NodeClaim
) -> NodeClaim | None:
    if not claim.may_become(ClaimState.TERMINATED):
        return None
    began = claim.launched_at if shown is None else shown.launched_at
    told = None if shown is None else shown.ended_at
    return replace(
        claim,
        state=ClaimState.TERMINATED,
        launched_at=began,
        terminated_at=now,
        ended_at=told
        if told is not None and (began is None or began <= told) and told <= now
        else now,
        failure=claim.failure or failure,
    )


def _why(claim: NodeClaim, failure: str | None) -> str:
    own = claim.drain.reason.value if claim.drain is not None else claim.failure
    return own or failure or "InstanceTerminated"


def _awaiting(drained: Drain | None) -> Sequence[PlacedReplicas]:
    return () if drained is None else drained.awaiting


def _each(
    claims: Sequence[NodeClaim], take_off: TakeOff, begins: Mapping[str, Decide]
) -> Moves:
    """Move claims one by one; a claim that other processes keep changing does not hold back the others."""
    moved: list[NodeClaim] = []
    lost: list[str] = []
    for claim in claims:
        try:
            after = take_off(claim, begins[claim.id])
        except ConflictError:
            lost.append(claim.id)
        else:
            moved += [] if after is None else [after]
    return Moves(tuple(moved), tuple(lost))
