"""The decision: demand onto reserved capacity first, then onto the cheapest that is left (docs/scheduler.md)."""

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace
from datetime import datetime
from functools import partial
from importlib import import_module

from reservoir.core.explaining.reasons import Reasons
from reservoir.core.model.plan import Plan, PlannedNodes, ReasonCode
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.workload import Demand
from reservoir.core.sharing.apportionment import Apportionment, is_shared, waiting_count
from reservoir.core.sharing.budgets import has_budgets, within_budgets
from reservoir.core.sharing.pools import within_pools
from reservoir.core.sharing.resource_pools import exceeds_quotas, has_resource_quotas
from reservoir.core.sharing.resource_shares import ResourceShares, leaves_idle, settled
from reservoir.core.solver.insertion.insert import Insertion
from reservoir.core.solver.insertion.neighbourhood_search import NeighbourhoodSearch
from reservoir.core.solver.insertion.new_nodes import Strategy
from reservoir.core.solver.insertion.node_elimination import empty_paid_nodes, take_off
from reservoir.core.solver.insertion.rightsizing import rightsize_paid_nodes
from reservoir.core.solver.insertion.spot_share import replace_dear_spot, spread_spot
from reservoir.core.solver.packing.spared_units import outlay_of
from reservoir.core.solver.pattern_packing import pack
from reservoir.core.solver.problem.components import Component, assignable_components, connected_components
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
# What a solve leaves of the shares of teams is shared out again so often.
_SHARING_ROUNDS_MAX = 3
# Who is held to a budget or a quota leaves something to others, who may then take more than theirs, so it is solved
# again. Each solve leaves time for the next, which would else place nothing: a plan beyond either is not committed.
_TIMES_PERCENT = (40, 60, 80, 100)


def solve(snapshot: Snapshot, *, now: datetime, policy: SchedulingPolicy) -> Plan:
    """Return a complete plan for the snapshot's demand.

    Pure and deterministic: the same arguments give the same plan, byte for byte, under any hash seed, as long as
    ``policy.expired`` answers the same. ``now`` is aware UTC.
    """
    plan = _solve_all(snapshot, now, policy)
    if _is_stuck(plan):
        return _serve_one(snapshot, plan, now, policy)
    return plan


def _is_stuck(plan: Plan) -> bool:
    """Whether nothing was placed for lack of time: the next pass would meet the same deadline at the same place."""
    is_late = any(item.code is ReasonCode.OUT_OF_TIME for item in plan.unplaced)
    return is_late and not (plan.launches or plan.existing)


def _serve_one(snapshot: Snapshot, plan: Plan, now: datetime, policy: SchedulingPolicy) -> Plan:
    """Plan for one workload, as if nobody else waited and within as much time again; the others wait as they did.

    Workloads take turns by the minute, so that one that is too much for any pass, or has no place at all, keeps nobody
    from theirs for long.
    """
    in_order = sorted(snapshot.demands, key=_urgency)
    minute = int(now.timestamp()) // 60
    chosen = in_order[minute % len(in_order)]
    alone = _solve_all(replace(snapshot, demands=(chosen,)), now, policy.prolonged())
    waiting = (item for item in plan.unplaced if item.workload_key != chosen.workload.key)
    launches = tuple(_in_its_zone(launch) for launch in alone.launches)
    return replace(alone, launches=launches, unplaced=(*alone.unplaced, *waiting))


def _in_its_zone(launch: PlannedNodes) -> PlannedNodes:
    """Leave out alternatives in other zones: those who wait, whom nobody looked at, may have rules about the place."""
    near = (key for key in launch.alternatives if key.zone_id == launch.offering.zone_id)
    return replace(launch, alternatives=tuple(near))


def _urgency(demand: Demand) -> tuple[int, datetime, str]:
    return -demand.workload.priority, demand.pending_since, demand.workload.key


# Branches: which solve comes next depends on all that the last one exceeded.
def _solve_all(snapshot: Snapshot, now: datetime, policy: SchedulingPolicy) -> Plan:
    """Solve until no team exceeds what it owns or may spend."""
    snapshot = within_pools(snapshot)
    if not (has_budgets(snapshot) or has_resource_quotas(snapshot)):
        return _solve_shared(snapshot, now, policy)
    plan = _solve_shared(snapshot, now, policy.until(_TIMES_PERCENT[0]))
    quotas: ResourceShares | None = None
    for until_percent in _TIMES_PERCENT[1:]:
        exceeds = quotas is None and exceeds_quotas(snapshot, plan)
        # What a quota forbids charges nobody: budgets are held to a plan that keeps quotas.
        capped = None if exceeds else within_budgets(snapshot, plan)
        must = capped is not None
        if quotas is None and (must or exceeds):
            quotas, must = ResourceShares(snapshot, plan, now), True
        elif quotas is not None and leaves_idle(snapshot, plan):
            quotas = ResourceShares(snapshot, plan, now)
        elif not must:
            break
        snapshot = snapshot if capped is None else capped
        held = snapshot if quotas is None else quotas.within(snapshot)
        found = _solve_shared(held, now, policy.until(until_percent))
        if not must and waiting_count(found) >= waiting_count(plan):
            break
        plan = found
    return settled(snapshot, plan) if has_resource_quotas(snapshot) else plan


def _solve_shared(snapshot: Snapshot, now: datetime, policy: SchedulingPolicy) -> Plan:
    """Solve with units shared out among teams; what a solve leaves of their shares is shared out again."""
    if not is_shared(snapshot):
        return _solve(snapshot, now, policy)
    apportionment = Apportionment(snapshot, now)
    best = _solve(apportionment.shares(), now, policy)
    for _ in range(_SHARING_ROUNDS_MAX - 1):
        if not best.unplaced or policy.expired() or not apportionment.again(best):
            break
        plan = _solve(apportionment.shares(), now, policy)
        if waiting_count(plan) >= waiting_count(best):
            break
        best = plan
    return best


def _solve(snapshot: Snapshot, now: datetime, policy: SchedulingPolicy) -> Plan:
    problem = SchedulingProblem.of(snapshot, now, policy)
    facts = NodeFacts(problem.catalogue, problem.terms)
    candidates = Candidates(problem.catalogue, problem.groups)
    usual = replace(_STRATEGIES[0], improves=policy.with_certificate)
    best = _best(lambda: PartialPlan(problem, facts), candidates, usual)
    plan = to_plan(best, candidates.substitutes, Reasons(best).explain)
    return _certified(plan, best, facts) if policy.with_certificate else plan


def _best(start: Callable[[], PartialPlan], candidates: Candidates, usual: Strategy) -> PartialPlan:
    """Decide by the usual strategy; while something is left over by the others too, then by neighbourhood search."""
    best, used = _usual(start, candidates, usual), usual
    if not _is_worth_retrying(best):
        return best
    nothing = start()
    hopeful = [group.index for group in best.groups if _has_hope(nothing, candidates, group)]
    for strategy in _STRATEGIES[1:]:
        if _is_worth_retrying(best, hopeful):
            state = _decided(start, candidates, strategy)
            if _is_better(state, best):
                best, used = state, strategy
    if _is_worth_retrying(best, hopeful):
        state = _decided(start, candidates, replace(used, is_thorough=True))
        best = state if _is_better(state, best) else best
    return best


def _usual(start: Callable[[], PartialPlan], candidates: Candidates, usual: Strategy) -> PartialPlan:
    """Decide by a strategy and, if it improves packings, without that first: the better finished plan is returned.

    What comes after the packing may make a dearer plan of a cheaper packing, or leave more over under limits. A plan
    that was ready is not lost where time ends while it is improved.
    """
    first = _decided(start, candidates, replace(usual, improves=False))
    if not (usual.improves and first.is_improvable) or first.catalogue.policy.expired():
        return first
    improved = _decided(start, candidates, usual)
    if _left_over(improved) != _left_over(first):
        return improved if _is_better(improved, first) else first
    is_dearer = outlay_of(improved) > outlay_of(first) or improved.cost() > first.cost()
    return first if is_dearer else improved


def _has_hope(nothing: PartialPlan, candidates: Candidates, group: Group) -> bool:
    """Whether a replica of the group would have a place if nothing else were decided."""
    is_open, requirement_sets = candidates.open_now(nothing.residual), group.requirement_sets[-1]
    if any(is_open[option.index] for option, _ in candidates.of(group.relaxed[-1])):
        return True
    bins = (bin_ for bin_ in nothing.bins if bin_.requirement_sets & requirement_sets)
    return any(copies_that_fit(group.request, bin_.free) for bin_ in bins)


def _is_better(state: PartialPlan, best: PartialPlan) -> bool:
    """Whether less is left over, and not because reserved units went to the less important."""
    return _left_over(state) < _left_over(best) and not has_inversion(state)


def _left_over(state: PartialPlan) -> tuple[int, ...]:
    """Sort outcomes: the least left over, higher priorities first. Equals stay with the usual strategy."""
    left: dict[int, int] = {}
    for group in state.groups:
        left[group.priority] = left.get(group.priority, 0) + state.remaining[group.index]
    return tuple(left[priority] for priority in sorted(left, reverse=True))


def _is_worth_retrying(state: PartialPlan, among: Iterable[int] | None = None) -> bool:
    """Whether few replicas in all, and some of these groups left over (all groups if none are given), leave time."""
    left = state.remaining if among is None else [state.remaining[index] for index in among]
    if not any(left) or state.catalogue.policy.expired():
        return False
    return sum(group.count for group in state.groups) <= _RETRY_REPLICAS_MAX


def _decided(start: Callable[[], PartialPlan], candidates: Candidates, strategy: Strategy) -> PartialPlan:
    """Place everything by one strategy, from the state in which nothing is decided."""
    one_by_one: set[int] = set()
    while True:
        state = start()
        short = _decide(Insertion(state, candidates, strategy), one_by_one)
        # Nothing is undone any more. The journal refers to the state, so it would keep it alive without a collector.
        state.commit()
        if not short:
            return state
        # Assigned evenly to domains, but some had no room: what was placed is uneven, so those are not assigned again.
        one_by_one |= short


def _decide(insertion: Insertion, one_by_one: Set[int]) -> set[int]:
    """Place everything, heavier priorities first; return the groups that were assigned to domains without room."""
    groups = insertion.state.groups
    components = connected_components(groups) if insertion.strategy.packs else []
    for priority in sorted({group.priority for group in groups}, reverse=True):
        short = _decide_priority(insertion, assignable_components(components, priority, one_by_one), priority)
        if short:
            return short
    before = insertion.state.cost()
    empty_paid_nodes(insertion)
    rightsize_paid_nodes(insertion)
    if insertion.state.cost() < before:
        # What is done without leaves its part of a limit to who is left over.
        _insert_leftovers(insertion, groups)
    replace_dear_spot(insertion)
    spread_spot(insertion, partial(_insert_leftovers, insertion, groups))
    return set()


# Branches: comprehensions of a line each, around one question about time.
def _decide_priority(insertion: Insertion, components: Sequence[Component], priority: int) -> set[int]:
    """Place the groups of one priority, and who gains by that; return those that were assigned without room.

    Those of the components are counted, the others are inserted before them.
    """
    state = insertion.state
    level = [group for group in state.groups if group.priority == priority]
    counted = {group.index for component in components for group in component.groups}
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
        _insert_leftovers(insertion, waiting)  # its effort is bounded, and what it moved may have made room
    return set()


def _withdraw(state: PartialPlan, short: Set[int]) -> None:
    """Do without groups that are placed unevenly and cannot be assigned again, and without all whom they concern."""
    state.unlooked |= take_off(state, short)


def _certified(plan: Plan, state: PartialPlan, facts: NodeFacts) -> Plan:
    """Add the lower bound, or say why there is none. ``facts`` are those of the nodes before anything was decided."""
    if plan.cost_atto_usd_per_hour == 0:
        return replace(plan, lower_bound_atto_usd_per_hour=0)
    if state.catalogue.policy.expired():
        return replace(plan, notes=(*plan.notes, "no certificate: out of time"))
    try:
        bounds = import_module("reservoir.core.solver.column_generation.lower_bound")
    except ModuleNotFoundError as error:
        return replace(plan, notes=(*plan.notes, f"no certificate: {error.name} is not installed"))
    standing = (node for node in facts.ordered if not node.deleting and facts.takes_replicas(node))
    existing = [(facts.requirement_sets(node), tuple(facts.free(node))) for node in standing]
    bound: int | None = bounds.lower_bound_atto_usd(state, existing)
    if bound is None:
        why = "out of time" if state.catalogue.policy.expired() else "the linear program was not solved"
        return replace(plan, notes=(*plan.notes, f"no certificate: {why}"))
    return replace(plan, lower_bound_atto_usd_per_hour=min(bound, plan.cost_atto_usd_per_hour))


def _insert(insertion: Insertion, groups: Sequence[Group]) -> None:
    """Place groups one after the other: gangs first (but in the strategies by size), then as the strategy says."""
    if insertion.state.is_out_of_time(*groups):
        return
    orders = {
        "dearest": lambda group: (group.workload.gang is None, insertion.candidates.dearness(group), group.index),
        "largest": lambda group: ([-amount for amount in group.request], group.index),
        "smallest": lambda group: (list(group.request), group.index),
        "fewest": lambda group: (len(insertion.candidates.of(group.relaxed[-1])), group.count, group.index),
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
    """Try what is left over again, at last in reserved slots that a floor kept for more."""
    _insert_again(insertion, groups)
    if insertion.state.catalogue.policy.reserved_floor_percent:
        with insertion.new_nodes.without_floor():
            _insert_again(insertion, groups)


def _insert_again(insertion: Insertion, groups: Sequence[Group]) -> None:
    """Try what is left over again while that places anything: one replica may make room for another (R-42)."""
    remaining = insertion.state.remaining
    while waiting := [group for group in groups if remaining[group.index]]:
        before = sum(remaining[group.index] for group in waiting)
        _insert(insertion, waiting)
        if sum(remaining[group.index] for group in waiting) == before:
            return
