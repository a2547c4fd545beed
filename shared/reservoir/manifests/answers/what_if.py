"""Answers to "what if": of demand, of a stored plan, and of a change of policy."""

from typing import Literal

from pydantic import AwareDatetime, Field

from reservoir.manifests.answers.explanations import StartEstimate, WaitingReplicas
from reservoir.manifests.event_parts import OfferingDetail, Part, WorkloadRef
from reservoir.manifests.events import Change


class WhatIfPlace(Part):
    """Replicas that would get a place: on new nodes of an offering, or on a node that is there."""

    replicas: int
    node_claim: str | None = Field(
        default=None, description="The node that is there and has room."
    )
    node_pool: str | None = None
    offering: OfferingDetail | None = None
    nodes: int = Field(
        default=0,
        description="New nodes that hold them; others' replicas may be on them too.",
    )
    price_micro_usd_per_hour: int = Field(
        default=0,
        description="Of one node; 0 for reserved capacity, which is paid for anyway.",
    )


class WhatIfWorkload(Part):
    """What would happen to one workload."""

    workload: WorkloadRef
    replicas: int
    placed: int = Field(description="Replicas that have a place already.")
    places: list[WhatIfPlace]
    waiting: list[WaitingReplicas]
    starts: StartEstimate | None = Field(
        default=None, description="Absent: too little is known, or nothing waits."
    )


class DisplacedWorkload(Part):
    """A workload that waits as well, and would get less because of the demand."""

    workload: WorkloadRef
    replicas: int = Field(
        description="Replicas that would have had a place without the demand."
    )
    reserved_replicas: int = Field(
        description="Replicas that would have had a reserved unit without the demand."
    )
    waiting: WaitingReplicas | None = None


class WhatIfOutcome(Part):
    """What would happen in one world."""

    workloads: list[WhatIfWorkload]
    displaced: list[DisplacedWorkload]
    added_micro_usd_per_hour: int = Field(
        description="What would be paid for new nodes, less that without the demand."
    )
    notes: list[str]


class WhatIfAnswer(Part):
    """What would happen now, and in the edited world if there are edits."""

    version: Literal[1] = 1
    asked_at: AwareDatetime
    present: WhatIfOutcome
    edited: WhatIfOutcome | None = None
    assumptions: list[str] = Field(
        default_factory=list, description="What the edited world takes for granted."
    )


class ReplayAnswer(Part):
    """A stored plan and the same question asked again, or of an edited world."""

    version: Literal[1] = 1
    plan_id: str
    made_at: AwareDatetime
    same: bool | None = Field(
        default=None, description="To the byte; absent where the world was edited."
    )
    why: str | None = Field(default=None, description="What a difference comes from.")
    stored: WhatIfOutcome
    replayed: WhatIfOutcome | None = Field(
        default=None, description="Absent where it is the same."
    )
    assumptions: list[str] = Field(default_factory=list)


class AppliedObject(Part):
    """One object of policy that was given."""

    kind: str
    name: str
    change: Change


class DriftingNodeDetail(Part):
    """A node that would drift, and be replaced."""

    node_claim: str
    reason: str
    reserved: bool
    price_micro_usd_per_hour: int = Field(
        description="0 for reserved capacity, which is paid for anyway."
    )


class NeverLaunchingPool(Part):
    """A pool that could never launch."""

    node_pool: str
    reason: str = Field(description='Completes "because".')


class ImpactDetail(Part):
    """What the changes would bring about; what is so already is no part of it."""

    drifting_nodes: list[DriftingNodeDetail]
    drifting_micro_usd_per_hour: int = Field(
        description="What is paid for those of them that were bought."
    )
    never_launching: list[NeverLaunchingPool]
    assumptions: list[str]


class ApplyAnswer(Part):
    """What an apply did, or would do."""

    version: Literal[1] = 1
    dry_run: bool
    changes: list[AppliedObject]
    impact: ImpactDetail | None = Field(default=None, description="Of a dry run.")
