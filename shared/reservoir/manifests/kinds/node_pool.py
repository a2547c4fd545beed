"""NodePool (``karpenter.sh/v1``) in Karpenter's own shape."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.node_pool import (
    Budget,
    ConsolidationPolicy,
    Disruption,
    DisruptionReason,
    NodePool,
    WarmReserved,
)
from reservoir.core.model.schedule import MACROS, CronSchedule, ScheduleError
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import NODES, Resources
from reservoir.manifests.kinds.selection import (
    MOST_REQUIREMENTS,
    OWN_LABELS,
    PoolRequirement,
    TaintSpec,
    check_count_or_percentage,
    integer_as_text,
    requirements_of,
)
from reservoir.manifests.kinds.workload import Quantities
from reservoir.manifests.parsing import nearest
from reservoir.manifests.parsing.fields import (
    DURATION_PATTERN,
    Annotations,
    Duration,
    DurationOrNever,
    LabelKey,
    LabelValue,
    ObjectName,
    broken,
    check_duration,
    duration_s,
    optional_seconds,
    seconds_or_never,
    without_nulls,
)
from reservoir.manifests.parsing.hashing import static_hash
from reservoir.manifests.parsing.metadata import Metadata, ServerSide
from reservoir.manifests.parsing.model import Contradiction, Model, text_in
from reservoir.manifests.parsing.problems import shown
from reservoir.names import MOVABLE_TAG, MOVABLE_VALUE

API_VERSION: Final = "karpenter.sh/v1"
KIND: Final = "NodePool"
WHILE_RESERVATION_LASTS: Final = "WhileReservationLasts"
ALL_RESERVED: Final = "allReserved"
ALL: Final = "All"
MOST_REPLICAS: Final = 10_000  # of a static pool; far more than a fleet of one has


def _check_template_label(key: str) -> str:
    reason = labels.restriction(key)
    if key in OWN_LABELS:
        reason = OWN_LABELS[key]
    if reason is not None:
        allowed = labels.WELL_KNOWN - OWN_LABELS.keys()
        raise broken("label-restricted", reason, partial(labels.closest, key, allowed))
    return key


# Groups and kinds of node classes that a nodeClassRef may name elsewhere, and whose they are.
_OTHER_CLASSES: Final[Mapping[str, str]] = {
    "eks.amazonaws.com": "EKS Auto Mode, which launches its own nodes",
    "NodeClass": "EKS Auto Mode, which launches its own nodes",
    "karpenter.sagemaker.amazonaws.com": "SageMaker HyperPod, which launches its own nodes",
    "HyperpodNodeClass": "SageMaker HyperPod, which launches its own nodes",
    "karpenter.azure.com": "Karpenter for Azure",
    "AKSNodeClass": "Karpenter for Azure",
    "karpenter.k8s.gcp": "Karpenter for Google Cloud",
    "GCENodeClass": "Karpenter for Google Cloud",
    "oci.oraclecloud.com": "Karpenter for Oracle Cloud",
    "OCINodeClass": "Karpenter for Oracle Cloud",
    "karpenter.kwok.sh": "Karpenter's tests without a cloud",
    "KWOKNodeClass": "Karpenter's tests without a cloud",
}


def _refuse_other_classes(value: Any) -> Any:
    whose = _OTHER_CLASSES.get(value) if isinstance(value, str) else None
    if whose is not None:
        message = f"{value} is of {whose}: make an EC2NodeClass of karpenter.k8s.aws/v1, and name that"
        raise broken("not-served", message)
    return value


def check_schedule(text: str) -> str:
    """Return a cron schedule that can be read; raises PydanticCustomError for another."""
    try:
        CronSchedule.parse(text)
    except ScheduleError as error:
        raise broken(
            "schedule", str(error), partial(labels.closest, text.lower(), MACROS)
        ) from error
    return text


def check_time_zone(name: str) -> str:
    """Return the name of a time zone that is known; raises PydanticCustomError for another."""
    try:
        CronSchedule.parse("@daily", name)
    except ScheduleError as error:
        raise broken("time-zone", str(error), partial(nearest.time_zone, name)) from error
    return name


def _check_keep_reserved(text: str) -> str:
    if text[:1].isalpha() and text != WHILE_RESERVATION_LASTS:
        message = f"must be a duration, or {WHILE_RESERVATION_LASTS}"
        raise broken(
            "duration", message, partial(labels.closest, text, [WHILE_RESERVATION_LASTS])
        )
    return text if text == WHILE_RESERVATION_LASTS else check_duration(text)


KeepReserved = Annotated[
    str,
    AfterValidator(_check_keep_reserved),
    Field(
        json_schema_extra={"pattern": rf"{DURATION_PATTERN}|^{WHILE_RESERVATION_LASTS}$"}
    ),
]


def _check_count(value: Any, *, word: str, rule: str) -> Any:
    """Check that it is a number of nodes, or the one word."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if value == word or (is_number and 0 <= value <= MOST_REPLICAS):
        return value
    message = f"must be a whole number from 0 to {MOST_REPLICAS:,}, or {word}"
    raise broken(
        rule,
        message,
        lambda: labels.closest(value, [word]) if isinstance(value, str) else None,
    )


_check_replicas = partial(_check_count, word=ALL_RESERVED, rule="replicas")
_check_warm = partial(_check_count, word=ALL, rule="warm-reserved")


Schedule = Annotated[str, Field(max_length=200), AfterValidator(check_schedule)]
TimeZone = Annotated[str, Field(max_length=64), AfterValidator(check_time_zone)]
Warm = Annotated[
    Any,
    AfterValidator(_check_warm),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": MOST_REPLICAS},
                {"const": ALL},
            ]
        }
    ),
]
Replicas = Annotated[
    Any,
    AfterValidator(_check_replicas),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": MOST_REPLICAS},
                {"const": ALL_RESERVED},
            ]
        }
    ),
]


class NodeClassRef(Model):
    """The EC2NodeClass that the pool launches with."""

    moved: ClassVar[Mapping[str, str]] = {
        "apiVersion": "v1 names the group alone, karpenter.k8s.aws, as group"
    }

    group: Annotated[
        Literal["karpenter.k8s.aws"], BeforeValidator(_refuse_other_classes)
    ] = "karpenter.k8s.aws"
    kind: Annotated[Literal["EC2NodeClass"], BeforeValidator(_refuse_other_classes)] = (
        "EC2NodeClass"
    )
    name: ObjectName


class TemplateMetadata(Model):
    """What every node of the pool carries."""

    labels: Annotated[
        dict[Annotated[LabelKey, AfterValidator(_check_template_label)], LabelValue],
        BeforeValidator(without_nulls),
    ] = Field(default_factory=dict, max_length=100)
    annotations: Annotated[Annotations, BeforeValidator(without_nulls)] = Field(
        default_factory=dict
    )


class TemplateSpec(Model):
    """What the pool's nodes may be."""

    moved: ClassVar[Mapping[str, str]] = {
        "kubelet": "v1 moved it to EC2NodeClass: write it there"
    }

    node_class_ref: NodeClassRef
    requirements: list[PoolRequirement] = Field(
        max_length=MOST_REQUIREMENTS,
        description="What must hold of every node; empty allows everything.",
    )
    taints: list[TaintSpec] = Field(default_factory=list, max_length=100)
    startup_taints: list[TaintSpec] = Field(default_factory=list, max_length=100)
    expire_after: DurationOrNever = "720h"
    termination_grace_period: Duration | None = Field(
        default=None, description="Bounds every drain of the pool."
    )

    @classmethod
    def refusals(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Check that no two taints have the same key and effect: a node keeps only one of them."""
        seen = set[tuple[str, str]]()
        for name in ("taints", "startupTaints"):
            given = raw.get(name)
            for taint in given if isinstance(given, list) else ():
                about = (
                    (text_in(taint, "key"), text_in(taint, "effect"))
                    if isinstance(taint, dict)
                    else ("", "")
                )
                if all(about) and about in seen:
                    message = f"has two taints of key {shown(about[0])} and effect {shown(about[1])}"
                    yield Contradiction(name, "distinct", message)
                seen.add(about)


class Template(Model):
    """The template of the pool's nodes."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: TemplateSpec


class BudgetSpec(Model):
    """How many nodes may be disrupted at once; the most restrictive active budget counts."""

    nodes: Annotated[
        str,
        BeforeValidator(integer_as_text),
        AfterValidator(partial(check_count_or_percentage, "budget-nodes")),
    ] = "10%"
    reasons: list[Annotated[DisruptionReason, Field(strict=False)]] = Field(
        default_factory=list, max_length=10, description="None: every reason."
    )
    schedule: Schedule | None = Field(
        default=None,
        description="Cron expression of five fields, or @daily and its like; with a duration.",
    )
    duration: Duration | None = None
    time_zone: TimeZone = Field(default="UTC", description="Time zone of the schedule.")

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Check that a window has both a start and a length."""
        if (raw.get("schedule") is None) != (raw.get("duration") is None):
            missing = "duration" if raw.get("duration") is None else "schedule"
            yield Contradiction(
                missing, "budget-window", "schedule and duration must be given together"
            )

    @classmethod
    def refusals(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Check that the budget bounds something: to Karpenter it bounds nothing if its list of reasons is empty."""
        if raw.get("reasons") == []:
            message = "names no reason; leave it out for a budget of every reason"
            yield Contradiction("reasons", "budget-reasons", message)

    def to_core(self) -> Budget:
        """Return the budget of the core."""
        duration = None if self.duration is None else duration_s(self.duration)
        return Budget(
            self.nodes, frozenset(self.reasons), self.schedule, duration, self.time_zone
        )


class DisruptionSpec(Model):
    """When and how much the pool's nodes may be disrupted."""

    consolidation_policy: Annotated[ConsolidationPolicy, Field(strict=False)] = (
        ConsolidationPolicy.WHEN_EMPTY_OR_UNDERUTILIZED
    )
    consolidate_after: DurationOrNever = "0s"
    budgets: list[BudgetSpec] = Field(default_factory=lambda: [BudgetSpec()], max_length=50)
    keep_reserved: KeepReserved | None = Field(
        default=None,
        description=f"Keep empty reserved nodes so long, or {WHILE_RESERVATION_LASTS}; absent: give them back.",
    )
    move_reserved_units: bool = Field(
        default=False,
        description=f"Move free units between equal reservations tagged {MOVABLE_TAG}={MOVABLE_VALUE} to be used.",
    )

    @property
    def keep_reserved_s(self) -> int | None:
        """Seconds as the core counts them: 0 keeps for ever, None not at all."""
        if self.keep_reserved is None:
            return None
        if self.keep_reserved == WHILE_RESERVATION_LASTS:
            return 0
        return duration_s(self.keep_reserved)

    def to_core(self) -> Disruption:
        """Return the settings of the core."""
        return Disruption(
            consolidation_policy=self.consolidation_policy,
            consolidate_after_s=seconds_or_never(self.consolidate_after),
            budgets=tuple(budget.to_core() for budget in self.budgets),
            keep_reserved_s=self.keep_reserved_s,
            move_reserved_units=self.move_reserved_units,
        )


class WarmWindowSpec(Model):
    """When free units are kept warm, as a budget says when it holds."""

    schedule: Schedule = Field(
        description="Cron expression of five fields, or @daily and its like."
    )
    duration: Duration
    time_zone: TimeZone = Field(default="UTC", description="Time zone of the schedule.")


class NodePoolSpec(Model):
    """Which nodes may exist."""

    template: Template
    disruption: DisruptionSpec = DisruptionSpec()
    limits: Annotated[Quantities, BeforeValidator(without_nulls)] | None = Field(
        default=None, description='Resources in use at most, and "nodes".'
    )
    weight: int | None = Field(
        default=None, ge=1, le=100, description="Pools with a higher weight are used first."
    )
    replicas: Replicas | None = Field(
        default=None,
        description=f"A static pool: so many nodes stand, or as many as its reservations have units ({ALL_RESERVED}).",
    )
    warm_reserved: Warm | None = Field(
        default=None,
        description=f"Boot so many free reserved units ahead, or {ALL}; whoever needs a unit gets it.",
    )
    warm_reserved_during: WarmWindowSpec | None = Field(
        default=None, description="When; absent: always."
    )

    def warm(self) -> WarmReserved | None:
        """Return which free units the core keeps warm."""
        if self.warm_reserved is None:
            return None
        nodes = None if self.warm_reserved == ALL else self.warm_reserved
        during = self.warm_reserved_during
        if during is None:
            return WarmReserved(nodes)
        return WarmReserved(
            nodes, during.schedule, duration_s(during.duration), during.time_zone
        )

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Check, as Karpenter does, what a static pool may have; and what belongs together."""
        if raw.get("warmReserved") is None and raw.get("warmReservedDuring") is not None:
            message = f"is without warmReserved: say how many units, or {ALL}"
            yield Contradiction("warmReservedDuring", "warm-window", message)
        if raw.get("replicas") is None:
            return
        if raw.get("warmReserved") is not None:
            message = "is of no use to a static pool, whose nodes stand whether or not work is on them"
            yield Contradiction("warmReserved", "static", message)
        if raw.get("weight") is not None:
            yield Contradiction(
                "weight",
                "static",
                "is of no use to a static pool, which is not chosen for demand",
            )
        limits = raw.get("limits")
        others = (
            sorted(str(name) for name in limits if name != NODES)
            if isinstance(limits, dict)
            else []
        )
        if others:
            message = f"may bound only nodes in a static pool, not {', '.join(others)}"
            yield Contradiction("limits", "static", message)


def _names_types(requirements: Requirements) -> bool:
    """Whether the pool's types are chosen by name, or their GPUs by size.

    A part of a GPU is a GPU to the workload that requests one, and the cheapest: pools that do not choose leave such
    types out.
    """
    chosen = (labels.INSTANCE_TYPE, labels.INSTANCE_FAMILY)
    listed = any(key in requirements and not requirements[key].complement for key in chosen)
    by_size = any(
        key in requirements for key in (labels.GPU_FRACTION, labels.INSTANCE_GPU_MEMORY)
    )
    markets = requirements[labels.CAPACITY_TYPE]
    only_reserved = not any(
        markets.has(market) for market in (CapacityType.ON_DEMAND, CapacityType.SPOT)
    )
    return listed or by_size or only_reserved


class NodePoolManifest(Model):
    """A pool."""

    api_version: Literal["karpenter.sh/v1"]
    kind: Literal["NodePool"]
    metadata: Metadata
    spec: NodePoolSpec
    status: ServerSide

    def to_core(self) -> NodePool:
        """Return the pool of the core; its requirements contain the template's labels and its own name."""
        template, spec = self.spec.template.spec, self.spec
        own_labels = dict(sorted(self.spec.template.metadata.labels.items()))
        fixed = {
            **own_labels,
            labels.NODE_POOL: self.metadata.name,
            labels.NODE_CLASS: template.node_class_ref.name,
        }
        requirements = requirements_of(list(template.requirements)).add(
            *(Requirement.new(key, Operator.IN, (value,)) for key, value in fixed.items())
        )
        if not _names_types(requirements):
            requirements = requirements.add(
                Requirement.new(labels.GPU_FRACTION, Operator.DOES_NOT_EXIST)
            )
        return NodePool(
            name=self.metadata.name,
            node_class_name=template.node_class_ref.name,
            requirements=requirements,
            labels=own_labels,
            annotations=dict(sorted(spec.template.metadata.annotations.items())),
            taints=tuple(taint.to_core() for taint in template.taints),
            startup_taints=tuple(taint.to_core() for taint in template.startup_taints),
            weight=spec.weight or 0,
            limits=None if spec.limits is None else Resources.parse(spec.limits),
            disruption=spec.disruption.to_core(),
            expire_after_s=seconds_or_never(template.expire_after),
            termination_grace_period_s=optional_seconds(template.termination_grace_period),
            replicas=spec.replicas if isinstance(spec.replicas, int) else None,
            all_reserved=spec.replicas == ALL_RESERVED,
            warm_reserved=spec.warm(),
            static_hash=self.static_hash(),
        )

    def static_hash(self) -> str:
        """Hash what cannot change on a running node: all of the template but its requirements."""
        template = self.spec.template.spec
        return static_hash(
            {
                "labels": self.spec.template.metadata.labels,
                "annotations": self.spec.template.metadata.annotations,
                "taints": sorted(str(taint.to_core()) for taint in template.taints),
                "startupTaints": sorted(
                    str(taint.to_core()) for taint in template.startup_taints
                ),
                "nodeClass": template.node_class_ref.name,
                "expireAfterS": seconds_or_never(template.expire_after),
                "terminationGracePeriodS": optional_seconds(
                    template.termination_grace_period
                ),
            }
        )
