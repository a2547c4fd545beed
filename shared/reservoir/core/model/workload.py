"""Workload: demand for replicas, in Kubernetes' own terms (what a Pod is to Karpenter, times its replicas)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.unknown_fields import KEEPS_UNKNOWN
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.scheduling_terms.taint import Toleration

NO_REQUIREMENTS: Final = Requirements.of()
ALL_CAPACITY_TYPES: Final = frozenset(CapacityType)


class WhenUnsatisfiable(StrEnum):
    """What a spread constraint that cannot be met does."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


class LabelSelectorOperator(StrEnum):
    """Operators of a label selector's expressions."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True)
class LabelSelectorExpression:
    """One expression of a label selector."""

    key: str
    operator: LabelSelectorOperator
    values: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Selects workloads by their labels; every part must hold. No parts: selects everything."""

    match_labels: tuple[tuple[str, str], ...] = ()  # sorted by key
    match_expressions: tuple[LabelSelectorExpression, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether all parts hold for ``labels``."""
        if any(labels.get(key) != value for key, value in self.match_labels):
            return False
        return all(
            _expression_holds(expression, labels) for expression in self.match_expressions
        )


def _expression_holds(
    expression: LabelSelectorExpression, labels: Mapping[str, str]
) -> bool:
    present = expression.key in labels
    if expression.operator is LabelSelectorOperator.EXISTS:
        return present
    if expression.operator is LabelSelectorOperator.DOES_NOT_EXIST:
        return not present
    contained = present and labels[expression.key] in expression.values
    return contained if expression.operator is LabelSelectorOperator.IN else not contained


@dataclass(frozen=True, slots=True)
class TopologySpreadConstraint:
    """Spread replicas that ``selector`` matches evenly over the domains of ``topology_key``."""

    topology_key: str
    max_skew: int
    selector: LabelSelector
    when_unsatisfiable: WhenUnsatisfiable = WhenUnsatisfiable.DO_NOT_SCHEDULE
    min_domains: int | None = None
    node_affinity_policy_honor: bool = True
    node_taints_policy_honor: bool = False
    match_label_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """One pod (anti-)affinity term. ``weight`` None: required; otherwise 1..100, preferred."""

    topology_key: str
    selector: LabelSelector
    weight: int | None = None
    namespaces: frozenset[str] = frozenset()  # empty: the workload's own


def _within(term: AffinityTerm, may_reach: Callable[[str], bool]) -> AffinityTerm | None:
    """Return the term, if it is required without namespaces out of reach; None: there are no others."""
    if term.weight is not None or all(map(may_reach, term.namespaces)):
        return term
    reached = frozenset(filter(may_reach, term.namespaces))
    return replace(term, namespaces=reached) if reached else None


@dataclass(frozen=True, slots=True)
class PreferredNodeTerm:
    """A node-affinity preference."""

    weight: int
    requirements: Requirements


@dataclass(frozen=True, slots=True)
class FallbackStep:
    """A step of a fallback ladder: it allows one more capacity type, once the times of all earlier steps have passed.

    ``for_s`` None: the step lasts for ever.
    """

    capacity_type: CapacityType
    for_s: int | None = None


@dataclass(frozen=True, slots=True)
class Gang:
    """All replicas or none, optionally in one domain of a topology key (a zone, a network node, an UltraServer …)."""

    single_topology_key: str | None = None


USUAL_PART: Final = "25%"  # as of a Deployment


@dataclass(frozen=True, slots=True)
class RollingUpdate:
    """Replace replicas that were placed with an earlier spec, within bounds: counts, or percentages of those wanted."""

    max_surge: str = USUAL_PART
    max_unavailable: str = USUAL_PART

    def bounds(self, wanted: int) -> tuple[int, int]:
        """Return how many replicas there may be beyond ``wanted``, and how many may be missing; not both 0.

        As in Kubernetes a percentage is rounded up for the first and down for the second.
        """
        surge = _part_of(wanted, self.max_surge, rounded_up=True)
        missing = _part_of(wanted, self.max_unavailable, rounded_up=False)
        return (surge, missing) if surge or missing else (0, 1)


def _part_of(wanted: int, part: str, *, rounded_up: bool) -> int:
    if not part.endswith("%"):
        return int(part)
    hundredths = wanted * int(part[:-1])
    return -(-hundredths // 100) if rounded_up else hundredths // 100


@dataclass(frozen=True, slots=True)
class Workload:
    """The wanted state of one workload. ``requests`` are for one replica."""

    namespace: str
    name: str
    generation: int
    replicas: int
    requests: Resources
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    node_selector: Requirements = NO_REQUIREMENTS
    required_node_terms: tuple[Requirements, ...] = ()  # ORed, in order
    preferred_node_terms: tuple[PreferredNodeTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology_spread: tuple[TopologySpreadConstraint, ...] = ()
    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    gang: Gang | None = None
    duration_s: int | None = None
    checkpoint_period_s: int | None = None
    fallback: tuple[FallbackStep, ...] = ()
    max_price_micro_usd_per_hour: int | None = None
    do_not_disrupt: bool = False
    handover: bool | None = None
    # None: running replicas stay as they were placed until they leave
    rolling_update: RollingUpdate | None = None
    # a newer release's fields
    unknown: Mapping[str, Any] = field(default_factory=dict, metadata=KEEPS_UNKNOWN)
    # The identity, ``namespace/name``; kept, because a pass asks for it several times for each replica.
    key: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Name the workload."""
        object.__setattr__(self, "key", f"{self.namespace}/{self.name}")

    @property
    def single_topology_key(self) -> str | None:
        """The topology key by which all replicas must be in one domain, if the gang asks for that."""
        return None if self.gang is None else self.gang.single_topology_key

    @property
    def has_topology_terms(self) -> bool:
        """Whether it has rules about where other replicas are."""
        return bool(self.topology_spread or self.affinity or self.anti_affinity)

    @property
    def is_handed_over(self) -> bool:
        """Whether a replica starts only when the one that it follows has left its node.

        Work with a checkpoint continues from it; two replicas at once would write the same checkpoint.
        """
        if self.handover is not None:
            return self.handover
        return self.checkpoint_period_s is not None

    @property
    def may_be_split(self) -> bool:
        """Whether it may run for a part of its time in a reservation that ends before it does."""
        return self.handover is True and self.duration_s is not None

    def across_ends(self) -> "Workload":
        """Return it as it is planned: work that is handed over when a reservation ends may be longer than that."""
        return replace(self, duration_s=None) if self.may_be_split else self

    def at_home(self, may_reach: Callable[[str], bool]) -> "Workload":
        """Return it with no required anti-affinity to namespaces that do not let it reach them."""
        kept = tuple(
            each
            for term in self.anti_affinity
            if (each := _within(term, may_reach)) is not None
        )
        return self if kept == self.anti_affinity else replace(self, anti_affinity=kept)

    def within_notice(self, longest: timedelta) -> "Workload":
        """Return it with no more notice than the longest that any work gets."""
        most_s = int(longest.total_seconds())
        wants_more = (
            self.checkpoint_period_s is not None and self.checkpoint_period_s > most_s
        )
        return replace(self, checkpoint_period_s=most_s) if wants_more else self

    def reached_capacity_types(
        self, pending_since: datetime, now: datetime
    ) -> frozenset[CapacityType]:
        """Return the capacity types that the fallback ladder allows at ``now``; all of them without a ladder."""
        if not self.fallback:
            return ALL_CAPACITY_TYPES
        return frozenset(
            capacity_type
            for opens_at, capacity_type in self._opening_times(pending_since)
            if opens_at <= now
        )

    def next_step_at(self, pending_since: datetime, now: datetime) -> datetime | None:
        """Return when the ladder's next step opens, or None when no later one will."""
        for opens_at, _ in self._opening_times(pending_since):
            if opens_at > now:
                return opens_at
        return None

    def _opening_times(
        self, pending_since: datetime
    ) -> Iterator[tuple[datetime, CapacityType]]:
        """Yield when each step of the ladder opens and the type that it allows, up to a step that lasts for ever."""
        opens_at = pending_since
        for step in self.fallback:
            yield opens_at, step.capacity_type
            if step.for_s is None:
                return
            opens_at += timedelta(seconds=step.for_s)


@dataclass(frozen=True, slots=True)
class Withheld:
    """Capacity types on which a quota of its team leaves no room for replicas, and what to say about it."""

    capacity_types: frozenset[CapacityType]
    note: str
    back_at: datetime | None = None  # when what others borrow should come back


@dataclass(frozen=True, slots=True)
class Demand:
    """Replicas of a workload that run nowhere yet. ``pending_since`` starts the fallback ladder's clock.

    ``budget_atto_usd_per_hour`` is what its team's budget leaves for what one solve buys for it; None: no bound.
    A solve may be given several demands of one workload, which differ in what is ``withheld`` of their replicas.
    ``was_late``: whether time was short when a pass last looked at it; None: no pass has looked at it.
    """

    workload: Workload
    pending_count: int
    pending_since: datetime
    budget_atto_usd_per_hour: int | None = None
    withheld: tuple[Withheld, ...] = ()
    was_late: bool | None = None

    @property
    def is_price_capped(self) -> bool:
        """Whether the price of its nodes is bounded, by the workload or by its team's budget."""
        return (
            self.workload.max_price_micro_usd_per_hour is not None
            or self.budget_atto_usd_per_hour is not None
        )
