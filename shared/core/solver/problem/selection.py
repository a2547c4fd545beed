"""What a replica accepts, as one hashable value, and the order in which its preferences are given up (R-47)."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

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
from shared.core.scheduling_terms.taint import TOLERATE_ALL_PREFER_NO_SCHEDULE, TaintEffect, Toleration

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


class _Preferences(NamedTuple):
    """What a workload would like, kind by kind and term by term in the order in which it is given up (R-47)."""

    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    nodes: tuple[PreferredNodeTerm, ...] = ()
    spread: tuple[TopologySpreadConstraint, ...] = ()
    avoided: tuple[str, ...] = ()  # effects of taints

    def relaxed_once(self) -> "tuple[str, _Preferences] | None":
        """Give up the next preference, by name; None when none is left."""
        for kind, name in _NAMES.items():
            terms = getattr(self, kind)
            if terms:
                return name.format(terms[0]), self._replace(**{kind: terms[1:]})
        return None


_NAMES = {
    "affinity": "preferred affinity over {0.topology_key}",
    "anti_affinity": "preferred anti-affinity over {0.topology_key}",
    "nodes": "preferred nodes: {0.requirements}",
    "spread": "spread over {0.topology_key}",
    "avoided": "{0} taints",
}


def _preferences(workload: Workload, preference_policy: PreferencePolicy, soft_taints: bool) -> _Preferences:
    avoided = (TaintEffect.PREFER_NO_SCHEDULE.value,) if soft_taints else ()
    if preference_policy is PreferencePolicy.IGNORE:
        return _Preferences(avoided=avoided)
    return _Preferences(
        _heaviest_first(workload.affinity),
        _heaviest_first(workload.anti_affinity),
        tuple(sorted(workload.preferred_node_terms, key=lambda term: -term.weight)),
        _spread(workload, WhenUnsatisfiable.SCHEDULE_ANYWAY),
        avoided,
    )


def _heaviest_first(terms: tuple[AffinityTerm, ...]) -> tuple[AffinityTerm, ...]:
    preferred = [term for term in terms if term.weight is not None]
    return tuple(sorted(preferred, key=lambda term: -(term.weight or 0)))


def _required(terms: tuple[AffinityTerm, ...]) -> tuple[AffinityTerm, ...]:
    return tuple(term for term in terms if term.weight is None)


def _spread(workload: Workload, strictness: WhenUnsatisfiable) -> tuple[TopologySpreadConstraint, ...]:
    return tuple(constraint for constraint in workload.topology_spread if constraint.when_unsatisfiable is strictness)


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
    terms = tuple(workload.node_selector.merged(term) for term in workload.required_node_terms)
    terms = terms or (workload.node_selector,)
    step: tuple[str, _Preferences] | None = ("", _preferences(workload, preference_policy, soft_taints))
    found = list[Level]()
    while step is not None:
        name, wanted = step
        selection = Selection(
            terms=tuple(term.merged(wanted.nodes[0].requirements) for term in terms) if wanted.nodes else terms,
            tolerations=workload.tolerations + (() if wanted.avoided else (TOLERATE_ALL_PREFER_NO_SCHEDULE,)),
            capacity_types=capacity_types,
            duration_s=workload.duration_s,
            notice_s=workload.checkpoint_period_s or 0,
            team_name=team_name,
        )
        found.append(
            Level(
                selection,
                _spread(workload, WhenUnsatisfiable.DO_NOT_SCHEDULE) + wanted.spread,
                _required(workload.affinity) + wanted.affinity,
                _required(workload.anti_affinity) + wanted.anti_affinity,
                (*found[-1].relaxed, name) if found else (),
            )
        )
        step = wanted.relaxed_once()
    return tuple(found)
