"""The state as a plan: replicas of groups become replicas of workloads, equal nodes become one entry."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter

from shared.core.model.plan import ExistingPlacement, Plan, PlannedNodes, UnplacedReplicas
from shared.core.model.snapshot import PlacedReplicas
from shared.core.solver.problem.groups import Group
from shared.core.solver.problem.option_order import overhead_atto_usd
from shared.core.solver.problem.supply import Supply, dealt
from shared.core.solver.solution.alternatives import Alternatives
from shared.core.solver.solution.bins import Bin
from shared.core.solver.solution.partial_plan import PartialPlan

_Members = Supply[str]  # of a group, by the workloads' keys, oldest first
_by_key = attrgetter("workload_key")


class _Placements:
    """Says which members of groups are on the nodes of a bin. Equal values are one: there are many, and few differ."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.members = [_Members([member[:2] for member in reversed(group.members)]) for group in groups]
        self._known: dict[tuple[str, int], PlacedReplicas] = {}

    def on(self, bin_: Bin) -> Iterator[tuple[int, tuple[PlacedReplicas, ...]]]:
        """Yield (number of equal nodes, what is on each)."""
        supplies = [(self.members[index], count) for index, count in bin_.contents.items()]
        for nodes, found in dealt(supplies, bin_.count):
            yield nodes, self._placed(found)

    def _placed(self, found: Sequence[Sequence[tuple[str, int]]]) -> tuple[PlacedReplicas, ...]:
        known = self._known
        placed = []
        for parts in found:
            for part in parts:
                one = known.get(part)
                if one is None:
                    one = known[part] = PlacedReplicas(*part)
                placed.append(one)
        placed.sort(key=_by_key)
        return tuple(placed)


def _relaxed(bin_: Bin, groups: Sequence[Group]) -> tuple[str, ...]:
    if not any(bin_.levels.values()):
        return ()
    return tuple(sorted({name for index, level in bin_.levels.items() for name in groups[index].levels[level].relaxed}))


def to_plan(state: PartialPlan, explain: Callable[[Group, str, int], UnplacedReplicas]) -> Plan:
    """Write the plan; ``explain`` says why so many replicas of a workload (group, key, count) have no place."""
    placements = _Placements(state.groups)
    alternatives = Alternatives(state)
    overhead = overhead_atto_usd(state.catalogue.policy)
    gangs = {group.index: group.workload.key for group in state.groups if group.workload.gang is not None}
    existing: list[ExistingPlacement] = []
    launches: list[PlannedNodes] = []
    cost = 0
    for bin_ in state.bins:
        if not bin_.contents:
            continue
        if bin_.node is not None:
            for _, placed in placements.on(bin_):
                existing.append(ExistingPlacement(bin_.node.claim_id, placed))
        else:
            launches.extend(_launches(bin_, state, placements, alternatives, gangs))
            assert bin_.option is not None
            cost += (bin_.option.price + overhead) * bin_.count
    unplaced: list[UnplacedReplicas] = []
    for group in state.groups:
        for key, count in reversed(placements.members[group.index].left):
            unplaced.append(explain(group, key, count))
    return Plan(
        launches=tuple(launches),
        existing=tuple(existing),
        unplaced=tuple(unplaced),
        cost_atto_usd_per_hour=cost,
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
