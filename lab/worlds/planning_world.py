"""Discovery and provisioning on memory, with the real scheduler and the real checker."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from lab.fakes.discovery import (
    MemoryInstanceTypes,
    MemoryLaunchEnvironment,
    MemoryNetwork,
    MemoryPrices,
    MemoryReservationReader,
)
from lab.fakes.messaging import MemoryBus, MemoryQueue, MemoryTimers
from lab.fakes.outside import memory_outside, settings
from lab.fakes.stores.capacity_blocks import MemoryBootFailures
from lab.fakes.stores.demand_census import MemoryDemandCensus
from lab.fakes.stores.history import MemoryHistory
from lab.fakes.stores.policy_store import MemoryPolicyStore
from lab.fakes.stores.state import MemoryState
from lab.fakes.system import ManualClock, SequentialIds
from lab.fakes.values import instance_type, workload_record
from reservoir.core import scheduler
from reservoir.core.capacity.catalogue import DiscoveredType
from reservoir.core.model.capacity_reservation import CapacityReservation
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduling_terms import labels as known
from reservoir.core.scheduling_terms.efa import EFA, EfaCard
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.ports.discovery import ZoneOfferings
from reservoir.ports.policy import PolicyKind, PutPolicy
from reservoir.ports.state import ReservationRecord, WorkloadRecord
from reservoir.runtime.composition.discover_reservations import discover_reservations_from
from reservoir.runtime.composition.provision import provision_from
from reservoir.runtime.outside import Outside
from reservoir.usecases.discovery.discover_offerings import DiscoverOfferings
from reservoir.usecases.discovery.discover_reservations import (
    DiscoverReservations,
    Discovery,
)
from reservoir.usecases.provisioning.provision import Provision, ProvisionReport

ZONES = ZoneOfferings(
    dict.fromkeys(
        ("p5.48xlarge", "m5.large", "m5.4xlarge"), ("use1-az1", "use1-az2", "use1-az3")
    ),
    {
        f"use1-az{number}": f"us-east-1{letter}"
        for number, letter in enumerate("abc", start=1)
    },
)
ON_DEMAND = {"p5.48xlarge": 55_040_000, "m5.large": 96_000, "m5.4xlarge": 768_000}
SPOT = {
    (name, f"us-east-1{letter}"): price * 3 // 10
    for name, price in ON_DEMAND.items()
    for letter in "abc"
}


def discovered(
    name: str, cpus: int, gib: int, efa: int = 0, **extra: int
) -> DiscoveredType:
    """A type with the labels that matter here."""
    found = instance_type(
        name, cpus, gib, pods=200, extra={**extra, EFA: efa} if efa else extra
    )
    known_labels = Requirements(
        {**found.requirements, **Requirements.from_labels({known.REGION: "us-east-1"})}
    )
    cards = tuple(EfaCard(index, 2) for index in range(efa))
    return DiscoveredType(
        replace(found, requirements=known_labels, efa_cards=cards),
        frozenset({CapacityType.ON_DEMAND, CapacityType.SPOT}),
    )


TYPES = (
    discovered("m5.4xlarge", 16, 64),
    discovered("m5.large", 2, 8),
    discovered("p5.48xlarge", 192, 2048, efa=32, **{"nvidia.com/gpu": 8}),
)


def node_class_manifest(**spec: Any) -> dict[str, Any]:
    """A class that selects all reservations with the tag team=research."""
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "role": "nodes",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"team": "research"}}],
            "securityGroupSelectorTerms": [{"tags": {"team": "research"}}],
            "capacityReservationSelectorTerms": [{"tags": {"team": "research"}}],
            **spec,
        },
    }


def node_pool_manifest(
    name: str = "gpu", capacity_types: tuple[str, ...] = ("reserved", "on-demand")
) -> dict[str, Any]:
    """A pool that may use these capacity types."""
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": {
                        "group": "karpenter.k8s.aws",
                        "kind": "EC2NodeClass",
                        "name": "default",
                    },
                    "requirements": [
                        {
                            "key": "karpenter.sh/capacity-type",
                            "operator": "In",
                            "values": list(capacity_types),
                        }
                    ],
                }
            }
        },
    }


def solve(snapshot: Snapshot, now: datetime, policy: SchedulingPolicy) -> Plan:
    """The real scheduler, for as long as it takes."""
    return scheduler.solve(snapshot, now=now, policy=policy)


class PlanningWorld:
    """Everything up to the launch queue."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.state = MemoryState(self.clock)
        self.ids = SequentialIds()
        self.queue = MemoryQueue()
        self.bus = MemoryBus()
        self.timers = MemoryTimers()
        self.boot_failures = MemoryBootFailures(self.clock)
        self.history = MemoryHistory()
        self.policy = MemoryPolicyStore()
        self.reader = MemoryReservationReader()
        self.network = MemoryNetwork()
        self.environment = MemoryLaunchEnvironment()
        self.types = MemoryInstanceTypes(TYPES, ZONES)
        self.prices = MemoryPrices(ON_DEMAND, SPOT)
        self.shed: list[tuple[WorkloadRecord, int]] = []
        self.solves = 0
        self.pauses_s: list[float] = []

    # parts

    def outside(self) -> Outside:
        return memory_outside(
            demand_census=MemoryDemandCensus(self.state.workloads, self.clock),
            settings=settings(),
            clock=self.clock,
            ids=self.ids,
            pause=self.pause,
            workloads=self.state.workloads,
            reservations=self.state.reservations,
            node_claims=self.state.node_claims,
            offerings=self.state.offerings,
            policy=self.policy,
            decisions=self.state.decisions,
            shortage_history=self.state.shortage_history,
            boot_failures=self.boot_failures,
            history=self.history,
            queue=self.queue,
            publisher=self.bus,
            timers=self.timers,
            reservation_reader=self.reader,
            network=self.network,
            launch_environment=self.environment,
        )

    def discovery(self) -> DiscoverReservations:
        return discover_reservations_from(self.outside())

    def offerings(self) -> DiscoverOfferings:
        return DiscoverOfferings(self.types, self.prices, self.state.offerings, self.queue)

    def solve(self, snapshot: Snapshot, now: datetime, policy: SchedulingPolicy) -> Plan:
        self.solves += 1
        return solve(snapshot, now, policy)

    def provisioner(self, **changes: Any) -> Provision:
        wired = provision_from(self.outside(), self.solve)
        return replace(
            wired, **{"policy": SchedulingPolicy(), "shed_surplus": self._shed, **changes}
        )

    def _shed(self, record: WorkloadRecord, hosts: Any, now: datetime) -> int:
        assert now == self.clock.now()
        self.shed.append((record, len(hosts)))
        return 0

    def pause(self, seconds: float) -> None:
        self.pauses_s.append(seconds)
        self.clock.advance(seconds=seconds)

    # steps

    def apply(self, *manifests: dict[str, Any]) -> None:
        for manifest in manifests:
            kind, name = PolicyKind(manifest["kind"]), manifest["metadata"]["name"]
            stored = self.policy.get(kind, name)
            revision = None if stored is None else stored.revision
            generation = 1 if stored is None else stored.generation + 1
            self.policy.commit([PutPolicy(kind, name, manifest, generation, revision)])

    def ready(
        self,
        *reservations: CapacityReservation,
        pool: dict[str, Any] | None = None,
        node_class: dict[str, Any] | None = None,
    ) -> "PlanningWorld":
        """A world in which discovery has run once."""
        self.apply(
            node_class or node_class_manifest(),
            node_pool_manifest() if pool is None else pool,
        )
        self.reader.put(*reservations)
        self.offerings().run()
        self.discovery().run()
        self.queue.wake_ups.clear()
        return self

    def discover(self) -> Discovery:
        return self.discovery().run()

    def submit(self, name: str = "train", **changes: Any) -> WorkloadRecord:
        record = workload_record(name, **changes)
        return self.state.workloads.put(record, expected_revision=None)

    def plan(self) -> ProvisionReport:
        return self.provisioner().run()

    # what there is

    def reservation(self, reservation_id: str = "cr-1") -> ReservationRecord:
        record = self.state.reservations.get(reservation_id)
        assert record is not None
        return record

    def workload(self, name: str = "train") -> WorkloadRecord:
        record = self.state.workloads.get(f"research/{name}")
        assert record is not None
        return record
