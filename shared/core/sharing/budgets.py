"""What teams pay an hour for what is bought, and demand held to what their budgets leave.

A node is charged to its workloads in proportion to replicas. Reserved units are paid for already and cost nothing here.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from shared.core.model.instance_type import CapacityType
from shared.core.model.plan import Plan
from shared.core.model.snapshot import PlacedReplicas, Snapshot
from shared.core.model.team import Team, by_namespace
from shared.core.model.workload import Demand
from shared.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD


def has_budgets(snapshot: Snapshot) -> bool:
    """Whether any team has a budget."""
    return any(team.budget_micro_usd_per_hour is not None for team in snapshot.teams)


def within_budgets(snapshot: Snapshot, plan: Plan) -> Snapshot | None:
    """Return the snapshot with the demand of teams whose budget ``plan`` exceeds held to it; None: none is exceeded.

    What a team has left goes to its workloads by priority, then age: to each as much as the plan would buy for it.
    """
    owners, running = by_namespace(snapshot.teams), spent(snapshot)
    bought = _bought(plan)
    capped: dict[str, int] = {}
    for team in snapshot.teams:
        if team.budget_micro_usd_per_hour is None:
            continue
        own = [demand for demand in snapshot.demands if owners.get(demand.workload.namespace) == team]
        left = team.budget_micro_usd_per_hour * ATTO_USD_PER_MICRO_USD - _of_team(running, team, owners)
        if sum(bought[demand.workload.key] for demand in own) <= max(0, left):
            continue
        for demand in sorted(own, key=_order):
            capped[demand.workload.key] = max(0, min(left, bought[demand.workload.key]))
            left -= capped[demand.workload.key]
    if not capped:
        return None
    demands = [
        replace(demand, budget_atto_usd_per_hour=capped[demand.workload.key])
        if demand.workload.key in capped
        else demand
        for demand in snapshot.demands
    ]
    return replace(snapshot, demands=tuple(demands))


def spent(snapshot: Snapshot) -> Counter[str]:
    """Return what runs and is bought costs each workload an hour, in atto-USD, rounded up."""
    costs: Counter[str] = Counter()
    for node in snapshot.nodes:
        if node.capacity_type is not CapacityType.RESERVED:
            _charge(costs, node.placements, node.price_atto_usd_per_hour)
    return costs


def _bought(plan: Plan) -> Counter[str]:
    costs: Counter[str] = Counter()
    for launch in plan.launches:
        if launch.offering.reservation_id is None:
            _charge(costs, launch.placements, launch.price_atto_usd_per_hour * launch.count)
    return costs


def _charge(costs: Counter[str], placements: Iterable[PlacedReplicas], price: int) -> None:
    placed = tuple(placements)
    everyone = sum(item.count for item in placed)
    for item in placed:
        costs[item.workload_key] += -(-price * item.count // everyone)


def _of_team(costs: Mapping[str, int], team: Team, owners: Mapping[str, Team]) -> int:
    return sum(cost for key, cost in costs.items() if owners.get(key.partition("/")[0]) == team)


def _order(demand: Demand) -> tuple[int, object, str]:
    return -demand.workload.priority, demand.pending_since, demand.workload.key
