"""The decision: demand onto reserved capacity first, then onto the cheapest that is left (DESIGN section 3)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from importlib import import_module

from shared.core.plan import Plan
from shared.core.policy import SchedulingPolicy
from shared.core.snapshot import Snapshot
from shared.core.solver.by_counts import place_by_counts
from shared.core.solver.emit import emit
from shared.core.solver.gangs import place_gang
from shared.core.solver.general import Placer
from shared.core.solver.groups import Group, gather
from shared.core.solver.lots import general_groups
from shared.core.solver.market import Market
from shared.core.solver.nodes import NodeFacts
from shared.core.solver.reasons import Reasons
from shared.core.solver.state import State


def solve(snapshot: Snapshot, *, now: datetime, policy: SchedulingPolicy) -> Plan:
    """Return a complete plan for the snapshot's demand.

    Pure and deterministic: the same arguments give the same plan, byte for byte, under any hash seed, as long as
    ``policy.expired`` answers the same. ``now`` is aware UTC.
    """
    demands = gather(snapshot, now, policy.preference_policy)
    market = Market(snapshot, now, policy, demands.dimensions, demands.alternatives)
    demands.resolve(market)
    state = State(market, demands, NodeFacts(market, demands))
    existing = [(bin_.alternatives, tuple(bin_.free)) for bin_ in state.bins]
    placer = Placer(state)
    general = general_groups(demands.groups)
    for priority in sorted({group.priority for group in demands.groups}, reverse=True):
        level = [group for group in demands.groups if group.priority == priority]
        _place_generally(placer, [group for group in level if group.index in general])
        _place_generally(placer, place_by_counts(placer, [group for group in level if group.index not in general]))
        _place_leftovers(placer, [group for group in level if group.workload.gang is None])
    plan = emit(state, Reasons(state), (), max(1, policy.iterations))
    return _certified(plan, state, existing) if policy.with_certificate else plan


def _certified(plan: Plan, state: State, existing: Sequence[tuple[int, Sequence[int]]]) -> Plan:
    """Add the lower bound, or say why there is none."""
    if state.market.policy.expired():
        return replace(plan, notes=(*plan.notes, "no certificate: out of time"))
    try:
        bounds = import_module("shared.core.solver.polish.bound")
    except ModuleNotFoundError as error:
        return replace(plan, notes=(*plan.notes, f"no certificate: {error.name} is not installed"))
    bound: int | None = bounds.lower_bound_atto_usd(state, existing)
    if bound is None:
        return replace(plan, notes=(*plan.notes, "no certificate: the linear program was not solved"))
    return replace(plan, lower_bound_atto_usd_per_hour=min(bound, plan.cost_atto_usd_per_hour))


def _place_generally(placer: Placer, groups: Sequence[Group]) -> None:
    """Place groups one after the other: gangs first, then what is dearest elsewhere."""

    def order(group: Group) -> tuple[bool, float, int]:
        return (group.workload.gang is None, placer.dearness(group), group.index)

    for group in sorted(groups, key=order):
        if group.workload.gang is not None:
            place_gang(placer, group)
        else:
            placer.place_group(group)


def _place_leftovers(placer: Placer, groups: Sequence[Group]) -> None:
    """Try what is left over again while that places anything: one replica may make room for another (R-42)."""
    remaining = placer.state.remaining
    while waiting := [group for group in groups if remaining[group.index]]:
        before = sum(remaining[group.index] for group in waiting)
        _place_generally(placer, waiting)
        if sum(remaining[group.index] for group in waiting) == before:
            return
