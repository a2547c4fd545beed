"""What a replica accepts, as one hashable value, and the order in which its preferences are given up (R-47)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared.core.model.instance_type import CapacityType
from shared.core.model.policy import PreferencePolicy
from shared.core.model.workload import (
    AffinityTerm,
    PreferredNodeTerm,
    TopologySpreadConstraint,
    WhenUnsatisfiable,
    Workload,
)
from shared.core.scheduling_terms.requirements import Requirements
from shared.core.scheduling_terms.taint import TOLERATE_ALL_PREFER_NO_SCHEDULE, Toleration

ALL_CAPACITY_TYPES = frozenset(CapacityType)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which nodes a replica accepts. ``terms`` are ORed complete requirement sets; one must hold.

    ``duration_s`` and ``notice_s`` decide which Capacity Blocks end late enough. ``team_name`` matters where units of
    reservations are shared out among teams, and is None elsewhere.
    """

    terms: tuple[Requirements, ...]
    tolerations: tuple[Toleration, ...]
    capacity_types: frozenset[CapacityType]
    duration_s: int | None
    notice_s: int
    team_name: str | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """The constraints of a replica after some preferences were given up; ``relaxed`` names those."""

    selection: Selection
    spread: tuple[TopologySpreadConstraint, ...]
    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]
    relaxed: tuple[str, ...] = ()


def reached_capacity_types(workload: Workload, pending_since: datetime, now: datetime) -> frozenset[CapacityType]:
    """Return the capacity types that the workload's ladder allows at ``now``; all of them without a ladder."""
    if not workload.fallback:
        return ALL_CAPACITY_TYPES
    return frozenset(rung for opens_at, rung in _rungs(workload, pending_since) if opens_at <= now)


def next_step_at(workload: Workload, pending_since: datetime, now: datetime) -> datetime | None:
    """Return when the ladder's next rung opens, or None when no later one will."""
    return next((opens_at for opens_at, _ in _rungs(workload, pending_since) if opens_at > now), None)


def _rungs(workload: Workload, pending_since: datetime) -> Iterator[tuple[datetime, CapacityType]]:
    """Yield when each rung of the ladder opens, and what it allows; nothing after one that lasts for ever."""
    opens_at = pending_since
    for step in workload.fallback:
        yield opens_at, step.capacity_type
        if step.for_s is None:
            return
        opens_at += timedelta(seconds=step.for_s)


@dataclass(frozen=True, slots=True)
class _Preferences:
    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]
    nodes: tuple[PreferredNodeTerm, ...]
    spread: tuple[TopologySpreadConstraint, ...]
    avoid_soft_taints: bool

    def relaxed_once(self) -> "tuple[str, _Preferences] | None":
        """Give up the next preference in R-47's order; None when none is left."""
        if self.affinity:
            name = f"preferred affinity over {self.affinity[0].topology_key}"
            return name, replace(self, affinity=self.affinity[1:])
        if self.anti_affinity:
            name = f"preferred anti-affinity over {self.anti_affinity[0].topology_key}"
            return name, replace(self, anti_affinity=self.anti_affinity[1:])
        if self.nodes:
            return f"preferred nodes: {self.nodes[0].requirements}", replace(self, nodes=self.nodes[1:])
        if self.spread:
            return f"spread over {self.spread[0].topology_key}", replace(self, spread=self.spread[1:])
        if self.avoid_soft_taints:
            return "PreferNoSchedule taints", replace(self, avoid_soft_taints=False)
        return None


def _preferences(workload: Workload, preference_policy: PreferencePolicy, soft_taints: bool) -> _Preferences:
    if preference_policy is PreferencePolicy.IGNORE:
        return _Preferences((), (), (), (), soft_taints)
    soft = WhenUnsatisfiable.SCHEDULE_ANYWAY
    return _Preferences(
        affinity=_heaviest_first(workload.affinity),
        anti_affinity=_heaviest_first(workload.anti_affinity),
        nodes=tuple(sorted(workload.preferred_node_terms, key=lambda term: -term.weight)),
        spread=tuple(constraint for constraint in workload.topology_spread if constraint.when_unsatisfiable is soft),
        avoid_soft_taints=soft_taints,
    )


def _heaviest_first(terms: tuple[AffinityTerm, ...]) -> tuple[AffinityTerm, ...]:
    preferred = [term for term in terms if term.weight is not None]
    return tuple(sorted(preferred, key=lambda term: -(term.weight or 0)))


def levels(
    workload: Workload,
    capacity_types: frozenset[CapacityType],
    preference_policy: PreferencePolicy,
    *,
    soft_taints: bool,
    team_name: str | None = None,
) -> tuple[Level, ...]:
    """Return the workload's constraints, strictest first, each level with one preference fewer.

    Required OR-terms are not relaxed one by one as in Karpenter: all of them count at once, which finds whatever
    dropping the first would find. ``soft_taints``: some pool has a PreferNoSchedule taint.
    """
    preferences = _preferences(workload, preference_policy, soft_taints)
    return tuple(_levels(workload, capacity_types, preferences, team_name))


def _required_topology(
    workload: Workload,
) -> tuple[tuple[TopologySpreadConstraint, ...], tuple[AffinityTerm, ...], tuple[AffinityTerm, ...]]:
    """Return the workload's spread, affinity and anti-affinity that are no mere preferences."""
    hard = WhenUnsatisfiable.DO_NOT_SCHEDULE
    return (
        tuple(constraint for constraint in workload.topology_spread if constraint.when_unsatisfiable is hard),
        tuple(term for term in workload.affinity if term.weight is None),
        tuple(term for term in workload.anti_affinity if term.weight is None),
    )


def _levels(
    workload: Workload, capacity_types: frozenset[CapacityType], preferences: _Preferences, team_name: str | None
) -> Iterator[Level]:
    required = tuple(workload.node_selector.merged(term) for term in workload.required_node_terms)
    required = required or (workload.node_selector,)
    hard_spread, hard_affinity, hard_anti = _required_topology(workload)
    relaxed: tuple[str, ...] = ()
    while True:
        wanted = preferences.nodes[0].requirements if preferences.nodes else None
        soft = () if preferences.avoid_soft_taints else (TOLERATE_ALL_PREFER_NO_SCHEDULE,)
        yield Level(
            selection=Selection(
                terms=required if wanted is None else tuple(term.merged(wanted) for term in required),
                tolerations=workload.tolerations + soft,
                capacity_types=capacity_types,
                duration_s=workload.duration_s,
                notice_s=workload.checkpoint_period_s or 0,
                team_name=team_name,
            ),
            spread=hard_spread + preferences.spread,
            affinity=hard_affinity + preferences.affinity,
            anti_affinity=hard_anti + preferences.anti_affinity,
            relaxed=relaxed,
        )
        step = preferences.relaxed_once()
        if step is None:
            return
        name, preferences = step
        relaxed += (name,)
