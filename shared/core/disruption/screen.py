"""A quick look that spares the simulation of nodes which cannot be improved.

The screen may let a hopeless node pass (the simulation finds out); it never refuses one that could be improved: each
of its tests is a necessary condition for any improvement.
"""

from bisect import bisect_left

from shared.core.disruption.candidate import Candidate
from shared.core.disruption.price_rule import PriceRule
from shared.core.disruption.simulation import World
from shared.core.resources import Resources


class Screen:
    """Necessary conditions, from the snapshot as it is at the start of the pass."""

    def __init__(self, world: World, rule: PriceRule) -> None:
        self._snapshot = world.snapshot
        self._free = {node.claim_id: node.allocatable - node.used for node in world.snapshot.nodes if not node.deleting}
        prices = [price for key, price in rule.prices.items()]
        self._prices = sorted(set(prices))
        self._reserved_free = any(reservation.free_units > 0 for reservation in world.snapshot.reservations)

    def refusal(self, candidate: Candidate) -> str | None:
        """Say why the node cannot be improved on, or None when a simulation is worth it.

        An improvement either launches something cheaper than the node, which a free reserved unit or a cheaper offering
        must allow, or launches nothing, and then every replica fits onto some node that stays.
        """
        if self._something_cheaper(candidate) or self._each_replica_fits_elsewhere(candidate):
            return None
        return "nothing is cheaper and no node that stays has room"

    def _something_cheaper(self, candidate: Candidate) -> bool:
        return self._reserved_free or bisect_left(self._prices, candidate.price) > 0

    def _each_replica_fits_elsewhere(self, candidate: Candidate) -> bool:
        workloads = self._snapshot.workloads
        return all(
            self._fits_elsewhere(workloads[placed.workload_key].requests, candidate)
            for placed in candidate.claim.placements
            if placed.workload_key in workloads
        )

    def _fits_elsewhere(self, requests: Resources, candidate: Candidate) -> bool:
        return any(requests.fits_in(free) for claim_id, free in self._free.items() if claim_id != candidate.id)
