"""What a subscription delivers: the facts that name workloads, with their parts.

With ``messages`` all that a program on the client imports of Reservoir beside ``reservoir.client`` itself; in an
installed wheel there is nothing else of that name.
"""

from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import AWAITING_LAUNCH, ClaimState, DrainReason
from reservoir.core.model.plan import ReasonCode
from reservoir.manifests.described import (
    DrainStatus,
    NodeStatus,
    UnplacedDetail,
    WorkloadDescribed,
)
from reservoir.manifests.event_parts import (
    Event,
    NodeDetail,
    NodePlacement,
    OfferingDetail,
    PlacedWorkload,
    WorkloadRef,
)
from reservoir.manifests.events import (
    LaunchFailed,
    NodeDraining,
    NodeLaunched,
    NodeMovedIntoReservation,
    NodeTerminated,
    RejectedProblem,
    ReservationEnding,
    ReservationReadiness,
    WorkloadAccepted,
    WorkloadIgnored,
    WorkloadPending,
    WorkloadPlaced,
    WorkloadRejected,
)
from reservoir.manifests.replica_events import (
    ReplicaFailed,
    ReplicaFinished,
    ReplicaReady,
    WorkloadLeftSpot,
)

__all__ = [
    "AWAITING_LAUNCH",
    "CapacityType",
    "ClaimState",
    "DrainReason",
    "DrainStatus",
    "Event",
    "LaunchFailed",
    "NodeDetail",
    "NodeDraining",
    "NodeLaunched",
    "NodeMovedIntoReservation",
    "NodePlacement",
    "NodeStatus",
    "NodeTerminated",
    "OfferingDetail",
    "PlacedWorkload",
    "ReasonCode",
    "RejectedProblem",
    "ReplicaFailed",
    "ReplicaFinished",
    "ReplicaReady",
    "ReservationEnding",
    "ReservationReadiness",
    "UnplacedDetail",
    "WorkloadAccepted",
    "WorkloadDescribed",
    "WorkloadIgnored",
    "WorkloadLeftSpot",
    "WorkloadPending",
    "WorkloadPlaced",
    "WorkloadRef",
    "WorkloadRejected",
]
