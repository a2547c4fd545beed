"""When a simulated replacement is worth it (R-174 to R-184), and what may still be launched so that it stays so."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Final

from reservoir.core.disruption.candidate import Candidate
from reservoir.core.disruption.command import launch_cost
from reservoir.core.disruption.saving.balanced import PoolTotals, approves
from reservoir.core.disruption.saving.command_parts import CommandPart, parts_of
from reservoir.core.disruption.saving.cost import ONE, node_cost
from reservoir.core.disruption.saving.node_prices import NodePrices
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_pool import ConsolidationPolicy, min_values
from reservoir.core.model.plan import OfferingKey, Plan, PlannedNodes
from reservoir.core.model.snapshot import PlacedReplicas, Snapshot
from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.labels import CAPACITY_TYPE, ZONE, ZONE_ID
from reservoir.core.scheduling_terms.resources import Resources

# Moving from one spot pool to a cheaper one is worth an interruption only if enough cheaper types are open to the
# launch; otherwise nodes would chase the cheapest pool, which is also the most likely to be reclaimed.
SPOT_TO_SPOT_TYPES_MIN: Final = 15


@dataclass(frozen=True, slots=True)
class Judgement:
    """A command's plan, with the alternatives that still save money, and the nodes that may not end, with reasons."""

    plan: Plan
    refusals: Mapping[str, str]  # by claim


@dataclass(frozen=True, slots=True)
class PriceRule:
    """Prices of spot and on-demand offerings, pool totals for the Balanced policy, and minValues of the pools.

    ``idle``: prices of the reserved nodes that are empty, by claim. Such a node is a unit that would go back to its
    reservation, so work that moves onto it pays for it as for a free unit.
    """

    prices: Mapping[OfferingKey, int]  # atto-USD an hour
    totals: Mapping[str, PoolTotals]
    # of pools with minValues: how many distinct values of which label
    min_values: Mapping[str, Mapping[str, int]]
    type_labels: Mapping[str, Mapping[str, str]]
    idle: Mapping[str, int]  # atto-USD an hour
    workloads: Mapping[str, Workload]
    spot_to_spot: bool = False  # whether spot may replace spot at all

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        prices: NodePrices,
        totals: Mapping[str, PoolTotals],
        *,
        spot_to_spot: bool = False,
    ) -> "PriceRule":
        """Read what pools ask for and how types are labelled."""
        wanted = {pool.name: min_values(pool) for pool in snapshot.node_pools}
        type_labels = {
            instance_type.name: instance_type.requirements.labels()
            for instance_type in snapshot.instance_types
        }
        asked = {name: least for name, least in wanted.items() if least}
        idle = {
            node.claim_id: prices.reserved.get(
                node.instance_type, node.price_atto_usd_per_hour
            )
            for node in snapshot.nodes
            if node.capacity_type is CapacityType.RESERVED
            and node_cost(node.placements, snapshot.workloads) <= ONE
        }
        return cls(
            prices.bought,
            totals,
            asked,
            type_labels,
            idle,
            snapshot.workloads,
            spot_to_spot,
        )

    def hopeless(self, candidate: Candidate) -> str | None:
        """Say why not even removing the node for nothing in return would be worth it, or None (R-194)."""
        return self._balanced_refusal((candidate,), candidate.price, candidate.price)

    def judged(self, removed: tuple[Candidate, ...], plan: Plan) -> Judgement:
        """Judge each part of a command like a command of its own: what one gains pays for no other."""
        parts = parts_of(removed, plan, self.idle)
        capped = self._capped(parts, plan)
        launched = frozenset(nodes.offering for nodes in plan.launches)
        refusals: dict[str, str] = {}
        for part in parts:
            refusals |= self._refusals(part, launched) or self._inflexible(
                part, plan, capped
            )
        return Judgement(capped, refusals)

    # Branches: one question after the other, each with its own words.
    def _refusals(self, part: CommandPart, launched: Set[OfferingKey]) -> dict[str, str]:
        """Return the reasons why nodes of this part may not end: of those that could as well stay, or else of all."""
        alike = [
            candidate for candidate in part.removed if _offering_of(candidate) in launched
        ]
        reason = self._loss(part)
        if alike:
            again = (
                f"a node like it ({alike[0].node.instance_type}) would be launched again"
            )
            return dict.fromkeys((candidate.id for candidate in alike), reason or again)
        if spared := self._spared(part):
            return dict.fromkeys(
                spared,
                reason or "it could hold the replicas of a planned node that is no cheaper",
            )
        if reason is None and (refused := self._spot_to_spot_refusals(part)):
            return refused
        reason = reason or self._balanced_refusal(
            part.removed, _price(part.removed), self._saving(part)
        )
        if reason is None:
            return {}
        return dict.fromkeys((candidate.id for candidate in part.removed), reason)

    def _spared(self, part: CommandPart) -> frozenset[str]:
        """Return nodes that could do what others that are no cheaper are to do: for each of these, the busiest one."""
        spared: set[str] = set()
        for launch in part.plan.launches:
            for _ in range(launch.count):
                spared |= self._spared_by(
                    part, launch.price_atto_usd_per_hour, launch.placements, spared
                )
        for kept in part.plan.existing:
            spared |= self._spared_by(
                part, self.idle[kept.claim_id], kept.placements, spared
            )
        return frozenset(spared)

    def _spared_by(
        self,
        part: CommandPart,
        price: int,
        placements: Iterable[PlacedReplicas],
        spared: Set[str],
    ) -> frozenset[str]:
        """Return the busiest node that could hold this for no more money, if one is left."""
        requests = (
            self.workloads[it.workload_key].requests * it.count for it in placements
        )
        needed = sum(requests, start=Resources.of({}))
        able = [
            (candidate.disruption_cost, candidate.id)
            for candidate in part.removed
            if candidate.price <= price
            and candidate.id not in spared
            and needed.fits_in(candidate.node.allocatable)
        ]
        return frozenset([max(able)[1]]) if able else frozenset()

    def _loss(self, part: CommandPart) -> str | None:
        """Say why the part does not make the fleet cheaper without more nodes, or None."""
        if self._saving(part) <= 0:
            return "nothing cheaper would hold its replicas"
        bought = nodes_bought(part.plan)
        if bought > len(part.removed):
            return f"{bought} nodes would have to be bought for it"
        return None

    def _saving(self, part: CommandPart) -> int:
        return _price(part.removed) - self._cost(part.plan)

    def _cost(self, plan: Plan) -> int:
        """Return the hourly cost of the plan's launches, and of units that it keeps and that would be given back."""
        return launch_cost(plan) + sum(
            self.idle.get(placement.claim_id, 0) for placement in plan.existing
        )

    def no_cheaper_idle(self, removed: tuple[Candidate, ...]) -> frozenset[str]:
        """Return the empty reserved nodes that cost as much as each of these: moving onto them saves nothing."""
        dearest = max(candidate.price for candidate in removed)
        return frozenset(
            claim_id for claim_id, price in self.idle.items() if price >= dearest
        )

    def occupied(self, claim_ids: Set[str]) -> "PriceRule":
        """Return the rule once replicas are on their way to these nodes."""
        if self.idle.keys().isdisjoint(claim_ids):
            return self
        return replace(
            self,
            idle={key: price for key, price in self.idle.items() if key not in claim_ids},
        )

    # Branches: one question after the other, each with its own words.
    def _spot_to_spot_refusals(self, part: CommandPart) -> dict[str, str]:
        """Karpenter's gate, and once it is open, a choice that makes the next interruption unlikely (R-181).

        A spot node may become one with on-demand nodes, which makes them fewer, whether or not the gate is open.
        """
        spot = [
            candidate
            for candidate in part.removed
            if candidate.node.capacity_type is CapacityType.SPOT
        ]
        launched = [
            nodes
            for nodes in part.plan.launches
            if nodes.offering.capacity_type is CapacityType.SPOT
        ]
        fewer = sum(nodes.count for nodes in part.plan.launches) < len(part.removed)
        mixed = len(spot) < len(part.removed)
        if not spot or not launched or (mixed and fewer):
            return {}
        if not self.spot_to_spot:
            reason = (
                "spot nodes are not replaced by spot nodes (spotToSpotConsolidation is off)"
            )
            return dict.fromkeys((candidate.id for candidate in spot), reason)
        if mixed or fewer:
            return {}  # fewer nodes or another market, not only a cheaper pool
        price = _price(part.removed)
        for nodes in launched:
            cheaper = {
                key.instance_type
                for key in (nodes.offering, *nodes.alternatives)
                if key.capacity_type is CapacityType.SPOT
                and self.prices.get(key, price) < price
            }
            if len(cheaper) < SPOT_TO_SPOT_TYPES_MIN:
                reason = f"spot to spot requires {SPOT_TO_SPOT_TYPES_MIN} cheaper types, got {len(cheaper)}"
                return dict.fromkeys((candidate.id for candidate in spot), reason)
        return {}

    def _balanced_refusal(
        self, removed: tuple[Candidate, ...], price: int, savings: int
    ) -> str | None:
        """Split the savings over the source pools by their price; every Balanced pool must approve (R-192)."""
        shares: dict[str, list[Candidate]] = {}
        for candidate in removed:
            if (
                candidate.pool.disruption.consolidation_policy
                is ConsolidationPolicy.BALANCED
            ):
                shares.setdefault(candidate.pool.name, []).append(candidate)
        for name, candidates in sorted(shares.items()):
            share = (
                savings * sum(candidate.price for candidate in candidates) // max(1, price)
            )
            disruption = sum(candidate.disruption_cost for candidate in candidates)
            if not approves(self.totals[name], share, disruption):
                return (
                    f"NodePool {name} is Balanced: the saving is not worth the disruption"
                )
        return None

    def _capped(self, parts: Iterable[CommandPart], plan: Plan) -> Plan:
        """Drop alternatives by which a replacement could cost as much as what it replaces (R-26: worst launch price).

        The saving of a part, less one, is split evenly over the nodes to launch for it: even if each of them ends up at
        its ceiling, something is saved. When spot replaces spot, only the cheapest types stay (R-181); otherwise the
        next pass would find the node among more expensive ones and move it again.
        """
        launches = list(plan.launches)
        for part in parts:
            node_count = sum(nodes.count for nodes in part.plan.launches)
            slack = max(0, self._saving(part) - 1) // max(1, node_count)
            of_spot = (
                len(part.removed) == 1
                and part.removed[0].node.capacity_type is CapacityType.SPOT
            )
            # nodes alike may be of several parts: each has its say
            for position in part.launches:
                nodes = self._capped_nodes(launches[position], slack)
                launches[position] = self._cheapest_types(nodes) if of_spot else nodes
        return replace(plan, launches=tuple(launches))

    def _capped_nodes(self, nodes: PlannedNodes, slack: int) -> PlannedNodes:
        ceiling = nodes.price_atto_usd_per_hour + slack
        spot_only = nodes.offering.capacity_type is CapacityType.SPOT
        kept = tuple(
            key
            for key in nodes.alternatives
            if self.prices.get(key, ceiling + 1) <= ceiling
            # a claim that may be spot is not allowed to fall back to on-demand, which could cost more
            and not (spot_only and key.capacity_type is CapacityType.ON_DEMAND)
        )
        return replace(nodes, alternatives=kept)

    def _cheapest_types(self, nodes: PlannedNodes) -> PlannedNodes:
        most = max(
            (
                SPOT_TO_SPOT_TYPES_MIN,
                *self.min_values.get(nodes.node_pool_name, {}).values(),
            )
        )
        names = dict.fromkeys(
            key.instance_type for key in (nodes.offering, *nodes.alternatives)
        )
        kept = set(list(names)[:most])
        return replace(
            nodes,
            alternatives=tuple(
                key for key in nodes.alternatives if key.instance_type in kept
            ),
        )

    def _inflexible(self, part: CommandPart, plan: Plan, capped: Plan) -> dict[str, str]:
        """Say of the part's nodes which pool's minValues the dropped alternatives were needed for (R-174)."""
        for position in sorted(part.launches):
            before, after = plan.launches[position], capped.launches[position]
            for key, least in self.min_values.get(before.node_pool_name, {}).items():
                if self._distinct(before, key) >= least > self._distinct(after, key):
                    reason = f"minValues of NodePool {before.node_pool_name} leave too few cheaper offerings ({key})"
                    return dict.fromkeys(
                        (candidate.id for candidate in part.removed), reason
                    )
        return {}

    def _distinct(self, nodes: PlannedNodes, key: str) -> int:
        found = {
            self._label(offering, key) for offering in (nodes.offering, *nodes.alternatives)
        }
        return len(found - {None})

    def _label(self, offering: OfferingKey, key: str) -> str | None:
        own = {
            ZONE: offering.zone,
            ZONE_ID: offering.zone_id,
            CAPACITY_TYPE: offering.capacity_type.value,
        }
        return own.get(key) or self.type_labels[offering.instance_type].get(key)


def nodes_bought(plan: Plan) -> int:
    """Count the nodes that a plan buys; free reserved units are none of these."""
    return sum(
        nodes.count for nodes in plan.launches if nodes.offering.reservation_id is None
    )


def _price(removed: Iterable[Candidate]) -> int:
    return sum(candidate.price for candidate in removed)


def _offering_of(candidate: Candidate) -> OfferingKey:
    node = candidate.node
    return OfferingKey(
        node.instance_type, node.zone, node.zone_id, node.capacity_type, node.reservation_id
    )
