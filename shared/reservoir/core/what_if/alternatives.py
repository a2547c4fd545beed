"""What the next best places for a workload would have cost, and why they were not chosen."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from reservoir.core.explaining.reasons import Reasons
from reservoir.core.model.plan import OfferingKey, Plan
from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.scheduling_terms.money import ATTO_USD_PER_MICRO_USD, usd
from reservoir.core.solver.problem.catalogue import LaunchOption
from reservoir.core.solver.problem.groups import Group, SchedulingProblem
from reservoir.core.solver.problem.nodes import NodeFacts
from reservoir.core.solver.problem.option_order import OrderKey, is_tiny, reserved_key
from reservoir.core.solver.problem.vectors import largest_share
from reservoir.core.solver.solution.candidates import Candidates
from reservoir.core.solver.solution.partial_plan import PartialPlan


@dataclass(frozen=True, slots=True)
class Alternative:
    """One offering of one pool, for all replicas of the workload that were pending then.

    ``node_count`` nodes would have held them, for ``price_micro_usd_per_hour`` in all (reserved units are paid for
    anyway); both are None where it could not have served. ``chosen_count`` are the nodes of it that the plan made for
    the workload.
    """

    node_pool_name: str
    offering: OfferingKey
    reason: str
    chosen_count: int = 0
    node_count: int | None = None
    price_micro_usd_per_hour: int | None = None


def alternatives(
    snapshot: Snapshot,
    plan: Plan,
    workload_key: str,
    *,
    now: datetime,
    policy: SchedulingPolicy,
    limit: int,
) -> tuple[Alternative, ...]:
    """Return the places that a plan chose for a workload and the next best, at most ``limit`` beside those chosen.

    Places that could have served come first, in the order in which a plan would use them: reserved units, then what
    would be bought, the cheapest first. Then come those that could not, the nearest first. Each place is judged alone,
    for all of the workload: a plan also considers which other workloads are on a node. Nothing for a workload of which
    no replica was pending.
    """
    problem = SchedulingProblem.of(snapshot, now, policy)
    found = _group_of(problem, workload_key)
    if found is None:
        return ()
    group, count = found
    judge = _Judge(snapshot, plan, workload_key)
    candidates = Candidates(problem.catalogue, problem.groups)
    order = _Order(candidates, group, count)
    options = sorted(candidates.of(group.relaxed[-1]), key=order.key)
    served = [judge.served(option, -(-count // fitting)) for option, fitting in options]
    known = {(item.node_pool_name, item.offering) for item in served}
    reasons = Reasons(PartialPlan(problem, NodeFacts(problem.catalogue, problem.terms)))
    refused = [
        it
        for it in _refused(reasons, group)
        if (it.node_pool_name, it.offering) not in known
    ]
    others = [item for item in (*served, *refused) if not item.chosen_count]
    return (*(item for item in served if item.chosen_count), *others[:limit])


def _group_of(problem: SchedulingProblem, workload_key: str) -> tuple[Group, int] | None:
    """Return the group that a workload's replicas are in, and how many of them it has."""
    for group in problem.groups:
        for key, count, _ in group.members:
            if key == workload_key:
                return group, count
    return None


def _refused(reasons: Reasons, group: Group) -> Iterable[Alternative]:
    """Return places that could not have served with the reason, the nearest first, none of them twice."""
    failures = sorted(reasons.of_places(group), key=lambda pair: (pair[1].order, pair[0]))
    return dict.fromkeys(
        Alternative(name, failure.key, failure.message)
        for name, failure in failures
        if failure.key is not None
    )


@dataclass(frozen=True, slots=True)
class _Order:
    """The order in which a plan uses places for a group of so many replicas."""

    candidates: Candidates
    group: Group
    count: int

    def key(self, place: tuple[LaunchOption, int]) -> OrderKey:
        option, fitting = place
        if option.reservation is None:
            node_count = -(-self.count // fitting)
            return 1, node_count * option.price, option.index
        copies = min(self.count, fitting)
        load = [asked * copies for asked in self.group.request]
        order = reserved_key(
            option,
            self.candidates.flexibility[option.requirement_sets],
            option.reservation.free_units,
            tiny=is_tiny(largest_share(load, option.allocatable)),
        )
        return 0, *order


class _Judge:
    """Compares places that could have served with what a plan did for a workload."""

    def __init__(self, snapshot: Snapshot, plan: Plan, workload_key: str) -> None:
        self._free = {item.id: item.free_units for item in snapshot.reservations}
        self._mine: dict[tuple[str, OfferingKey], int] = {}
        self._paid = 0
        for nodes in plan.launches:
            key = nodes.offering
            if key.reservation_id is not None:
                self._free[key.reservation_id] -= nodes.count
            if any(placed.workload_key == workload_key for placed in nodes.placements):
                about = (nodes.node_pool_name, key)
                self._mine[about] = self._mine.get(about, 0) + nodes.count
                if key.reservation_id is None:
                    self._paid += (
                        nodes.count
                        * nodes.price_atto_usd_per_hour
                        // ATTO_USD_PER_MICRO_USD
                    )

    def served(self, option: LaunchOption, node_count: int) -> Alternative:
        """Return a place that could have served, in so many nodes, and why it was (not) chosen."""
        name, key = option.entry.pool.name, option.key
        price = (
            0
            if option.reservation is not None
            else node_count * option.price // ATTO_USD_PER_MICRO_USD
        )
        chosen = self._mine.get((name, key), 0)
        return Alternative(
            name, key, self._reason(option, price, chosen), chosen, node_count, price
        )

    def _reason(self, option: LaunchOption, price: int, chosen_count: int) -> str:
        if chosen_count:
            return "chosen"
        if option.reservation is not None:
            left = self._free[option.reservation.id]
            if left <= 0:
                return "all of its free units are used"
            return f"{_units(left)} free: others serve as well"
        if price > self._paid:
            return f"dearer by {usd(price - self._paid)} an hour"
        return "no more expensive by itself: the plan shares nodes among workloads, and a node has an overhead"


def _units(count: int) -> str:
    return "1 unit is" if count == 1 else f"{count} units are"
