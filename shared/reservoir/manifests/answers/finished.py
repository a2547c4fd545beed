"""What ``reservoir finished`` prints for programs."""

from typing import Literal

from pydantic import AwareDatetime, Field

from reservoir.manifests.event_parts import Part


class FinishedPlace(Part):
    """A kind of node that a workload had."""

    instance_type: str
    capacity_type: str
    zone: str


class FinishedRun(Part):
    """One run of a workload that is over."""

    namespace: str
    name: str
    team: str | None = None
    how: str = Field(description="`completed` or `withdrawn`.")
    replicas: int = Field(
        description="What was wanted, or the most that one decision placed."
    )
    submitted_at: AwareDatetime | None = Field(
        default=None, description="Absent: longer ago than was read."
    )
    placed_at: AwareDatetime | None = Field(
        default=None, description="Absent: never, or longer ago than was read."
    )
    ended_at: AwareDatetime
    ran_s: int | None = Field(default=None, description="From the first place to the end.")
    micro_usd: int = Field(
        description="Its share of what its nodes cost beside reservations, as far as was read."
    )
    failures: int = Field(
        description="Ends of its commands with a failure, after which they were started again."
    )
    exit_code: int | None = Field(
        default=None, description="Of its last command; absent: no node reported it."
    )
    places: list[FinishedPlace]


class FinishedAnswer(Part):
    """What has ended in a time, in the order in which it ended."""

    version: Literal[1] = 1
    since: AwareDatetime
    until: AwareDatetime
    runs: list[FinishedRun]
