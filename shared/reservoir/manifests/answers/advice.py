"""The answer to ``reservoir advise``. Money in micro-USD, of 30 days."""

from typing import Literal

from pydantic import AwareDatetime, Field

from reservoir.manifests.event_parts import Part


class AdvisedChange(Part):
    """More or fewer units, and what that would have come to beside all other changes."""

    capacity_reservation_id: str | None = Field(
        default=None, description="Absent for one that is to be made."
    )
    instance_type: str
    zone: str
    units: int = Field(description="What is held for Reservoir now.")
    units_advised: int
    paid_less_micro_usd: int = Field(
        description="What AWS is paid less in 30 days; negative: more."
    )
    waiting_less_replica_s: int = Field(
        description="Waiting of replicas that is saved in 30 days; negative: more."
    )
    saves_micro_usd: int = Field(description="Both in 30 days, waiting at its worth.")
    weeks_saved: int = Field(description="In so many weeks it would have saved,")
    weeks: int = Field(description="of so many that were played.")
    against: list[str] = Field(description="What speaks against it.")
    command: str = Field(description="What does it, with AWS's command line.")


class AdvisedCost(Part):
    """What 30 days come to."""

    held_micro_usd: int = Field(
        description="Units of on-demand reservations, used or not, at on-demand prices."
    )
    bought_micro_usd: int = Field(description="Nodes beside them.")
    waiting_replica_s: int
    waiting_micro_usd: int


class AdviceAnswer(Part):
    """What to change; no changes: change nothing."""

    version: Literal[1] = 1
    since: AwareDatetime = Field(description="The demand that was played begins here;")
    until: AwareDatetime = Field(description="and ends here.")
    asked_since: AwareDatetime
    workloads: int
    worth_percent: int = Field(
        description="A waiting replica costs so much of its capacity on demand."
    )
    before: AdvisedCost
    after: AdvisedCost
    changes: list[AdvisedChange]
    notes: list[str]
