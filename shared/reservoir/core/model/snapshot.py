"""The snapshot: everything that a solve may see, frozen."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from reservoir.core.model.capacity_reservation import (
    USUAL_NOTICE,
    BlockDrain,
    CapacityReservation,
)
from reservoir.core.model.instance_type import CapacityType, InstanceType
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.team import Team
from reservoir.core.model.workload import Demand, Workload
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.scheduling_terms.taint import Taint, binding_taints


@dataclass(frozen=True, slots=True)
class PlacedReplicas:
    """Replicas of one workload on one node."""

    workload_key: str
    count: int


def count_of(workload_key: str, placements: Iterable[PlacedReplicas]) -> int:
    """Return how many replicas of the workload there are among these."""
    return sum(placed.count for placed in placements if placed.workload_key == workload_key)


@dataclass(frozen=True, slots=True)
class Node:
    """An existing or in-flight node (a NodeClaim that was launched or is about to be).

    ``labels`` include zone, zone id, capacity type, instance type, pool and reservation labels. ``used`` is the sum
    of its replicas' requests. A node that is ``deleting`` takes no new replicas and its slot is not free yet.
    """

    claim_id: str
    node_pool_name: str
    node_class_name: str
    instance_type: str
    zone: str
    zone_id: str
    capacity_type: CapacityType
    labels: Mapping[str, str]
    allocatable: Resources
    used: Resources
    placements: tuple[PlacedReplicas, ...] = ()
    taints: tuple[Taint, ...] = ()
    reservation_id: str | None = None
    price_atto_usd_per_hour: int = 0
    created_at: datetime | None = None
    drain_at: datetime | None = None  # when a Capacity Block under it starts to drain
    # the end of its drain, or of its work by its own hints
    leaves_at: datetime | None = None
    initialized: bool = True
    deleting: bool = False
    # withdrawn and still there: they count for their team
    leaving: tuple[PlacedReplicas, ...] = ()
    drain_deadline: datetime | None = None  # until when that drain lasts

    @property
    def block_drain(self) -> BlockDrain | None:
        """The drain at the end of the Capacity Block under it, with the notice that its work wants."""
        if self.drain_at is None:
            return None
        # Nodes of release 0.1 carry no deadline until they are launched; until then they drain with the usual notice.
        return BlockDrain(
            self.drain_at, self.drain_deadline or self.drain_at + USUAL_NOTICE
        )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One consistent-enough view of the world. ``workloads`` has every workload that runs anywhere (for affinity)."""

    instance_types: tuple[InstanceType, ...]
    reservations: tuple[CapacityReservation, ...] = ()
    node_pools: tuple[NodePool, ...] = ()
    node_classes: tuple[NodeClass, ...] = ()
    nodes: tuple[Node, ...] = ()
    demands: tuple[Demand, ...] = ()
    workloads: Mapping[str, Workload] = field(default_factory=dict)
    teams: tuple[Team, ...] = ()
    # of everything that is bought, whichever team it is for
    ceiling_micro_usd_per_hour: int | None = None

    def binding_taints(self, node: Node) -> tuple[Taint, ...]:
        """Return the taints of a node that count for placing replicas on it: startup taints only once it is up."""
        if not node.taints:
            return ()
        startup = next(
            (
                pool.startup_taints
                for pool in self.node_pools
                if pool.name == node.node_pool_name
            ),
            (),
        )
        return binding_taints(node.taints, startup, initialized=node.initialized)
