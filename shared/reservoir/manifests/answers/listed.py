"""Rows that ``reservoir get`` prints: one model a noun, in the form of Kubernetes' objects.

Fields are added to them, never renamed and never given another meaning: programs read them.
"""

from enum import StrEnum
from typing import Literal

from pydantic import AwareDatetime, Field

from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import ClaimState, DrainReason
from reservoir.manifests.answers.explanations import (
    RolloutStatus,
    StartEstimate,
    WaitingReplicas,
)
from reservoir.manifests.event_parts import Part, PlacedWorkload


class Named(Part):
    """Names a row. Workloads have a namespace."""

    name: str
    namespace: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)


class Row(Part):
    """What all rows have."""

    api_version: Literal["reservoir/v1"] = "reservoir/v1"


class WorkloadState(StrEnum):
    """How far a workload has come."""

    WAITING = "waiting"  # no replica has a place
    PARTIAL = "partial"  # some have
    PLACED = "placed"  # all have; their nodes may still be launching
    LEAVING = "leaving"  # more have a place than are wanted
    WITHDRAWN = "withdrawn"


class WorkloadRowSpec(Part):
    """The demand."""

    replicas: int
    generation: int
    priority: int = 0
    gang: bool = False
    duration_s: int | None = None
    requests: dict[str, str] = Field(default_factory=dict, description="Of one replica.")


class GenerationReplicas(Part):
    """Replicas that run with the spec of an earlier generation."""

    generation: int = Field(description="The last one with that spec.")
    replicas: int


class WorkloadRowStatus(Part):
    """Its state."""

    state: WorkloadState
    placed: int
    pending: int
    outdated: int = Field(
        default=0,
        description="Placed replicas that run with an earlier spec than the present one.",
    )
    outdated_generations: list[GenerationReplicas] = Field(
        default_factory=list, description="How many of these run with which."
    )
    rollout: RolloutStatus | None = Field(
        default=None, description="Absent unless an update replaces what runs."
    )
    submitted_at: AwareDatetime | None = None
    pending_since: AwareDatetime | None = None
    next_feasible_at: AwareDatetime | None = Field(
        default=None,
        description="When the first of the reasons could change by itself; absent: by events only.",
    )
    starts: StartEstimate | None = Field(
        default=None, description="Absent: too little is known, or nothing waits."
    )
    waiting: list[WaitingReplicas] = Field(
        default_factory=list, description="As the last plan left them."
    )
    node_pools: list[str] = Field(
        default_factory=list, description="Of the nodes that hold its replicas."
    )


class WorkloadRow(Row):
    """A workload that wants replicas, or still has some."""

    kind: Literal["Workload"] = "Workload"
    metadata: Named
    spec: WorkloadRowSpec
    status: WorkloadRowStatus


class NodeRowSpec(Part):
    """What the node was bought as."""

    node_pool: str
    node_class: str
    instance_type: str
    zone: str
    capacity_type: CapacityType
    capacity_reservation_id: str | None = None
    price_micro_usd_per_hour: int = Field(
        description="0 for reserved capacity, which is paid for anyway."
    )


class NodeRowStatus(Part):
    """Where it is in its life."""

    state: ClaimState
    created_at: AwareDatetime
    running_at: AwareDatetime | None = None
    instance_id: str | None = None
    replicas: int
    is_warm: bool | None = Field(
        default=None,
        description="It keeps a free unit warm: whoever needs the unit gets it.",
    )
    workloads: list[PlacedWorkload]
    drain_reason: DrainReason | None = None
    drain_deadline: AwareDatetime | None = None
    plan_id: str | None = None
    failure: str | None = None


class NodeRow(Row):
    """A node: one wanted machine."""

    kind: Literal["NodeClaim"] = "NodeClaim"
    metadata: Named
    spec: NodeRowSpec
    status: NodeRowStatus


class ReservationRowSpec(Part):
    """The reserved units."""

    kind: ReservationKind
    instance_type: str
    zone: str
    zone_id: str
    owner_id: str
    instance_match_criteria: str
    start_at: AwareDatetime | None = None
    end_at: AwareDatetime | None = None


class UnitHolder(Part):
    """A workload on units of a reservation; several may share one."""

    namespace: str
    name: str
    units: int
    replicas: int


class ReservationRowStatus(Part):
    """Whose its units are."""

    state: str
    total: int
    free: int = Field(description="Units that may still be promised.")
    ours: int = Field(
        description="Units with a node of this deployment, or promised to one."
    )
    warm: int = Field(default=0, description="Free units with a warm node.")
    others: int = Field(description="Units that others use.")
    lent: int = Field(
        default=0,
        description="Units lent as an interruptible reservation; they are not in the total.",
    )
    returning: int = Field(
        default=0, description="Of those, units that are being taken back."
    )
    lent_as: str | None = Field(
        default=None,
        description="The interruptible reservation that units are lent as; it stays when none are.",
    )
    refusal: str | None = Field(
        default=None,
        description="Why nothing is launched into units that EC2 shows as free.",
    )
    holders: list[UnitHolder] = Field(
        default=[], description="Whose replicas are on our units, the most units first."
    )
    drain_at: AwareDatetime | None = Field(
        default=None, description="When the nodes in a Capacity Block must go."
    )
    idle_since: AwareDatetime | None = None
    observed_at: AwareDatetime
    stale: bool = Field(
        default=False,
        description="The last discovery failed; these are the last good facts.",
    )


class ReservationRow(Row):
    """A capacity reservation that is, or may become, usable. Its labels are its tags."""

    kind: Literal["CapacityReservation"] = "CapacityReservation"
    metadata: Named
    spec: ReservationRowSpec
    status: ReservationRowStatus


class CalendarRowSpec(Part):
    """From when to when there is how much."""

    kind: ReservationKind
    instance_type: str
    zone: str
    units: int = Field(description="What it has, or will have when it begins.")
    start_at: AwareDatetime | None = None
    drain_at: AwareDatetime | None = Field(
        default=None, description="When the nodes in a Capacity Block must go."
    )
    end_at: AwareDatetime | None = Field(
        default=None, description="Absent: it ends when it is cancelled."
    )


class CalendarRowStatus(Part):
    """What would be without it, and what follows."""

    state: str
    nodes: int = Field(description="Nodes of this deployment in it now.")
    successor: str | None = Field(
        default=None, description="The reservation that goes on where this one ends."
    )
    gap_s: int | None = Field(default=None, description="For how long neither is there.")


class CalendarRow(Row):
    """A reservation by its dates."""

    kind: Literal["CalendarEntry"] = "CalendarEntry"
    metadata: Named
    spec: CalendarRowSpec
    status: CalendarRowStatus


class OfferingState(StrEnum):
    """Whether it can be had now."""

    AVAILABLE = "available"
    FULL = "full"  # a reservation without a free unit
    # EC2 refused it, or the account's quota did: not asked for before an instant
    RESTING = "resting"
    NOT_ACTIVE = "not-active"  # a reservation that has not begun, or is about to end


class OfferingRowSpec(Part):
    """What can be had: an instance type in a zone, on a market or in one reservation."""

    instance_type: str
    zone: str
    capacity_type: CapacityType
    capacity_reservation_id: str | None = None
    price_micro_usd_per_hour: int | None = Field(
        default=None,
        description="0 for reserved capacity, which is paid for anyway; absent: no price is known.",
    )


class OfferingRowStatus(Part):
    """Whether, and until when not."""

    state: OfferingState
    free: int | None = Field(
        default=None, description="Units of a reservation; absent: EC2 does not say."
    )
    rests_until: AwareDatetime | None = None
    reason: str | None = None


class OfferingRow(Row):
    """An offering: an instance type in a zone, on a market or in one reservation."""

    kind: Literal["Offering"] = "Offering"
    metadata: Named
    spec: OfferingRowSpec
    status: OfferingRowStatus


class BlockOfferingSpec(Part):
    """What EC2 would sell: units for a while, paid for up front."""

    instance_type: str
    zone: str
    count: int
    start_at: AwareDatetime
    end_at: AwareDatetime
    upfront_fee: str = Field(description="A decimal number.")
    currency: str
    ultra_server_type: str | None = None


class BlockOfferingRow(Row):
    """A Capacity Block that is on sale."""

    kind: Literal["CapacityBlockOffering"] = "CapacityBlockOffering"
    metadata: Named
    spec: BlockOfferingSpec


class PurchaseSpec(Part):
    """The order: what was to be bought, for how much, and for whom."""

    instance_type: str
    zone: str
    count: int
    start_at: AwareDatetime
    end_at: AwareDatetime
    extends: str | None = Field(
        None, description="The reservation of the block that gets longer."
    )
    change: str | None = Field(
        None, description="Of on-demand reservations: create, resize, split and so on."
    )
    changes: str | None = Field(None, description="The reservation that is changed.")
    fee_micro_usd: int
    by: str
    intended_at: AwareDatetime


class PurchaseStatus(Part):
    """The outcome."""

    state: str = Field(description="`intended` (not settled), `bought` or `not-bought`.")
    capacity_reservation_ids: list[str] = Field(default_factory=list)
    settled_at: AwareDatetime | None = None
    settled_by: str | None = None
    note: str | None = Field(None, description="Why it was not bought.")


class PurchaseRow(Row):
    """A purchase by its offering, or a change of on-demand reservations by its id."""

    kind: Literal["Purchase"] = "Purchase"
    metadata: Named
    spec: PurchaseSpec
    status: PurchaseStatus


class DecisionRowStatus(Part):
    """The decision's results."""

    made_at: AwareDatetime
    summary: dict[str, int]
    nodes: list[str] = Field(
        default_factory=list, description="Live nodes that it launched, or chose to end."
    )


class DecisionRow(Row):
    """A stored decision of the planner or of disruption."""

    kind: Literal["Decision"] = "Decision"
    metadata: Named
    status: DecisionRowStatus
