"""A fleet under disruption: running claims that passes of disruption are decided for and applied to."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from lab.bench.worlds.common import NODE_CLASS, NOW
from reservoir.core.capacity.offerings import reservation_labels
from reservoir.core.disruption.command import DisruptionCommand, DisruptionDecision
from reservoir.core.disruption.decide import DisruptionInput
from reservoir.core.launching.claim_nodes import node_of
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.instance_type import InstanceType
from reservoir.core.model.node_claim import ClaimState, NodeClaim
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.node_pool import DisruptionReason, NodePool
from reservoir.core.model.plan import OfferingKey, PlannedNodes
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import PlacedReplicas, Snapshot
from reservoir.core.model.workload import Demand, Workload
from reservoir.core.scheduler import solve
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.resources import Resources


@dataclass
class Fleet:
    """Claims by id and the rest of the world. Counted since the beginning: instances, and replicas that had to move."""

    types: Sequence[InstanceType]
    pool: NodePool
    node_class: NodeClass
    workloads: Mapping[str, Workload]
    reservations: tuple[CapacityReservation, ...] = ()
    claims: dict[str, NodeClaim] = field(default_factory=dict)
    now: datetime = NOW
    started: int = 0
    ended: int = 0
    moved: int = 0

    def add(
        self,
        name: str,
        offering: OfferingKey,
        price: int,
        allocatable: Resources,
        placed: Mapping[str, int],
    ) -> None:
        """Add a running node."""
        kind = next(kind for kind in self.types if kind.name == offering.instance_type)
        own = {
            labels.NODE_POOL: self.pool.name,
            labels.ZONE: offering.zone,
            labels.ZONE_ID: offering.zone_id,
            labels.CAPACITY_TYPE: offering.capacity_type.value,
        }
        if offering.reservation_id is not None:
            own |= reservation_labels(
                next(it for it in self.reservations if it.id == offering.reservation_id)
            )
        self.claims[name] = NodeClaim(
            id=name,
            state=ClaimState.RUNNING,
            revision=1,
            node_pool_name=self.pool.name,
            node_class_name=NODE_CLASS,
            batch_id="b",
            attempt=0,
            offering=offering,
            price_atto_usd_per_hour=price,
            placements=tuple(
                PlacedReplicas(key, count) for key, count in sorted(placed.items()) if count
            ),
            allocatable=allocatable,
            created_at=self.now - timedelta(days=1),
            running_at=self.now - timedelta(days=1),
            labels={**kind.requirements.labels(), **own},
        )

    def snapshot(self, demands: tuple[Demand, ...] = ()) -> Snapshot:
        """Return the world as the scheduler sees it."""
        return Snapshot(
            instance_types=tuple(self.types),
            reservations=self.reservations,
            node_pools=(self.pool,),
            node_classes=(self.node_class,),
            nodes=tuple(
                node_of(claim, self.workloads) for _, claim in sorted(self.claims.items())
            ),
            demands=demands,
            workloads=self.workloads,
        )

    def given(self) -> DisruptionInput:
        """Return the input of a pass, with budgets of 100 %."""
        allowed = {
            (self.pool.name, reason): len(self.claims) for reason in DisruptionReason
        }
        return DisruptionInput(self.snapshot(), self.claims, allowed)

    def cost(self) -> int:
        """Return what the nodes cost, in atto-USD an hour."""
        return sum(claim.price_atto_usd_per_hour for claim in self.claims.values())

    def replicas(self) -> Counter[str]:
        """Count the replicas that run, by workload."""
        counts: Counter[str] = Counter()
        for claim in self.claims.values():
            for placed in claim.placements:
                counts[placed.workload_key] += placed.count
        return counts

    def apply(self, decision: DisruptionDecision, policy: SchedulingPolicy) -> None:
        """Launch the replacements, end the nodes, and let the scheduler place their replicas, as it would."""
        homeless: Counter[str] = Counter()
        for command in decision.commands:
            homeless.update(self._begin(command))
        self.moved += homeless.total()
        for command in decision.commands:
            for planned in command.replacements:
                for placed in planned.placements:
                    homeless[placed.workload_key] -= placed.count * planned.count
        demands = tuple(
            Demand(self.workloads[key], count, self.now)
            for key, count in sorted(homeless.items())
            if count
        )
        plan = solve(self.snapshot(demands), now=self.now, policy=policy)
        assert not plan.unplaced, "a decision left replicas without a place"
        for placement in plan.existing:
            claim = self.claims[placement.claim_id]
            counts = Counter(
                {placed.workload_key: placed.count for placed in claim.placements}
            )
            for placed in placement.placements:
                counts[placed.workload_key] += placed.count
            placements = tuple(
                PlacedReplicas(key, count) for key, count in sorted(counts.items())
            )
            self.claims[claim.id] = replace(claim, placements=placements)
        self._launch(plan.launches)
        self.now += timedelta(minutes=1)

    def _begin(self, command: DisruptionCommand) -> Counter[str]:
        self._launch(command.replacements)
        homeless: Counter[str] = Counter()
        for claim_id in command.claim_ids:
            claim = self.claims.pop(claim_id)
            self.ended += 1
            self._change_free(claim.offering.reservation_id, +1)
            for placed in claim.placements:
                homeless[placed.workload_key] += placed.count
        return homeless

    def _launch(self, launches: Iterable[PlannedNodes]) -> None:
        sizes = {kind.name: kind.allocatable for kind in self.types}
        for planned in launches:
            for _ in range(planned.count):
                self.started += 1
                placed = {
                    placed.workload_key: placed.count for placed in planned.placements
                }
                size = sizes[planned.offering.instance_type]
                self.add(
                    f"new-{self.started:05d}",
                    planned.offering,
                    planned.price_atto_usd_per_hour,
                    size,
                    placed,
                )
            self._change_free(planned.offering.reservation_id, -planned.count)

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
