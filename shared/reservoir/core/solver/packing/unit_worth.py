"""What a reserved unit is worth to those who come later: units are spent as if they were money.

Nothing is paid for one more unit in use, so the price of a plan does not say which units to leave free. What a unit
would cost on demand does, and one with accelerators under work that asks for none is the last that should be used.
"""

from collections.abc import Iterable
from math import sqrt

from reservoir.core.model.workload import Workload
from reservoir.core.scheduling_terms.resources import ACCELERATORS
from reservoir.core.solver.problem.catalogue import LaunchOption

# What a unit with accelerators is worth beside one without at the same price: more than any number of those.
ACCELERATED_FACTOR = 1_000.0


def has_accelerators(option: LaunchOption) -> bool:
    """Whether a node of the option has accelerators of any maker."""
    capacity = option.instance_type.capacity
    return any(capacity[name] for name in ACCELERATORS)


def asks_for_accelerators(workload: Workload) -> bool:
    """Whether a replica needs accelerators of any maker."""
    return any(workload.requests[name] for name in ACCELERATORS)


def is_misused(option: LaunchOption, workloads: Iterable[Workload]) -> bool:
    """Whether these workloads leave all accelerators of a node idle."""
    return has_accelerators(option) and not any(map(asks_for_accelerators, workloads))


def worth_of_unit(option: LaunchOption) -> float:
    """Return what one reserved unit weighs beside others: the root of what it costs on demand, in USD an hour.

    By the price itself, dozens of the smallest units would be taken before a large one; by their number, one that is
    worth a hundred others before eight of those. With the root a unit of four times the price weighs as much as two.
    """
    return sqrt(max(1, option.on_demand_micro_usd) / 1e6)


def worth_in_use(option: LaunchOption, workloads: Iterable[Workload]) -> float:
    """Return what the unit under these workloads weighs; one whose accelerators idle weighs more."""
    factor = ACCELERATED_FACTOR if is_misused(option, workloads) else 1.0
    return factor * worth_of_unit(option)
