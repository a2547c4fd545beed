"""Between plans and claims: planned nodes become claims, claims become the nodes of the next snapshot."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from reservoir.core.capacity.node_storage import as_launched
from reservoir.core.launching.launch_pools import left_to_choose
from reservoir.core.launching.placed_terms import with_generations
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_claim import (
    ClaimState,
    DrainReason,
    Lease,
    NodeClaim,
    generations_of,
)
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.node_pool import NodePool, min_values
from reservoir.core.model.plan import PlannedNodes
from reservoir.core.model.snapshot import Node, PlacedReplicas
from reservoir.core.model.team import Team
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.efa import wants_efa, without_efa
from reservoir.core.scheduling_terms.resources import Resources

# A node in these states, or marked for disruption, takes no new replicas.
_LEAVING = frozenset({ClaimState.DRAINING, ClaimState.TERMINATING})
_COMING = frozenset({ClaimState.PLANNED, ClaimState.LAUNCHING, ClaimState.LAUNCHED})


def is_held(claim: NodeClaim, claims: Mapping[str, NodeClaim]) -> bool:
    """Whether the node's room belongs to the replicas of nodes that it replaces and that have not begun to drain.

    A listing may show the replacement before the mark on the node that it replaces. The replicas that it expects show
    the same; a command that is abandoned takes both back (``reservoir.usecases.disruption.replace_nodes``).
    """
    if claim.waits_for_slot:
        return True
    replaced = (claims[claim_id] for claim_id in claim.replaces if claim_id in claims)
    running = [old for old in replaced if old.state is ClaimState.RUNNING]
    return any(old.disruption is not None or claim.expected for old in running)


def fills_freed_slot(claim: NodeClaim, claims: Mapping[str, NodeClaim]) -> bool:
    """Whether the claim is to run in the slot of a node that ended first, and does not run yet.

    ``claims`` are the live ones. A replacement that is made before the break runs before the node that it replaces
    ends.
    """
    if claim.waits_for_slot:
        return True
    gone = bool(claim.replaces) and not any(
        claim_id in claims for claim_id in claim.replaces
    )
    return gone and claim.state in _COMING


def node_of(
    claim: NodeClaim, workloads: Mapping[str, Workload], *, held: bool = False
) -> Node:
    """Return the claim as the scheduler sees it; ``workloads`` has the ones that are placed on it, by key.

    ``held``: nothing else may be placed on it, so it shows as full.
    """
    used: dict[str, int] = {}
    for placed in claim.placements:
        if placed.workload_key in workloads:
            for name, amount in workloads[placed.workload_key].requests.items():
                used[name] = used.get(name, 0) + amount * placed.count
    reserved = claim.offering.capacity_type is CapacityType.RESERVED
    node = Node(
        claim_id=claim.id,
        node_pool_name=claim.node_pool_name,
        node_class_name=claim.node_class_name,
        instance_type=claim.offering.instance_type,
        zone=claim.offering.zone,
        zone_id=claim.offering.zone_id,
        capacity_type=claim.offering.capacity_type,
        labels=claim.labels,
        allocatable=claim.allocatable,
        used=claim.allocatable if held else Resources.of(used),
        placements=claim.placements,
        taints=claim.taints,
        reservation_id=claim.offering.reservation_id if reserved else None,
        price_atto_usd_per_hour=claim.price_atto_usd_per_hour,
        created_at=claim.created_at,
        drain_at=claim.drain_at,
        leaves_at=_leaves_at(claim, workloads),
        initialized=claim.state is ClaimState.RUNNING,
        deleting=claim.state in _LEAVING or claim.disruption is not None,
        drain_deadline=claim.drain_deadline,
        leaving=withdrawn_replicas(claim),
    )
    if node.block_drain is None:
        return node
    # Replicas that were placed on it after its claim's times were recorded may want more notice.
    drain = node.block_drain.for_notice(_longest_notice_s(claim.placements, workloads))
    return replace(node, drain_at=drain.starts_at)


def _longest_notice_s(
    placements: Iterable[PlacedReplicas], workloads: Mapping[str, Workload]
) -> int:
    found = [
        workloads[placed.workload_key]
        for placed in placements
        if placed.workload_key in workloads
    ]
    return max([workload.checkpoint_period_s or 0 for workload in found], default=0)


def withdrawn_replicas(claim: NodeClaim) -> tuple[PlacedReplicas, ...]:
    """Return the withdrawn replicas that a node still waits for.

    Replicas that drain for any other reason are demand again, and count where they are placed next.
    """
    drain = claim.drain
    return (
        () if drain is None or drain.reason is not DrainReason.WITHDRAWN else drain.awaiting
    )


def counted_keys(claims: Iterable[NodeClaim]) -> set[str]:
    """Return the keys of the workloads that take room on the claims: those placed, and those withdrawn and awaited."""
    keys: set[str] = set()
    for claim in claims:
        keys.update(
            placed.workload_key
            for placed in (*claim.placements, *withdrawn_replicas(claim))
        )
    return keys


def _leaves_at(claim: NodeClaim, workloads: Mapping[str, Workload]) -> datetime | None:
    """Return when the node should be gone; None where some of its work does not say how long it takes."""
    if claim.drain is not None:
        return claim.drain.deadline
    since = max(
        at
        for at in (claim.created_at, claim.running_at, claim.placements_changed_at)
        if at is not None
    )
    durations = []
    for placed in claim.placements:
        workload = workloads.get(placed.workload_key)
        if workload is None or workload.duration_s is None:
            return None
        durations.append(workload.duration_s)
    return since + timedelta(seconds=max(durations)) if durations else None


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """What a claim takes over from the snapshot that it was planned on."""

    node_pools: Mapping[str, NodePool]
    node_classes: Mapping[str, NodeClass]
    instance_types: Mapping[str, InstanceType]
    reservations: Mapping[str, CapacityReservation]
    workloads: Mapping[str, Workload]
    # by namespace
    teams: Mapping[str, Team] = field(default_factory=dict)


def _team(placements: Iterable[PlacedReplicas], teams: Mapping[str, Team]) -> str:
    """Return the team that all of the work is of; empty where there is none."""
    namespaces = {placed.workload_key.partition("/")[0] for placed in placements}
    found = {teams[name].name if name in teams else "" for name in namespaces}
    return found.pop() if len(found) == 1 else ""


def planned_claims(
    planned: PlannedNodes,
    ids: Iterable[str],
    facts: ClaimFacts,
    *,
    plan_id: str,
    now: datetime,
) -> tuple[NodeClaim, ...]:
    """Return one claim an id for planned nodes; they have no batch yet (``batch_id`` is empty)."""
    pool = facts.node_pools[planned.node_pool_name]
    node_class = facts.node_classes[planned.node_class_name]
    reservation_id = planned.offering.reservation_id
    room = _room(planned, pool, node_class, facts)
    wanted = {} if reservation_id is not None else min_values(pool)
    left = left_to_choose(
        (planned.offering, *planned.alternatives), wanted, facts.instance_types
    )
    drain = (
        None if reservation_id is None else facts.reservations[reservation_id].block_drain()
    )
    if drain is not None:
        drain = drain.for_notice(_longest_notice_s(planned.placements, facts.workloads))
    template = NodeClaim(
        id="",
        state=ClaimState.PLANNED,
        revision=1,
        node_pool_name=planned.node_pool_name,
        node_class_name=planned.node_class_name,
        batch_id="",
        attempt=1,
        offering=planned.offering,
        price_atto_usd_per_hour=planned.price_atto_usd_per_hour,
        placements=planned.placements,
        allocatable=room,
        created_at=now,
        alternatives=planned.alternatives,
        min_values=left,
        relaxed=(*planned.relaxed, *_relaxed_min_values(wanted, left)),
        labels=planned.labels,
        taints=pool.taints,
        lease=None if reservation_id is None else Lease(reservation_id),
        gang_key=planned.gang_key,
        plan_id=plan_id,
        drain_at=None if drain is None else drain.starts_at,
        drain_deadline=None if drain is None else drain.deadline,
        node_pool_hash=pool.static_hash,
        node_class_hash=node_class.static_hash,
        placements_changed_at=now,
        placed_with=with_generations((), planned.placements, facts.workloads, room),
        is_static=pool.is_static,
        is_warm=not (pool.is_static or planned.placements),
        team=_team(planned.placements, facts.teams),
    )
    return tuple(replace(template, id=claim_id) for claim_id in ids)


def _room(
    planned: PlannedNodes, pool: NodePool, node_class: NodeClass, facts: ClaimFacts
) -> Resources:
    """Return the room of the nodes; of nodes that come before demand it is not known whether it will want EFAs."""
    room = as_launched(
        facts.instance_types[planned.offering.instance_type], node_class
    ).allocatable
    wanting = (
        wants_efa(facts.workloads[placed.workload_key].requests)
        for placed in planned.placements
    )
    comes_first = pool.is_static or not planned.placements
    return room if comes_first or any(wanting) else without_efa(room)


def _relaxed_min_values(
    wanted: Mapping[str, int], left: Mapping[str, int]
) -> Iterator[str]:
    for key, least in sorted(wanted.items()):
        if left[key] < least:
            yield f"minValues of {key}: {left[key]} of {least}"


def grown_claim(
    claim: NodeClaim,
    added: Sequence[PlacedReplicas],
    now: datetime | None,
    workloads: Mapping[str, Workload],
) -> NodeClaim:
    """Return the claim with more replicas on it; ``workloads``, by key, are as they are placed.

    Of replicas that it expects, it was noted when it was planned. A warm node is one like any other from here on.
    """
    noted = generations_of(claim.placed_with, (*claim.placements, *claim.expected))
    counts = {placed.workload_key: placed.count for placed in claim.placements}
    for placed in added:
        counts[placed.workload_key] = counts.get(placed.workload_key, 0) + placed.count
    placements = tuple(PlacedReplicas(key, counts[key]) for key in sorted(counts))
    placed_with = (
        with_generations(noted, added, workloads, claim.allocatable)
        if workloads
        else claim.placed_with
    )
    return replace(
        claim,
        placements=placements,
        placements_changed_at=now,
        placed_with=placed_with,
        is_warm=False,
    )


def correlated(claim: NodeClaim, ids: Mapping[str, str | None]) -> NodeClaim:
    """Return the claim with the correlation ids, by key, of the workloads on it and of those on their way to it.

    The ids of workloads that have left it are dropped, so that a node which lives long does not collect them.
    """
    awaiting = () if claim.drain is None else claim.drain.awaiting
    present = {
        it.workload_key
        for it in (*claim.placements, *claim.expected, *claim.finished, *awaiting)
    }
    known = {
        **claim.correlation_ids,
        **{key: value for key, value in ids.items() if value is not None},
    }
    return replace(
        claim, correlation_ids={key: known[key] for key in sorted(present & known.keys())}
    )
