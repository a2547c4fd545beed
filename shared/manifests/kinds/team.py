"""Team (``reservoir/v1``): who may ask for what."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from shared.core.model.team import DEFAULT_COHORT, Quota, ReclaimWithinCohort, Team, TeamLimits
from shared.manifests.kinds.selector_terms import MOST_TERMS, ReservationTerm
from shared.manifests.kinds.workload import MOST_REPLICAS
from shared.manifests.parsing.fields import Namespace, ObjectName, Price, check_distinct, matching, micro_usd
from shared.manifests.parsing.metadata import LARGEST_INTEGER, Metadata, ServerSide
from shared.manifests.parsing.model import Contradiction, Model

API_VERSION: Final = "reservoir/v1"
KIND: Final = "Team"
MOST_NAMESPACES: Final = 200
MOST_PRINCIPALS: Final = 50
MOST_QUOTAS: Final = 50
MOST_NODE_POOLS: Final = 100
MOST_UNITS: Final = 1_000_000

_UNIQUE_ID: Final = "(AROA|AIDA)[A-Z0-9]{12,124}"
_ARN: Final = r"arn:aws[a-z-]{0,20}:iam::[0-9]{12}:(role|user)/[A-Za-z0-9+=,.@_/-]{1,512}"


def is_unique_id(principal: str) -> bool:
    """Whether a principal is named by IAM's unique id, not by an ARN."""
    return re.fullmatch(_UNIQUE_ID, principal) is not None


Principal = Annotated[
    str,
    AfterValidator(
        matching(
            "principal",
            rf"^({_UNIQUE_ID}|{_ARN})$",
            "must be the ARN of an IAM role or user (arn:aws:iam::123456789012:role/name), or its unique id (AROA…)",
        )
    ),
]


class TeamLimitsSpec(Model):
    """What one message may ask for."""

    priority: int | None = Field(default=None, ge=-(2**31), le=2**31 - 1, description="Highest priority of a workload.")
    replicas: int | None = Field(default=None, ge=1, le=MOST_REPLICAS, description="Most replicas of a workload.")
    generation_jump: int | None = Field(
        default=None,
        ge=1,
        le=LARGEST_INTEGER,
        description="How far above the stored generation (0: none is stored) that of a message may be.",
    )


class QuotaSpec(Model):
    """Units of reservations that the team owns, borrows and lends."""

    capacity_reservation_selector_terms: list[ReservationTerm] = Field(
        min_length=1, max_length=MOST_TERMS, description="Whose units; teams that share them write the same terms."
    )
    nominal_quota: int = Field(ge=0, le=MOST_UNITS, description="How many units are the team's own.")
    borrowing_limit: int | None = Field(
        default=None, ge=0, le=MOST_UNITS, description="How many more it may use while nobody wants them."
    )
    lending_limit: int | None = Field(
        default=None, ge=0, le=MOST_UNITS, description="How many of its own its cohort may use meanwhile."
    )

    def to_core(self) -> Quota:
        """Return the quota of the core."""
        terms = tuple(term.to_core() for term in self.capacity_reservation_selector_terms)
        return Quota(terms, self.nominal_quota, self.borrowing_limit, self.lending_limit)


class FairSharing(Model):
    """How what nobody owns, or wants of their own, is divided among those who want it."""

    weight: int = Field(default=1, ge=1, le=1000, description="A team of weight 2 borrows twice as much as one of 1.")


class TeamBudgetSpec(Model):
    """What may be spent on what is bought; reserved use is never held back."""

    usd_per_hour: Price | None = Field(default=None, description="What spot and on-demand nodes may cost an hour.")
    usd_per_month: Price | None = Field(
        default=None,
        description="What they may cost in a month (UTC): nothing is bought that what is left of it could not pay for"
        " an hour, beside what runs.",
    )

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Refuse a budget of nothing."""
        if raw.get("usdPerHour") is None and raw.get("usdPerMonth") is None:
            yield Contradiction("usdPerHour", "budget", "usdPerHour or usdPerMonth is required")


class TeamSpec(Model):
    """Who the team is, and what it may ask for."""

    namespaces: Annotated[list[Namespace], AfterValidator(check_distinct)] = Field(
        min_length=1, max_length=MOST_NAMESPACES, description="Namespaces of workloads; each belongs to one team."
    )
    principals: Annotated[list[Principal], AfterValidator(check_distinct)] = Field(
        default_factory=list,
        max_length=MOST_PRINCIPALS,
        description="Who may act for the namespaces; none: whoever may send to the demand queue.",
    )
    node_pools: Annotated[list[ObjectName], AfterValidator(check_distinct)] = Field(
        default_factory=list,
        max_length=MOST_NODE_POOLS,
        description="NodePools on whose nodes its work may be placed; none: on all. What runs elsewhere stays.",
    )
    limits: TeamLimitsSpec = TeamLimitsSpec()
    quotas: list[QuotaSpec] = Field(default_factory=list, max_length=MOST_QUOTAS)
    cohort: ObjectName = Field(default=DEFAULT_COHORT, description="Teams of one cohort lend each other their units.")
    fair_sharing: FairSharing = FairSharing()
    budget: TeamBudgetSpec | None = None
    reclaim_within_cohort: Annotated[ReclaimWithinCohort, Field(strict=False)] = Field(
        default=ReclaimWithinCohort.NEVER,
        description="From whom units are taken back that were lent and that waiting work of the team could use.",
    )


class TeamManifest(Model):
    """A team."""

    api_version: Literal["reservoir/v1"]
    kind: Literal["Team"]
    metadata: Metadata
    spec: TeamSpec
    status: ServerSide

    def to_core(self) -> Team:
        """Return the team of the core, with no principal resolved."""
        spec = self.spec
        return Team(
            name=self.metadata.name,
            namespaces=tuple(sorted(spec.namespaces)),
            principals=tuple(sorted(spec.principals)),
            node_pools=tuple(sorted(spec.node_pools)),
            limits=TeamLimits(spec.limits.priority, spec.limits.replicas, spec.limits.generation_jump),
            quotas=tuple(quota.to_core() for quota in spec.quotas),
            cohort=spec.cohort,
            weight=spec.fair_sharing.weight,
            reclaim_within_cohort=spec.reclaim_within_cohort,
            budget_micro_usd_per_hour=_micro_usd(None if spec.budget is None else spec.budget.usd_per_hour),
            budget_micro_usd_per_month=_micro_usd(None if spec.budget is None else spec.budget.usd_per_month),
        )


def _micro_usd(price: str | None) -> int | None:
    return None if price is None else micro_usd(price)
