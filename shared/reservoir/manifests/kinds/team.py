"""Team (``reservoir/v1``): what a team may ask for, own and spend."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.team import (
    DEFAULT_COHORT,
    Quota,
    ReclaimWithinCohort,
    ResourceQuota,
    Team,
    TeamLimits,
)
from reservoir.core.scheduling_terms.quantity import QuantityError, parse_quantity
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.manifests.kinds.selector_terms import MOST_TERMS, ReservationTerm
from reservoir.manifests.kinds.workload import MOST_REPLICAS
from reservoir.manifests.kinds.workload_bounds import MOST_STORED_BYTES
from reservoir.manifests.parsing.fields import (
    CountOrQuantity,
    Duration,
    Namespace,
    ObjectName,
    Price,
    ResourceName,
    check_distinct,
    duration_s,
    matching,
    micro_usd,
    optional_seconds,
)
from reservoir.manifests.parsing.metadata import LARGEST_INTEGER, Metadata, ServerSide
from reservoir.manifests.parsing.model import Contradiction, Model

API_VERSION: Final = "reservoir/v1"
KIND: Final = "Team"
MOST_NAMESPACES: Final = 200
MOST_PRINCIPALS: Final = 50
MOST_QUOTAS: Final = 50
MOST_NODE_POOLS: Final = 100
MOST_TEAMS: Final = 100
MOST_UNITS: Final = 1_000_000
MOST_WAITING: Final = 100_000
MOST_WAITING_BYTES: Final = 2**30
MOST_MESSAGES: Final = 100_000
MOST_NEW: Final = 10_000_000

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
    """What its messages may ask for, and how many they may be; what is absent has a ceiling all the same."""

    priority: int | None = Field(
        default=None,
        ge=-(2**31),
        le=2**31 - 1,
        description="Highest priority of a workload.",
    )
    replicas: int | None = Field(
        default=None, ge=1, le=MOST_REPLICAS, description="Most replicas of a workload."
    )
    checkpoint_period: Duration | None = Field(
        default=None,
        description="Longest checkpointPeriod of a workload: how much notice it may want.",
    )
    do_not_disrupt: bool = Field(
        default=True,
        description="Whether a workload may say `karpenter.sh/do-not-disrupt`.",
    )
    generation_jump: int | None = Field(
        default=None,
        ge=1,
        le=LARGEST_INTEGER,
        description="How far above the stored generation (0: none is stored) that of a message may be.",
    )
    waiting_workloads: int | None = Field(
        default=None,
        ge=1,
        le=MOST_WAITING,
        description="Most workloads with replicas that wait, at a time.",
    )
    waiting_bytes: int | None = Field(
        default=None,
        ge=MOST_STORED_BYTES,
        le=MOST_WAITING_BYTES,
        description="Most bytes of a workload that waits, times how many wait: the more wait, the smaller they are.",
    )
    messages_per_minute: int | None = Field(
        default=None,
        ge=1,
        le=MOST_MESSAGES,
        description="Most messages in a minute; twice as many take demand back.",
    )
    new_workloads_per_day: int | None = Field(
        default=None,
        ge=1,
        le=MOST_NEW,
        description="Most workloads in a day (UTC) that were not there before.",
    )


class QuotaSpec(Model):
    """What the team owns, borrows and lends: units of reservations, or an amount of a resource on capacity types."""

    capacity_reservation_selector_terms: list[ReservationTerm] | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_TERMS,
        description="Whose units; teams that share them write the same terms.",
    )
    capacity_types: (
        Annotated[
            list[Annotated[CapacityType, Field(strict=False)]],
            Field(min_length=1, max_length=len(CapacityType)),
            AfterValidator(check_distinct),
        ]
        | None
    ) = Field(
        default=None,
        description="On which capacity types together; teams that share write the same ones.",
    )
    resource: ResourceName | None = Field(
        default=None, description="Of what: cpu, memory, nvidia.com/gpu."
    )
    nominal_quota: CountOrQuantity = Field(
        description="How many units, or how much of the resource, are the team's own."
    )
    borrowing_limit: CountOrQuantity | None = Field(
        default=None,
        description="How much more it may use while its owners do not need it.",
    )
    lending_limit: CountOrQuantity | None = Field(
        default=None, description="How much of its own its cohort may use meanwhile."
    )

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Refuse a quota of both kinds or of neither, and amounts that are none of its kind."""
        given = {name for name in raw if raw[name] is not None}
        of_units = given & {"capacityReservationSelectorTerms"}
        of_resource = given & {"capacityTypes", "resource"}
        if of_units and of_resource:
            message = f"cannot be combined with {' and '.join(sorted(of_resource))}"
            yield Contradiction("capacityReservationSelectorTerms", "quota", message)
        elif not of_units and len(of_resource) < 2:
            message = "needs capacityReservationSelectorTerms (units), or capacityTypes and resource (an amount)"
            yield Contradiction("", "quota", message)
        for name in ("nominalQuota", "borrowingLimit", "lendingLimit"):
            value = raw.get(name)
            if (
                of_units
                and not of_resource
                and value is not None
                and not _is_unit_count(value)
            ):
                yield Contradiction(
                    name, "units", f"must be a whole number of units from 0 to {MOST_UNITS}"
                )
            elif (
                of_resource == {"capacityTypes", "resource"}
                and not of_units
                and value is not None
            ):
                problem = _amount_problem(raw["resource"], value)
                if problem is not None:
                    yield Contradiction(name, "quantity", problem)

    def to_core(self) -> Quota | ResourceQuota:
        """Return the quota of the core; one of a resource is in millicores or bytes, else a whole count."""
        limits = self.borrowing_limit, self.lending_limit
        terms, resource = self.capacity_reservation_selector_terms, self.resource
        if terms is not None or resource is None:
            units = (None if limit is None else int(limit) for limit in limits)
            return Quota(
                tuple(term.to_core() for term in terms or ()),
                int(self.nominal_quota),
                *units,
            )
        amounts = (None if limit is None else _amount(resource, limit) for limit in limits)
        capacity_types = tuple(sorted(self.capacity_types or ()))
        return ResourceQuota(
            capacity_types, resource, _amount(resource, self.nominal_quota), *amounts
        )


def _amount(resource: str, quantity: int | str) -> int:
    return Resources.parse({resource: quantity})[resource]


def _is_unit_count(value: object) -> bool:
    return (
        isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_UNITS
    )


def _amount_problem(resource: object, value: object) -> str | None:
    """Say why the value is no amount of the resource; what is no quantity at all is reported where it stands."""
    if (
        not isinstance(resource, str)
        or isinstance(value, bool)
        or not isinstance(value, str | int | float)
    ):
        return None
    try:
        parse_quantity(text := value if isinstance(value, str) else repr(value))
    except QuantityError:
        return None
    try:
        _amount(resource, text)
    except QuantityError as error:
        return str(error)
    return None


class FairSharing(Model):
    """How units that no team owns, or needs itself, are divided among the teams that want them."""

    weight: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="A team of weight 2 borrows twice as much as one of 1.",
    )


class TeamBudgetSpec(Model):
    """What may be spent on what is bought; reserved use is never held back."""

    usd_per_hour: Price | None = Field(
        default=None, description="What spot and on-demand nodes may cost an hour."
    )
    usd_per_month: Price | None = Field(
        default=None,
        description="What they may cost in a month (UTC): nothing is bought that what is left of it could not pay for"
        " an hour, beside what runs.",
    )

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Refuse a budget of nothing."""
        if raw.get("usdPerHour") is None and raw.get("usdPerMonth") is None:
            yield Contradiction(
                "usdPerHour", "budget", "usdPerHour or usdPerMonth is required"
            )


class LoansSpec(Model):
    """What a borrower of the team's units may count on."""

    grace: Duration = Field(
        default="2h",
        description="How old a node must be before `karpenter.sh/do-not-disrupt` of borrowers keeps it no longer.",
    )


class TeamSpec(Model):
    """Who the team is, and what it may ask for."""

    namespaces: Annotated[list[Namespace], AfterValidator(check_distinct)] = Field(
        min_length=1,
        max_length=MOST_NAMESPACES,
        description="Namespaces of workloads; each belongs to one team.",
    )
    principals: Annotated[list[Principal], AfterValidator(check_distinct)] = Field(
        default_factory=list,
        max_length=MOST_PRINCIPALS,
        description="Who may act for the namespaces; none: every sender of the demand queue.",
    )
    node_pools: Annotated[list[ObjectName], AfterValidator(check_distinct)] = Field(
        default_factory=list,
        max_length=MOST_NODE_POOLS,
        description="NodePools on whose nodes its work may be placed; none: on all. What runs elsewhere stays.",
    )
    limits: TeamLimitsSpec = TeamLimitsSpec()
    quotas: list[QuotaSpec] = Field(default_factory=list, max_length=MOST_QUOTAS)
    loans: LoansSpec = LoansSpec()
    affinity_from: Annotated[list[ObjectName], AfterValidator(check_distinct)] = Field(
        default_factory=list,
        max_length=MOST_TEAMS,
        description="Teams whose required pod affinity and anti-affinity may name the team's namespaces; none: its own"
        " alone.",
    )
    cohort: ObjectName = Field(
        default=DEFAULT_COHORT,
        description="Teams of one cohort lend each other their units.",
    )
    fair_sharing: FairSharing = FairSharing()
    budget: TeamBudgetSpec | None = None
    reclaim_within_cohort: Annotated[ReclaimWithinCohort, Field(strict=False)] = Field(
        default=ReclaimWithinCohort.NEVER,
        description="From which teams lent units are taken back that waiting work of the team could use.",
    )

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Refuse quotas of resources that overlap: what a replica requests on a capacity type counts in one."""
        seen: dict[frozenset[str], set[str]] = {}
        for capacity_types, resource in _resource_quotas(raw.get("quotas")):
            words = " and ".join(sorted(capacity_types))
            if resource in seen.get(capacity_types, ()):
                yield Contradiction(
                    "quotas", "quota", f"two are about {resource} on {words}"
                )
            for other in seen:
                if other != capacity_types and other & capacity_types:
                    shared = " and ".join(sorted(other))
                    message = f"one is about {shared}, another about {words}: these must be the same or apart"
                    yield Contradiction("quotas", "quota", message)
            seen.setdefault(capacity_types, set()).add(resource)


def _resource_quotas(quotas: object) -> Iterator[tuple[frozenset[str], str]]:
    """Yield capacity types and resource of what may be quotas of resources."""
    for quota in quotas if isinstance(quotas, list) else ():
        found = quota if isinstance(quota, dict) else {}
        capacity_types, resource = found.get("capacityTypes"), found.get("resource")
        if isinstance(capacity_types, list) and isinstance(resource, str):
            yield (
                frozenset(each for each in capacity_types if isinstance(each, str)),
                resource,
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
        quotas = [quota.to_core() for quota in spec.quotas]
        return Team(
            name=self.metadata.name,
            namespaces=tuple(sorted(spec.namespaces)),
            principals=tuple(sorted(spec.principals)),
            node_pools=tuple(sorted(spec.node_pools)),
            limits=TeamLimits(
                priority=spec.limits.priority,
                replicas=spec.limits.replicas,
                checkpoint_period_s=optional_seconds(spec.limits.checkpoint_period),
                do_not_disrupt=spec.limits.do_not_disrupt,
                generation_jump=spec.limits.generation_jump,
                waiting_workloads=spec.limits.waiting_workloads,
                waiting_bytes=spec.limits.waiting_bytes,
                messages_per_minute=spec.limits.messages_per_minute,
                new_workloads_per_day=spec.limits.new_workloads_per_day,
            ),
            quotas=tuple(quota for quota in quotas if isinstance(quota, Quota)),
            resource_quotas=tuple(
                quota for quota in quotas if isinstance(quota, ResourceQuota)
            ),
            cohort=spec.cohort,
            loan_grace_s=duration_s(spec.loans.grace),
            affinity_from=tuple(sorted(spec.affinity_from)),
            weight=spec.fair_sharing.weight,
            reclaim_within_cohort=spec.reclaim_within_cohort,
            budget_micro_usd_per_hour=_micro_usd(
                None if spec.budget is None else spec.budget.usd_per_hour
            ),
            budget_micro_usd_per_month=_micro_usd(
                None if spec.budget is None else spec.budget.usd_per_month
            ),
        )


def _micro_usd(price: str | None) -> int | None:
    return None if price is None else micro_usd(price)
