"""Parts of the solver, built as ``solve`` builds them, for tests that show one part on a handful of replicas."""

from dataclasses import dataclass

from reservoir.core.model.policy import SchedulingPolicy
from reservoir.core.model.snapshot import Snapshot
from reservoir.core.solver.insertion.insert import Insertion
from reservoir.core.solver.insertion.new_nodes import Strategy
from reservoir.core.solver.packing.item_types import BinTypes, ItemType, build_item_types
from reservoir.core.solver.packing.item_values import item_values
from reservoir.core.solver.packing.knapsack import GreedyKnapsack
from reservoir.core.solver.packing.packing import ItemFloor, Packing
from reservoir.core.solver.problem.groups import SchedulingProblem
from reservoir.core.solver.problem.nodes import NodeFacts
from reservoir.core.solver.solution.candidates import Candidates
from reservoir.core.solver.solution.domain_assignment import DomainBatch
from reservoir.core.solver.solution.partial_plan import PartialPlan
from tests.core.scheduler.world import NOW, POLICY


def undecided(snapshot: Snapshot, policy: SchedulingPolicy = POLICY) -> PartialPlan:
    """Return the partial plan in which nothing is decided."""
    problem = SchedulingProblem.of(snapshot, NOW, policy)
    return PartialPlan(problem, NodeFacts(problem.catalogue, problem.terms))


def inserting(state: PartialPlan) -> Insertion:
    """Return an insertion into the partial plan, by the usual strategy."""
    return Insertion(state, Candidates(state.catalogue, state.groups), Strategy())


@dataclass(frozen=True)
class Bins:
    """What packing sees of a world: items of all groups, bins, and a packing that nothing was put into."""

    items: list[ItemType]
    types: BinTypes
    values: list[float]
    packing: Packing


def unpacked(snapshot: Snapshot, policy: SchedulingPolicy = POLICY) -> Bins:
    """Return the world as packing sees it, with no domain assigned."""
    state = undecided(snapshot, policy)
    items = build_item_types(
        [DomainBatch(group.relaxed[0], None, group.count) for group in state.groups]
    )
    types = BinTypes(state, items, policy.overhead_atto_usd)
    values = item_values(items, types)
    floor = ItemFloor(policy.reserved_floor_percent, types.buyable)
    return Bins(
        items,
        types,
        values,
        Packing(GreedyKnapsack(items, values), state.residual, policy.expired, floor=floor),
    )


def uses(packing: Packing) -> list[tuple[str, dict[int, int], int]]:
    """Tell a packing as (instance type, pattern by item, how often)."""
    return [
        (use.bin_type.option.key.instance_type, dict(use.pattern), use.count)
        for use in packing.uses
        if use.bin_type
    ]
