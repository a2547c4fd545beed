"""Which nodes a replica accepts, as one hashable value, and the order in which its preferences are given up (R-47).

``levels`` lists the constraints of a workload, first with all preferences and then with one fewer at a time.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.policy import PreferencePolicy
from reservoir.core.model.workload import (
    AffinityTerm,
    TopologySpreadConstraint,
    WhenUnsatisfiable,
    Workload,
)
from reservoir.core.scheduling_terms.requirements import Requirements
from reservoir.core.scheduling_terms.taint import (
    TOLERATE_ALL_PREFER_NO_SCHEDULE,
    TaintEffect,
    Toleration,
)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which nodes a replica accepts. ``terms`` are complete requirement sets, of which one must hold.

    ``duration_s`` and ``notice_s`` decide which Capacity Blocks end late enough. ``team_name`` is set only where units
    of reservations are shared out among teams.
    """

    terms: tuple[Requirements, ...]
    tolerations: tuple[Toleration, ...]
    capacity_types: frozenset[CapacityType]
    duration_s: int | None
    notice_s: int
    team_name: str | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """The constraints of a replica after some preferences were given up; ``relaxed`` names these preferences."""

    selection: Selection
    spread: tuple[TopologySpreadConstraint, ...]
    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]
    relaxed: tuple[str, ...] = ()


def required(terms: Iterable[AffinityTerm]) -> list[AffinityTerm]:
    """Return the required terms, which have no weight."""
    return [term for term in terms if term.weight is None]


def _preferred(terms: Iterable[AffinityTerm]) -> list[AffinityTerm]:
    """Return the preferences, the heaviest first."""
    return sorted(
        [term for term in terms if term.weight is not None],
        key=lambda term: -(term.weight or 0),
    )


def _spread(
    workload: Workload, strictness: WhenUnsatisfiable
) -> list[TopologySpreadConstraint]:
    return [
        constraint
        for constraint in workload.topology_spread
        if constraint.when_unsatisfiable is strictness
    ]


# Branches: one case for each kind of preference, in the order in which they are given up.
def levels(
    workload: Workload,
    capacity_types: frozenset[CapacityType],
    preference_policy: PreferencePolicy,
    *,
    soft_taints: bool,
    team_name: str | None = None,
) -> tuple[Level, ...]:
    """Return the workload's constraints, strictest first, each level with one preference fewer.

    Karpenter drops required OR-terms one by one. Here all of them count at once, which finds every node that dropping
    terms would find. ``soft_taints``: some pool has a PreferNoSchedule taint.
    """
    terms = [
        workload.node_selector.merged(term) for term in workload.required_node_terms
    ] or [workload.node_selector]
    is_respected = preference_policy is PreferencePolicy.RESPECT
    affinity = _preferred(workload.affinity) if is_respected else []
    anti_affinity = _preferred(workload.anti_affinity) if is_respected else []
    nodes = (
        sorted(workload.preferred_node_terms, key=lambda term: -term.weight)
        if is_respected
        else []
    )
    spread = _spread(workload, WhenUnsatisfiable.SCHEDULE_ANYWAY) if is_respected else []
    relaxed: list[str] = []
    found: list[Level] = []
    while True:
        selection = Selection(
            terms=tuple(
                [term.merged(nodes[0].requirements) for term in terms] if nodes else terms
            ),
            tolerations=workload.tolerations
            + (() if soft_taints else (TOLERATE_ALL_PREFER_NO_SCHEDULE,)),
            capacity_types=capacity_types,
            duration_s=workload.duration_s,
            notice_s=workload.checkpoint_period_s or 0,
            team_name=team_name,
        )
        found.append(
            Level(
                selection,
                (*_spread(workload, WhenUnsatisfiable.DO_NOT_SCHEDULE), *spread),
                (*required(workload.affinity), *affinity),
                (*required(workload.anti_affinity), *anti_affinity),
                tuple(relaxed),
            )
        )
        if affinity:
            relaxed.append(f"preferred affinity over {affinity.pop(0).topology_key}")
        elif anti_affinity:
            relaxed.append(
                f"preferred anti-affinity over {anti_affinity.pop(0).topology_key}"
            )
        elif nodes:
            relaxed.append(f"preferred nodes: {nodes.pop(0).requirements}")
        elif spread:
            relaxed.append(f"spread over {spread.pop(0).topology_key}")
        elif soft_taints:
            relaxed.append(f"{TaintEffect.PREFER_NO_SCHEDULE} taints")
            soft_taints = False
        else:
            return tuple(found)
