"""Drifted nodes of static pools get a successor of their own pool, whether or not anything runs on them.

A reserved node stays reserved: into a unit that is free, or into its own, for which it goes first. So a pool that uses
all units of its reservations rolls one node after the other, with one unit empty at a time, which stays leased.
"""

from datetime import datetime, timedelta

from reservoir.core.disruption.candidate import Candidate
from reservoir.core.disruption.command import DisruptionCommand, command_of
from reservoir.core.disruption.simulation import PassState
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.node_pool import DisruptionReason, NodePool
from reservoir.core.model.plan import Plan
from reservoir.core.scheduling_terms.resources import NODES
from reservoir.core.static_pools.growth import only_reserved
from reservoir.core.static_pools.units import ReservedCapacity

Outcome = tuple[DisruptionCommand, Plan] | str


def aged_reason(claim: NodeClaim, pool: NodePool, now: datetime) -> str | None:
    """Return that a static pool's node is older than expireAfter, or None.

    Other nodes just drain at that age, and their replicas are demand again; a static pool's node is replaced.
    """
    if not pool.is_static or pool.expire_after_s is None:
        return None
    is_aged = now - claim.created_at >= timedelta(seconds=pool.expire_after_s)
    return f"it is older than expireAfter of NodePool {pool.name}" if is_aged else None


def wants_unit_of(world: PassState, candidate: Candidate) -> bool:
    """Whether the pool wants a node in the candidate's place; a pool that follows reservations may not any more."""
    if not candidate.pool.all_reserved:
        return True
    snapshot = world.snapshot
    reserved = ReservedCapacity.of(
        snapshot.reservations,
        snapshot.node_classes,
        snapshot.instance_types,
        world.now,
    )
    return candidate.node.reservation_id in reserved.units_of(candidate.pool).total


def renewal(
    world: PassState, candidate: Candidate, reason: str, waits: str | None
) -> Outcome:
    """Return the command that replaces a node, and its plan; or why it stays.

    ``waits``: what a node that ends first has to wait for.
    """
    if candidate.is_reserved:
        reserved = only_reserved(candidate.pool)
        plan = world.renewed(candidate, reserved)
        if plan is not None:
            return command_of(DisruptionReason.DRIFTED, (candidate,), plan, reason), plan
        plan = world.renewed(candidate, reserved, credit_slots=True)
        if plan is not None:
            explanation = f"{reason}; only its own unit can hold the new node"
            command = command_of(
                DisruptionReason.DRIFTED,
                (candidate,),
                plan,
                explanation,
                terminate_first=True,
            )
            return waits or (command, plan)
    plan = world.renewed(candidate, candidate.pool)
    if plan is None:
        return f"no node of NodePool {candidate.pool.name} can be launched in its place"
    if _is_at_limit(world, candidate.pool):
        # One node more would be too many, also for a while: it goes, and the pool is brought up to its size again.
        explanation = f"{reason}; the pool is at its limit of nodes"
        return command_of(
            DisruptionReason.DRIFTED, (candidate,), Plan(), explanation
        ), Plan()
    return command_of(DisruptionReason.DRIFTED, (candidate,), plan, reason), plan


def _is_at_limit(world: PassState, pool: NodePool) -> bool:
    if pool.limits is None or NODES not in pool.limits:
        return False
    return (
        sum(node.node_pool_name == pool.name for node in world.snapshot.nodes)
        >= pool.limits[NODES]
    )
