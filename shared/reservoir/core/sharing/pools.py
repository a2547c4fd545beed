"""Pools that a team may use, as a requirement of each of its workloads: whatever plans then keeps it."""

from dataclasses import replace

from reservoir.core.model.snapshot import Snapshot
from reservoir.core.model.team import by_namespace
from reservoir.core.scheduling_terms.labels import NODE_POOL
from reservoir.core.scheduling_terms.requirement import Operator, Requirement
from reservoir.core.scheduling_terms.requirements import Requirements


def within_pools(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot in which demand of teams with pools of their own asks for these pools."""
    owners = by_namespace(team for team in snapshot.teams if team.node_pools)
    if not owners:
        return snapshot
    asked = {
        team.name: Requirements.of(Requirement.new(NODE_POOL, Operator.IN, team.node_pools))
        for team in owners.values()
    }
    demands = []
    for demand in snapshot.demands:
        team = owners.get(demand.workload.namespace)
        if team is not None:
            selector = demand.workload.node_selector.merged(asked[team.name])
            demand = replace(
                demand, workload=replace(demand.workload, node_selector=selector)
            )
        demands.append(demand)
    return replace(snapshot, demands=tuple(demands))
