"""Fleets for disruption: nodes with their claims, and passes that are applied until nothing changes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from lab.fakes import values
from reservoir.core.capacity.offerings import ReservedPrices, reservation_labels
from reservoir.core.disruption.command import DisruptionCommand, DisruptionDecision
from reservoir.core.disruption.decide import DisruptionInput, decide_disruption
from reservoir.core.disruption.effort import EFFORT_A_PASS
from reservoir.core.disruption.simulation import merged_placements
from reservoir.core.launching.claim_nodes import node_of
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.node_class import NodeClass, NodeClassStatus
from reservoir.core.model.node_pool import DisruptionReason, NodePool
from reservoir.core.model.plan import OfferingKey
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import PlacedReplicas, Snapshot
from reservoir.core.model.workload import Demand, Workload
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.core.scheduling_terms.resources import Resources

NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
RESERVED, SPOT, ON_DEMAND = CapacityType.RESERVED, CapacityType.SPOT, CapacityType.ON_DEMAND
GIB = 2**30
CLASS = "default"
ALL_OF_THEM = 1_000_000


def instance_type(
    name: str, cpus: int, *, on_demand: int | None, spot: int | None = None
) -> InstanceType:
    """A type with 4 GiB per vCPU, in zone-1; prices in micro-USD an hour, None where it is not sold."""
    prices = {
        market: price
        for market, price in ((ON_DEMAND, on_demand), (SPOT, spot))
        if price is not None
    }
    return values.instance_type(
        name, cpus, 4 * cpus, values.sold(prices, [("zone-1", "z1")])
    )


SMALL = instance_type("small", 2, on_demand=100_000, spot=40_000)
LARGE = instance_type("large", 8, on_demand=400_000, spot=160_000)


def short(kind: InstanceType) -> InstanceType:
    """The type without capacity for new nodes; what runs on it goes on, at its price."""
    resting = (
        replace(it, unavailable_until=NOW + timedelta(minutes=3)) for it in kind.offerings
    )
    return replace(kind, offerings=tuple(resting))


def node_pool(name: str = "default", *markets: CapacityType, **changes: Any) -> NodePool:
    wanted = (values.one_of(labels.CAPACITY_TYPE, *markets),) if markets else ()
    return values.node_pool(
        name, *wanted, **{"labels": {labels.NODE_POOL: name}, **changes}
    )


def workload(name: str, cpus: int, **changes: Any) -> Workload:
    requests = Resources.of({"cpu": cpus * 1000, "memory": cpus * GIB})
    return values.workload(
        name, **{"namespace": "default", "replicas": 1, "requests": requests, **changes}
    )


def reservation(
    identity: str, type_name: str, total: int, free: int, **changes: Any
) -> CapacityReservation:
    about = {"instance_type": type_name, "zone": "zone-1", "zone_id": "z1"}
    return values.reservation(identity, total, free, **{**about, **changes})


def refusal(decision: DisruptionDecision, claim_id: str) -> str:
    return next(
        refusal.reason for refusal in decision.refusals if refusal.claim_id == claim_id
    )


@dataclass
class Fleet:
    """A world to disrupt. ``launches`` counts instances started since the beginning, ``removals`` those ended."""

    types: Sequence[InstanceType] = (SMALL, LARGE)
    pools: Sequence[NodePool] = (node_pool(),)
    workloads: Mapping[str, Workload] = field(default_factory=dict)
    reservations: tuple[CapacityReservation, ...] = ()
    selected: tuple[str, ...] | None = None
    claims: dict[str, NodeClaim] = field(default_factory=dict)
    budget: int = ALL_OF_THEM
    # of pools for which it is another one
    budget_of: Mapping[str, int] = field(default_factory=dict)
    # likewise, of reasons in any pool
    budget_for: Mapping[DisruptionReason, int] = field(default_factory=dict)
    effort: int = EFFORT_A_PASS
    spot_to_spot: bool = True
    now: datetime = NOW
    launches: int = 0
    removals: list[str] = field(default_factory=list)
    policy: SchedulingPolicy = field(default_factory=SchedulingPolicy)
    # since when nodes wait for their turn
    waiting: dict[str, datetime] = field(default_factory=dict)
    # leases of units on their way into resource groups
    splitting: tuple[NodeClaim, ...] = ()

    def add_node(
        self,
        claim_id: str,
        type_name: str,
        market: CapacityType,
        placements: Mapping[str, int],
        *,
        reservation_id: str | None = None,
        **changes: Any,
    ) -> NodeClaim:
        kind = next(kind for kind in self.types if kind.name == type_name)
        node_labels = {
            labels.NODE_POOL: "default",
            labels.INSTANCE_TYPE: type_name,
            labels.ARCH: "amd64",
            labels.OS: "linux",
            labels.ZONE: "zone-1",
            labels.ZONE_ID: "z1",
            labels.CAPACITY_TYPE: market.value,
        }
        if reservation_id is not None:
            node_labels |= reservation_labels(self.reservation(reservation_id))
        claim = values.node_claim(
            claim_id,
            state=ClaimState.RUNNING,
            node_pool_name="default",
            offering=OfferingKey(type_name, "zone-1", "z1", market, reservation_id),
            price_atto_usd_per_hour=self.price(kind, market),
            placements=tuple(
                PlacedReplicas(key, count) for key, count in sorted(placements.items())
            ),
            allocatable=kind.allocatable,
            created_at=self.now - timedelta(days=1),
            running_at=self.now - timedelta(days=1),
            labels=node_labels,
        )
        self.claims[claim_id] = replace(claim, **changes)
        return self.claims[claim_id]

    def reservation(self, identity: str) -> CapacityReservation:
        return next(it for it in self.reservations if it.id == identity)

    def price(self, kind: InstanceType, market: CapacityType) -> int:
        if market is RESERVED:
            return ReservedPrices.of(self.types).atto_usd_per_hour(kind)
        prices = [
            it.price_micro_usd_per_hour
            for it in kind.offerings
            if it.capacity_type is market
        ]
        return prices[0] * ATTO_USD_PER_MICRO_USD

    def snapshot(self) -> Snapshot:
        selected = (
            self.selected
            if self.selected is not None
            else tuple(it.id for it in self.reservations)
        )
        return Snapshot(
            instance_types=tuple(self.types),
            reservations=self.reservations,
            node_pools=tuple(self.pools),
            node_classes=(
                NodeClass(
                    CLASS, status=NodeClassStatus(reservation_ids=tuple(sorted(selected)))
                ),
            ),
            nodes=tuple(
                node_of(claim, self.workloads) for _, claim in sorted(self.claims.items())
            ),
            workloads=self.workloads,
        )

    def decide(self, demands: tuple[Demand, ...] = ()) -> DisruptionDecision:
        names = {pool.name for pool in self.pools} | {
            claim.node_pool_name for claim in self.claims.values()
        }
        allowed = {
            (name, reason): self.budget_for.get(
                reason, self.budget_of.get(name, self.budget)
            )
            for name in names
            for reason in DisruptionReason
        }
        snapshot = replace(self.snapshot(), demands=demands)
        given = DisruptionInput(
            snapshot,
            self.claims,
            allowed,
            self.spot_to_spot,
            waiting=self.waiting,
            splitting=self.splitting,
        )
        ask = partial(solve, now=self.now, policy=self.policy)
        return decide_disruption(given, ask, now=self.now, effort=self.effort)

    def cost(self) -> int:
        """What the fleet costs, in atto-USD an hour."""
        return sum(claim.price_atto_usd_per_hour for claim in self.claims.values())

    def apply(self, decision: DisruptionDecision) -> None:
        """Do what the decision says; the replicas go where the scheduler puts them."""
        for command in decision.commands:
            self._apply(command)

    def _apply(self, command: DisruptionCommand) -> None:
        gone = [self.claims.pop(claim_id) for claim_id in command.claim_ids]
        self.removals.extend(command.claim_ids)
        if command.terminate_first:
            self._free(gone)
        homeless = [placed for claim in gone for placed in claim.placements]
        for planned in command.replacements:
            for _ in range(planned.count):
                self.launches += 1
                self._launch(planned.offering, planned.placements)
                homeless = _less(homeless, planned.placements)
        self._place(homeless)
        if not command.terminate_first:
            self._free(gone)

    def _launch(self, offering: OfferingKey, placements: Iterable[PlacedReplicas]) -> None:
        self.add_node(
            f"n-{self.launches:04d}",
            offering.instance_type,
            offering.capacity_type,
            {placed.workload_key: placed.count for placed in placements},
            reservation_id=offering.reservation_id,
        )
        self._change_free(offering.reservation_id, -1)

    def _free(self, claims: Iterable[NodeClaim]) -> None:
        for claim in claims:
            self._change_free(claim.offering.reservation_id, +1)

    def _change_free(self, reservation_id: str | None, change: int) -> None:
        self.reservations = tuple(
            replace(
                it,
                free_units=it.free_units + change,
                available_count=it.available_count + change,
            )
            if it.id == reservation_id
            else it
            for it in self.reservations
        )
        assert all(0 <= it.free_units <= it.total_count for it in self.reservations), (
            "a reservation is over-committed"
        )

    def _place(self, homeless: Iterable[PlacedReplicas]) -> None:
        """Let the provisioner place replicas that are demand again."""
        waiting = tuple(
            Demand(self.workloads[it.workload_key], it.count, self.now) for it in homeless
        )
        plan = solve(
            replace(self.snapshot(), demands=waiting), now=self.now, policy=self.policy
        )
        assert not plan.unplaced, (
            f"a decision left replicas without a place: {plan.unplaced}"
        )
        for placement in plan.existing:
            claim = self.claims[placement.claim_id]
            placements = merged_placements((*claim.placements, *placement.placements))
            self.claims[claim.id] = replace(claim, placements=placements)
        for planned in plan.launches:
            for _ in range(planned.count):
                self.launches += 1
                self._launch(planned.offering, planned.placements)


def _less(
    homeless: list[PlacedReplicas], placed: Iterable[PlacedReplicas]
) -> list[PlacedReplicas]:
    counts: dict[str, int] = {}
    for it in homeless:
        counts[it.workload_key] = counts.get(it.workload_key, 0) + it.count
    for it in placed:
        counts[it.workload_key] -= it.count
    return [
        PlacedReplicas(key, count) for key, count in sorted(counts.items()) if count > 0
    ]
