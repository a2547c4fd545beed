"""Place demand on nodes: on those that run, on reserved capacity, then on the cheapest offering. It knows no teams.

From the top: `place` keeps the best of several strategies (`_best_of_strategies`); a strategy starts from an empty plan
(`_run_strategy`), places one priority after the other (`_place_all`, `_place_priority`), first the groups whose zones
are counted out together, then group by group (`_insert`), and at the end improves choices that turned out to be
expensive.
"""

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain

from reservoir.core.explaining.reasons import Reasons
from reservoir.core.model.plan import Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduler.certificate import certified
from reservoir.core.scheduler.part_of_demand import without_unread
from reservoir.core.solver.insertion.insert import Insertion
from reservoir.core.solver.insertion.neighbourhood_search import NeighbourhoodSearch
from reservoir.core.solver.insertion.new_nodes import Strategy
from reservoir.core.solver.insertion.node_elimination import empty_paid_nodes, take_off
from reservoir.core.solver.insertion.rightsizing import rightsize_paid_nodes
from reservoir.core.solver.insertion.spot_share import replace_dear_spot, spread_spot
from reservoir.core.solver.packing.outlay import left_over, outlay_of_plan
from reservoir.core.solver.pattern_packing import pack
from reservoir.core.solver.problem.components import (
    Component,
    assignable_components,
    connected_components,
)
from reservoir.core.solver.problem.groups import Group, SchedulingProblem
from reservoir.core.solver.problem.nodes import NodeFacts
from reservoir.core.solver.problem.vectors import copies_that_fit
from reservoir.core.solver.solution.candidates import Candidates
from reservoir.core.solver.solution.partial_plan import PartialPlan
from reservoir.core.solver.solution.priority_inversion import has_inversion
from reservoir.core.solver.solution.to_plan import to_plan

# Tried one after the other while something is left over; the first is the one that is usually enough.
_STRATEGIES = (
    Strategy(),
    Strategy(packs=False, is_frugal=True),
    Strategy(packs=False, order="largest"),
    Strategy(packs=False, is_frugal=True, order="smallest"),
    Strategy(packs=False, order="fewest"),
)
# With more replicas than this the other strategies, which go replica by replica, are not worth their time.
_RETRY_REPLICAS_MAX = 300


def place(snapshot: Snapshot, now: datetime, policy: SchedulingPolicy) -> Plan:
    """Return a plan for all demand of the snapshot, which is taken as it is; certified if the policy asks for that."""
    problem = SchedulingProblem.of(snapshot, now, policy)
    facts = NodeFacts(problem.catalogue, problem.terms)
    candidates = Candidates(problem.catalogue, problem.groups)
    best = _best_of_strategies(
        lambda: PartialPlan(problem, facts), candidates, improves=policy.with_certificate
    )
    plan = to_plan(best, candidates.substitutes, Reasons(best).explain)
    if problem.unread:
        plan = without_unread(plan, problem.unread)
    return certified(plan, best, facts) if policy.with_certificate else plan


def _best_of_strategies(
    start: Callable[[], PartialPlan], candidates: Candidates, *, improves: bool
) -> PartialPlan:
    """Return the first plan or, if it is to be improved and that gains anything, the improved one.

    Finished plans are compared: the steps after the packing may make a more expensive plan of a cheaper packing, or
    leave more over under limits. A plan that was ready is not lost where time ends while it is improved.
    """
    usual = _run_strategy(start, candidates, _STRATEGIES[0])
    first = _with_fewer_left(start, candidates, usual)
    if not (improves and usual.is_improvable) or first.catalogue.policy.expired():
        return first
    improved = _run_strategy(start, candidates, replace(_STRATEGIES[0], improves=True))
    is_cheaper = outlay_of_plan(improved) < outlay_of_plan(first)
    return improved if is_cheaper and not has_inversion(improved) else first


def _with_fewer_left(
    start: Callable[[], PartialPlan], candidates: Candidates, usual: PartialPlan
) -> PartialPlan:
    """While replicas are left over, run the other strategies, and last a neighbourhood search."""
    best, used = usual, _STRATEGIES[0]
    if not _is_worth_retrying(best):
        return best
    nothing = start()
    hopeful = [
        group.index for group in best.groups if _has_hope(nothing, candidates, group)
    ]
    for strategy in _STRATEGIES[1:]:
        if _is_worth_retrying(best, hopeful):
            state = _run_strategy(start, candidates, strategy)
            if _leaves_less(state, best):
                best, used = state, strategy
    if _is_worth_retrying(best, hopeful):
        state = _run_strategy(start, candidates, replace(used, is_thorough=True))
        best = state if _leaves_less(state, best) else best
    return best


def _has_hope(nothing: PartialPlan, candidates: Candidates, group: Group) -> bool:
    """Whether a replica of the group would have a place in an empty plan."""
    is_open = candidates.open_now(nothing.residual)
    requirement_sets = group.requirement_sets[-1]
    if any(is_open[option.index] for option, _ in candidates.of(group.relaxed[-1])):
        return True
    bins = (bin_ for bin_ in nothing.bins if bin_.requirement_sets & requirement_sets)
    return any(copies_that_fit(group.request, bin_.free) for bin_ in bins)


def _leaves_less(state: PartialPlan, best: PartialPlan) -> bool:
    """Whether less is left over, and not because reserved units went to the less important."""
    return left_over(state) < left_over(best) and not has_inversion(state)


def _is_worth_retrying(state: PartialPlan, among: Iterable[int] | None = None) -> bool:
    """Whether few replicas in all, and some of these groups left over (all groups if none are given), leave time."""
    left = state.remaining if among is None else [state.remaining[index] for index in among]
    if not any(left) or state.catalogue.policy.expired():
        return False
    return sum(group.count for group in state.groups) <= _RETRY_REPLICAS_MAX


def _run_strategy(
    start: Callable[[], PartialPlan], candidates: Candidates, strategy: Strategy
) -> PartialPlan:
    """Place all demand by one strategy, from an empty plan."""
    one_by_one: set[int] = set()
    while True:
        state = start()
        short = _place_all(Insertion(state, candidates, strategy), one_by_one)
        # Nothing is undone any more. The journal refers to the state, so it would keep it alive without a collector.
        state.commit()
        if not short:
            return state
        # Assigned evenly to domains, but some had no room: the placement is uneven, so those groups are not assigned
        # again.
        one_by_one |= short


def _place_all(insertion: Insertion, one_by_one: Set[int]) -> set[int]:
    """Place all groups, higher priorities first; return those that were assigned to domains without room."""
    groups = insertion.state.groups
    components = connected_components(groups) if insertion.strategy.packs else []
    for priority in sorted({group.priority for group in groups}, reverse=True):
        short = _place_priority(
            insertion, assignable_components(components, priority, one_by_one), priority
        )
        if short:
            return short
    before = insertion.state.cost()
    empty_paid_nodes(insertion)
    rightsize_paid_nodes(insertion)
    if insertion.state.cost() < before:
        # A node that is not launched after all leaves its part of a limit to groups that are still without one.
        _insert_leftovers(insertion, groups)
    replace_dear_spot(insertion)
    spread_spot(insertion, partial(_insert_leftovers, insertion, groups))
    return set()


# Branches: comprehensions of a line each, around one question about time.
def _place_priority(
    insertion: Insertion, components: Sequence[Component], priority: int
) -> set[int]:
    """Place the groups of one priority, and groups that gain by it; return those that were assigned without room.

    Those of the components are counted, the others are inserted before them.
    """
    state = insertion.state
    level = [group for group in state.groups if group.priority == priority]
    groups = chain.from_iterable(component.groups for component in components)
    counted = {group.index for group in groups}
    _insert(insertion, [group for group in level if group.index not in counted])
    packed = pack(insertion, components)
    if packed.short:
        if not state.is_out_of_time():
            return packed.short
        _withdraw(state, packed.short)
    _insert(insertion, packed.inserted)
    waiting = [*(group for group in state.groups if _may_gain(group, priority)), *level]
    _insert_leftovers(insertion, waiting)
    if insertion.strategy.is_thorough:
        NeighbourhoodSearch(insertion).serve(waiting)
        # its effort is bounded, and what it moved may have made room
        _insert_leftovers(insertion, waiting)
    return set()


def _withdraw(state: PartialPlan, short: Set[int]) -> None:
    """Leave out groups that are placed unevenly and cannot be assigned again, and all groups that depend on them."""
    state.unlooked |= take_off(state, short)


def _insert(insertion: Insertion, groups: Sequence[Group]) -> None:
    """Place groups one after the other: gangs first (but in the strategies by size), then as the strategy says."""
    if insertion.state.is_out_of_time(*groups):
        return
    orders = {
        "dearest": lambda group: (
            group.workload.gang is None,
            insertion.candidates.dearness(group),
            group.index,
        ),
        "largest": lambda group: ([-amount for amount in group.request], group.index),
        "smallest": lambda group: (list(group.request), group.index),
        "fewest": lambda group: (
            len(insertion.candidates.of(group.relaxed[-1])),
            group.count,
            group.index,
        ),
    }
    ordered = sorted(groups, key=orders[insertion.strategy.order])
    for group in sorted(ordered, key=lambda group: -group.priority):
        if not insertion.state.remaining[group.index]:
            continue
        if group.workload.gang is not None:
            insertion.place_gang(group)
        else:
            insertion.place_group(group)


def _may_gain(group: Group, priority: int) -> bool:
    """Whether replicas of this priority may make room for the group, of a higher one, by evening out or opening."""
    constraints = group.constraints[-1]
    return group.priority > priority and bool(constraints.spread or constraints.affinity)


def _insert_leftovers(insertion: Insertion, groups: Sequence[Group]) -> None:
    """Try the leftovers again, at last in reserved slots that a floor kept for larger replicas."""
    _insert_again(insertion, groups)
    if insertion.state.catalogue.policy.reserved_floor_percent:
        with insertion.new_nodes.without_floor():
            _insert_again(insertion, groups)


def _insert_again(insertion: Insertion, groups: Sequence[Group]) -> None:
    """Try the leftovers again while that places anything: one replica may make room for another (R-42)."""
    remaining = insertion.state.remaining
    while waiting := [group for group in groups if remaining[group.index]]:
        before = sum(remaining[group.index] for group in waiting)
        _insert(insertion, waiting)
        if sum(remaining[group.index] for group in waiting) == before:
            return
