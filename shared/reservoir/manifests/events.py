"""Events on the outbound bus: one model a detail-type, each a fact.

Within a version fields are only added; a change that would break a reader gets a new version beside the old one.
Readers ignore fields that they do not know. Delivery is at least once and in no order: ``generation``, ``drainId`` and
the claim's name identify repeats.
"""

from enum import StrEnum
from typing import ClassVar, Final

from pydantic import AwareDatetime, Field

from reservoir.core.capacity.reservation_changes import ReservationChangeKind
from reservoir.core.history.past_event import RESERVATION_CHANGED
from reservoir.core.launching.start_readiness import Shortcoming
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_claim import DrainReason
from reservoir.core.model.plan import ReasonCode
from reservoir.core.safety.endings import EndingKind
from reservoir.manifests.described import WorkloadDescribed
from reservoir.manifests.event_parts import (
    Event,
    NodeDetail,
    NodePlacement,
    OfferingDetail,
    Part,
    PlacedWorkload,
    WorkloadRef,
)
from reservoir.manifests.parsing.problems import Problem
from reservoir.manifests.replica_events import (
    ReplicaFailed,
    ReplicaFinished,
    ReplicaReady,
    WorkloadLeftSpot,
)
from reservoir.manifests.team_events import TeamOverBudget, TeamShareReported
from reservoir.names import POLICY_CHANGED


class WorkloadPlaced(Event):
    """Replicas got a place. The nodes may still be launching; ``Node Launched`` follows."""

    detail_type: ClassVar[str] = "Workload Placed"

    workload: WorkloadRef
    replicas: int = Field(description="How many were placed by this decision.")
    nodes: list[NodePlacement]


class WorkloadPending(Event):
    """Replicas wait, and why."""

    detail_type: ClassVar[str] = "Workload Pending"

    workload: WorkloadRef
    replicas: int
    reason: ReasonCode
    message: str
    nearest_offering: OfferingDetail | None = None
    earliest_at: AwareDatetime | None = Field(
        default=None, description="When the reason could change by itself."
    )


class RejectedProblem(Part):
    """One thing that is wrong with a message."""

    path: str
    rule: str
    message: str
    suggestion: str | None = None

    @classmethod
    def of(cls, problem: Problem) -> "RejectedProblem":
        """Restate a problem."""
        return cls(
            path=problem.path,
            rule=problem.rule,
            message=problem.message,
            suggestion=problem.suggestion,
        )


class WorkloadRejected(Event):
    """A message was not understood and changes nothing; it lies in the dead-letter queue."""

    detail_type: ClassVar[str] = "Workload Rejected"

    message_id: str
    workload: WorkloadRef | None = Field(
        default=None, description="Absent when not even the name could be read."
    )
    problems: list[RejectedProblem]


class IgnoredReason(StrEnum):
    """Why a message changed nothing."""

    # this generation is the stored one, whichever message brought it: this message may be a repeat
    UNCHANGED = "Unchanged"
    OLDER_GENERATION = "OlderGeneration"  # a higher generation is stored
    WITHDRAWN = "Withdrawn"  # the workload was withdrawn at this generation or a higher one
    NOT_AWAITED = "NotAwaited"  # a release of replicas that no node waits for


class WorkloadAccepted(Event):
    """A message was applied: the generation that it brought is wanted from now on, or the replicas have left."""

    detail_type: ClassVar[str] = "Workload Accepted"

    message_id: str = Field(
        description="SQS's id of the message, which its sender was given."
    )
    action: str = Field(description="`submit`, `update`, `withdraw` or `release`.")
    workload: WorkloadRef


class WorkloadIgnored(Event):
    """A message was understood and changes nothing. A message that is delivered twice may be accepted, then this."""

    detail_type: ClassVar[str] = "Workload Ignored"

    message_id: str = Field(
        description="SQS's id of the message, which its sender was given."
    )
    action: str = Field(description="`submit`, `update`, `withdraw` or `release`.")
    workload: WorkloadRef
    reason: IgnoredReason
    stored_generation: int | None = Field(
        default=None, description="What is stored instead; absent for a release."
    )


class NodeLaunched(Event):
    """EC2 has an instance for the claim."""

    detail_type: ClassVar[str] = "Node Launched"

    node: NodeDetail
    launched_at: AwareDatetime
    workloads: list[PlacedWorkload]


class NodeDraining(Event):
    """A node must go. Answer with ``release`` once the replicas have left; at the deadline it is terminated anyway."""

    detail_type: ClassVar[str] = "Node Draining"

    drain_id: str = Field(description="The same in every repeat of this notification.")
    node: NodeDetail
    reason: DrainReason
    notified_at: AwareDatetime
    deadline: AwareDatetime
    workloads: list[PlacedWorkload]


class NodeTerminated(Event):
    """A node is gone. Replicas that were still on it are demand again unless they were withdrawn."""

    detail_type: ClassVar[str] = "Node Terminated"

    node: NodeDetail
    reason: str
    terminated_at: AwareDatetime
    returned: list[PlacedWorkload] = Field(
        default_factory=list, description="Replicas that went back to demand."
    )
    correlation_ids: list[str] = Field(
        default_factory=list,
        description="What the workloads that it was last for are followed by, released or not.",
    )


class NodeCapacityTypeChanged(Event):
    """The reservation under a running node ended, or EC2 moved the node into one: its labels and price changed."""

    detail_type: ClassVar[str] = "Node Capacity Type Changed"

    node: NodeDetail
    previous: CapacityType
    previous_capacity_reservation_id: str | None = None
    correlation_ids: list[str] = Field(
        default_factory=list,
        description="What the workloads that it was last for are followed by, released or not.",
    )


class NodeMovedIntoReservation(Event):
    """EC2 moved a node that ran on demand into a reserved unit, without a restart: its replicas run on.

    ``Node Capacity Type Changed`` is published about the same node. A node that moves in again later is published
    again.
    """

    detail_type: ClassVar[str] = "Node Moved Into Reservation"

    node: NodeDetail = Field(description="The node as it is now, in its reservation.")
    previous_price_micro_usd_per_hour: int = Field(
        description="What it cost on demand; micro-USD an hour."
    )
    split_from: str | None = Field(
        default=None,
        description="The reservation that the unit was split off for it from, and goes back to when it ends.",
    )
    workloads: list[PlacedWorkload] = Field(description="What runs on it, as before.")


class LaunchFailed(Event):
    """EC2 refused a launch, or ended the instance before it ran; the replicas are demand again."""

    detail_type: ClassVar[str] = "Launch Failed"

    node_claims: list[str]
    offering: OfferingDetail
    code: str = Field(description="EC2's error code, or the state reason of the instance.")
    message: str
    workloads: list[PlacedWorkload]
    unavailable_until: AwareDatetime | None = Field(
        default=None, description="The offering is not tried before."
    )


class LaunchesBlocked(Event):
    """A class launches nothing for now: its configuration or permissions do not allow it, or nothing of it starts."""

    detail_type: ClassVar[str] = "Launches Blocked"

    node_class: str
    reason: str
    message: str


class ReservationExhausted(Event):
    """A reservation has no free unit left, or EC2 refused one."""

    detail_type: ClassVar[str] = "Reservation Exhausted"

    capacity_reservation_id: str
    instance_type: str
    zone: str
    zone_id: str
    total_count: int


class ReservationIdle(Event):
    """Units of a reservation have been free for a while: they are paid for and unused."""

    detail_type: ClassVar[str] = "Reservation Idle"

    capacity_reservation_id: str
    instance_type: str
    zone: str
    zone_id: str
    total_count: int
    idle_count: int
    idle_since: AwareDatetime


class ReservationLendingChanged(Event):
    """Idle units of a reservation are lent as an interruptible reservation, or are taken back.

    What runs in units that are taken back is interrupted two minutes later.
    """

    detail_type: ClassVar[str] = "Reservation Lending Changed"

    capacity_reservation_id: str
    instance_type: str
    zone: str
    zone_id: str
    lent_before: int = Field(description="How many units were to be lent before.")
    lent_count: int = Field(description="How many units are to be lent from now on.")
    reason: str


class BlockStatusDetail(Part):
    """EC2's report about the machines of a Capacity Block (DescribeCapacityBlockStatus), in units."""

    interconnect_status: str = Field(description="`ok`, `impaired` or `insufficient-data`.")
    total_count: int
    available_count: int
    unavailable_count: int


class CapacitySuspected(Event):
    """Nodes launched into a reservation fail to boot one after the other: some of its units seem to be broken."""

    detail_type: ClassVar[str] = "Capacity Suspected"

    capacity_reservation_id: str
    capacity_block_id: str | None = None
    instance_type: str
    zone: str
    zone_id: str
    suspected_count: int = Field(description="Units that are left alone.")
    rounds: int = Field(description="How often in a row nodes failed there.")
    node_claims: list[str] = Field(description="Those that failed in the last round.")
    instance_ids: list[str] = Field(
        description="The instances that failed now; tell them to AWS Support."
    )
    unused_until: AwareDatetime = Field(description="The units are tried again then.")
    block_status: BlockStatusDetail | None = Field(
        default=None, description="Absent when EC2 would not say."
    )


class Change(StrEnum):
    """What happened to a policy object; events only report real changes."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    DELETED = "deleted"


class PolicyFieldChange(Part):
    """A field of an object, before and after, as JSON that is cut where it is long; user data is not shown."""

    path: str = Field(description="As `spec.limits.cpu`.")
    before: str | None = Field(default=None, description="Absent: the field was not there.")
    after: str | None = Field(
        default=None, description="Absent: the field is not there any more."
    )


class ChangedObject(Part):
    """One object that changed."""

    kind: str
    name: str
    change: Change
    generation: int
    fields: list[PolicyFieldChange] = Field(
        default_factory=list, description="In which fields."
    )
    fields_left_out: int = Field(
        default=0, description="How many more fields changed than one event can tell."
    )


class PolicyChanged(Event):
    """NodePools, EC2NodeClasses or Teams were applied or deleted."""

    detail_type: ClassVar[str] = POLICY_CHANGED

    by: str | None = Field(
        default=None,
        description="The ARN of whoever did it, as AWS knows it; of a deployment's own folder: its stack. Absent: an"
        " earlier release told of it.",
    )
    changes: list[ChangedObject]


class EndingsHeld(Event):
    """More nodes would end within an hour than the safety envelope allows: none of them does. A person should look."""

    detail_type: ClassVar[str] = "Endings Held"

    kind: EndingKind
    wanted_count: int = Field(description="Nodes, or instances, that would end.")
    passed_count: int = Field(description="Those that ended within the hour before.")
    limit: int = Field(description="How many may end within an hour.")
    fleet_count: int
    is_shut: bool = Field(description="No more of this kind end before a person lifts it.")
    message: str


class EnvelopeLifted(Event):
    """A person lets more nodes end than the safety envelope allows: once, so many, until then."""

    detail_type: ClassVar[str] = "Envelope Lifted"

    kind: EndingKind
    count: int
    until: AwareDatetime
    by: str = Field(description="The ARN of the person who did it, as AWS knows it.")
    reason: str


class TablesAdopted(Event):
    """A person has looked at unknown tables (restored, or made again) and made them the deployment's own."""

    detail_type: ClassVar[str] = "Tables Adopted"

    generation: int = Field(description="How often tables were marked, this time included.")
    by: str = Field(description="The ARN of the person who did it, as AWS knows it.")
    reason: str
    adopted_at: AwareDatetime


class OperationRequested(Event):
    """A person asked by hand for something. It is published before it is done; the results are published as always."""

    detail_type: ClassVar[str] = "Operation Requested"

    verb: str = Field(
        description="`cordon`, `uncordon`, `drain`, `delete` (nodes), `pause`, `resume` (NodePools) or `reset`"
        " (workloads)."
    )
    names: list[str] = Field(
        description="NodeClaims or instances; NodePools for `pause` and `resume`, workloads for `reset`."
    )
    by: str = Field(description="The ARN of the person who did it, as AWS knows it.")
    reason: str
    requested_at: AwareDatetime
    deadline: str | None = Field(
        default=None, description="For `drain`: the nodes end after that long."
    )


class ChangedFact(Part):
    """A fact before and after."""

    field: str = Field(
        description="`state`, `size` (units that it has, or will have), `startAt` or `endAt`."
    )
    old: str | None = None
    new: str | None = None


class ReservationChanged(Event):
    """A reservation that is selected came, began, was changed, or is taken away. Kept for 30 days at least."""

    detail_type: ClassVar[str] = RESERVATION_CHANGED

    capacity_reservation_id: str
    instance_type: str
    zone: str
    zone_id: str
    owner_id: str = Field(description="The account that it belongs to.")
    what: list[ReservationChangeKind]
    changes: list[ChangedFact]


class ReservationEnding(Event):
    """A reservation ends in 14, 7 or 1 days, or so soon that this is the first that is known of it."""

    detail_type: ClassVar[str] = "Reservation Ending"

    capacity_reservation_id: str
    instance_type: str
    zone: str
    zone_id: str
    units: int
    end_at: AwareDatetime
    drain_at: AwareDatetime | None = Field(
        default=None, description="When the nodes in a Capacity Block must go."
    )
    days: int = Field(description="Which notice this is: 14, 7 or 1.")
    node_count: int = Field(description="Nodes of this deployment in it now.")
    workloads: list[PlacedWorkload] = Field(
        description="What runs on these, and would be without it."
    )
    recent_workloads: list[PlacedWorkload] | None = Field(
        default=None,
        description=(
            "What was placed in it within the last 14 days, and how many replicas; absent: nobody could look. Demand"
            " like it would be without."
        ),
    )
    successor: str | None = Field(
        default=None, description="The reservation that goes on where this one ends."
    )
    gap_s: int | None = Field(default=None, description="For how long neither is there.")


class ReadinessProblem(Part):
    """One thing that would keep launches out of a reservation."""

    code: Shortcoming
    message: str
    advice: str


class ReservationReadiness(Event):
    """How a reservation that begins within a day would be used: what its first launch lacks.

    Published a day and about an hour before it begins, and whenever something else is found; no problems: the reported
    ones are fixed.
    """

    detail_type: ClassVar[str] = "Reservation Readiness"

    capacity_reservation_id: str
    instance_type: str
    zone: str
    zone_id: str
    units: int
    start_at: AwareDatetime
    problems: list[ReadinessProblem]


class BoughtReservation(Part):
    """A reservation that was bought, or made longer."""

    capacity_reservation_id: str


class CapacityPurchased(Event):
    """A person has bought capacity: a Capacity Block, an extension, a reservation.

    One settled twice is published twice.
    """

    detail_type: ClassVar[str] = "Capacity Purchased"

    offering: str = Field(
        description="EC2's id of what was on sale, or the id of the change; each is bought once."
    )
    reservations: list[BoughtReservation]
    is_extension: bool
    instance_type: str
    zone: str
    count: int
    start_at: AwareDatetime
    end_at: AwareDatetime
    fee_micro_usd: int = Field(
        description="What it costs, all of it up front; of a reservation what it counts as."
    )
    by: str = Field(description="The ARN of the buyer, as AWS knows it.")
    purchased_at: AwareDatetime = Field(
        description="When it was intended; its month's ceiling counts it."
    )


EVENTS: Final[tuple[type[Event], ...]] = (
    WorkloadPlaced,
    WorkloadPending,
    WorkloadRejected,
    NodeLaunched,
    NodeDraining,
    NodeTerminated,
    NodeCapacityTypeChanged,
    LaunchFailed,
    LaunchesBlocked,
    ReservationExhausted,
    ReservationIdle,
    ReservationLendingChanged,
    CapacitySuspected,
    PolicyChanged,
    EndingsHeld,
    EnvelopeLifted,
    TablesAdopted,
    WorkloadAccepted,
    WorkloadIgnored,
    WorkloadDescribed,
    ReplicaReady,
    ReplicaFailed,
    ReplicaFinished,
    OperationRequested,
    TeamShareReported,
    TeamOverBudget,
    CapacityPurchased,
    ReservationChanged,
    ReservationEnding,
    ReservationReadiness,
    NodeMovedIntoReservation,
    WorkloadLeftSpot,
)
