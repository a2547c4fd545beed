"""The life of nodes: forward only, warned in time, ended for a reason, told as it is."""

from datetime import timedelta
from typing import Any, Final

from lab.simulation.aws.bus import Detail
from lab.simulation.aws.lambdas import Environment, Run
from lab.simulation.invariants.base import (
    CLOCKS_APART,
    STEADY,
    Invariant,
    drain_start,
    replica_count,
)
from lab.simulation.kernel import moment
from lab.simulation.people.users import POOL
from lab.simulation.world import World
from reservoir.core.model.node_claim import ALLOWED_TRANSITIONS, ClaimState, NodeClaim
from reservoir.core.safety.endings import kind_of
from reservoir.names import Function

_OF_INSTANCES: Final = frozenset(
    {
        "Node Launched",
        "Node Terminated",
        "Replica Ready",
        "Replica Failed",
        "Replica Finished",
    }
)


class ClaimsOnlyMoveForward(Invariant):
    """A claim moves along its state machine only, and a drain that was announced is neither forgotten nor put off."""

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if not isinstance(before, NodeClaim) or not isinstance(after, NodeClaim):
            return
        if (
            after.state is not before.state
            and after.state not in ALLOWED_TRANSITIONS[before.state]
        ):
            self.refute(f"{key}: {before.state} -> {after.state}")
        if after.revision != before.revision + 1:
            self.refute(f"{key}: revision {before.revision} -> {after.revision}")
        if before.drain is not None and (
            after.drain is None or after.drain.deadline > before.drain.deadline
        ):
            self.refute(f"{key}: drain {before.drain} -> {after.drain}")


class NothingIsPlacedInABlockThatDrains(Invariant):
    """No plan puts replicas into a Capacity Block at or after the start of its drain."""

    by_the_clock = True

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if not isinstance(after, NodeClaim) or after.offering.reservation_id is None:
            return
        if replica_count(after) <= replica_count(before):
            return
        drain_at = drain_start(self.world.ec2.reservations[after.offering.reservation_id])
        decided_at = after.created_at if before is None else after.placements_changed_at
        if (
            drain_at is not None
            and decided_at is not None
            and decided_at > drain_at + CLOCKS_APART
        ):
            self.refute(
                f"{key} got replicas at {decided_at}, its block drains from {drain_at} on"
            )


class NobodyIsEndedBeforeItsDeadline(Invariant):
    """A node that drains lives until its deadline, or until all its replicas have left it."""

    by_the_clock = True

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if (
            not isinstance(before, NodeClaim)
            or before.state is not ClaimState.DRAINING
            or before.drain is None
        ):
            return
        instance = self.world.instance(before.instance_id)
        if (
            after.state is not ClaimState.TERMINATING
            or instance is None
            or instance.is_gone
            or instance.is_stopped
        ):
            return
        early = before.drain.deadline - CLOCKS_APART > self.world.kernel.now()
        if early and before.drain.awaiting and not self.world.ec2.seems_gone(instance.id):
            self.refute(
                f"{key} was to live until {before.drain.deadline} for {before.drain.awaiting}"
            )


class WhatEndsByChoicePassesTheEnvelope(Invariant):
    """Whatever drains for a reason that EC2 does not force was let pass by the safety envelope before."""

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if (
            not isinstance(after, NodeClaim)
            or after.drain is None
            or _drain_reason(before) is after.drain.reason
        ):
            return
        kind = kind_of(after.drain.reason)
        if kind is None:
            return
        tally, _ = self.world.tallies.rows.get(kind, (None, 0))
        if tally is None or not any(key in passed.ids for passed in tally.passed):
            self.refute(f"{key} drains ({after.drain.reason}) and is in no tally of {kind}")


class NothingIsTerminatedWithoutIntent(Invariant):
    """An instance that we terminate has no claim, or one that says so."""

    points = frozenset({"ec2.terminate"})

    def called(self, environment: Environment, point: str, answer: Any) -> None:
        for claim in self.world.state.claim_rows.values():
            if claim.instance_id in answer.accepted and claim.state in STEADY | {
                ClaimState.DRAINING
            }:
                self.refute(
                    f"{claim.instance_id} was terminated while {claim.id} is {claim.state}"
                )


class EventsTellWhatIsSo(Invariant):
    """No event tells of a node that never was, or of the end of one that lives.

    What the bus refused and takes later was so when it was told first; tables may have been restored since.
    """

    def heard(self, detail_type: str, detail: Detail) -> None:
        if detail in self.world.kept_events(detail_type):
            return
        if detail_type == "Workload Placed":
            for node in detail["nodes"]:
                claim = self.world.state.claim_rows.get(node["nodeClaim"])
                if claim is None or claim.node_pool_name != node["nodePool"]:
                    self.refute(
                        f"{detail['workload']} is said to be on {node['nodeClaim']}, which is {claim}"
                    )
        if detail_type not in _OF_INSTANCES:
            return
        instance_id = detail["node"].get("instanceId")
        instance = self.world.instance(instance_id)
        if detail_type != "Node Terminated" and instance is None:
            self.refute(f"{detail_type} of {instance_id}, which does not exist")
        if (
            detail_type == "Node Terminated"
            and instance is not None
            and not instance.is_gone
        ):
            self.refute(f"{instance_id} was announced to be gone and is {instance.state}")


class BlocksAreDrainedInTime(Invariant):
    """When a sweep that began after a block's drain start is over, no node that it could see is still at work there.

    The timer of a drain's deadline, or of another reservation, asks for its own part of a sweep only.
    """

    by_the_clock = True

    def __init__(self, world: World) -> None:
        super().__init__(world)
        # Not the launch: a launch whose function died is adopted minutes after it.
        self._seen_from_us: dict[str, int] = {}

    def row_written(self, key: str, before: Any, after: Any) -> None:
        was_steady = isinstance(before, NodeClaim) and before.state in STEADY
        if isinstance(after, NodeClaim) and after.state in STEADY and not was_steady:
            self._seen_from_us[key] = self.world.kernel.now_us

    def ended(self, run: Run) -> None:
        if (
            run.function is not Function.EXPIRE
            or run.outcome != "done"
            or "drainDeadline" in run.event
        ):
            return
        began, asked = moment(run.began_us), run.event.get("capacityReservationId")
        for claim in self.world.state.claim_rows.values():
            if (
                claim.state not in STEADY
                or claim.drain_at is None
                or claim.offering.reservation_id is None
            ):
                continue
            if asked not in (None, claim.offering.reservation_id):
                continue
            drain_at = drain_start(
                self.world.ec2.reservations[claim.offering.reservation_id]
            )
            settled = began - moment(self._seen_from_us.get(claim.id, 0)) > timedelta(
                minutes=3
            )
            if drain_at is not None and settled and began - drain_at > timedelta(minutes=3):
                self.refute(
                    f"{claim.id} is {claim.state}; its block drains since {drain_at}"
                )


class BudgetsAreKept(Invariant):
    """Of a pool whose budget is one node, no node is chosen for disruption while another is still on its way out."""

    def row_written(self, key: str, before: Any, after: Any) -> None:
        if (
            not isinstance(after, NodeClaim)
            or after.disruption is None
            or before is None
            or self.world.budget != "1"
        ):
            return
        if before.disruption is not None or after.node_pool_name != POOL:
            return
        if after.is_warm:  # a free unit, which no budget counts
            return
        leaving = [
            claim.id
            for claim in self.world.state.claim_rows.values()
            if claim.is_live
            and claim.disruption is not None
            and not claim.is_warm
            and claim.id != key
            and claim.node_pool_name == POOL
        ]
        if leaving:
            self.refute(f"{key} was chosen while {leaving} are on their way out")


def _drain_reason(claim: NodeClaim | None) -> object:
    return None if claim is None or claim.drain is None else claim.drain.reason
