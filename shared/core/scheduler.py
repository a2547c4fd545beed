"""The decision: demand onto reserved capacity first, then onto the cheapest that is left (docs/scheduler.md)."""

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace
from datetime import datetime
from functools import partial
from importlib import import_module

from shared.core.model.plan import Plan
from shared.core.model.policy import SchedulingPolicy
from shared.core.model.snapshot import Snapshot
from shared.core.solver.insertion.dear_spot import replace_dear_spot
from shared.core.solver.insertion.gangs import place_gang
from shared.core.solver.insertion.insert import Placer, Tactic
from shared.core.solver.insertion.neighbourhood_search import Exchange
from shared.core.solver.insertion.node_elimination import empty_paid_nodes, take_off
from shared.core.solver.insertion.spot_share import spread_spot
from shared.core.solver.outcome.reasons import Reasons
from shared.core.solver.outcome.to_plan import emit
from shared.core.solver.pattern_packing import place_by_counts
from shared.core.solver.problem.catalogue import Market
from shared.core.solver.problem.components import connected_parts, dealt_parts, general_groups, together
from shared.core.solver.problem.groups import Group, gather
from shared.core.solver.problem.nodes import NodeFacts
from shared.core.solver.problem.vectors import copies_that_fit
from shared.core.solver.solution.candidates import Choices
from shared.core.solver.solution.partial_plan import State
from shared.core.solver.solution.priority_inversion import has_inversion

# Tried one after the other while something is left over; the first is the one that is usually enough.
_TACTICS = (
    Tactic(),
    Tactic(counts=False),
    Tactic(counts=False, is_frugal=True),
    Tactic(counts=False, is_frugal=True, order="largest"),
    Tactic(counts=False, is_frugal=True, is_roomy=True),
    Tactic(counts=False, order="largest"),
    Tactic(counts=False, order="smallest"),
    Tactic(counts=False, is_frugal=True, order="smallest"),
    Tactic(counts=False, order="fewest"),
)
# With more replicas than this the other tactics, which go replica by replica, are not worth their time.
_RETRY_REPLICAS_MAX = 300


def solve(snapshot: Snapshot, *, now: datetime, policy: SchedulingPolicy) -> Plan:
    """Return a complete plan for the snapshot's demand.

    Pure and deterministic: the same arguments give the same plan, byte for byte, under any hash seed, as long as
    ``policy.expired`` answers the same. ``now`` is aware UTC.
    """
    demands = gather(snapshot, now, policy.preference_policy)
    market = Market(snapshot, now, policy, demands.dimensions, demands.alternatives)
    demands.resolve(market)
    facts = NodeFacts(market, demands)
    choices = Choices(market, demands)
    best = _best(lambda: State(market, demands, facts), choices)
    plan = emit(best, Reasons(best))
    return _certified(plan, best, State(market, demands, facts)) if policy.with_certificate else plan


def _best(start: Callable[[], State], choices: Choices) -> State:
    """Decide by the first tactic; while something is left over by the others too, at last with exchanges."""
    best, used = _decided(start, choices, _TACTICS[0]), _TACTICS[0]
    if not _is_worth_retrying(best):
        return best
    nothing = start()
    hopeful = [group.index for group in best.groups if _has_hope(nothing, choices, group)]
    for tactic in _TACTICS[1:]:
        if _is_worth_retrying(best, hopeful):
            state = _decided(start, choices, tactic)
            if _is_better(state, best):
                best, used = state, tactic
    if _is_worth_retrying(best, hopeful):
        state = _decided(start, choices, replace(used, is_thorough=True))
        best = state if _is_better(state, best) else best
    return best


def _has_hope(nothing: State, choices: Choices, group: Group) -> bool:
    """Whether a replica of the group would have a place if nothing else were decided."""
    is_open, wishes = choices.open_now(nothing.supply), group.alternatives[-1]
    if any(is_open[option.index] for option, _ in choices.candidates(group, len(group.levels) - 1)):
        return True
    bins = (bin_ for bin_ in nothing.bins if bin_.alternatives & wishes)
    return any(copies_that_fit(group.request, bin_.free) for bin_ in bins)


def _is_better(state: State, best: State) -> bool:
    """Whether less is left over, and not because reserved units went to the less important."""
    return _left_over(state) < _left_over(best) and not has_inversion(state)


def _left_over(state: State) -> tuple[int, ...]:
    """Sort outcomes: the least left over, higher priorities first. Equals stay with the usual tactic."""
    left: dict[int, int] = {}
    for group in state.groups:
        left[group.priority] = left.get(group.priority, 0) + state.remaining[group.index]
    return tuple(left[priority] for priority in sorted(left, reverse=True))


def _is_worth_retrying(state: State, among: Iterable[int] | None = None) -> bool:
    """Whether few replicas in all, and some of these groups left over (all groups if none are given), leave time."""
    left = state.remaining if among is None else [state.remaining[index] for index in among]
    if not any(left) or state.market.policy.expired():
        return False
    return sum(group.count for group in state.groups) <= _RETRY_REPLICAS_MAX


def _decided(start: Callable[[], State], choices: Choices, tactic: Tactic) -> State:
    """Place everything by one tactic, from the state in which nothing is decided."""
    one_by_one: set[int] = set()
    while True:
        state = start()
        short = _decide(Placer(state, choices, tactic), one_by_one)
        # Nothing is undone any more. The journal refers to the state, so it would keep it alive without a collector.
        state.commit()
        if not short:
            return state
        # Dealt evenly to domains, but some had no room: what was placed is uneven, so those are not dealt again.
        one_by_one |= short


def _decide(placer: Placer, one_by_one: Set[int]) -> set[int]:
    """Place everything, heavier priorities first; return the groups that were dealt to domains without room."""
    groups = placer.state.groups
    parts = connected_parts(groups) if placer.tactic.counts else []
    general = general_groups(parts, one_by_one) if placer.tactic.counts else {group.index for group in groups}
    for priority in sorted({group.priority for group in groups}, reverse=True):
        level = [group for group in groups if group.priority == priority]
        _place_generally(placer, [group for group in level if group.index in general])
        counted = place_by_counts(placer, dealt_parts(parts, priority, general))
        if counted.short:
            if not placer.state.is_out_of_time():
                return counted.short
            _withdraw(placer.state, counted.short)
        _place_generally(placer, counted.general)
        waiting = [*(group for group in groups if _may_gain(group, priority)), *level]
        _place_leftovers(placer, waiting)
        if placer.tactic.is_thorough:
            Exchange(placer).serve(waiting)
    empty_paid_nodes(placer)
    replace_dear_spot(placer.state)
    spread_spot(placer, partial(_place_leftovers, placer, groups))
    return set()


def _withdraw(state: State, short: Set[int]) -> None:
    """Do without groups that are placed unevenly and cannot be dealt again, and without all whom they concern."""
    parts = together(state.groups)
    dropped = {index for found in short for index in parts[found]}
    take_off(state, dropped)
    state.unlooked |= dropped


def _certified(plan: Plan, state: State, before: State) -> Plan:
    """Add the lower bound, or say why there is none. ``before``: the state in which nothing is decided."""
    if state.market.policy.expired():
        return replace(plan, notes=(*plan.notes, "no certificate: out of time"))
    try:
        bounds = import_module("shared.core.solver.column_generation.lower_bound")
    except ModuleNotFoundError as error:
        return replace(plan, notes=(*plan.notes, f"no certificate: {error.name} is not installed"))
    existing = [(bin_.alternatives, tuple(bin_.free)) for bin_ in before.bins]
    bound: int | None = bounds.lower_bound_atto_usd(state, existing)
    if bound is None:
        return replace(plan, notes=(*plan.notes, "no certificate: the linear program was not solved"))
    return replace(plan, lower_bound_atto_usd_per_hour=min(bound, plan.cost_atto_usd_per_hour))


def _place_generally(placer: Placer, groups: Sequence[Group]) -> None:
    """Place groups one after the other: gangs first (but in the tactics by size), then as the tactic says."""
    if placer.state.is_out_of_time(*groups):
        return
    orders = {
        "dearest": lambda group: (group.workload.gang is None, placer.dearness(group), group.index),
        "largest": lambda group: ([-amount for amount in group.request], group.index),
        "smallest": lambda group: (list(group.request), group.index),
        "fewest": lambda group: (len(placer.candidates(group, len(group.levels) - 1)), group.count, group.index),
    }
    ordered = sorted(groups, key=orders[placer.tactic.order])
    for group in sorted(ordered, key=lambda group: -group.priority):
        if not placer.state.remaining[group.index]:
            continue
        if group.workload.gang is not None:
            place_gang(placer, group)
        else:
            placer.place_group(group)


def _may_gain(group: Group, priority: int) -> bool:
    """Whether replicas of this priority may make room for the group, of a higher one, by evening out or opening."""
    constraints = group.constraints[-1]
    return group.priority > priority and bool(constraints.spread or constraints.affinity)


def _place_leftovers(placer: Placer, groups: Sequence[Group]) -> None:
    """Try what is left over again, at last in reserved slots that a floor kept for more."""
    _place_again(placer, groups)
    if placer.state.market.policy.reserved_floor_percent:
        with placer.below_floor():
            _place_again(placer, groups)


def _place_again(placer: Placer, groups: Sequence[Group]) -> None:
    """Try what is left over again while that places anything: one replica may make room for another (R-42)."""
    remaining = placer.state.remaining
    while waiting := [group for group in groups if remaining[group.index]]:
        before = sum(remaining[group.index] for group in waiting)
        _place_generally(placer, waiting)
        if sum(remaining[group.index] for group in waiting) == before:
            return
