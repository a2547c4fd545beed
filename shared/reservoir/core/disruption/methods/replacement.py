"""Replacing drifted nodes: make before break, or terminate first where only the node's own slot can host the new one.

A full reservation cannot take the replacement of a node that runs in it, because its unit is not free while the node
runs (R-178). If the plain simulation fails and one with the slot credited succeeds, the node goes first: drain,
terminate, wait for the slot, launch into it. The slot stays leased meanwhile, so none of our other demand takes it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from reservoir.core.disruption.candidate import Candidate, Refusal
from reservoir.core.disruption.command import LATER, RECEIVES, DisruptionCommand, command_of
from reservoir.core.disruption.headroom import Headroom
from reservoir.core.disruption.methods.static_renewal import renewal, wants_unit_of
from reservoir.core.disruption.simulation import PassState
from reservoir.core.launching.claim_nodes import fills_freed_slot
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.node_pool import DisruptionReason
from reservoir.core.model.plan import Plan


@dataclass(frozen=True, slots=True)
class Replacement:
    """What one pass of drift found."""

    commands: tuple[DisruptionCommand, ...]
    world: PassState
    refusals: tuple[Refusal, ...]


class _Underway:
    """Replacements that have begun; one that takes capacity away for a while does not begin while another runs."""

    def __init__(self, claims: Mapping[str, NodeClaim]) -> None:
        marked = [
            (claim, claim.disruption)
            for claim in claims.values()
            if claim.disruption is not None
        ]
        self._terminating_first = {
            claim.node_pool_name for claim, mark in marked if mark.terminate_first
        }
        self._terminating_first |= {
            it.node_pool_name for it in claims.values() if fills_freed_slot(it, claims)
        }
        self._freeing = {
            claim.offering.reservation_id
            for claim, mark in marked
            if not mark.terminate_first and claim.is_live
        }

    def add(self, command: DisruptionCommand, candidate: Candidate) -> None:
        if command.terminate_first:
            self._terminating_first.add(candidate.pool.name)
        else:
            self._freeing.add(candidate.node.reservation_id)

    def waits_for(self, candidate: Candidate) -> str | None:
        """Say what a terminate-first replacement of the node has to wait for; None: for nothing."""
        if candidate.pool.name in self._terminating_first:
            return "waits for another terminate-first replacement of its pool"
        if candidate.node.reservation_id in self._freeing:
            return "waits for a unit of its reservation that another replacement is about to free"
        return None


def replace_drifted(
    world: PassState,
    drifted: Sequence[tuple[Candidate, str]],
    headroom: Headroom,
    claims: Mapping[str, NodeClaim],
    waiting: Mapping[str, datetime],
) -> Replacement:
    """Decide one command a drifted node: empty nodes first, then the oldest (R-156).

    Before them come nodes that had no turn, by ``waiting`` since when: otherwise nodes that are refused in every pass
    could keep the others from it for ever.

    At most one terminate-first replacement of a pool is in progress at any time: each takes capacity away for a while.
    None begins while a node of the same reservation is being replaced before it ends: its unit is about to come free.
    """
    commands: list[DisruptionCommand] = []
    refusals: list[Refusal] = []
    underway = _Underway(claims)
    # what other nodes' replicas were simulated onto has to stay for them
    destinations: set[str] = set()
    half = world.effort.left // 2  # the other half is left to consolidation
    # one is tried in every pass, however much the demand that waits has used up
    tried = False
    by_wait = sorted(
        sorted(drifted, key=_drift_order),
        key=lambda item: waiting.get(item[0].id, world.now),
    )
    for candidate, reason in by_wait:
        if candidate.id in destinations:
            refusals.append(Refusal(candidate.id, f"{reason}; {RECEIVES}"))
            continue
        if not headroom.within([candidate], DisruptionReason.DRIFTED):
            refusals.append(
                Refusal(
                    candidate.id,
                    f"{reason}; budget of NodePool {candidate.pool.name} is used up",
                )
            )
            continue
        if tried and world.effort.left < half:
            refusals.append(Refusal(candidate.id, f"{reason}; {LATER}"))
            continue
        tried = True
        outcome = _outcome(world, candidate, reason, underway.waits_for(candidate))
        if isinstance(outcome, str):
            refusals.append(Refusal(candidate.id, f"{reason}; {outcome}"))
            continue
        command, plan = outcome
        underway.add(command, candidate)
        destinations.update(command.destinations)
        commands.append(command)
        headroom.spend((candidate,))
        if command.terminate_first:
            # Its replacement takes the unit that it gives back, and its place among the pool's nodes.
            world = world.freed((candidate,)).after((), plan)
        else:
            world = world.after((candidate,), plan)
    return Replacement(tuple(commands), world, tuple(refusals))


def _drift_order(item: tuple[Candidate, str]) -> tuple[bool, float, str]:
    candidate = item[0]
    return (not candidate.is_empty, candidate.claim.created_at.timestamp(), candidate.id)


def _outcome(
    world: PassState, candidate: Candidate, reason: str, waits: str | None
) -> tuple[DisruptionCommand, Plan] | str:
    is_renewed = (
        candidate.pool.is_static
        and not candidate.is_orphan
        and wants_unit_of(world, candidate)
    )
    return (renewal if is_renewed else _replacement)(world, candidate, reason, waits)


def _replacement(
    world: PassState, candidate: Candidate, reason: str, waits: str | None
) -> tuple[DisruptionCommand, Plan] | str:
    plan = _planned(world, candidate)
    if not plan.unplaced:
        return command_of(DisruptionReason.DRIFTED, (candidate,), plan, reason), plan
    credited = (
        _planned(world, candidate, credit_slots=True) if candidate.is_reserved else plan
    )
    if credited.unplaced and candidate.is_orphan:
        # Nothing else would ever end it; its replicas wait as any demand does.
        explanation = f"{reason}; no other place was found for all of its replicas"
        return command_of(
            DisruptionReason.DRIFTED, (candidate,), Plan(), explanation
        ), Plan()
    if not candidate.is_reserved:
        return f"its replicas would not all be placed: {plan.unplaced[0].message}"
    if credited.unplaced:
        return (
            f"not even its own unit could hold its replicas: {credited.unplaced[0].message}"
        )
    if waits is not None:
        return waits
    explanation = f"{reason}; only its own unit can hold the replacement"
    command = command_of(
        DisruptionReason.DRIFTED, (candidate,), credited, explanation, terminate_first=True
    )
    return command, credited


def _planned(world: PassState, candidate: Candidate, *, credit_slots: bool = False) -> Plan:
    """Plan for the node's replicas; those that would begin their fallback ladder again are handed over to new nodes."""
    plan = world.without((candidate,), credit_slots=credit_slots)
    if world.begins_again(plan) is None:
        return plan
    return world.without(
        (candidate,),
        credit_slots=credit_slots,
        closed=world.nodes_of_later_steps(candidate),
    )
