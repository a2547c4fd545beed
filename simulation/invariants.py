"""What must hold after every step, whatever mishaps there were: each has a name, and a sentence that says it.

An invariant is a class with the hooks that it needs: ``row_written`` (a row of claims, workloads or reservations),
``called`` (a call that had its effect), ``heard`` (an event on the outbound bus), ``ended`` (a run of a function) and
``holds`` (after each step that changed anything).
"""

from collections import Counter
from datetime import timedelta
from typing import Any, Final

from shared.core.capacity.ledger import holds_open_lease
from shared.core.model.capacity_reservation import ACTIVE
from shared.core.model.node_claim import ALLOWED_TRANSITIONS, ClaimState, NodeClaim
from shared.core.safety.endings import kind_of
from shared.names import Function
from simulation.aws.bus import Detail
from simulation.kernel import MINUTE, SECOND, moment
from simulation.lambdas import Environment, Run
from simulation.world import World

# Clocks of functions are up to two seconds off, in either direction.
CLOCKS_APART: Final = timedelta(seconds=4)
_WAITING: Final = frozenset({ClaimState.PLANNED, ClaimState.LAUNCHING})
_STEADY: Final = frozenset({ClaimState.LAUNCHED, ClaimState.RUNNING})


class Violation(BaseException):
    """An invariant does not hold. Not an Exception: nothing in the product can catch it."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"{name}: {what}")
        self.name = name
        self.what = what


class Invariant:
    """One of them; the first line of its docstring is its sentence."""

    def __init__(self, world: World) -> None:
        self.world = world

    @classmethod
    def name(cls) -> str:
        """Return its name."""
        return cls.__name__

    @classmethod
    def sentence(cls) -> str:
        """Return what it says."""
        return (cls.__doc__ or "").strip().splitlines()[0]

    def refute(self, what: str) -> None:
        """Say how it does not hold."""
        raise Violation(self.name(), what)

    def row_written(self, key: str, before: Any, after: Any) -> None:
        """Look at a row that was written."""

    def called(self, environment: Environment, point: str, answer: Any) -> None:
        """Look at a call that had its effect."""

    def heard(self, detail_type: str, detail: Detail) -> None:
        """Look at an event that was published."""

    def ended(self, run: Run) -> None:
        """Look at a run that is over."""

    def holds(self) -> None:
        """Look at the world after a step that changed it."""


class EveryPlacedReplicaIsCounted(Invariant):
    """The replicas that a workload counts as placed are those on its live claims: none is lost, none is doubled."""

    def holds(self) -> None:
        placed: Counter[str] = Counter()
        for claim in self.world.state.claim_rows.values():
            for placement in claim.placements:
                placed[placement.workload_key] += placement.count
        for key, record in self.world.state.workload_rows.items():
            if record.placed_count != placed[key]:
                self.refute(f"{key} counts {record.placed_count} placed replicas, {placed[key]} are on claims")


class EndedClaimsHoldNothing(Invariant):
    """A claim that is being terminated or has ended holds no replicas, nor does one that drains and is not replaced."""

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if not isinstance(after, NodeClaim) or not after.placements or after.state in _WAITING | _STEADY:
            return
        if after.state is not ClaimState.DRAINING or after.disruption is None:  # else it is about to hand them over
            self.refute(f"{key} is {after.state} and holds {after.placements}")


class ClaimsOnlyMoveForward(Invariant):
    """A claim moves along its state machine only, and a drain that was announced is neither forgotten nor put off."""

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if not isinstance(before, NodeClaim) or not isinstance(after, NodeClaim):
            return
        if after.state is not before.state and after.state not in ALLOWED_TRANSITIONS[before.state]:
            self.refute(f"{key}: {before.state} -> {after.state}")
        if after.revision != before.revision + 1:
            self.refute(f"{key}: revision {before.revision} -> {after.revision}")
        if before.drain is not None and (after.drain is None or after.drain.deadline > before.drain.deadline):
            self.refute(f"{key}: drain {before.drain} -> {after.drain}")


class LeasesEqualWhatTheyStandFor(Invariant):
    """A reservation counts as many outstanding units as claims hold open leases on it."""

    def holds(self) -> None:
        leased: Counter[str] = Counter()
        for claim in self.world.state.claim_rows.values():
            if claim.lease is not None and holds_open_lease(claim):
                leased[claim.lease.reservation_id] += 1
        for key, record in self.world.state.reservation_rows.items():
            if record.balance.outstanding_count != leased[key]:
                self.refute(f"{key} counts {record.balance.outstanding_count} leases, claims hold {leased[key]}")


class NoUnitIsPromisedTwice(Invariant):
    """Of a reservation that nobody else touched, our instances and our promises together never exceed its units."""

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if isinstance(after, NodeClaim) and before is None and after.lease is not None and not after.waits_for_slot:
            self._check(after.lease.reservation_id)

    def _check(self, reservation_id: str) -> None:
        ec2 = self.world.ec2
        if reservation_id in ec2.touched or ec2.reservations[reservation_id].state != ACTIVE:
            return
        promised = [
            claim.id
            for claim in self.world.state.claim_rows.values()
            if claim.state in _WAITING and claim.lease is not None and claim.lease.reservation_id == reservation_id
        ]
        promised = [key for key in promised if not self.world.is_launched(key)]
        used, total = ec2.used_units(reservation_id), ec2.reservations[reservation_id].total_count
        if used + len(promised) > total:
            self.refute(f"{reservation_id} has {total} units, {used} are used and {sorted(promised)} shall have more")


class NothingIsLaunchedTwice(Invariant):
    """A batch never has more instances alive than claims, and no instance belongs to two claims."""

    def called(self, environment: Environment, point: str, answer: Any) -> None:
        if point != "ec2.launch":
            return
        alive = Counter(each.batch_id for each in self.world.ec2.live() if each.batch_id is not None)
        claims = Counter(claim.batch_id for claim in self.world.state.claim_rows.values())
        for batch_id, count in alive.items():
            if count > claims[batch_id]:
                self.refute(f"{batch_id} has {claims[batch_id]} claims and {count} instances")

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if isinstance(after, NodeClaim) and after.instance_id is not None and after.instance_id != _instance(before):
            for other in self.world.state.claim_rows.values():
                if other.instance_id == after.instance_id and other.id != key:
                    self.refute(f"{after.instance_id} belongs to {key} and to {other.id}")


class NothingIsPlacedInABlockThatDrains(Invariant):
    """No plan puts replicas into a Capacity Block at or after the start of its drain."""

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if not isinstance(after, NodeClaim) or after.offering.reservation_id is None:
            return
        if _replicas(after) <= _replicas(before):
            return
        drain_at = self.world.ec2.reservations[after.offering.reservation_id].drain_at()
        decided_at = after.created_at if before is None else after.placements_changed_at
        if drain_at is not None and decided_at is not None and decided_at > drain_at + CLOCKS_APART:
            self.refute(f"{key} got replicas at {decided_at}, its block drains from {drain_at} on")


class NobodyIsEndedBeforeItsDeadline(Invariant):
    """A node that drains lives until its deadline, or until all its replicas have left it."""

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if not isinstance(before, NodeClaim) or before.state is not ClaimState.DRAINING or before.drain is None:
            return
        instance = self.world.instance(before.instance_id)
        if after.state is not ClaimState.TERMINATING or instance is None or instance.is_gone or instance.is_stopped:
            return
        early = before.drain.deadline - CLOCKS_APART > self.world.kernel.now()
        if early and before.drain.awaiting and not self.world.ec2.seems_gone(instance.id):
            self.refute(f"{key} was to live until {before.drain.deadline} for {before.drain.awaiting}")


class WhatEndsByChoicePassesTheEnvelope(Invariant):
    """Whatever drains for a reason that EC2 does not force was let pass by the safety envelope before."""

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if not isinstance(after, NodeClaim) or after.drain is None or _drain_reason(before) is after.drain.reason:
            return
        kind = kind_of(after.drain.reason)
        if kind is None:
            return
        tally, _ = self.world.tallies.rows.get(kind, (None, 0))
        if tally is None or not any(key in passed.ids for passed in tally.passed):
            self.refute(f"{key} drains ({after.drain.reason}) and is in no tally of {kind}")


class NothingIsTerminatedWithoutIntent(Invariant):
    """An instance that we terminate has no claim, or one that says so."""

    def called(self, environment: Environment, point: str, answer: Any) -> None:
        if point != "ec2.terminate":
            return
        for claim in self.world.state.claim_rows.values():
            if claim.instance_id in answer.accepted and claim.state in _STEADY | {ClaimState.DRAINING}:
                self.refute(f"{claim.instance_id} was terminated while {claim.id} is {claim.state}")


class EventsTellWhatIsSo(Invariant):
    """No event tells of an instance that was never launched, or of the end of one that lives."""

    def heard(self, detail_type: str, detail: Detail) -> None:
        if detail_type not in ("Node Launched", "Node Terminated"):
            return
        instance_id = detail["node"].get("instanceId")
        instance = self.world.instance(instance_id)
        if detail_type == "Node Launched" and instance is None:
            self.refute(f"{instance_id} was announced and does not exist")
        if detail_type == "Node Terminated" and instance is not None and not instance.is_gone:
            self.refute(f"{instance_id} was announced to be gone and is {instance.state}")


class BlocksAreDrainedInTime(Invariant):
    """When a sweep that began after a block's drain start is over, no node that it could see is still at work there."""

    def ended(self, run: Run) -> None:
        if run.function is not Function.EXPIRE or run.outcome != "done":
            return
        began = moment(run.began_us)
        for claim in self.world.state.claim_rows.values():
            if claim.state not in _STEADY or claim.drain_at is None or claim.offering.reservation_id is None:
                continue
            drain_at = self.world.ec2.reservations[claim.offering.reservation_id].drain_at()
            settled = claim.launched_at is not None and began - claim.launched_at > timedelta(minutes=3)
            if drain_at is not None and settled and began - drain_at > timedelta(minutes=3):
                self.refute(f"{claim.id} is {claim.state}; its block drains since {drain_at}")


class NoInstanceStaysWithoutAClaim(Invariant):
    """An instance of ours that no claim has is gone half an hour after the collector could first have seen it."""

    GRACE: Final = 30 * MINUTE

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._since: dict[str, int] = {}

    def ended(self, run: Run) -> None:
        if run.function is not Function.COLLECT or run.outcome != "done":
            return
        claimed = {claim.instance_id for claim in self.world.state.claim_rows.values() if claim.is_live}
        now = self.world.kernel.now_us
        loose = {each.id for each in self.world.ec2.live() if each.owner is not None and each.id not in claimed}
        self._since = {key: self._since.get(key, now) for key in sorted(loose)}
        for key, since in self._since.items():
            if now - since > self.GRACE and not any(tally.is_shut for tally, _ in self.world.tallies.rows.values()):
                self.refute(f"{key} has had no claim for {(now - since) // SECOND} s")


INVARIANTS: Final[tuple[type[Invariant], ...]] = (
    EveryPlacedReplicaIsCounted,
    EndedClaimsHoldNothing,
    ClaimsOnlyMoveForward,
    LeasesEqualWhatTheyStandFor,
    NoUnitIsPromisedTwice,
    NothingIsLaunchedTwice,
    NothingIsPlacedInABlockThatDrains,
    NobodyIsEndedBeforeItsDeadline,
    WhatEndsByChoicePassesTheEnvelope,
    NothingIsTerminatedWithoutIntent,
    EventsTellWhatIsSo,
    BlocksAreDrainedInTime,
    NoInstanceStaysWithoutAClaim,
)


class Watcher:
    """Lets all invariants look at a world."""

    def __init__(self, world: World) -> None:
        self._all = [invariant(world) for invariant in INVARIANTS]
        self._by_hook = {
            hook: [each for each in self._all if getattr(type(each), hook) is not getattr(Invariant, hook)]
            for hook in ("row_written", "called", "heard", "ended", "holds")
        }
        self._changed = False

    def row_written(self, key: str, before: Any, after: Any) -> None:
        """Pass on."""
        self._changed = True
        for each in self._by_hook["row_written"]:
            each.row_written(key, before, after)

    def called(self, environment: Environment, point: str, answer: Any) -> None:
        """Pass on."""
        for each in self._by_hook["called"]:
            each.called(environment, point, answer)

    def heard(self, detail_type: str, detail: Detail) -> None:
        """Pass on."""
        for each in self._by_hook["heard"]:
            each.heard(detail_type, detail)

    def ended(self, run: Run) -> None:
        """Pass on."""
        for each in self._by_hook["ended"]:
            each.ended(run)

    def after_step(self) -> None:
        """Look at the world if the step changed it."""
        if self._changed:
            self._changed = False
            for each in self._by_hook["holds"]:
                each.holds()


def _instance(claim: NodeClaim | None) -> str | None:
    return None if claim is None else claim.instance_id


def _replicas(claim: NodeClaim | None) -> int:
    return 0 if claim is None else sum(placed.count for placed in claim.placements)


def _drain_reason(claim: NodeClaim | None) -> object:
    return None if claim is None or claim.drain is None else claim.drain.reason
