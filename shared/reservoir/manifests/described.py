"""The event that answers a question of a sender."""

from typing import ClassVar

from pydantic import AwareDatetime, Field

from reservoir.core.model.node_claim import ClaimState, DrainReason
from reservoir.core.model.plan import ReasonCode
from reservoir.manifests.event_parts import Event, NodePlacement, Part, WorkloadRef


class UnplacedDetail(Part):
    """Replicas that wait, and why."""

    replicas: int
    reason: ReasonCode
    message: str
    earliest_at: AwareDatetime | None = Field(
        default=None, description="When the reason could change by itself."
    )


class DrainStatus(Part):
    """A drain in progress."""

    drain_id: str
    reason: DrainReason
    notified_at: AwareDatetime
    deadline: AwareDatetime
    awaiting: int = Field(
        description="Replicas of the workload that have not been released."
    )


class NodeStatus(NodePlacement):
    """A node with replicas of the workload; those on a draining one count as demand again, and so not here."""

    state: ClaimState
    ready: int = Field(
        default=0, description="How many of the replicas run, as far as the node has said."
    )
    held: int = Field(
        default=0,
        description="Beside `replicas`: how many have their place here and must not start before those that they follow"
        " have left their nodes (`release`), or `heldUntil`.",
    )
    held_until: AwareDatetime | None = None
    predecessors: list[str] = Field(
        default_factory=list,
        description="NodeClaims whose nodes drain and still run replicas that these follow.",
    )
    launched_at: AwareDatetime | None = None
    running_at: AwareDatetime | None = None
    drain: DrainStatus | None = None


class WorkloadDescribed(Event):
    """The answer to ``describe``: the stored workload, and its nodes. Long lists come in several parts."""

    detail_type: ClassVar[str] = "Workload Described"

    request_id: str = Field(
        description="That of the question; all parts of an answer have it."
    )
    workload: WorkloadRef = Field(
        description="Without a generation if nothing is stored under this name."
    )
    content_digest: str | None = Field(
        default=None,
        description="Of what was submitted last, whatever its generation; equal content, equal digest.",
    )
    is_stored: bool | None = Field(
        default=None,
        description="Whether the spec and metadata of the question are what is wanted, whatever the generation; absent"
        " if it had no spec, or none that could be submitted.",
    )
    sent_by: str | None = Field(
        default=None, description="Who sent the stored generation, as SQS knows them."
    )
    sent_at: AwareDatetime | None = None
    withdrawn: bool = False
    wanted: int = Field(default=0, description="Replicas.")
    placed: int = Field(
        default=0,
        description="Replicas that have a place; the nodes may still be launching.",
    )
    finished: int = Field(
        default=0, description="Replicas that have done what they were for."
    )
    waiting: list[UnplacedDetail] = Field(
        default_factory=list, description="As the last plan left them."
    )
    nodes: list[NodeStatus] = Field(
        default_factory=list,
        description="May lag by moments: as long as their replicas do not add up, ask again.",
    )
    part: int = Field(default=1, description="Which of the parts this is, from 1.")
    part_count: int = 1
