"""Workload (``reservoir/v1``): demand for replicas, with Kubernetes' field names and quantities."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails

from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.workload import (
    USUAL_PART,
    FallbackStep,
    Gang,
    RollingUpdate,
    Workload,
)
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.quantity import QuantityError
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.manifests.kinds.affinity import MOST_TERMS, Affinity, TopologySpread
from reservoir.manifests.kinds.selection import (
    RequiredKey,
    TolerationSpec,
    check_count_or_percentage,
    integer_as_text,
    unknown_values,
)
from reservoir.manifests.kinds.workload_bounds import excesses
from reservoir.manifests.parsing.fields import (
    Duration,
    LabelValue,
    Price,
    Quantity,
    ResourceName,
    broken,
    micro_usd,
    optional_seconds,
)
from reservoir.manifests.parsing.metadata import ServerSide, WorkloadMetadata
from reservoir.manifests.parsing.model import Contradiction, Model

API_VERSION: Final = "reservoir/v1"
KIND: Final = "Workload"
MOST_REPLICAS: Final = 1_000_000

GangTopologyKey = Literal[
    "topology.kubernetes.io/zone",
    "topology.k8s.aws/zone-id",
    "karpenter.k8s.aws/placement-group-id",
    "topology.k8s.aws/network-node-layer-1",
    "topology.k8s.aws/network-node-layer-2",
    "topology.k8s.aws/network-node-layer-3",
    "topology.k8s.aws/ultraserver-id",
]


def check_countable(quantities: dict[str, str]) -> dict[str, str]:
    """Refuse fractions of what cannot be divided (GPUs, nodes); raises PydanticCustomError."""
    try:
        Resources.parse(quantities)
    except QuantityError as error:
        raise broken("quantity", str(error)) from error
    return quantities


Quantities = Annotated[
    dict[ResourceName, Quantity], Field(max_length=64), AfterValidator(check_countable)
]


class ResourceRequests(Model):
    """What one replica needs. A limit without a request is a request, as in Kubernetes."""

    requests: Quantities = Field(default_factory=dict)
    limits: Quantities = Field(default_factory=dict)

    def to_core(self) -> Resources:
        """Return the requests of one replica."""
        return Resources.parse({**self.limits, **self.requests})


class FallbackStepSpec(Model):
    """One step of the ladder: from then on this capacity type is allowed too."""

    capacity_type: Annotated[CapacityType, Field(strict=False)]
    for_: Duration | None = Field(
        default=None,
        alias="for",
        description="Wait this long before the next step joins; only the last may leave it out.",
    )

    def to_core(self) -> FallbackStep:
        """Return the step of the core."""
        return FallbackStep(self.capacity_type, optional_seconds(self.for_))


ReplicasPart = Annotated[
    str,
    BeforeValidator(integer_as_text),
    AfterValidator(partial(check_count_or_percentage, "rolling-update")),
]


class RollingUpdateSpec(Model):
    """How many replicas an update may have too many or too few, as in a Deployment."""

    max_surge: ReplicasPart = Field(
        default=USUAL_PART,
        description="Beyond those wanted; a percentage is rounded up.",
    )
    max_unavailable: ReplicasPart = Field(
        default=USUAL_PART,
        description="Of those wanted; a percentage is rounded down. Not both 0.",
    )

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Check that anything could ever be replaced."""
        if all(
            str(raw.get(name)) in ("0", "0%") for name in ("maxSurge", "maxUnavailable")
        ):
            yield Contradiction(
                "maxUnavailable", "rolling-update", "must not be 0 when maxSurge is 0"
            )

    def to_core(self) -> RollingUpdate:
        """Return the bounds of the core."""
        return RollingUpdate(self.max_surge, self.max_unavailable)


class StrategySpec(Model):
    """What becomes of replicas that run when the spec changes."""

    type: Literal["RollingUpdate", "OnDelete"] = Field(
        default="RollingUpdate",
        description="RollingUpdate: they are replaced, node by node; OnDelete: they stay until they leave.",
    )
    rolling_update: RollingUpdateSpec | None = None

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Check that bounds bound something."""
        if raw.get("type") == "OnDelete" and raw.get("rollingUpdate") is not None:
            yield Contradiction(
                "rollingUpdate", "rolling-update", "needs type: RollingUpdate"
            )

    def to_core(self) -> RollingUpdate | None:
        """Return the bounds within which replicas are replaced; None where they stay."""
        if self.type == "OnDelete":
            return None
        return (self.rolling_update or RollingUpdateSpec()).to_core()


class WorkloadSpec(Model):
    """The wanted state of a workload."""

    replicas: int = Field(default=1, ge=0, le=MOST_REPLICAS)
    priority: int = Field(
        default=0, ge=-(2**31), le=2**31 - 1, description="Higher goes first."
    )
    resources: ResourceRequests = ResourceRequests()
    node_selector: dict[RequiredKey, LabelValue] = Field(
        default_factory=dict, max_length=100
    )
    affinity: Affinity = Affinity()
    tolerations: list[TolerationSpec] = Field(default_factory=list, max_length=100)
    topology_spread_constraints: list[TopologySpread] = Field(
        default_factory=list, max_length=MOST_TERMS
    )
    gang: bool = Field(default=False, description="All replicas or none.")
    gang_topology_key: GangTopologyKey | None = Field(
        default=None, description="All replicas of the gang in one value of this label."
    )
    duration: Duration | None = Field(
        default=None,
        description="How long it runs; it is not put where it would be drained earlier.",
    )
    checkpoint_period: Duration | None = Field(
        default=None, description="How much notice it wants before a drain's deadline."
    )
    handover: bool | None = Field(
        default=None,
        description="Whether a replica starts only once the one that it follows has left its node, or has had to;"
        " true with a `checkpointPeriod`, unless said otherwise. Said to be true, a `duration` does not keep the work"
        " out of a reservation that ends earlier: it is drained then, and goes on elsewhere.",
    )
    strategy: StrategySpec | None = Field(
        default=None,
        description="What becomes of replicas that run when the spec changes; absent: they stay until they leave."
        " Neither gangs nor work that is handed over can be replaced node by node.",
    )
    fallback: list[FallbackStepSpec] = Field(
        default_factory=list,
        max_length=len(CapacityType),
        description="Ladder of capacity types; without it all that the pools allow count at once.",
    )
    max_price_per_hour: Price | None = Field(
        default=None, description="USD an hour for all replicas together."
    )

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Check the ladder, the gang, the strategy and well-known label values."""
        if raw.get("gangTopologyKey") is not None and raw.get("gang") is not True:
            yield Contradiction("gangTopologyKey", "gang", "needs gang: true")
        yield from _strategy_contradictions(raw)
        selector = raw.get("nodeSelector")
        for key, value in selector.items() if isinstance(selector, dict) else ():
            for found in unknown_values(key, [value]):
                yield Contradiction(
                    "nodeSelector", found.rule, found.message, found.suggest
                )
        fallback = raw.get("fallback")
        if isinstance(fallback, list):
            yield from _ladder_contradictions(
                [step for step in fallback if isinstance(step, dict)]
            )


def _strategy_contradictions(raw: Mapping[str, Any]) -> Iterator[Contradiction]:
    strategy = raw.get("strategy")
    if not isinstance(strategy, dict) or strategy.get("type") == "OnDelete":
        return
    is_handed_over = raw.get("handover", raw.get("checkpointPeriod") is not None)
    if raw.get("gang") is True:
        yield Contradiction(
            "strategy",
            "rolling-update",
            "replaces replicas node by node, and a gang runs whole or not at all",
        )
    elif is_handed_over:
        yield Contradiction(
            "strategy",
            "rolling-update",
            "lets old and new replicas run side by side, and work that is handed over (handover, checkpointPeriod)"
            " must not; say handover: false if it may",
        )


def _ladder_contradictions(steps: list[dict[str, Any]]) -> Iterator[Contradiction]:
    kinds = [step.get("capacityType") for step in steps]
    if any(kind in kinds[:index] for index, kind in enumerate(kinds)):
        yield Contradiction("fallback", "fallback", "names a capacity type more than once")
    if any(step.get("for") is None for step in steps[:-1]):
        yield Contradiction(
            "fallback",
            "fallback",
            "only the last step may leave out 'for': those after it are never reached",
        )


class WorkloadManifest(Model):
    """A workload."""

    api_version: Literal["reservoir/v1"]
    kind: Literal["Workload"]
    metadata: WorkloadMetadata
    spec: WorkloadSpec
    status: ServerSide

    @model_validator(mode="after")
    def _within_bounds(self) -> Self:
        """Refuse what would cost everybody else too much."""
        errors = [
            InitErrorDetails(
                type=broken("bound", sentence),
                loc=tuple(filter(None, path.split("."))),
                input=None,
            )
            for path, sentence in excesses(self.to_core())
        ]
        if errors:
            raise ValidationError.from_exception_data(type(self).__name__, errors)
        return self

    def to_core(self) -> Workload:
        """Return the workload of the core."""
        metadata, spec = self.metadata, self.spec
        node_affinity = spec.affinity.node_affinity
        required = node_affinity.required
        return Workload(
            namespace=metadata.namespace,
            name=metadata.name,
            generation=metadata.generation,
            replicas=spec.replicas,
            requests=spec.resources.to_core(),
            labels=dict(sorted(metadata.labels.items())),
            annotations=dict(sorted(metadata.annotations.items())),
            priority=spec.priority,
            node_selector=Requirements.from_labels(spec.node_selector),
            required_node_terms=()
            if required is None
            else tuple(t.to_core() for t in required.node_selector_terms),
            preferred_node_terms=tuple(term.to_core() for term in node_affinity.preferred),
            tolerations=tuple(toleration.to_core() for toleration in spec.tolerations),
            topology_spread=tuple(
                constraint.to_core() for constraint in spec.topology_spread_constraints
            ),
            affinity=spec.affinity.pod_affinity.to_core(metadata.labels),
            anti_affinity=spec.affinity.pod_anti_affinity.to_core(metadata.labels),
            gang=Gang(spec.gang_topology_key) if spec.gang else None,
            duration_s=optional_seconds(spec.duration),
            checkpoint_period_s=optional_seconds(spec.checkpoint_period),
            handover=spec.handover,
            rolling_update=None if spec.strategy is None else spec.strategy.to_core(),
            fallback=tuple(step.to_core() for step in spec.fallback),
            max_price_micro_usd_per_hour=None
            if spec.max_price_per_hour is None
            else micro_usd(spec.max_price_per_hour),
            do_not_disrupt=metadata.annotations.get(labels.DO_NOT_DISRUPT) == "true",
        )
