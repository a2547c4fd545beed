"""Affinity and topology spread of workloads, in Kubernetes' words."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from reservoir.core.model.workload import (
    AffinityTerm,
    PreferredNodeTerm,
    TopologySpreadConstraint,
    WhenUnsatisfiable,
)
from reservoir.core.scheduling_terms import labels
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.manifests.kinds.selection import (
    MOST_REQUIREMENTS,
    LabelSelectorSpec,
    NodeSelectorRequirement,
    requirements_of,
)
from reservoir.manifests.parsing.fields import LabelKey, Namespace, broken
from reservoir.manifests.parsing.model import Contradiction, Model

MOST_TERMS: Final = 50
TOPOLOGY_KEYS: Final = frozenset(
    {labels.ZONE, labels.ZONE_ID, labels.HOSTNAME, labels.CAPACITY_TYPE}
)


def _check_topology_key(key: str) -> str:
    key = labels.stable_key(key)
    if key not in TOPOLOGY_KEYS:
        known = ", ".join(sorted(TOPOLOGY_KEYS))
        raise broken(
            "topology-key",
            f"must be one of {known}",
            partial(labels.closest, key, TOPOLOGY_KEYS),
        )
    return key


TopologyKey = Annotated[LabelKey, AfterValidator(_check_topology_key)]
Weight = Annotated[int, Field(ge=1, le=100)]


class NodeSelectorTerm(Model):
    """Requirements that must all hold."""

    match_expressions: list[NodeSelectorRequirement] = Field(
        min_length=1, max_length=MOST_REQUIREMENTS
    )

    def to_core(self) -> Requirements:
        """Return the set of the core."""
        return requirements_of(self.match_expressions)


class NodeSelectorSpec(Model):
    """Terms of which one must hold; all of them count at once, whichever serves best."""

    node_selector_terms: list[NodeSelectorTerm] = Field(min_length=1, max_length=MOST_TERMS)


class PreferredNodeSelectorTerm(Model):
    """A preference; the heaviest counts as a requirement until it must be given up."""

    weight: Weight
    preference: NodeSelectorTerm

    def to_core(self) -> PreferredNodeTerm:
        """Return the preference of the core."""
        return PreferredNodeTerm(self.weight, self.preference.to_core())


class NodeAffinity(Model):
    """Which nodes a replica needs or prefers."""

    required: NodeSelectorSpec | None = Field(
        default=None, alias="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[PreferredNodeSelectorTerm] = Field(
        default_factory=list,
        max_length=MOST_TERMS,
        alias="preferredDuringSchedulingIgnoredDuringExecution",
    )


class PodAffinityTerm(Model):
    """Other workloads that a replica wants near or far, and what near means (``topologyKey``)."""

    label_selector: LabelSelectorSpec
    topology_key: TopologyKey
    namespaces: list[Namespace] = Field(default_factory=list, max_length=MOST_TERMS)
    match_label_keys: list[LabelKey] = Field(
        default_factory=list,
        max_length=MOST_TERMS,
        description="Labels in which the other must equal this workload.",
    )

    def to_core(self, own_labels: Mapping[str, str], weight: int | None) -> AffinityTerm:
        """Return the term of the core; ``weight`` None: required."""
        also = {key: own_labels[key] for key in self.match_label_keys if key in own_labels}
        return AffinityTerm(
            self.topology_key,
            self.label_selector.to_core(also),
            weight,
            frozenset(self.namespaces),
        )


class WeightedPodAffinityTerm(Model):
    """A preference for being near or far."""

    weight: Weight
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Model):
    """Required and preferred terms; for ``podAntiAffinity`` the same, away from the selected workloads."""

    required: list[PodAffinityTerm] = Field(
        default_factory=list,
        max_length=MOST_TERMS,
        alias="requiredDuringSchedulingIgnoredDuringExecution",
    )
    preferred: list[WeightedPodAffinityTerm] = Field(
        default_factory=list,
        max_length=MOST_TERMS,
        alias="preferredDuringSchedulingIgnoredDuringExecution",
    )

    def to_core(self, own_labels: Mapping[str, str]) -> tuple[AffinityTerm, ...]:
        """Return required terms, then preferred ones."""
        required = (term.to_core(own_labels, None) for term in self.required)
        preferred = (
            term.pod_affinity_term.to_core(own_labels, term.weight)
            for term in self.preferred
        )
        return (*required, *preferred)


class Affinity(Model):
    """All affinity of a workload."""

    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    pod_anti_affinity: PodAffinity = PodAffinity()


class NodePolicy(StrEnum):
    """Whether spread domains that the replica cannot use are counted (Honor: they are not)."""

    HONOR = "Honor"
    IGNORE = "Ignore"


class TopologySpread(Model):
    """Spread replicas evenly over zones, hosts or capacity types."""

    topology_key: TopologyKey
    max_skew: int = Field(ge=1, le=1_000_000)
    when_unsatisfiable: Annotated[WhenUnsatisfiable, Field(strict=False)]
    label_selector: LabelSelectorSpec
    min_domains: int | None = Field(default=None, ge=1, le=1_000)
    node_affinity_policy: Annotated[NodePolicy, Field(strict=False)] = NodePolicy.HONOR
    node_taints_policy: Annotated[NodePolicy, Field(strict=False)] = NodePolicy.IGNORE
    match_label_keys: list[LabelKey] = Field(default_factory=list, max_length=MOST_TERMS)

    @classmethod
    def contradictions(cls, raw: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Refuse minDomains where it has no meaning, as Kubernetes does."""
        if (
            raw.get("minDomains") is not None
            and raw.get("whenUnsatisfiable") == WhenUnsatisfiable.SCHEDULE_ANYWAY
        ):
            yield Contradiction(
                "minDomains", "spread", "needs whenUnsatisfiable: DoNotSchedule"
            )

    def to_core(self) -> TopologySpreadConstraint:
        """Return the constraint of the core."""
        return TopologySpreadConstraint(
            topology_key=self.topology_key,
            max_skew=self.max_skew,
            selector=self.label_selector.to_core(),
            when_unsatisfiable=self.when_unsatisfiable,
            min_domains=self.min_domains,
            node_affinity_policy_honor=self.node_affinity_policy is NodePolicy.HONOR,
            node_taints_policy_honor=self.node_taints_policy is NodePolicy.HONOR,
            match_label_keys=tuple(self.match_label_keys),
        )
