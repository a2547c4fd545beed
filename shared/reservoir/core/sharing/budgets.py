"""What is paid an hour for bought capacity, and demand held to the budgets of teams and the deployment's ceiling.

A node is charged to its workloads by the dominant share of it that their replicas take. Reserved units are paid for
already and cost nothing here.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from reservoir.core.capacity.node_storage import as_launched
from reservoir.core.model.instance_type import CapacityType
from reservoir.core.model.plan import Plan
from reservoir.core.model.snapshot import PlacedReplicas, Snapshot
from reservoir.core.model.team import Team, by_namespace
from reservoir.core.model.workload import Demand, Workload
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD
from reservoir.core.scheduling_terms.resources import Resources

_NOTHING: Final = Resources.of({})


def hourly_bound(
    per_hour: int | None, per_month: int | None, spent_atto_usd: int
) -> int | None:
    """Return what may be paid an hour, in micro-USD: no more than the rest of the month's budget could pay for one."""
    if per_month is None:
        return per_hour
    left = (
        max(0, per_month * ATTO_USD_PER_MICRO_USD - spent_atto_usd)
        // ATTO_USD_PER_MICRO_USD
    )
    return left if per_hour is None else min(per_hour, left)


def has_budgets(snapshot: Snapshot) -> bool:
    """Whether there is a bound on what is bought."""
    if snapshot.ceiling_micro_usd_per_hour is not None:
        return True
    return any(team.budget_micro_usd_per_hour is not None for team in snapshot.teams)


def within_budgets(snapshot: Snapshot, plan: Plan) -> Snapshot | None:
    """Return the snapshot with demand held to the budgets that ``plan`` exceeds; None: none is exceeded.

    Work that is held opens nodes of its own, which cost it more than its part of shared ones. So each may at first buy
    for all that is left, as if it were alone: the plan then says what its own nodes cost, and buys none for a gang for
    which all of it is not enough. Then what is left goes to workloads by priority, then to those for which the plan
    buys the cheapest, so that the dearest offerings go first, then by age: to each as much as the plan buys for it, to
    a gang all of that or nothing, which a part would not help. What the plan has join running nodes is charged first:
    room is never held back, so what is bought has to leave enough for it.
    """
    owners, running = by_namespace(snapshot.teams), _spent(snapshot, plan)
    bought, replicas = _bought(snapshot, plan)
    capped: dict[str, int] = {}

    def order(demand: Demand) -> tuple[int, Fraction, object, str]:
        key = demand.workload.key
        return (
            -demand.workload.priority,
            Fraction(bought[key], replicas[key] or 1),
            demand.pending_since,
            key,
        )

    # Branches: one case after the other of what a bound means for its demand.
    def hold(demands: Sequence[Demand], bound: int) -> None:
        left = max(0, bound)
        keys = [demand.workload.key for demand in demands]
        asked = {key: min(bought[key], capped.get(key, bought[key])) for key in keys}
        if sum(asked.values()) <= left:
            return
        if any(
            demand.budget_atto_usd_per_hour is None and bought[demand.workload.key]
            for demand in demands
        ):
            capped.update({key: min(left, capped.get(key, left)) for key in keys})
            return
        for demand in sorted(demands, key=order):
            key = demand.workload.key
            is_served = asked[key] <= left or demand.workload.gang is None
            capped[key] = min(left, asked[key]) if is_served else 0
            left -= capped[key]

    for team in snapshot.teams:
        if team.budget_micro_usd_per_hour is not None:
            own = [
                demand
                for demand in snapshot.demands
                if owners.get(demand.workload.namespace) == team
            ]
            budget = team.budget_micro_usd_per_hour * ATTO_USD_PER_MICRO_USD
            hold(own, budget - _of_team(running, team, owners))
    if snapshot.ceiling_micro_usd_per_hour is not None:
        ceiling = snapshot.ceiling_micro_usd_per_hour * ATTO_USD_PER_MICRO_USD
        hold(snapshot.demands, ceiling - _of_nodes(snapshot))
    if not capped:
        return None
    return replace(snapshot, demands=_held_to(capped, snapshot.demands))


def _held_to(capped: Mapping[str, int], demands: Iterable[Demand]) -> tuple[Demand, ...]:
    """Return the demands with the bounds of those workloads that have one."""
    held: list[Demand] = []
    for demand in demands:
        bound = capped.get(demand.workload.key)
        if bound is not None:
            held.append(replace(demand, budget_atto_usd_per_hour=bound))
        else:
            held.append(demand)
    return tuple(held)


def _spent(snapshot: Snapshot, plan: Plan) -> Counter[str]:
    """Return what runs and is bought costs each workload an hour with all that joins it, in atto-USD, rounded up."""
    costs: Counter[str] = Counter()
    joining = {existing.claim_id: existing.placements for existing in plan.existing}
    workloads = _workloads(snapshot)
    for node in snapshot.nodes:
        if node.capacity_type is not CapacityType.RESERVED:
            placements = (*node.placements, *joining.get(node.claim_id, ()))
            _charge(
                costs,
                _parts(placements, workloads, node.allocatable),
                node.price_atto_usd_per_hour,
            )
    return costs


def _of_nodes(snapshot: Snapshot) -> int:
    """Return what runs and is bought costs an hour, also with nothing on it."""
    return sum(
        n.price_atto_usd_per_hour
        for n in snapshot.nodes
        if n.capacity_type is not CapacityType.RESERVED
    )


def _bought(snapshot: Snapshot, plan: Plan) -> tuple[Counter[str], Counter[str]]:
    """Return by workload what the plan buys, an hour, and for how many replicas."""
    workloads = _workloads(snapshot)
    types = {instance_type.name: instance_type for instance_type in snapshot.instance_types}
    classes = {node_class.name: node_class for node_class in snapshot.node_classes}
    costs: Counter[str] = Counter()
    replicas: Counter[str] = Counter()
    for launch in plan.launches:
        if launch.offering.reservation_id is None:
            launched = types[launch.offering.instance_type]
            node_class = classes.get(launch.node_class_name)
            room = (
                launched if node_class is None else as_launched(launched, node_class)
            ).allocatable
            parts = _parts(launch.placements, workloads, room)
            _charge(costs, parts, launch.price_atto_usd_per_hour * launch.count)
            for placed in launch.placements:
                replicas[placed.workload_key] += placed.count * launch.count
    return costs, replicas


def _workloads(snapshot: Snapshot) -> Mapping[str, Workload]:
    """Return all that runs or waits, by key."""
    return {
        **{demand.workload.key: demand.workload for demand in snapshot.demands},
        **snapshot.workloads,
    }


def _parts(
    placements: Iterable[PlacedReplicas], workloads: Mapping[str, Workload], room: Resources
) -> list[tuple[str, int]]:
    """Return the parts of a node, of whatever sum, by which it is charged to each workload on it."""
    return [
        (
            placed.workload_key,
            placed.count * _requests(placed, workloads).dominant_share_of(room),
        )
        for placed in placements
    ]


def _requests(placed: PlacedReplicas, workloads: Mapping[str, Workload]) -> Resources:
    if placed.workload_key in workloads:
        return workloads[placed.workload_key].requests
    return _NOTHING


def _charge(costs: Counter[str], parts: Sequence[tuple[str, int]], price: int) -> None:
    everything = sum(part for _, part in parts)
    for key, part in parts:
        costs[key] += -(-price * part // everything)


def _of_team(costs: Mapping[str, int], team: Team, owners: Mapping[str, Team]) -> int:
    return sum(
        cost for key, cost in costs.items() if owners.get(key.partition("/")[0]) == team
    )
