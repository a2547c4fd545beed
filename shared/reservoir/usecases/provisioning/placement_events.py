"""Plans as facts on the outbound bus: which replicas were placed where, and which reservations a plan used up."""

from collections.abc import Iterator
from typing import Final

from reservoir.core.model.node_claim import NodeClaim
from reservoir.manifests.event_parts import NodePlacement
from reservoir.manifests.events import ReservationExhausted, WorkloadPlaced
from reservoir.usecases.claims.announce import (
    node_detail,
    reservation_exhausted,
    stored_ref,
)
from reservoir.usecases.provisioning.commit_plan import Committed
from reservoir.usecases.provisioning.gather_snapshot import Gathered

# EventBridge takes entries of up to 256 KB; a node is described in about 400 bytes.
_NODES_MAX: Final = 200


def placed_events(committed: Committed, gathered: Gathered) -> Iterator[WorkloadPlaced]:
    """Yield one event a workload (more for very many nodes) with the nodes that it was placed on."""
    by_workload: dict[str, list[NodePlacement]] = {}
    for claim, placements in committed.placements():
        for placed in placements:
            by_workload.setdefault(placed.workload_key, []).append(
                _node(claim, placed.count)
            )
    for key in sorted(by_workload):
        nodes = by_workload[key]
        for start in range(0, len(nodes), _NODES_MAX):
            part = nodes[start : start + _NODES_MAX]
            yield WorkloadPlaced(
                workload=stored_ref(gathered.records[key]),
                replicas=sum(node.replicas for node in part),
                nodes=part,
            )


def _node(claim: NodeClaim, replicas: int) -> NodePlacement:
    return NodePlacement(**dict(node_detail(claim)), replicas=replicas)


def exhausted_events(
    committed: Committed, gathered: Gathered
) -> Iterator[ReservationExhausted]:
    """Yield an event for each reservation whose last free unit the plan took."""
    taken: dict[str, int] = {}
    for claim in committed.claims:
        if claim.lease is not None:
            taken[claim.lease.reservation_id] = taken.get(claim.lease.reservation_id, 0) + 1
    for reservation_id, count in sorted(taken.items()):
        record = gathered.reservations[reservation_id]
        if record.balance.free_units <= count:
            yield reservation_exhausted(record.reservation)
