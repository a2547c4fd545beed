"""Events about teams, every ten minutes: how much each uses of shared resources, and the rest of its budgets."""

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from reservoir.manifests.event_parts import Event, Part


class QuotaShare(Part):
    """What a team owns, uses and has lent of one group of reservations, in units."""

    reservations: str = Field(description="The group, as its selector terms say.")
    nominal: int = Field(description="How many it owns.")
    used: int
    borrowed: int = Field(description="How many it uses beyond those.")
    lent: int = Field(
        description="How many of its own it does not use and that are not free either."
    )
    total: int = Field(description="All units of the group.")


class ResourceShare(Part):
    """What a team owns, requests and has lent of a resource on some capacity types, as manifests write amounts."""

    capacity_types: list[str]
    resource: str
    nominal: str = Field(description="How much it owns.")
    used: str = Field(description="What its replicas request.")
    borrowed: str = Field(description="How much that is beyond what it owns.")
    borrowers: dict[str, str] = Field(description="How much others borrow, by team.")


class TeamShareReported(Event):
    """What a team uses and spends, every ten minutes: its part of shared resources, and of its budgets."""

    detail_type: ClassVar[str] = "Team Share"

    team: str
    quotas: list[QuotaShare]
    resources: list[ResourceShare] = Field(
        default=[], description="Quotas of resources, if it has any."
    )
    month: str = Field(description="The month (UTC) that was spent in: `2026-01`.")
    spent_micro_usd: int = Field(description="What was bought for it in the month so far.")
    forecast_micro_usd: int = Field(
        description="What that comes to by the end of the month if what runs goes on."
    )
    micro_usd_per_hour: int = Field(description="What is bought for it costs an hour now.")


class BudgetPeriod(StrEnum):
    """The period that a budget covers."""

    HOUR = "hour"
    MONTH = "month"


class TeamOverBudget(Event):
    """A budget is, or will be, used up; published every ten minutes while that is so.

    Nothing that runs ends because of it.
    """

    detail_type: ClassVar[str] = "Team Over Budget"

    team: str | None = Field(
        default=None, description="Absent: the ceiling of the deployment."
    )
    period: BudgetPeriod
    limit_micro_usd: int
    spent_micro_usd: int = Field(
        description="In the month so far; of an hour what runs costs."
    )
    forecast_micro_usd: int = Field(
        description="What that comes to by the end of the month; of an hour the same."
    )
    waiting_replicas: int = Field(
        description="Replicas that wait because nothing may be bought for them."
    )
