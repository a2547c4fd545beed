"""The pending demand in the order of the queue, with the nodes that each demand accepts now.

Requirement sets and topology terms are numbered here, before the options on the market are enumerated.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from reservoir.core.capacity.offerings import usable_pools
from reservoir.core.model.policy import PreferencePolicy, SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.team import by_namespace
from reservoir.core.model.workload import ALL_CAPACITY_TYPES, Demand, Withheld, Workload
from reservoir.core.scheduling_terms.likeness import Likeness
from reservoir.core.scheduling_terms.resources import CPU, MEMORY
from reservoir.core.scheduling_terms.taint import TaintEffect
from reservoir.core.solver.problem.catalogue import OptionCatalogue, RequirementSet
from reservoir.core.solver.problem.selection import Level, levels
from reservoir.core.solver.problem.topology import Terms
from reservoir.core.solver.problem.vectors import Dimensions, mask_of

# The part of a solve's time in which its demand is read. Placing demand takes fifty times as long as reading it, so
# there would be no time to place demand that has not been read by then.
_READING_PERCENT: Final = 4
# Demands that are read between two looks at the clock. This takes milliseconds, so a small demand is always read whole.
_READ_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class PendingDemand:
    """A demand and the nodes that it accepts now.

    Demands that accept the same nodes and have the same terms share their ``levels``.
    """

    demand: Demand
    levels: tuple[Level, ...]
    levels_number: int  # the same for demands that share their levels
    withheld: tuple[Withheld, ...]  # the markets that a quota of its team denies it


@dataclass(frozen=True, slots=True)
class PendingQueue:
    """The pending demand of a solve, with its topology terms and its requirement sets, both numbered.

    ``unread`` is the end of the queue, which there was no time to read.
    """

    pending: Sequence[PendingDemand]
    terms: Terms
    dimensions: Dimensions
    requirement_sets: Mapping[RequirementSet, int]
    unread: Sequence[Demand]

    @classmethod
    def of(
        cls, snapshot: Snapshot, now: datetime, policy: SchedulingPolicy
    ) -> "PendingQueue":
        """Return the queue of a snapshot's demand, as far as there is time to read it."""
        demands = sorted(
            [demand for demand in snapshot.demands if demand.pending_count > 0],
            key=_queue_order,
        )
        pending = _pending(demands, snapshot, now, policy)
        return cls(
            pending=pending,
            terms=_terms(pending, snapshot),
            dimensions=Dimensions(each.demand.workload.requests for each in pending),
            requirement_sets=_numbered_requirement_sets(pending),
            unread=demands[len(pending) :],
        )

    def catalogue(
        self, snapshot: Snapshot, now: datetime, policy: SchedulingPolicy
    ) -> OptionCatalogue:
        """Return the launch options of the snapshot, with the requirement sets of this demand that each meets."""
        keys = {key.topology_key for key in self.terms.keys}
        return OptionCatalogue(
            snapshot, now, policy, self.dimensions, list(self.requirement_sets), keys
        )

    def masks(self, levels: Iterable[Level]) -> tuple[int, ...]:
        """Return, for each level, the mask of the complete requirement sets of which one must hold."""
        masks: list[int] = []
        for level in levels:
            selection = level.selection
            sets = [RequirementSet(term, selection) for term in selection.terms]
            masks.append(mask_of(map(self.requirement_sets.__getitem__, sets)))
        return tuple(masks)


def _numbered_requirement_sets(
    pending: Iterable[PendingDemand],
) -> dict[RequirementSet, int]:
    """Return the number of each requirement set of any level, in the order of first appearance."""
    number_of: dict[RequirementSet, int] = {}
    for one in _distinct(pending):
        for level in one.levels:
            for term in level.selection.terms:
                requirement_set = RequirementSet(term, level.selection)
                number_of.setdefault(requirement_set, len(number_of))
    return number_of


def _distinct(pending: Iterable[PendingDemand]) -> Iterable[PendingDemand]:
    """Return one demand of each set that shares its levels."""
    return {each.levels_number: each for each in pending}.values()


def _queue_order(demand: Demand) -> tuple[int, int, int, datetime, str]:
    """Return the sort key of the queue: priority, CPU, memory, age, name (R-41, which has no priority)."""
    workload = demand.workload
    requests = workload.requests
    return (
        -workload.priority,
        -requests[CPU],
        -requests[MEMORY],
        demand.pending_since,
        workload.key,
    )


# The fields of a workload that do not decide which nodes it accepts and which terms it has.
NOT_ABOUT_PLACES: Final = {
    "namespace": "is in the key beside it, if the workload has terms, which look into it",
    "name": "it names the workload",
    "generation": "only the newest generation is in a snapshot",
    "replicas": "the demand counts the pending ones",
    "requests": "groups are formed by them later",
    "labels": "those of matchLabelKeys are in the key beside it; groups are formed by the terms that select it",
    "annotations": "nothing reads them",
    "priority": "groups are formed by it later",
    "gang": "a gang is a group of its own",
    "fallback": "the markets that it has reached are in the key beside it",
    "max_price_micro_usd_per_hour": "a workload with a price cap is a group of its own",
    "do_not_disrupt": "a solve ends no node",
    "handover": "it decides when a replica may start, not where",
    "rolling_update": "it decides when a replica is replaced, not where",
    "unknown": "only a newer release knows what it means",
}
ACCEPTS: Final = Likeness(Workload, NOT_ABOUT_PLACES)


# Branches: one loop over demands; the levels of demands that accept the same are found once.
def _pending(
    demands: Sequence[Demand],
    snapshot: Snapshot,
    now: datetime,
    policy: SchedulingPolicy,
) -> list[PendingDemand]:
    soft_taints = _has_soft_taints(snapshot)
    # The team decides which nodes a workload accepts only where units are shared out among teams.
    is_shared = any(reservation.share is not None for reservation in snapshot.reservations)
    teams = by_namespace(snapshot.teams)
    known: dict[object, tuple[int, tuple[Level, ...]]] = {}
    pending: list[PendingDemand] = []
    is_bounded = len(demands) > _READ_AT_ONCE and not _is_solved_again(snapshot)
    bounded = policy if is_bounded else policy.without_deadline()
    is_late = bounded.within_share(_READING_PERCENT)
    for number, demand in enumerate(demands, 1):
        if number % _READ_AT_ONCE == 0 and is_late():
            break
        workload = demand.workload
        reached = workload.reached_capacity_types(demand.pending_since, now)
        withheld = tuple(
            [
                replace(each, capacity_types=each.capacity_types & reached)
                for each in demand.withheld
            ]
        )
        allowed = reached.difference(*[each.capacity_types for each in withheld])
        team_name: str | None = None
        if is_shared:
            team = teams.get(workload.namespace)
            team_name = "" if team is None else team.name
        # What terms select depends on the workload's namespace, and with matchLabelKeys on its labels.
        own: tuple[str | None, ...] = ()
        if workload.has_topology_terms:
            own = (workload.namespace, *_chosen_labels(workload))
        key = (ACCEPTS.key(workload), allowed, team_name, own)
        if (found := known.get(key)) is None:
            new = levels(
                workload,
                allowed,
                policy.preference_policy,
                soft_taints=soft_taints,
                team_name=team_name,
            )
            found = known[key] = len(known), new
        levels_number, shared_levels = found
        pending.append(PendingDemand(demand, shared_levels, levels_number, withheld))
    return pending


def _has_soft_taints(snapshot: Snapshot) -> bool:
    """Whether some pool has a PreferNoSchedule taint."""
    for pool, _ in usable_pools(snapshot):
        if any(taint.effect is TaintEffect.PREFER_NO_SCHEDULE for taint in pool.taints):
            return True
    return False


def _is_solved_again(snapshot: Snapshot) -> bool:
    """Whether a later solve holds teams or a spending ceiling to the first plan.

    All demand must then be read, so that the later solve reads no more of it than the first.
    """
    return bool(snapshot.teams) or snapshot.ceiling_micro_usd_per_hour is not None


def _terms(pending: Sequence[PendingDemand], snapshot: Snapshot) -> Terms:
    """Register the terms of pending workloads, once for those that share them, and of running workloads."""
    terms = Terms()
    for one in _distinct(pending):
        terms.register(one.demand.workload, one.levels)
    # Of running workloads, only anti-affinity restricts new replicas. But all their terms are registered, so that EC2
    # gets no alternative in another zone for a replica that one of them counts.
    keys = {each.demand.workload.key for each in pending}
    for key, workload in sorted(snapshot.workloads.items()):
        if key not in keys and workload.has_topology_terms:
            terms.register(
                workload,
                levels(
                    workload, ALL_CAPACITY_TYPES, PreferencePolicy.IGNORE, soft_taints=False
                ),
            )
    return terms


def _chosen_labels(workload: Workload) -> list[str | None]:
    """Return the workload's values of the labels in all its matchLabelKeys."""
    chosen: list[str | None] = []
    for constraint in workload.topology_spread:
        chosen.extend(map(workload.labels.get, constraint.match_label_keys))
    return chosen
