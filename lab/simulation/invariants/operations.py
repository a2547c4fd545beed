"""What operators and nodes say: done as they say, told, and counted once.

But where a release before this one still runs, or has run: it knows of none of that, and writes it away.
"""

from collections.abc import Iterable
from typing import Any

from lab.simulation.aws.bus import Detail
from lab.simulation.aws.lambdas import Environment
from lab.simulation.invariants.base import Invariant, replica_count
from lab.simulation.people.users import POOL
from lab.simulation.world import World
from reservoir.core.model.node_claim import NodeClaim
from reservoir.ports.policy import PolicyKind
from reservoir.ports.state import WorkloadRecord


class CordonedNodesReceiveNothing(Invariant):
    """A node that takes no new replicas gets none, whoever planned them and whenever."""

    of_this_release = True

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if (
            isinstance(before, NodeClaim)
            and before.cordoned
            and replica_count(after) > replica_count(before)
        ):
            self.refute(f"{key} is cordoned and got {after.placements}")


class PausedPoolsLaunchNothing(Invariant):
    """Of a pool that is paused, no function that began afterwards plans a node or asks EC2 for one.

    An attempt that was recorded before is brought to its end: it may have launched already.
    """

    of_this_release = True

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._paused_us: int | None = None
        self._planned_count = 0

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if isinstance(after, NodeClaim) and before is None:
            self._planned_count += after.node_pool_name == POOL

    def called(self, environment: Environment, point: str, answer: Any) -> None:
        planned, self._planned_count = self._planned_count, 0
        if point == "policy.save_pause":
            self._paused_us = self.world.kernel.now_us if self._is_paused() else None
        run = environment.run
        began_later = (
            run is not None
            and self._paused_us is not None
            and run.began_us > self._paused_us
        )
        asks = point == "launch_attempts.begin" and self._is_of_pool(answer.claim_ids)
        if began_later and self._is_paused() and (planned or asks):
            self.refute(
                f"{environment.function} did {point}; the pool is paused since {self._paused_us} us"
            )

    def _is_of_pool(self, claim_ids: Iterable[str]) -> bool:
        claims = (self.world.state.claim_rows.get(claim_id) for claim_id in claim_ids)
        return any(claim is None or claim.node_pool_name == POOL for claim in claims)

    def _is_paused(self) -> bool:
        stored = self.world.policy.get(PolicyKind.NODE_POOL, POOL)
        return stored is not None and stored.pause.is_paused


class OperationsAreTold(Invariant):
    """What somebody did to a node by hand was told on the bus before it was done, or is kept for it."""

    of_this_release = True

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._told: set[tuple[str, str]] = set()

    def heard(self, detail_type: str, detail: Detail) -> None:
        if detail_type == "Operation Requested":
            self._told |= {(detail["verb"], name) for name in detail["names"]}

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if not isinstance(before, NodeClaim) or after.operations == before.operations:
            return
        verb = after.operations[-1].verb
        told = set(self._told)
        for detail in self.world.kept_events("Operation Requested"):
            told |= {(detail["verb"], name) for name in detail["names"]}
        if (verb, key) not in told and (verb, after.instance_id) not in told:
            self.refute(f"{verb} of {key} was told nobody")


class FinishedIsCountedOnce(Invariant):
    """A replica that has finished is counted once: on its node, for its workload and when told; no other is."""

    of_this_release = True

    def heard(self, detail_type: str, detail: Detail) -> None:
        if detail_type == "Replica Finished":
            key = f"{detail['workload']['namespace']}/{detail['workload']['name']}"
            true = self.world.agents.finished_of(key)
            if detail["finished"] > true:
                self.refute(
                    f"{detail['finished']} replicas of {key} are said to have finished, {true} have"
                )

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if isinstance(after, NodeClaim) and after.finished:
            for done in after.finished:
                true = self.world.agents.finished[key, done.workload_key]
                if done.count > true:
                    self.refute(
                        f"{done.count} of {done.workload_key} are said to have finished on {key}, {true} have"
                    )
        if isinstance(after, WorkloadRecord) and after.finished_count:
            counted = 0
            for claim in self.world.state.claim_rows.values():
                own = [done for done in claim.finished if done.workload_key == key]
                counted += sum(done.count for done in own)
            if after.finished_count != counted:
                self.refute(
                    f"{key} counts {after.finished_count} finished replicas, its nodes {counted}"
                )
