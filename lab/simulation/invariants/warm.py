"""Warm nodes: free units to everybody, in units that are there."""

from collections import Counter
from typing import Any

from lab.simulation.invariants.base import STEADY, WAITING, Invariant
from lab.simulation.world import World
from reservoir.core.model.node_claim import NodeClaim


class WarmNodesAreFreeUnits(Invariant):
    """A node that counts as warm holds no replicas, and there are no more of them in a reservation than units."""

    @classmethod
    def concerns(cls, world: World) -> bool:
        return world.keeps_warm

    def row_written(self, key: str, before: Any, after: Any) -> None:
        del before
        if isinstance(after, NodeClaim) and after.is_warm and after.placements:
            self.refute(f"{key} counts as warm and holds {after.placements}")

    def holds(self) -> None:
        counts = Counter(
            claim.offering.reservation_id
            for claim in self.world.state.claim_rows.values()
            if claim.is_warm and claim.lease is not None and self._stands(claim)
        )
        for reservation_id, count in counts.items():
            found = self.world.ec2.reservations.get(reservation_id or "")
            if (
                found is not None
                and found.id not in self.world.ec2.touched
                and count > found.total_count
            ):
                self.refute(
                    f"{found.id} has {found.total_count} units, and {count} warm nodes"
                )

    def _stands(self, claim: NodeClaim) -> bool:
        instance = self.world.instance(claim.instance_id)
        is_gone = instance is not None and instance.is_gone
        return claim.state in WAITING | STEADY and not is_gone
