"""The state as a plan: replicas of groups become replicas of workloads, equal nodes become one entry."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter

from shared.core.model.plan import ExistingPlacement, Plan, PlannedNodes, UnplacedReplicas
from shared.core.model.snapshot import PlacedReplicas
from shared.core.solver.problem.groups import Group
from shared.core.solver.problem.supply import Supply, dealt
from shared.core.solver.solution.alternatives import Alternatives
from shared.core.solver.solution.bins import Bin
from shared.core.solver.solution.partial_plan import PartialPlan

_by_key = attrgetter("workload_key")


class _Placements:
    """Says which members of groups are on the nodes of a bin. Equal values are one: there are many, and few differ."""

    def __init__(self, groups: Sequence[Group]) -> None:
        # By the workloads' keys, oldest first.
        self.members = [Supply([member[:2] for member in reversed(group.members)]) for group in groups]
        self._known: dict[tuple[str, int], PlacedReplicas] = {}

    def on(self, bin_: Bin) -> Iterator[tuple[int, tuple[PlacedReplicas, ...]]]:
        """Yield (number of equal nodes, what is on each)."""
        known, supplies = self._known, [(self.members[index], count) for index, count in bin_.contents.items()]
        for nodes, found in dealt(supplies, bin_.count):
            parts = chain.from_iterable(found)
            placed = [known.get(part) or known.setdefault(part, PlacedReplicas(*part)) for part in parts]
            yield nodes, tuple(sorted(placed, key=_by_key))


def _relaxed(bin_: Bin, groups: Sequence[Group]) -> tuple[str, ...]:
    if not any(bin_.levels.values()):
        return ()
    return tuple(sorted({name for index, level in bin_.levels.items() for name in groups[index].levels[level].relaxed}))


def to_plan(state: PartialPlan, explain: Callable[[Group, str, int], UnplacedReplicas]) -> Plan:
    """Write the plan; ``explain`` says why so many replicas of a workload (group, key, count) have no place."""
    placements = _Placements(state.groups)
    alternatives = Alternatives(state)
    gangs = {group.index: group.workload.key for group in state.groups if group.workload.gang is not None}
    existing: list[ExistingPlacement] = []
    launches: list[PlannedNodes] = []
    for bin_ in state.bins:
        if bin_.node is None:
            launches.extend(_launches(bin_, state, placements, alternatives, gangs))
        elif bin_.contents:
            existing.extend(ExistingPlacement(bin_.node.claim_id, placed) for _, placed in placements.on(bin_))
    return Plan(
        launches=tuple(launches),
        existing=tuple(existing),
        unplaced=tuple(
            explain(group, key, count)
            for group in state.groups
            for key, count in reversed(placements.members[group.index].left)
        ),
        cost_atto_usd_per_hour=state.cost(),
    )


def _launches(
    bin_: Bin, state: PartialPlan, placements: _Placements, alternatives: Alternatives, gangs: Mapping[int, str]
) -> Iterator[PlannedNodes]:
    option = bin_.option
    assert option is not None
    leader = min(gangs.keys() & bin_.contents.keys(), default=None) if gangs else None
    others = alternatives.of(bin_)
    for nodes, placed in placements.on(bin_):
        yield PlannedNodes(
            node_pool_name=option.entry.pool.name,
            node_class_name=option.entry.node_class.name,
            offering=option.key,
            price_atto_usd_per_hour=option.price,
            count=nodes,
            placements=placed,
            alternatives=others,
            labels=bin_.labels,
            gang_key=None if leader is None else gangs[leader],
            relaxed=_relaxed(bin_, state.groups),
        )
