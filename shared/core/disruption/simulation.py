"""The edited snapshot: the world without some nodes, their replicas as demand; and the world after a command."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from shared.core.disruption.candidate import Candidate
from shared.core.plan import Plan
from shared.core.resources import Resources
from shared.core.snapshot import Node, PlacedReplicas, Snapshot
from shared.core.workload import Demand

# Replicas that run already have climbed their fallback ladder: every rung is open to their replacement. What they may
# not do is end up dearer, and that is the price rule's business.
_LADDER_CLIMBED: Final = datetime(1970, 1, 1, tzinfo=UTC)

Solve = Callable[[Snapshot], Plan]


@dataclass(frozen=True, slots=True)
class World:
    """The snapshot that the pass has reached, and the scheduler to ask."""

    snapshot: Snapshot
    solve: Solve
    now: datetime

    def without(self, removed: Iterable[Candidate], *, launches: bool = True, credit_slots: bool = False) -> Plan:
        """Plan for the removed nodes' replicas in a world without those nodes.

        ``launches=False`` asks whether the nodes that stay can hold them. ``credit_slots`` gives a reserved node's unit
        back to its reservation, which only holds if the node goes before its replacement comes (R-178).
        """
        return self.solve(edited(self.snapshot, tuple(removed), launches=launches, credit_slots=credit_slots))

    def after(self, removed: Iterable[Candidate], plan: Plan) -> "World":
        """Return the world once the nodes are gone and the replicas are where the plan put them."""
        gone = {candidate.id for candidate in removed}
        arriving = {placement.claim_id: placement.placements for placement in plan.existing}
        nodes = tuple(
            self._joined(node, arriving[node.claim_id]) if node.claim_id in arriving else node
            for node in self.snapshot.nodes
            if node.claim_id not in gone
        )
        reservations = self.snapshot.reservations
        for planned in plan.launches:
            reservations = tuple(
                replace(reservation, free_units=reservation.free_units - planned.count)
                if reservation.id == planned.offering.reservation_id
                else reservation
                for reservation in reservations
            )
        return replace(self, snapshot=replace(self.snapshot, nodes=nodes, reservations=reservations))

    def _joined(self, node: Node, arriving: Sequence[PlacedReplicas]) -> Node:
        workloads = self.snapshot.workloads
        requests = (workloads[placed.workload_key].requests * placed.count for placed in arriving)
        return replace(
            node,
            used=sum(requests, start=node.used),
            placements=merged_placements((*node.placements, *arriving)),
        )


def merged_placements(placements: Iterable[PlacedReplicas]) -> tuple[PlacedReplicas, ...]:
    """Add up placements of the same workload; sorted by workload key."""
    counts: dict[str, int] = {}
    for placed in placements:
        counts[placed.workload_key] = counts.get(placed.workload_key, 0) + placed.count
    return tuple(PlacedReplicas(key, count) for key, count in sorted(counts.items()) if count > 0)


def edited(snapshot: Snapshot, removed: Sequence[Candidate], *, launches: bool, credit_slots: bool) -> Snapshot:
    """Return the snapshot without the nodes, with their replicas as the only demand."""
    gone = {candidate.id for candidate in removed}
    homeless = merged_placements(placed for candidate in removed for placed in candidate.claim.placements)
    credited: dict[str, int] = {}
    if credit_slots:
        for candidate in removed:
            if candidate.node.reservation_id is not None:
                credited[candidate.node.reservation_id] = credited.get(candidate.node.reservation_id, 0) + 1
    return replace(
        snapshot,
        nodes=tuple(node for node in snapshot.nodes if node.claim_id not in gone),
        demands=tuple(
            Demand(snapshot.workloads[placed.workload_key], placed.count, _LADDER_CLIMBED)
            for placed in homeless
            if placed.workload_key in snapshot.workloads
        ),
        node_pools=snapshot.node_pools if launches else (),
        reservations=tuple(
            replace(reservation, free_units=reservation.free_units + credited[reservation.id])
            if reservation.id in credited
            else reservation
            for reservation in snapshot.reservations
        ),
    )


def total_requests(candidate: Candidate, snapshot: Snapshot) -> Resources:
    """Add up what the replicas of a node ask for."""
    requests = (
        snapshot.workloads[placed.workload_key].requests * placed.count
        for placed in candidate.claim.placements
        if placed.workload_key in snapshot.workloads
    )
    return sum(requests, start=Resources.of({}))
