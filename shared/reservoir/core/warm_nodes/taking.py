"""What a plan launches into units of warm nodes: work of the pool goes onto the nodes, for others they make way."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from reservoir.core.launching.claim_nodes import ClaimFacts
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.node_claim import (
    ClaimState,
    DisruptionMark,
    DrainReason,
    NodeClaim,
)
from reservoir.core.model.plan import ExistingPlacement, Plan, PlannedNodes
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.warm_nodes.free_units import WarmNodes

# Work goes onto a node that runs before one that comes ...
_USED_FIRST: Final = (
    ClaimState.RUNNING,
    ClaimState.LAUNCHED,
    ClaimState.LAUNCHING,
    ClaimState.PLANNED,
)
# ... and one that EC2 was not asked for yet makes way at once, one that comes only when it runs.
_GOES_FIRST: Final = (
    ClaimState.PLANNED,
    ClaimState.RUNNING,
    ClaimState.LAUNCHED,
    ClaimState.LAUNCHING,
)


@dataclass(frozen=True, slots=True)
class Taken:
    """A plan whose work goes onto warm nodes where it can, and the warm nodes that are left."""

    plan: Plan
    left: WarmNodes


@dataclass(frozen=True, slots=True)
class MadeWay:
    """Claims, of which some wait for the units of warm nodes; and those nodes before and after they are marked."""

    claims: tuple[NodeClaim, ...]
    marked: tuple[tuple[NodeClaim, NodeClaim], ...]


def onto_warm_nodes(plan: Plan, warm: WarmNodes, facts: ClaimFacts) -> Taken:
    """Place what the plan would launch in a reservation onto warm nodes there that are as the launched would be."""
    left = {key: list(nodes) for key, nodes in warm.items()}
    launches: list[PlannedNodes] = []
    placed: list[ExistingPlacement] = []
    for planned in plan.launches:
        nodes = left.get(planned.offering.reservation_id or "", [])
        suitable = [node for node in nodes if _is_like(node, planned, facts)]
        used = sorted(suitable, key=_used_order)[: planned.count]
        for node in used:
            nodes.remove(node)
            placed.append(ExistingPlacement(node.id, planned.placements))
        if planned.count > len(used):
            launches.append(replace(planned, count=planned.count - len(used)))
    taken = replace(plan, launches=tuple(launches), existing=(*plan.existing, *placed))
    return Taken(taken, {key: tuple(nodes) for key, nodes in left.items()})


def make_way(
    claims: Iterable[NodeClaim],
    left: WarmNodes,
    reservations: Mapping[str, CapacityReservation],
    plan_id: str,
    now: datetime,
) -> MadeWay:
    """Let new claims for which no other unit is free wait for units of warm nodes, and mark these to go.

    ``reservations`` show the units of ``left``, and of the nodes that work went onto, as free.
    """
    going = {key: sorted(nodes, key=_going_order) for key, nodes in left.items()}
    leased = dict[str, int]()
    made: list[NodeClaim] = []
    marked: list[tuple[NodeClaim, NodeClaim]] = []
    for claim in claims:
        reservation_id = claim.offering.reservation_id or ""
        nodes = going.get(reservation_id)
        if not nodes:
            made.append(claim)
            continue
        leased[reservation_id] = leased.get(reservation_id, 0) + 1
        other_units = reservations[reservation_id].free_units - len(left[reservation_id])
        if leased[reservation_id] <= other_units:
            made.append(claim)
            continue
        node = nodes.pop(0)
        mark = DisruptionMark(
            f"{plan_id}/{node.id}",
            DrainReason.SCALED_DOWN,
            now,
            replacement_count=1,
            terminate_first=True,
        )
        marked.append((node, replace(node, disruption=mark)))
        made.append(replace(claim, replaces=(node.id,), waits_for_slot=True))
    return MadeWay(tuple(made), tuple(marked))


def _is_like(node: NodeClaim, planned: PlannedNodes, facts: ClaimFacts) -> bool:
    """Whether the node is as a launch now would make it, and holds the replicas."""
    pool = facts.node_pools[planned.node_pool_name]
    node_class = facts.node_classes[planned.node_class_name]
    return (
        node.node_pool_name == pool.name
        and node.node_class_name == node_class.name
        and node.node_pool_hash == pool.static_hash
        and node.node_class_hash == node_class.static_hash
        and node.labels == planned.labels
        and _requests(planned, facts.workloads).fits_in(node.allocatable)
    )


def _requests(planned: PlannedNodes, workloads: Mapping[str, Workload]) -> Resources:
    amounts: dict[str, int] = {}
    for placed in planned.placements:
        for name, amount in workloads[placed.workload_key].requests.items():
            amounts[name] = amounts.get(name, 0) + amount * placed.count
    return Resources.of(amounts)


def _place(state: ClaimState, order: Sequence[ClaimState]) -> int:
    return order.index(state)


def _used_order(node: NodeClaim) -> tuple[int, datetime, str]:
    return _place(node.state, _USED_FIRST), node.created_at, node.id


def _going_order(node: NodeClaim) -> tuple[int, float, str]:
    youngest_first = -node.created_at.timestamp()
    return _place(node.state, _GOES_FIRST), youngest_first, node.id
