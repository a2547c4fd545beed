"""Small problems as one integer program: a column for each maximal pattern of each bin type.

A pattern is maximal where no further replica fits, so a node with any other pattern is no better: replicas that a
column counts twice are placed once. What is minimised: who is left over, then what is bought, then the worth of the
units in use (``worth_in_use``).
"""

from collections.abc import Iterator, Sequence

from reservoir.core.solver.column_generation.restricted_master import RestrictedMaster
from reservoir.core.solver.packing.item_types import BinType, BinTypes
from reservoir.core.solver.packing.knapsack import Pattern
from reservoir.core.solver.packing.packing import Packing
from reservoir.core.solver.packing.unit_worth import worth_in_use
from reservoir.core.solver.problem.vectors import Vector, copies_that_fit, iter_bits

# Beyond these the program takes longer than diving, and what it would gain is below a percent.
_REPLICAS_MAX = 50
_KINDS_MAX = 20
_PATTERNS_MAX = 4_000
_STEPS_MAX = 100_000  # of enumerating patterns
_WHOLE = 1e-6
# What a unit's worth weighs beside a dollar that is paid: it decides between plans that buy the same.
_WORTH = 1e-6


def packed_exactly(base: Packing, bin_types: BinTypes) -> Packing | None:
    """Return the best packing there is of what the base has left; None where the problem is not small enough."""
    if not _is_small(base):
        return None
    columns = _columns(base, [*bin_types.unthinned, *bin_types.reserved])
    if columns is None:
        return None
    master = RestrictedMaster(base)
    master.add(columns)
    master.recost([_cost(base, bin_type, pattern) for bin_type, pattern in master.patterns])
    if not master.program.solve_whole():
        return None
    return master.packed(base)


def _cost(base: Packing, bin_type: BinType, pattern: Pattern) -> float:
    """Return what a use of the pattern costs: money where it is bought, its worth where it is a unit."""
    if bin_type.option.reservation is None:
        return bin_type.price
    workloads = [base.item_types[index].workload for index, _ in pattern]
    return _WORTH * worth_in_use(bin_type.option, workloads)


def _is_small(base: Packing) -> bool:
    waiting = list(iter_bits(base.active))
    if base.floor.percent or any(
        base.item_types[index].host is not None for index in waiting
    ):
        return False
    return (
        len(waiting) <= _KINDS_MAX
        or sum(base.left[index] for index in waiting) <= _REPLICAS_MAX
    )


def _columns(
    base: Packing, bin_types: Sequence[BinType]
) -> list[tuple[BinType, Pattern]] | None:
    """Return all maximal patterns of the bin types; None if there are too many to look at."""
    columns: list[tuple[BinType, Pattern]] = []
    steps_left = _STEPS_MAX
    for bin_type in bin_types:
        items = list(iter_bits(bin_type.eligible & base.active))
        for pattern in _fillings(base, items, bin_type.option.allocatable):
            steps_left -= 1
            if pattern is not None:
                columns.append((bin_type, pattern))
            if not steps_left or len(columns) > _PATTERNS_MAX:
                return None
    return columns


def _fillings(
    base: Packing, items: Sequence[int], size: Vector
) -> Iterator[Pattern | None]:
    """Yield the maximal patterns of a node, and None for each step that led to none.

    Item by item, from as many as fit down to none: a depth-first search whose stack holds what is still to be tried.
    """
    requests = [base.item_types[index].request for index in items]
    stack: list[tuple[int, Vector, Pattern]] = [(0, size, ())]
    while stack:
        position, room, pattern = stack.pop()
        if position == len(items):
            yield (
                pattern
                if pattern and _is_maximal(base, items, requests, room, pattern)
                else None
            )
            continue
        index, request = items[position], requests[position]
        most = min(base.left[index], copies_that_fit(request, room))
        for count in range(most + 1):
            left = tuple(
                free - asked * count for free, asked in zip(room, request, strict=True)
            )
            stack.append(
                (position + 1, left, (*pattern, (index, count)) if count else pattern)
            )
        yield None


def _is_maximal(
    base: Packing,
    items: Sequence[int],
    requests: Sequence[Vector],
    room: Vector,
    pattern: Pattern,
) -> bool:
    """Whether no further replica fits beside the pattern."""
    used = dict(pattern)
    return not any(
        used.get(index, 0) < base.left[index] and copies_that_fit(request, room)
        for index, request in zip(items, requests, strict=True)
    )
