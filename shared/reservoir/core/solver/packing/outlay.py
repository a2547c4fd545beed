"""What packings and finished plans cost, so that they can be compared.

An ``Outlay`` sums over the nodes that are launched; its fields are compared in order, the most important first.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from reservoir.core.model.workload import Workload
from reservoir.core.solver.packing.packing import Packing, PatternUse
from reservoir.core.solver.packing.unit_worth import is_misused, worth_of_unit
from reservoir.core.solver.problem.catalogue import LaunchOption
from reservoir.core.solver.solution.partial_plan import PartialPlan


@dataclass(frozen=True, slots=True, order=True)
class Outlay:
    """What is minimised: first replicas left over, then money, units with idle accelerators, and the units' worth.

    ``left_over`` counts replicas by priority, the highest first. The overhead of a node counts as money only if the
    node is bought.
    """

    left_over: tuple[int, ...]
    bought_atto_usd_per_hour: int
    misused_units: int
    worth: float

    @property
    def spending(self) -> tuple[tuple[int, ...], int]:
        """The replicas left over and the money, without the units."""
        return self.left_over, self.bought_atto_usd_per_hour


@dataclass(frozen=True, slots=True)
class LaunchedNodes:
    """Equal nodes that are launched; ``workloads`` has one workload for each item or group on a node."""

    option: LaunchOption
    count: int
    workloads: Sequence[Workload]


def outlay_of_packing(packing: Packing, overhead_atto_usd: int) -> Outlay:
    """Return the outlay of a packing, whose replicas all have one priority."""
    nodes = _nodes_of_packing(packing)
    return _outlay((sum(packing.left),), nodes, overhead_atto_usd)


def outlay_of_plan(state: PartialPlan) -> Outlay:
    """Return the outlay of a finished plan."""
    overhead_atto_usd = state.catalogue.policy.overhead_atto_usd
    return _outlay(left_over(state), _nodes_of_plan(state), overhead_atto_usd)


def left_over(state: PartialPlan) -> tuple[int, ...]:
    """Return how many replicas are left over by priority, the highest first."""
    left: dict[int, int] = {}
    for group in state.groups:
        left[group.priority] = left.get(group.priority, 0) + state.remaining[group.index]
    return tuple([left[priority] for priority in sorted(left, reverse=True)])


def _outlay(
    left: tuple[int, ...], nodes: Iterable[LaunchedNodes], overhead_atto_usd: int
) -> Outlay:
    bought = misused = 0
    worth = 0.0
    for each in nodes:
        if each.option.reservation is None:
            bought += (each.option.price + overhead_atto_usd) * each.count
            continue
        worth += worth_of_unit(each.option) * each.count
        if is_misused(each.option, each.workloads):
            misused += each.count
    return Outlay(left, bought, misused, round(worth, 9))


def _nodes_of_packing(packing: Packing) -> Iterator[LaunchedNodes]:
    for use in packing.uses:
        if use.bin_type is not None:
            yield LaunchedNodes(use.bin_type.option, use.count, _workloads(packing, use))


def _workloads(packing: Packing, use: PatternUse) -> list[Workload]:
    return [packing.item_types[index].workload for index in use.pattern]


def _nodes_of_plan(state: PartialPlan) -> Iterator[LaunchedNodes]:
    for bin_ in state.bins:
        if bin_.option is not None:
            workloads = [state.groups[index].workload for index in bin_.contents]
            yield LaunchedNodes(bin_.option, bin_.count, workloads)
