"""A small world for launches and the life of nodes: two zones, four instance types, one pool, one class."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from lab.fakes.discovery import MemoryNetwork
from lab.fakes.ec2 import FakeDryRuns, FakeEc2, FakeTemplates
from lab.fakes.effects import Effects
from lab.fakes.messaging import MemoryBus, MemoryQueue, MemoryTimers
from lab.fakes.outside import memory_outside, settings
from lab.fakes.stores.capacity_blocks import MemoryBlocks, MemoryBootFailures
from lab.fakes.stores.demand_census import MemoryDemandCensus
from lab.fakes.stores.launches import (
    MemoryLaunchAttempts,
    MemoryPolicy,
)
from lab.fakes.stores.safety import MemoryTableMarks, MemoryTallies
from lab.fakes.stores.state import MemoryState
from lab.fakes.system import ManualClock
from lab.fakes.values import instance_type, node_claim, reservation, sold, workload_record
from reservoir.core.model.capacity_reservation import CapacityReservation, ReservationKind
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_claim import DrainReason, NodeClaim
from reservoir.core.model.node_class import MachineImage, NodeClass, NodeClassStatus, Subnet
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.plan import OfferingKey
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.node_life.drain import InstanceStatusPolicy, RebalancePolicy
from reservoir.core.safety.endings import Bounds
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.ports.messaging import LaunchBatch
from reservoir.ports.state import PlannedCommit, WorkloadRecord
from reservoir.runtime.composition.collect import collect_from
from reservoir.runtime.composition.expire import expire_from
from reservoir.runtime.composition.follow import follow_replicas_from
from reservoir.runtime.composition.launch import launch_from, validate_class_from
from reservoir.runtime.composition.parts.draining import draining_from
from reservoir.runtime.composition.parts.node_life import node_life_from
from reservoir.runtime.composition.parts.safety import envelope_from
from reservoir.runtime.composition.react import react_from
from reservoir.runtime.outside import Outside
from reservoir.usecases.discovery.freed_units import FreedUnits
from reservoir.usecases.draining.draining import Draining, DrainRequest
from reservoir.usecases.launching.launch import Launch
from reservoir.usecases.launching.validate_class import ValidateClass
from reservoir.usecases.node_life.collect import Collect
from reservoir.usecases.node_life.expire import Expire
from reservoir.usecases.node_life.follow_replicas import FollowReplicas
from reservoir.usecases.node_life.node_life import NodeLife
from reservoir.usecases.node_life.react import React
from reservoir.usecases.safety.envelope import Envelope
from reservoir.usecases.safety.tables import OwnTables

ZONES = (("us-east-1a", "use1-az1"), ("us-east-1b", "use1-az2"))
PRICES = {
    "m5.large": 96_000,
    "m5.xlarge": 192_000,
    "m6g.large": 77_000,
    "p5.48xlarge": 98_320_000,
}
DEPLOYMENT = "test"


def launchable(
    name: str, price: int, *, gpus: int = 0, arch: str = "amd64"
) -> InstanceType:
    """A large type in two zones; spot costs a third. Prices in micro-USD an hour."""
    prices = {CapacityType.ON_DEMAND: price, CapacityType.SPOT: price // 3}
    found = instance_type(
        name, 192, 2048, sold(prices, ZONES), extra={"nvidia.com/gpu": gpus} if gpus else {}
    )
    known = {labels.ARCH: arch, labels.INSTANCE_FAMILY: name.partition(".")[0]}
    return replace(
        found,
        requirements=Requirements(
            {**found.requirements, **Requirements.from_labels(known)}
        ),
    )


CATALOGUE = (
    launchable("m5.large", PRICES["m5.large"]),
    launchable("m5.xlarge", PRICES["m5.xlarge"]),
    launchable("m6g.large", PRICES["m6g.large"], arch="arm64"),
    launchable("p5.48xlarge", PRICES["p5.48xlarge"], gpus=8),
)


def node_class(name: str = "default", **changes: Any) -> NodeClass:
    status = NodeClassStatus(
        reservation_ids=("cr-1", "cr-block", "cr-int"),
        subnets=(
            Subnet("subnet-a", *ZONES[0], 2000),
            Subnet("subnet-a2", *ZONES[0], 3000),
            Subnet("subnet-b", *ZONES[1], 1000),
        ),
        security_group_ids=("sg-1",),
        machine_images=(
            MachineImage("ami-amd", "amd64", created_at="2026-01-01T00:00:00Z"),
            MachineImage("ami-amd-old", "amd64", created_at="2025-01-01T00:00:00Z"),
            MachineImage("ami-arm", "arm64", created_at="2026-01-01T00:00:00Z"),
        ),
        instance_profile="nodes",
    )
    return replace(NodeClass(name=name, static_hash="h1", status=status), **changes)


def on_demand(name: str, zone: int = 0) -> OfferingKey:
    return OfferingKey(name, *ZONES[zone], CapacityType.ON_DEMAND)


def spot(name: str, zone: int = 0) -> OfferingKey:
    return OfferingKey(name, *ZONES[zone], CapacityType.SPOT)


def reserved(
    reservation_id: str = "cr-1", name: str = "p5.48xlarge", zone: int = 0
) -> OfferingKey:
    return OfferingKey(name, *ZONES[zone], CapacityType.RESERVED, reservation_id)


CLAIM_WRITES = {
    "commit",
    "save",
    "save_many",
    "settle",
    "return_replicas",
    "return_many",
    "finish_replicas",
}


class World:
    """All ports faked, the launch use case on top. ``effects`` counts and kills when it is set before ``launch``."""

    def __init__(self, *, lag_s: int = 0, token_lifetime_s: int = 3600) -> None:
        self.clock = ManualClock()
        self.state = MemoryState(self.clock)
        self.ec2 = FakeEc2(self.clock, lag_s=lag_s, token_lifetime_s=token_lifetime_s)
        self.templates = FakeTemplates(self.ec2)
        self.dry_runs = FakeDryRuns()
        self.attempts = MemoryLaunchAttempts()
        self.shortages = self.state.shortage_history
        self.pool = NodePool("gpu", "default", Requirements.of())
        self.policy = MemoryPolicy([self.pool], [node_class()])
        self.queue = MemoryQueue()
        self.bus = MemoryBus()
        self.timers = MemoryTimers()
        self.start_messages = MemoryTimers()
        self.boot_failures: Any = MemoryBootFailures(self.clock)
        self.blocks: Any = MemoryBlocks()
        self.effects = Effects()
        self.marks = MemoryTableMarks()
        self.tallies = MemoryTallies()
        self.bounds = Bounds()
        self.state.offerings.save_catalogue(CATALOGUE)
        OwnTables(self.marks, DEPLOYMENT).mark_if_new([], frozenset, self.clock.now())

    # --- what exists

    def add_reservation(
        self, reservation_id: str = "cr-1", **changes: Any
    ) -> CapacityReservation:
        created = reservation(reservation_id, **changes)
        self.ec2.reservations[reservation_id] = created
        self.observe(reservation_id)
        return created

    def add_block(
        self, end_at: datetime, reservation_id: str = "cr-block", **changes: Any
    ) -> CapacityReservation:
        return self.add_reservation(
            reservation_id, kind=ReservationKind.CAPACITY_BLOCK, end_at=end_at, **changes
        )

    def observe(self, reservation_id: str) -> None:
        """Discover the reservation as EC2 shows it."""
        shown = replace(
            self.ec2.reservations[reservation_id],
            available_count=max(0, self.ec2.free_units(reservation_id)),
        )
        joined = [
            arn for arn, members in self.ec2.groups.items() if reservation_id in members
        ]
        if joined:
            shown = replace(shown, resource_group_arns=tuple(sorted(joined)))
        now = self.clock.now()
        leased = self.state.node_claims.list_leased(reservation_id)
        absorbed = [
            c
            for c in leased
            if c.lease
            and c.lease.settled_at
            and (now - c.lease.settled_at).total_seconds() >= 30
        ]
        self.state.reservations.save_observation(
            shown,
            observed_at=now,
            absorbed=absorbed,
            expected=self.state.reservations.get(reservation_id),
        )

    def add_workload(self, name: str = "train", **changes: Any) -> WorkloadRecord:
        return self.state.workloads.put(
            workload_record(name, **changes), expected_revision=None
        )

    def plan(
        self,
        count: int,
        offering: OfferingKey,
        *alternatives: OfferingKey,
        batch_id: str = "b-1",
        workload: str = "research/train",
        **changes: Any,
    ) -> LaunchBatch:
        """Commit ``count`` claims of one replica each, as the planner does."""
        claims = tuple(
            node_claim(
                f"{batch_id}-nc-{number:04d}",
                batch_id=batch_id,
                attempt=0,
                offering=offering,
                price_atto_usd_per_hour=PRICES[offering.instance_type] * 10**12,
                placements=(PlacedReplicas(workload, 1),),
                created_at=self.clock.now(),
                alternatives=tuple(alternatives),
                labels=_labels(offering),
                gang_key=changes.get("gang_key"),
                correlation_ids=changes.get("correlation_ids", {}),
            )
            for number in range(count)
        )
        for start in range(0, count, 40):
            self.state.node_claims.commit(PlannedCommit(claims=claims[start : start + 40]))
        return LaunchBatch(batch_id, tuple(claim.id for claim in claims))

    # --- the use cases, as the composition root wires them, what is outside watched by ``effects``

    def outside(self, **chosen: Any) -> Outside:
        """Return what is outside; ``chosen`` are settings of the deployment."""
        watch = self.effects.watch
        ec2 = watch(self.ec2, {"launch", "terminate", "tag_claims"}, remote=True)
        return memory_outside(
            demand_census=MemoryDemandCensus(self.state.workloads, self.clock),
            settings=settings(deployment=DEPLOYMENT, ending_bounds=self.bounds, **chosen),
            clock=self.clock,
            pause=lambda seconds: self.clock.advance(seconds=seconds),
            workloads=self.state.workloads,
            reservations=watch(self.state.reservations, {"mark_exhausted"}),
            node_claims=watch(self.state.node_claims, CLAIM_WRITES),
            offerings=watch(self.state.offerings, {"mark_unavailable"}),
            launch_policy=watch(self.policy, {"block_launches"}),
            launch_attempts=watch(self.attempts, {"begin", "resolve", "complete"}),
            shortage_history=watch(self.shortages, {"put", "begin_probes", "forget"}),
            boot_failures=self.boot_failures,
            tallies=watch(self.tallies, {"put"}),
            table_marks=self.marks,
            queue=watch(self.queue, {"wake_planner", "send_launches"}),
            publisher=watch(self.bus, {"publish"}),
            timers=watch(self.timers, {"set_timer"}),
            start_messages=self.start_messages,
            endings=ec2,
            reservation_reader=self.ec2,
            network=MemoryNetwork(),
            capacity_blocks=self.blocks,
            instances=ec2,
            fleet=ec2,
            launch_templates=watch(self.templates, {"ensure", "delete"}, remote=True),
            dry_runs=self.dry_runs,
        )

    def launch(self) -> Launch:
        return launch_from(self.outside())

    def validate_class(self, **chosen: Any) -> ValidateClass:
        return validate_class_from(self.outside(**chosen))

    def draining(self) -> Draining:
        return draining_from(self.outside())

    def envelope(self) -> Envelope:
        return envelope_from(self.outside())

    def life(self) -> NodeLife:
        return node_life_from(self.outside(), self.draining())

    def react(
        self,
        rebalance: RebalancePolicy = RebalancePolicy.IGNORE,
        instance_status: InstanceStatusPolicy = InstanceStatusPolicy.REPLACE,
    ) -> React:
        return react_from(
            self.outside(rebalance_policy=rebalance, instance_status_policy=instance_status)
        )

    def freed_units(self) -> FreedUnits:
        return self.react().freed

    def expire(
        self, instance_status: InstanceStatusPolicy = InstanceStatusPolicy.REPLACE
    ) -> Expire:
        return expire_from(self.outside(instance_status_policy=instance_status))

    def follow_replicas(self) -> FollowReplicas:
        return follow_replicas_from(self.outside())

    def collect(self) -> Collect:
        return collect_from(self.outside())

    # --- shorthands

    def running(
        self, count: int, offering: OfferingKey, *alternatives: OfferingKey, **options: Any
    ) -> list[NodeClaim]:
        """Launch claims and bring them to running."""
        batch = self.plan(count, offering, *alternatives, **options)
        self.launch().run(batch)
        self.ec2.start_all()
        self.expire().run()
        return [self.state.claim_rows[claim_id] for claim_id in batch.claim_ids]

    def claims_of(self, batch: LaunchBatch) -> list[NodeClaim]:
        return [self.state.claim_rows[claim_id] for claim_id in batch.claim_ids]

    def batch_of(self, claim: NodeClaim) -> LaunchBatch:
        return LaunchBatch(claim.batch_id, (claim.id,))

    def drain(
        self, claim: NodeClaim, reason: DrainReason, deadline: datetime | None = None
    ) -> NodeClaim | None:
        """Begin a drain; None when nothing changes."""
        moves = self.draining().begin_drains([DrainRequest(claim, reason, deadline)])
        assert moves.lost == ()
        return moves.moved[0] if moves.moved else None

    # --- what must hold

    def claims(self) -> Sequence[NodeClaim]:
        return [claim for _, claim in sorted(self.state.claim_rows.items())]

    def now_of(self, claim: NodeClaim) -> NodeClaim:
        return self.state.claim_rows[claim.id]

    def placed(self, key: str = "research/train") -> int:
        return self.state.workload_rows[key].placed_count

    def free_units(self, reservation_id: str = "cr-1") -> int:
        return self.state.reservation_rows[reservation_id].balance.free_units


def _labels(offering: OfferingKey) -> dict[str, str]:
    made = {
        labels.NODE_POOL: "gpu",
        labels.INSTANCE_TYPE: offering.instance_type,
        labels.ZONE: offering.zone,
        labels.ZONE_ID: offering.zone_id,
        labels.CAPACITY_TYPE: offering.capacity_type.value,
    }
    if offering.reservation_id is not None:
        made[labels.CAPACITY_RESERVATION_ID] = offering.reservation_id
        made[labels.CAPACITY_RESERVATION_TYPE] = "default"
        made[labels.CAPACITY_RESERVATION_INTERRUPTIBLE] = "false"
    return made
