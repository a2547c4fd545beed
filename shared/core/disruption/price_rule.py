"""When a simulated replacement is worth it (R-174 to R-184), and what may still be launched so that it stays so."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from shared.core.disruption.balanced import PoolTotals, approves
from shared.core.disruption.candidate import Candidate
from shared.core.disruption.command import launch_cost
from shared.core.instance_type import CapacityType
from shared.core.money import ATTO_USD_PER_MICRO_USD
from shared.core.node_pool import ConsolidationPolicy
from shared.core.plan import OfferingKey, Plan, PlannedNodes
from shared.core.snapshot import Snapshot

# Moving from one spot pool to a cheaper one is worth an interruption only if enough cheaper types are open to the
# launch; otherwise nodes would chase the cheapest pool, which is also the most likely to be reclaimed.
SPOT_TO_SPOT_TYPES_MIN: Final = 15


@dataclass(frozen=True, slots=True)
class PriceRule:
    """Prices of spot and on-demand offerings, and pool totals for the Balanced policy."""

    prices: Mapping[OfferingKey, int]  # atto-USD an hour
    totals: Mapping[str, PoolTotals]

    @classmethod
    def of(cls, snapshot: Snapshot, totals: Mapping[str, PoolTotals]) -> "PriceRule":
        """Read the catalogue's prices."""
        prices = {
            OfferingKey(kind.name, offering.zone, offering.zone_id, offering.capacity_type): (
                offering.price_micro_usd_per_hour * ATTO_USD_PER_MICRO_USD
            )
            for kind in snapshot.instance_types
            for offering in kind.offerings
        }
        return cls(prices, totals)

    def refusal(self, removed: tuple[Candidate, ...], plan: Plan) -> str | None:
        """Say why the plan is no improvement on the removed nodes, or None when it is one."""
        price = sum(candidate.price for candidate in removed)
        savings = price - launch_cost(plan)
        if savings <= 0:
            return "nothing cheaper would hold its replicas"
        washed = {_offering_of(candidate) for candidate in removed} & {nodes.offering for nodes in plan.launches}
        if washed:
            return f"a node like it ({min(key.instance_type for key in washed)}) would be launched again"
        if plan.launches and all(candidate.node.capacity_type is CapacityType.SPOT for candidate in removed):
            refusal = self._spot_to_spot_refusal(price, plan)
            if refusal is not None:
                return refusal
        return self._balanced_refusal(removed, price, savings)

    def _spot_to_spot_refusal(self, price: int, plan: Plan) -> str | None:
        for nodes in plan.launches:
            if nodes.offering.capacity_type is not CapacityType.SPOT:
                continue
            cheaper = {
                key.instance_type
                for key in (nodes.offering, *nodes.alternatives)
                if key.capacity_type is CapacityType.SPOT and self.prices.get(key, price) < price
            }
            if len(cheaper) < SPOT_TO_SPOT_TYPES_MIN:
                return f"spot to spot requires {SPOT_TO_SPOT_TYPES_MIN} cheaper types, got {len(cheaper)}"
        return None

    def _balanced_refusal(self, removed: tuple[Candidate, ...], price: int, savings: int) -> str | None:
        """Split the savings over the source pools by their price; every Balanced pool must approve (R-192)."""
        shares: dict[str, list[Candidate]] = {}
        for candidate in removed:
            if candidate.pool.disruption.consolidation_policy is ConsolidationPolicy.BALANCED:
                shares.setdefault(candidate.pool.name, []).append(candidate)
        for name, candidates in sorted(shares.items()):
            share = savings * sum(candidate.price for candidate in candidates) // max(1, price)
            disruption = sum(candidate.disruption_cost for candidate in candidates)
            if not approves(self.totals[name], share, disruption):
                return f"NodePool {name} is Balanced: the saving is not worth the disruption"
        return None

    def capped(self, removed: tuple[Candidate, ...], plan: Plan) -> Plan:
        """Drop alternatives that could make the replacement as dear as what it replaces (R-26: worst launch price).

        The saving, less one, is split evenly over the nodes to launch: even if each of them ends up at its ceiling,
        something is saved.
        """
        saving = sum(candidate.price for candidate in removed) - launch_cost(plan)
        node_count = sum(nodes.count for nodes in plan.launches)
        slack = max(0, saving - 1) // max(1, node_count)
        return replace(plan, launches=tuple(self._capped_nodes(nodes, slack) for nodes in plan.launches))

    def _capped_nodes(self, nodes: PlannedNodes, slack: int) -> PlannedNodes:
        ceiling = nodes.price_atto_usd_per_hour + slack
        spot_only = nodes.offering.capacity_type is CapacityType.SPOT
        kept = tuple(
            key
            for key in nodes.alternatives
            if self.prices.get(key, ceiling + 1) <= ceiling
            # a claim that may be spot is not allowed to fall back to on-demand, which could be dearer
            and not (spot_only and key.capacity_type is CapacityType.ON_DEMAND)
        )
        return replace(nodes, alternatives=kept)


def _offering_of(candidate: Candidate) -> OfferingKey:
    node = candidate.node
    return OfferingKey(node.instance_type, node.zone, node.zone_id, node.capacity_type, node.reservation_id)
