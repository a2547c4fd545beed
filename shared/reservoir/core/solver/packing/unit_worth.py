"""What a reserved unit is worth to later work, so that plans can spare units as they spare money.

A unit costs nothing more when it is used, so the cost of a plan does not say which units to leave free. Its worth does:
it grows with the on-demand price, and is highest where work without accelerators would use a unit that has some.
"""

from collections.abc import Iterable
from math import sqrt

from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.resources import ACCELERATORS
from reservoir.core.solver.problem.catalogue import LaunchOption

# By how much accelerators multiply the worth of a unit: so much that no number of other units outweighs it.
ACCELERATED_FACTOR = 1_000.0


def has_accelerators(option: LaunchOption) -> bool:
    """Whether a node of the option has accelerators, of any vendor."""
    capacity = option.instance_type.capacity
    return any(capacity[name] for name in ACCELERATORS)


def asks_for_accelerators(workload: Workload) -> bool:
    """Whether a replica requests accelerators, of any vendor."""
    return any(workload.requests[name] for name in ACCELERATORS)


def is_misused(option: LaunchOption, workloads: Iterable[Workload]) -> bool:
    """Whether the node has accelerators and none of these workloads requests any."""
    return has_accelerators(option) and not any(map(asks_for_accelerators, workloads))


def worth_of_unit(option: LaunchOption) -> float:
    """Return the worth of one reserved unit: the square root of its on-demand price in USD an hour.

    If worth were the price itself, a plan would use dozens of the smallest units to spare a large one. If it were the
    same for all units, a plan would use a unit at a hundred times the price to spare eight others. With the root, a
    unit of four times the price is worth two.
    """
    return sqrt(max(1, option.on_demand_micro_usd) / 1e6)


def worth_in_use(option: LaunchOption, workloads: Iterable[Workload]) -> float:
    """Return the worth of a unit that these workloads use; idle accelerators multiply it."""
    factor = ACCELERATED_FACTOR if is_misused(option, workloads) else 1.0
    return factor * worth_of_unit(option)
