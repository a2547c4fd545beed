"""NodePool: which nodes may exist and how they may be disrupted (karpenter.sh/v1, in domain terms)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.resources import Resources
from reservoir.core.scheduling_terms.taint import Taint


class ConsolidationPolicy(StrEnum):
    """When a node may be consolidated."""

    WHEN_EMPTY = "WhenEmpty"
    WHEN_EMPTY_OR_UNDERUTILIZED = "WhenEmptyOrUnderutilized"
    BALANCED = "Balanced"


class DisruptionReason(StrEnum):
    """Why a budgeted disruption happens (R-190)."""

    UNDERUTILIZED = "Underutilized"
    EMPTY = "Empty"
    DRIFTED = "Drifted"
    RECLAIMED = "Reclaimed"  # units on loan go back to the team that owns them


@dataclass(frozen=True, slots=True)
class Budget:
    """How many nodes of a pool may be disrupted at once; ``nodes`` is a count ("5") or a percentage ("10%")."""

    nodes: str
    reasons: frozenset[DisruptionReason] = frozenset()  # empty: every reason
    schedule: str | None = None  # cron, evaluated in ``time_zone``; None: always active
    duration_s: int | None = None
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Disruption:
    """The pool's disruption settings; ``consolidate_after_s`` None means never."""

    consolidation_policy: ConsolidationPolicy = (
        ConsolidationPolicy.WHEN_EMPTY_OR_UNDERUTILIZED
    )
    consolidate_after_s: int | None = 0
    budgets: tuple[Budget, ...] = (Budget(nodes="10%"),)
    # Keep empty reserved nodes: None returns them to their reservation, 0 keeps them while it lasts, else seconds kept.
    keep_reserved_s: int | None = None
    # free units of equal reservations may move to the reservations that its nodes can use
    move_reserved_units: bool = False


@dataclass(frozen=True, slots=True)
class WarmReserved:
    """How many free reserved units have a booted node: so many ``nodes``, or all (None); in windows of a schedule."""

    nodes: int | None = None
    schedule: str | None = None  # cron, evaluated in ``time_zone``; None: always
    duration_s: int | None = None
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class NodePool:
    """A pool. ``requirements`` already contain the template's labels and its own name."""

    name: str
    node_class_name: str
    requirements: Requirements
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    weight: int = 0
    limits: Resources | None = None  # may contain "nodes"; None: unlimited
    disruption: Disruption = Disruption()
    expire_after_s: int | None = 720 * 3600
    termination_grace_period_s: int | None = None
    # a static pool has so many nodes, whether or not there is demand for them
    replicas: int | None = None
    # of a static pool: as many nodes as its reservations have units
    all_reserved: bool = False
    warm_reserved: WarmReserved | None = None  # None: free units have no nodes
    paused: str | None = None  # launches nothing: who paused it, since when and why
    static_hash: str = ""  # of the fields whose change drifts nodes

    @property
    def is_static(self) -> bool:
        """Whether it is a static pool: demand fills its nodes, and launches none."""
        return self.replicas is not None or self.all_reserved

    @property
    def moves_work(self) -> bool:
        """Whether work on its nodes is moved to where it costs less."""
        how = self.disruption
        return (
            not self.is_static
            and self.paused is None
            and how.consolidate_after_s is not None
            and how.consolidation_policy is not ConsolidationPolicy.WHEN_EMPTY
        )


def min_values(pool: NodePool) -> dict[str, int]:
    """Return the pool's minValues by label (R-17)."""
    return {
        key: requirement.min_values
        for key, requirement in pool.requirements.items()
        if requirement.min_values
    }
