"""Answers to "why": why a node exists and what disruption thinks of it, why a workload waits."""

from typing import Literal

from pydantic import AwareDatetime, Field

from reservoir.core.model.node_claim import ClaimState, DrainReason
from reservoir.core.model.plan import ReasonCode
from reservoir.manifests.event_parts import (
    NodeDetail,
    OfferingDetail,
    Part,
    PlacedWorkload,
    WorkloadRef,
)


class Origin(Part):
    """Why a node exists."""

    kind: Literal["provisioning", "disruption"]
    text: str
    decision_id: str | None = None
    decided_at: AwareDatetime | None = Field(
        default=None, description="Absent: the decision is not kept any more."
    )
    replaces: list[str] = Field(
        default_factory=list, description="NodeClaims that it makes superfluous."
    )
    alternatives: int = Field(
        default=0, description="How many other offerings could have held the same replicas."
    )
    relaxed: list[str] = Field(
        default_factory=list, description="Preferences that were given up for it."
    )


class Standing(Part):
    """Voluntary disruption's last decision about a node, or what happened to it."""

    status: Literal["stays", "being-replaced", "draining", "gone"]
    text: str
    decision_id: str | None = None
    decided_at: AwareDatetime | None = None
    reason: DrainReason | None = None
    deadline: AwareDatetime | None = Field(
        default=None, description="Until when its workloads may take to leave."
    )
    replaced_by: list[str] = Field(default_factory=list)


class NodeExplanation(Part):
    """Everything about one node."""

    node: NodeDetail
    state: ClaimState
    created_at: AwareDatetime
    running_at: AwareDatetime | None = None
    terminated_at: AwareDatetime | None = None
    failure: str | None = None
    workloads: list[PlacedWorkload]
    origin: Origin
    disruption: Standing


class WaitingReplicas(Part):
    """Replicas that have no place, and the binding constraint."""

    replicas: int
    reason: ReasonCode
    message: str
    nearest_offering: OfferingDetail | None = None
    earliest_at: AwareDatetime | None = None


class StartEstimate(Part):
    """By when all replicas that wait will have places, as far as runs of the past tell."""

    p10_at: AwareDatetime = Field(description="One time in ten it starts before.")
    p50_at: AwareDatetime = Field(description="As often it starts before as after.")
    p90_at: AwareDatetime = Field(description="Nine times in ten it starts before.")


class HostingNode(Part):
    """A node that holds replicas of the workload."""

    node_claim: str
    instance_id: str | None = None
    state: ClaimState
    replicas: int
    held: int = Field(
        default=0,
        description="How many of them start only when those that they follow have left.",
    )
    predecessors: list[str] = Field(
        default_factory=list,
        description="NodeClaims that replicas have not left which these follow.",
    )
    drain_at: AwareDatetime | None = Field(
        default=None, description="When the block under it starts to drain."
    )
    goes_on: str | None = Field(
        default=None, description="Where its work goes on after that block, in words."
    )


class AlternativePlace(Part):
    """An offering that a plan chose for a workload, or could have, for all replicas that were pending."""

    node_pool: str
    offering: OfferingDetail
    chosen: int = Field(description="Nodes of it that the plan made for the workload.")
    nodes: int | None = Field(
        default=None,
        description="How many would have held the workload; absent: it could not.",
    )
    price_micro_usd_per_hour: int | None = Field(
        default=None, description="Of all these nodes; 0 for reserved ones."
    )
    reason: str = Field(description="Why it was not chosen.")


class DecisionAlternatives(Part):
    """What one plan chose for a workload, and the next best."""

    plan_id: str
    made_at: AwareDatetime
    places: list[AlternativePlace]


class RolloutStatus(Part):
    """How far an update is that replaces what runs."""

    surge: int = Field(description="Replicas that may have a place beyond those wanted.")
    waits_for: str = Field(description="What the next node waits for.")


class SpotRest(Part):
    """A workload is placed without spot for a while."""

    until: AwareDatetime
    times: int = Field(description="How often it has left spot in a row.")
    reason: str


class WorkloadExplanation(Part):
    """Everything about one workload."""

    workload: WorkloadRef
    withdrawn: bool
    replicas: int = Field(description="How many are wanted.")
    placed: int
    finished: int = Field(
        default=0, description="Replicas that have done what they were for."
    )
    pending: int
    pending_since: AwareDatetime | None = None
    next_feasible_at: AwareDatetime | None = Field(
        default=None,
        description="When the first of the reasons could change by itself; absent: by events only.",
    )
    starts: StartEstimate | None = Field(
        default=None, description="Absent: too little is known, or nothing waits."
    )
    waiting: list[WaitingReplicas]
    rollout: RolloutStatus | None = Field(
        default=None, description="Absent unless an update replaces what runs."
    )
    off_spot: SpotRest | None = Field(
        default=None,
        description="Absent unless it rests from spot; where on demand cannot serve it, it stays there all the same.",
    )
    nodes: list[HostingNode]
    alternatives: list[DecisionAlternatives] | None = Field(
        default=None,
        description="Where it was asked for: what the plans that placed it chose from.",
    )
