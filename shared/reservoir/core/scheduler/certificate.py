"""The certificate of a plan: a lower bound on what any plan for the same demand costs."""

from dataclasses import replace
from importlib import import_module

from reservoir.core.model.plan import Plan
from reservoir.core.solver.problem.nodes import NodeFacts
from reservoir.core.solver.solution.partial_plan import PartialPlan


def certified(plan: Plan, state: PartialPlan, facts: NodeFacts) -> Plan:
    """Add the lower bound to a plan, or a note with the reason why it has none.

    ``facts`` describe the nodes as they were before anything was placed on them.
    """
    if plan.cost_atto_usd_per_hour == 0:
        return replace(plan, lower_bound_atto_usd_per_hour=0)
    if state.catalogue.policy.expired():
        return _without_bound(plan, "out of time")
    try:
        bounds = import_module("reservoir.core.solver.column_generation.lower_bound")
    except ModuleNotFoundError as error:
        return _without_bound(plan, f"{error.name} is not installed")
    standing = (
        node for node in facts.ordered if not node.deleting and facts.takes_replicas(node)
    )
    existing = [
        (facts.requirement_sets(node), tuple(facts.free(node))) for node in standing
    ]
    bound: int | None = bounds.lower_bound_atto_usd(
        state, existing, plan.cost_atto_usd_per_hour
    )
    if bound is None:
        is_late = state.catalogue.policy.expired()
        return _without_bound(
            plan, "out of time" if is_late else "the linear program was not solved"
        )
    return replace(
        plan, lower_bound_atto_usd_per_hour=min(bound, plan.cost_atto_usd_per_hour)
    )


def _without_bound(plan: Plan, why: str) -> Plan:
    return replace(plan, notes=(*plan.notes, f"no certificate: {why}"))
