"""Replicas: each in one state, counted once, and placed where its users want it."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from lab.simulation.aws.lambdas import Environment
from lab.simulation.aws.tables import LAG_MAX
from lab.simulation.catalogue import CPUS
from lab.simulation.invariants.base import STEADY, WAITING, Invariant, OfCommits
from lab.simulation.people.users import POOL
from lab.simulation.world import World
from reservoir.core.model.node_claim import ClaimState, DrainReason, NodeClaim
from reservoir.core.model.plan import ReasonCode
from reservoir.names import Function
from reservoir.ports.state import WorkloadRecord


class EveryPlacedReplicaIsCounted(Invariant):
    """The replicas that a workload counts as placed are those on its live claims: none is lost, none is doubled."""

    def holds(self) -> None:
        placed: Counter[str] = Counter()
        for claim in self.world.state.claim_rows.values():
            for placement in claim.placements:
                placed[placement.workload_key] += placement.count
        for key, record in self.world.state.workload_rows.items():
            if record.placed_count != placed[key]:
                self.refute(
                    f"{key} counts {record.placed_count} placed replicas, {placed[key]} are on claims"
                )


class PlansKeepTheRules(Invariant):
    """No plan is refused by the independent checker, at whichever look its time was over."""

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if isinstance(after, WorkloadRecord):
            for item in after.unplaced:
                if item.code is ReasonCode.PLAN_REJECTED:
                    self.refute(f"{key}: {item.message}")


class EndedClaimsHoldNothing(Invariant):
    """A claim that is being terminated or has ended holds no replicas, nor does one that drains and is not replaced."""

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if (
            not isinstance(after, NodeClaim)
            or not after.placements
            or after.state in WAITING | STEADY
        ):
            return
        # else it is about to hand them over
        if after.state is not ClaimState.DRAINING or after.disruption is None:
            self.refute(f"{key} is {after.state} and holds {after.placements}")


class LimitsAreKept(OfCommits):
    """With what a plan adds, the nodes of a pool that listings can show stay within its limits.

    A node and what replaces it count once. An index may lag what the plan before has committed, and an answer come
    late; then limits may be exceeded by as much as another process committed.
    """

    @classmethod
    def concerns(cls, world: World) -> bool:
        return bool(world.limits)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._committed_us = -1
        self._plan_ids: set[str | None] = set()  # of what was committed at that instant
        # when claims were, which is later than they were decided
        self._written_us: dict[str, int] = {}
        # the environment that committed a claim, by its id
        self._made_by: dict[str, int] = {}

    def called(self, environment: Environment, point: str, answer: Any) -> None:
        super().called(environment, point, answer)
        if point == "node_claims.commit":
            commit, _ = self.world.state.committed
            self._made_by |= dict.fromkeys(
                [claim.id for claim in commit.claims], environment.number
            )

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if isinstance(after, NodeClaim) and before is None and after.node_pool_name == POOL:
            if self._committed_us != self.world.kernel.now_us:
                self._plan_ids.clear()
            self._written_us[key] = self._committed_us = self.world.kernel.now_us
            self._plan_ids.add(after.plan_id)

    def holds(self) -> None:
        now = self.world.kernel.now_us
        if self._committed_us == now:
            shown_since_us = self.shown_since_us()
            for name, limit in self.world.limits.items():
                used = 0
                for claim in self.world.state.claim_rows.values():
                    was_shown = self._written_us.get(claim.id, 0) < shown_since_us
                    is_own = self._made_by.get(claim.id) == self.committer
                    counts = was_shown or is_own or claim.plan_id in self._plan_ids
                    if (
                        claim.node_pool_name == POOL
                        and claim.is_live
                        and claim.disruption is None
                        and counts
                    ):
                        used += 1 if name == "nodes" else CPUS[claim.offering.instance_type]
                if used > int(limit):
                    self.refute(f"the pool has {used} of {limit} {name}")


class NothingIsPlacedThatNobodyWants(Invariant):
    """No plan places more replicas than are wanted, or for a workload that has changed since it was read."""

    points = frozenset({"node_claims.commit"})

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if not isinstance(after, WorkloadRecord) or not isinstance(before, WorkloadRecord):
            return
        if after.placed_count > max(
            before.placed_count, before.placed_count + before.open_count
        ):
            self.refute(
                f"{key} wants {before.placed_count + before.open_count} replicas, {after.placed_count} are placed"
            )

    def called(self, environment: Environment, point: str, answer: Any) -> None:
        commit, generations = self.world.state.committed
        for key in commit.placed_by_workload():
            if commit.generations.get(key, generations[key]) != generations[key]:
                self.refute(
                    f"{key} is of generation {generations[key]}, the plan was for {commit.generations[key]}"
                )


class UpdatesPlaceNoMoreThanTheSurge(Invariant):
    """No commit places more replicas than are wanted and a surge: the workload's own, or what one node held."""

    of_this_release = True

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._most: Counter[str] = Counter()  # replicas on one claim, by workload

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if isinstance(after, NodeClaim):
            for placed in after.placements:
                most = self._most[placed.workload_key]
                self._most[placed.workload_key] = max(most, placed.count)
        if not isinstance(after, WorkloadRecord) or after.rollout is None:
            return
        bounds = None if after.workload is None else after.workload.rolling_update
        wanted = after.unfinished_count
        surge = 0 if bounds is None else bounds.bounds(wanted)[0]
        # while nothing else is wanted, a surge stays as it was counted
        is_same = (
            isinstance(before, WorkloadRecord)
            and before.generation == after.generation
            and before.unfinished_count == wanted
        )
        before_surge = before.surge_count if is_same else 0
        if after.surge_count > max(surge, self._most[key], before_surge):
            self.refute(f"{key} surges by {after.surge_count}, its own bound is {surge}")
        grew = isinstance(before, WorkloadRecord) and (
            after.placed_count > before.placed_count
        )
        if grew and after.placed_count > wanted + after.surge_count:
            self.refute(f"{key} has {after.placed_count} replicas placed of {wanted}")


class UpdatesLeaveEnoughRunning(Invariant):
    """No update ends a node unless the other nodes run enough of each workload on it, of those that name bounds.

    An index may lag: what ran, and how many were wanted, at any time since the pass could have read it counts for the
    update. A node that an update has ended before counts no more.
    """

    of_this_release = True
    points: frozenset[str] | None = frozenset({"node_claims.list_live"})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        # By environment: its run, and when that first listed the nodes; the safety envelope lists them once more.
        self._listed_us: dict[int, tuple[Environment, object, int]] = {}
        # by claim and by workload, with the instants at which they were written
        self._running: dict[str, list[tuple[int, Counter[str]]]] = {}
        self._needed: dict[str, list[tuple[int, int]]] = {}
        self._left: set[str] = set()  # claims whose nodes updates have ended

    def called(self, environment: Environment, point: str, answer: Any) -> None:
        if environment.function is not Function.DISRUPT:
            return
        known = self._listed_us.get(environment.number)
        if known is None or known[1] is not environment.run:
            now_us = self.world.kernel.now_us
            self._listed_us[environment.number] = environment, environment.run, now_us

    def row_written(self, key: str, before: Any, after: Any) -> None:
        now_us = self.world.kernel.now_us
        if isinstance(after, WorkloadRecord):
            self._needed.setdefault(key, []).append((now_us, _least_running(after)))
        if not isinstance(after, NodeClaim):
            return
        if _leaves_for_an_update(before, after):
            self._left.add(key)
            for placed in before.placements:
                self._look_at(placed.workload_key, key)
        running = Counter[str]()
        if after.state is ClaimState.RUNNING:
            for placed in after.placements:
                running[placed.workload_key] += placed.count
        self._running.setdefault(key, []).append((now_us, running))

    def _look_at(self, workload_key: str, claim_id: str) -> None:
        since_us = self._known_since_us()
        most = 0
        for other_id, states in self._running.items():
            if other_id not in self._left:
                counts = _since(states, since_us)
                most += max(count[workload_key] for count in counts)
        needed = min(_since(self._needed.get(workload_key, [(0, 0)]), since_us))
        if most < needed:
            self.refute(
                f"{claim_id} ends for an update, {most} of {workload_key} run elsewhere, {needed} must"
            )

    def _known_since_us(self) -> int:
        """Return since when what was written may have been read by a pass that runs."""
        now_us = self.world.kernel.now_us
        running = [
            listed_us
            for environment, run, listed_us in self._listed_us.values()
            if environment.run is run
        ]
        return min(running, default=now_us) - LAG_MAX


def _leaves_for_an_update(before: Any, after: NodeClaim) -> bool:
    """Whether a node begins to drain for an update: for other reasons of drift a claim is marked first."""
    return (
        isinstance(before, NodeClaim)
        and before.drain is None
        and before.disruption is None
        and after.drain is not None
        and after.drain.reason is DrainReason.DRIFT
    )


def _least_running(record: WorkloadRecord) -> int:
    """Return how many replicas an update must leave running."""
    bounds = None if record.workload is None else record.workload.rolling_update
    wanted = record.unfinished_count
    return 0 if bounds is None else max(0, wanted - bounds.bounds(wanted)[1])


def _since(states: Sequence[tuple[int, Any]], since_us: int) -> list[Any]:
    """Return the states that something was in since an instant."""
    begun = [number for number, (at_us, _) in enumerate(states) if at_us <= since_us]
    first = begun[-1] if begun else 0
    return [state for _, state in states[first:]]
