"""Which part of the demand a pass plans: all of it, or that of the groups of NodePools that it was woken for.

Where policy makes one group, every pass plans everything. Where it makes several, each change wakes a pass that finds
out which groups the change concerns. While few workloads wait in these, it plans for all of them at once; otherwise it
plans nothing, and wakes one planner for each. Wake-ups of one group come one after the other, those of different groups
side by side. Groups that waiting demand joins are planned as one, under the first one's name. A commit takes the turns
of all of them: of two passes that share a pool, only one commits.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from reservoir.core.model.workload import Workload
from reservoir.core.sharing.planning_groups import (
    PLANNED_AT_ONCE_MAX,
    PlanningGroup,
    PlanningGroups,
)
from reservoir.ports.state import WorkloadRecord
from reservoir.usecases.provisioning.gather_snapshot import Gathered


@dataclass(frozen=True, slots=True)
class Woken:
    """Why a pass runs. ``workload_keys``: workloads that were just written.

    ``group_keys``: the groups to plan for. Without any, the pass finds out which groups are concerned, and plans for
    them itself while few workloads wait. ``parts``: the groups that policy alone makes, of which those groups
    consisted. ``names_all``: nothing changed but the demand of the named workloads, or matters that concern the
    ``parts`` alone. ``indexes_lag``: something else was written, which a listing may not show yet.
    """

    workload_keys: frozenset[str] = frozenset()
    names_all: bool = False
    group_keys: frozenset[str] = frozenset()
    parts: frozenset[str] = frozenset()
    indexes_lag: bool = False

    @property
    def is_woken_by_a_change(self) -> bool:
        """Whether a change woke the pass, and neither the minute's schedule nor a pass that divided its work."""
        return (bool(self.workload_keys) or self.indexes_lag) and not self.group_keys


EVERYONE: Final = Woken()  # as the minute's schedule does


@dataclass(frozen=True, slots=True)
class Share:
    """The demand of a pass. ``parts`` are the groups whose turns its commits take; none where it has everything.

    ``others`` are the groups that planners are to be woken for, by their parts, with the workloads to name.
    """

    needing: Mapping[str, WorkloadRecord]
    groups: PlanningGroups
    parts: tuple[str, ...] = ()
    others: Mapping[tuple[str, ...], Set[str]] = field(default_factory=dict)

    def of(self, gathered: Gathered) -> Gathered:
        """Return what was gathered without the demand of other shares; running nodes stay, because plans count them."""
        if not self.parts:
            return gathered
        demands = tuple(
            item for item in gathered.snapshot.demands if self._has(item.workload)
        )
        records = {
            key: it
            for key, it in gathered.records.items()
            if it.workload is None or self._has(it.workload)
        }
        return replace(
            gathered, snapshot=replace(gathered.snapshot, demands=demands), records=records
        )

    def _has(self, workload: Workload) -> bool:
        return set(self.groups.parts_of(workload)) <= set(self.parts)


def share_of(
    groups: PlanningGroups,
    found: Mapping[str, WorkloadRecord],
    woken: Woken,
    at_once_max: int = PLANNED_AT_ONCE_MAX,
) -> Share:
    """Return the share of a pass; ``found`` are the listed and the named workloads.

    A pass without ``group_keys`` plans for up to ``at_once_max`` workloads itself.
    """
    needing = {key: it for key, it in found.items() if it.needs_planning}
    if not groups.are_several:
        return Share(needing, groups)
    mine: list[PlanningGroup] = []
    concerned: list[PlanningGroup] = []
    for group in groups.of_demand(
        it.workload for it in needing.values() if it.workload is not None
    ):
        if group.key in woken.group_keys:
            mine.append(group)
        elif group.workload_keys and _concerns(group, groups, found, woken):
            concerned.append(group)
    if (
        not woken.group_keys
        and sum(len(group.workload_keys) for group in concerned) <= at_once_max
    ):
        mine, concerned = concerned, []
    others = {group.parts: group.workload_keys & woken.workload_keys for group in concerned}
    keys = set(chain.from_iterable(group.workload_keys for group in mine))
    parts = tuple(sorted(chain.from_iterable(group.parts for group in mine)))
    return Share(
        {key: it for key, it in needing.items() if key in keys}, groups, parts, others
    )


def _concerns(
    group: PlanningGroup,
    groups: PlanningGroups,
    found: Mapping[str, WorkloadRecord],
    woken: Woken,
) -> bool:
    """Whether the change that woke the pass may change the plan for a group."""
    if not (woken.names_all and woken.parts.isdisjoint(group.parts)):
        return True
    named = [found.get(key) for key in woken.workload_keys]
    workloads = [
        record.workload
        for record in named
        if record is not None and record.workload is not None
    ]
    if len(workloads) < len(named):  # a workload without a row may have run anywhere
        return True
    concerned = chain.from_iterable(map(groups.parts_of, workloads))
    return not set(group.parts).isdisjoint(concerned)
