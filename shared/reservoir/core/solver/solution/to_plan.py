"""Turns the finished state of a solve into a plan.

Replicas of a group become replicas of its workloads, the oldest workload first. Equal nodes become one entry.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, starmap
from operator import attrgetter

from reservoir.core.model.plan import (
    ExistingPlacement,
    OfferingKey,
    Plan,
    PlannedNodes,
    UnplacedReplicas,
)
from reservoir.core.model.snapshot import PlacedReplicas
from reservoir.core.solver.problem.groups import Group
from reservoir.core.solver.problem.supply import Supply, distributed
from reservoir.core.solver.solution.bins import Bin
from reservoir.core.solver.solution.partial_plan import PartialPlan
from reservoir.core.solver.solution.substitutes import Substitutes

# For each group, the replicas not yet in the plan of each of its workloads, by key, the oldest first.
_Members = Sequence[Supply[str]]
_by_key = attrgetter("workload_key")


def to_plan(
    state: PartialPlan,
    substitutes: Substitutes,
    explain: Callable[[Group, str, int], UnplacedReplicas],
) -> Plan:
    """Return the plan; ``explain`` gets (group, workload key, count) and says why these replicas have no place."""
    members: list[Supply[str]] = []
    for group in state.groups:
        last_first = [(key, count) for key, count, _ in reversed(group.members)]
        members.append(Supply(last_first))
    existing: list[ExistingPlacement] = []
    launches: list[PlannedNodes] = []
    for bin_ in state.bins:
        if bin_.node is None:
            launches.extend(
                _launches(bin_, state, members, substitutes.alternatives(state, bin_))
            )
        elif bin_.contents:
            existing.extend(
                ExistingPlacement(bin_.node.claim_id, placed)
                for _, placed in _placements(bin_, members)
            )
    unplaced: list[UnplacedReplicas] = []
    for group in state.groups:
        for key, count in reversed(members[group.index].left):
            unplaced.append(explain(group, key, count))
    return Plan(
        launches=tuple(launches),
        existing=tuple(existing),
        unplaced=tuple(unplaced),
        cost_atto_usd_per_hour=state.cost(),
    )


def _launches(
    bin_: Bin, state: PartialPlan, members: _Members, alternatives: tuple[OfferingKey, ...]
) -> Iterator[PlannedNodes]:
    option, groups = bin_.option, state.groups
    assert option is not None
    relaxed: set[str] = set()
    for index, level in bin_.levels.items():
        if level:
            relaxed.update(groups[index].levels[level].relaxed)
    workloads = [groups[index].workload for index in sorted(bin_.contents)]
    gang_keys = [workload.key for workload in workloads if workload.gang is not None]
    for nodes, placed in _placements(bin_, members):
        yield PlannedNodes(
            node_pool_name=option.entry.pool.name,
            node_class_name=option.entry.node_class.name,
            offering=option.key,
            price_atto_usd_per_hour=option.price,
            count=nodes,
            placements=placed,
            alternatives=alternatives,
            labels=bin_.labels,
            gang_key=gang_keys[0] if gang_keys else None,
            relaxed=tuple(sorted(relaxed)),
        )


def _placements(
    bin_: Bin, members: _Members
) -> Iterator[tuple[int, tuple[PlacedReplicas, ...]]]:
    """Yield (number of equal nodes, the replicas on each of them)."""
    supplies = [(members[index], count) for index, count in bin_.contents.items()]
    for nodes, found in distributed(supplies, bin_.count):
        placed = starmap(PlacedReplicas, chain.from_iterable(found))
        yield nodes, tuple(sorted(placed, key=_by_key))
