"""The plan: what a solve decided, as values that can be printed, stored, checked, replayed and applied."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.snapshot import PlacedReplicas


class ReasonCode(StrEnum):
    """Why replicas are not placed: the binding constraint."""

    NO_NODE_POOL = "NoNodePool"
    INCOMPATIBLE = "Incompatible"  # requirements, taints or architecture leave nothing
    TOO_LARGE = "TooLarge"  # no compatible instance type can hold one replica
    RESERVATION_FULL = "ReservationFull"
    # a quota of its team leaves no room: others' turn, or lent to them
    TEAM_QUOTA = "TeamQuota"
    RESERVATION_NOT_STARTED = "ReservationNotStarted"
    DURATION_DOES_NOT_FIT = "DurationDoesNotFit"
    FALLBACK_NOT_YET = "FallbackNotYet"  # a later step of the ladder would serve
    OFFERING_UNAVAILABLE = (
        # it rests after insufficient capacity or another refusal, or its subnets are full
        "OfferingUnavailable"
    )
    MAX_PRICE = "MaxPrice"
    TEAM_BUDGET = "TeamBudget"  # its team has spent what it may spend on capacity
    LIMIT_EXCEEDED = "LimitExceeded"
    TOPOLOGY = "Topology"
    GANG_INCOMPLETE = "GangIncomplete"
    NODE_CLASS_NOT_READY = "NodeClassNotReady"
    MIN_VALUES = "MinValues"
    # more nodes in its spot pools would be more than the policy's share of each
    SPOT_SHARE = "SpotShare"
    OUT_OF_TIME = "OutOfTime"
    NODE_POOL_PAUSED = "NodePoolPaused"  # an operator has paused the pool that would serve
    # its place in the plan broke a rule, which the independent checker saw
    PLAN_REJECTED = "PlanRejected"


@dataclass(frozen=True, slots=True)
class OfferingKey:
    """Names one offering: a type in a zone on a market, or in exactly one reservation."""

    instance_type: str
    zone: str
    zone_id: str
    capacity_type: CapacityType
    reservation_id: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedNodes:
    """``count`` equal nodes to launch, each with the same ``placements``.

    ``alternatives`` are other offerings that could hold the same replicas, at a higher or equal price, in price order
    (spot and on-demand only; a reserved claim is bound to exactly one reservation and has none).
    """

    node_pool_name: str
    node_class_name: str
    offering: OfferingKey
    price_atto_usd_per_hour: int
    count: int
    placements: tuple[PlacedReplicas, ...]
    alternatives: tuple[OfferingKey, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    # workload key of the gang that these nodes serve: all of it launches or nothing
    gang_key: str | None = None
    relaxed: tuple[str, ...] = ()  # preferences that were given up


@dataclass(frozen=True, slots=True)
class ExistingPlacement:
    """Replicas that go onto a node which exists or is in flight."""

    claim_id: str
    placements: tuple[PlacedReplicas, ...]


@dataclass(frozen=True, slots=True)
class UnplacedReplicas:
    """Replicas that stay pending, and why (rule 7)."""

    workload_key: str
    count: int
    code: ReasonCode
    message: str
    nearest_offering: OfferingKey | None = None
    earliest_at: datetime | None = None  # when the reason could change by itself


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole decision. ``lower_bound_...`` is None when there is no certificate."""

    launches: tuple[PlannedNodes, ...] = ()
    existing: tuple[ExistingPlacement, ...] = ()
    unplaced: tuple[UnplacedReplicas, ...] = ()
    cost_atto_usd_per_hour: int = 0
    lower_bound_atto_usd_per_hour: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def gap_percent(self) -> float | None:
        """By how much the plan may cost more than need be, of its lower bound; None without a bound above 0.

        A bound on the gap, not the gap: the lower bound may be weak, but hardly is for 50 replicas or fewer.
        """
        bound = self.lower_bound_atto_usd_per_hour
        return 100 * (self.cost_atto_usd_per_hour - bound) / bound if bound else None
