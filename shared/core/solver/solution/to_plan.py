"""The state as a plan: replicas of groups become replicas of workloads, equal nodes become one entry."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter

from shared.core.model.plan import ExistingPlacement, Plan, PlannedNodes, UnplacedReplicas
from shared.core.model.snapshot import PlacedReplicas
from shared.core.solver.problem.groups import Group
from shared.core.solver.problem.option_order import overhead_atto_usd
from shared.core.solver.problem.runs import in_step
from shared.core.solver.solution.alternatives import Alternatives
from shared.core.solver.solution.bins import Bin
from shared.core.solver.solution.partial_plan import PartialPlan


class _Members:
    """Hands out the members of a group, oldest first."""

    __slots__ = ("_key", "_last", "_later", "_left")

    def __init__(self, group: Group) -> None:
        self._later = list(group.members[:0:-1])  # mostly a group is one workload
        self._key, self._left = group.members[0][:2]
        self._last: PlacedReplicas | None = None  # shared by all nodes with as many: there are many, and few differ

    def _next(self) -> None:
        self._key, self._left = self._later.pop()[:2]

    def runs(self, per_node: int, nodes: int) -> Iterator[tuple[int, tuple[PlacedReplicas, ...]]]:
        """Yield (number of equal nodes, who is on each) until ``nodes`` are served."""
        while nodes:
            if not self._left:
                self._next()
            whole = min(nodes, self._left // per_node)
            if whole:
                self._left -= whole * per_node  # before the yield: whoever asks may not come back
                nodes -= whole
                yield whole, (self._placed(per_node),)
            else:
                nodes -= 1
                yield 1, self.take(per_node)

    def _placed(self, count: int) -> PlacedReplicas:
        """Return so many replicas of the present member as a value."""
        last = self._last
        if last is None or last.count != count or last.workload_key != self._key:
            last = self._last = PlacedReplicas(self._key, count)
        return last

    def take(self, count: int) -> tuple[PlacedReplicas, ...]:
        """Return the next ``count`` replicas."""
        if self._left >= count:  # mostly
            self._left -= count
            return (self._placed(count),)
        placed = []
        while count:
            if not self._left:
                self._next()
            taken = min(count, self._left)
            self._left -= taken
            placed.append(self._placed(taken))
            count -= taken
        return tuple(placed)

    def rest(self) -> Iterator[tuple[str, int]]:
        """Yield who was never placed."""
        if self._left:
            yield self._key, self._left
        yield from ((key, count) for key, count, _ in reversed(self._later))


_by_key = attrgetter("workload_key")


def _placements(bin_: Bin, members: list[_Members]) -> Iterator[tuple[int, tuple[PlacedReplicas, ...]]]:
    """Yield (number of equal nodes, what is on each) over the nodes of a bin."""
    if bin_.count == 1:
        alone = [item for index, count in bin_.contents.items() for item in members[index].take(count)]
        alone.sort(key=_by_key)
        yield 1, tuple(alone)
        return
    streams = [members[index].runs(count, bin_.count) for index, count in bin_.contents.items()]
    for nodes, placed in in_step(streams, bin_.count):
        yield nodes, tuple(sorted(chain.from_iterable(placed), key=_by_key))


def _relaxed(bin_: Bin, groups: Sequence[Group]) -> tuple[str, ...]:
    if not any(bin_.levels.values()):
        return ()
    return tuple(sorted({name for index, level in bin_.levels.items() for name in groups[index].levels[level].relaxed}))


# Branches: bins, then groups: each goes to one part of the plan.
def to_plan(state: PartialPlan, explain: Callable[[Group, str, int], UnplacedReplicas]) -> Plan:
    """Write the plan; ``explain`` says why so many replicas of a workload (group, key, count) have no place."""
    members = [_Members(group) for group in state.groups]
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
            for _, placed in _placements(bin_, members):
                existing.append(ExistingPlacement(bin_.node.claim_id, placed))
        else:
            launches.extend(_launches(bin_, state, members, alternatives, gangs))
            assert bin_.option is not None
            cost += (bin_.option.price + overhead) * bin_.count
    unplaced: list[UnplacedReplicas] = []
    for group in state.groups:
        for key, count in members[group.index].rest() if state.remaining[group.index] else ():
            unplaced.append(explain(group, key, count))
    return Plan(
        launches=tuple(launches),
        existing=tuple(existing),
        unplaced=tuple(unplaced),
        cost_atto_usd_per_hour=cost,
    )


def _launches(
    bin_: Bin, state: PartialPlan, members: list[_Members], alternatives: Alternatives, gangs: Mapping[int, str]
) -> Iterator[PlannedNodes]:
    option = bin_.option
    assert option is not None
    leader = min(gangs.keys() & bin_.contents.keys(), default=None) if gangs else None
    others = alternatives.of(bin_)
    for nodes, placed in _placements(bin_, members):
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
