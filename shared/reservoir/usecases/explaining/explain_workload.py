"""Explain a workload: where its replicas are, why the others wait, and when that could change."""

from collections.abc import Sequence
from dataclasses import dataclass

from reservoir.core.capacity.lineage import successors
from reservoir.core.capacity.unavailable_offerings import SpotLossKey
from reservoir.core.model.node_claim import NodeClaim
from reservoir.core.model.snapshot import PlacedReplicas, count_of
from reservoir.core.node_life import succession
from reservoir.core.node_life.spot_losses import LEFT_SPOT
from reservoir.core.what_if.across_ends import goes_on
from reservoir.manifests.answers.explanations import (
    HostingNode,
    SpotRest,
    WorkloadExplanation,
)
from reservoir.ports.launches import ShortageHistory
from reservoir.ports.state import NodeClaimStore, ReservationStore, WorkloadStore
from reservoir.ports.system import Clock
from reservoir.usecases.claims.announce import stored_ref
from reservoir.usecases.claims.waiting import rollout_status, waiting


@dataclass(frozen=True, slots=True)
class ExplainWorkload:
    """Explains workloads."""

    workloads: WorkloadStore
    claims: NodeClaimStore
    reservations: ReservationStore
    shortages: ShortageHistory
    clock: Clock

    def explain(self, key: str) -> WorkloadExplanation | None:
        """Explain the workload ``namespace/name``; None when it was never submitted, or is forgotten.

        Raises UnreadableRowsError.
        """
        record = self.workloads.get(key)
        if record is None:
            return None
        pending = record.pending_count
        waits = [waiting(unplaced) for unplaced in record.unplaced] if pending else []
        times = [each.earliest_at for each in waits if each.earliest_at is not None]
        hosts = [
            claim for claim in self.claims.list_live() if count_of(key, claim.placements)
        ]
        return WorkloadExplanation(
            workload=stored_ref(record),
            withdrawn=record.withdrawn,
            replicas=record.unfinished_count,
            placed=record.placed_count,
            finished=record.finished_count,
            pending=pending,
            pending_since=record.pending_since if pending else None,
            next_feasible_at=min(times, default=None),
            waiting=waits,
            rollout=rollout_status(record),
            off_spot=self._off_spot(key),
            nodes=self._nodes(key, hosts),
        )

    def _off_spot(self, key: str) -> SpotRest | None:
        place = SpotLossKey(key)
        rest = self.shortages.get_many([place]).get(place)
        if rest is None or rest.until <= self.clock.now():
            return None
        return SpotRest(until=rest.until, times=rest.failure_count, reason=LEFT_SPOT)

    def _nodes(self, key: str, hosts: Sequence[NodeClaim]) -> list[HostingNode]:
        in_blocks = any(claim.drain_at is not None for claim in hosts)
        known = (
            [record.reservation for record in self.reservations.list_current()]
            if in_blocks
            else []
        )
        by_id, following = {each.id: each for each in known}, successors(known)
        found = []
        for claim in hosts:
            placed = PlacedReplicas(key, count_of(key, claim.placements))
            under = by_id.get(claim.offering.reservation_id or "")
            is_split = claim.drain_at is not None and under is not None
            found.append(
                HostingNode(
                    node_claim=claim.id,
                    instance_id=claim.instance_id,
                    state=claim.state,
                    replicas=placed.count,
                    held=succession.held_count(claim, placed),
                    predecessors=succession.predecessor_ids(claim, key),
                    drain_at=claim.drain_at,
                    goes_on=goes_on(under, following)
                    if is_split and under is not None
                    else None,
                )
            )
        return found
