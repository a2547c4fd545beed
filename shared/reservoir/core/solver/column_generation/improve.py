"""Column generation: makes a greedy packing cheaper by combining its patterns with new ones.

The restricted master is a linear program that decides how often each known pattern is used. Its dual prices say what a
replica and a unit are worth. At these prices the pricing problem finds patterns that are worth more than they cost, and
they become columns of the master.

Diving turns the fractions of its solution into whole uses: it fixes the whole part of each use, rounds a few uses up,
and solves the program again for the replicas left (Sadykov et al. 2019 compare such heuristics). After a few dives
greedy packing places the rest.

At last parts of the best packing are taken apart, and the program packs their replicas again (large neighbourhood
search, Shaw 1998). The cost of a packing beyond the program's optimum is the sum of the reduced costs of its patterns
at the dual prices. So the nodes whose patterns have the highest reduced costs are taken apart, and some of the other
nodes with them, so that their replicas can mix.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import floor

from reservoir.core.solver.column_generation.pricing import PricingProblem, promising
from reservoir.core.solver.column_generation.restricted_master import RestrictedMaster
from reservoir.core.solver.packing.buying import completed
from reservoir.core.solver.packing.item_types import BinType, BinTypes
from reservoir.core.solver.packing.packing import Packing
from reservoir.core.solver.packing.spared_units import by_worth

# Column generation stops when the last _SLOW_ROUNDS rounds together lowered the cost by less than this part of it.
_SLOW_ROUNDS, _SLOW = 8, 1e-3
# Rounds at most for a first plan (catalogue-10000, seeds 0 to 5, 3000 to 3031).
_QUICK_ROUNDS = 25
_WHOLE = 1e-6  # a use that is short of a whole number by less than this counts as whole
_ROUNDED_UP = 10  # in each dive, one in so many patterns in use is rounded up
# After fewer dives too much is left to greedy packing; after more the result is no better.
_DIVES = 3
# How often parts of the best packing are taken apart (chosen with catalogue-10000, seeds 701 to 759).
_TURNS = 3
# A packing that costs no more than this times the program's optimum is not taken apart.
_NEAR = 1.005
# The nodes are taken apart that together lose this part of the loss, the highest first, and of the other nodes one in
# _OTHERS, a different one in each turn.
_LOSS = 0.8
_OTHERS = 3


def improved(
    base: Packing, greedy: Packing, bin_types: BinTypes, *, is_quick: bool
) -> Packing | None:
    """Return a packing that combines the patterns of the greedy one with new ones; None if HiGHS finds no solution.

    ``base`` has only existing nodes filled. ``is_quick`` ends column generation after ``_QUICK_ROUNDS`` rounds, near
    the program's optimum or not, and takes nothing apart.
    """
    offered = [*promising(base, bin_types.paid), *bin_types.reserved]
    return _packed(
        base, greedy, offered, partial(completed, bin_types=bin_types), is_quick=is_quick
    )


def packed_by_worth(
    base: Packing, greedy: Packing, reserved: Sequence[BinType]
) -> Packing | None:
    """Return a packing onto reserved units alone; None if HiGHS finds no solution.

    The price of each bin type in ``reserved`` is the worth of its unit.
    """
    return _packed(
        base, greedy, reserved, partial(by_worth, reserved=reserved), is_quick=False
    )


def _packed(
    base: Packing,
    greedy: Packing,
    offered: Sequence[BinType],
    complete: Callable[[Packing], Packing],
    *,
    is_quick: bool,
) -> Packing | None:
    master = RestrictedMaster(base)
    master.add(
        (use.bin_type, tuple(sorted(use.pattern.items())))
        for use in greedy.uses
        if use.bin_type is not None
    )
    master.add(sorted(greedy.filled, key=lambda filled: filled[0].price))
    pricing = PricingProblem(master, base, offered)
    if not _solved_in_fractions(master, pricing, base, _QUICK_ROUNDS if is_quick else None):
        return None
    return (_rounded if is_quick else _rebuilt)(master, base, complete)


def _solved_in_fractions(
    master: RestrictedMaster, pricing: PricingProblem, base: Packing, rounds_max: int | None
) -> bool:
    """Add columns until more would hardly lower the cost, or time or rounds run out; False without a solution."""
    costs: list[float] = []
    while master.program.solve():
        costs.append(master.program.objective())
        if (
            base.expired()
            or len(costs) == rounds_max
            or is_done(costs)
            or not pricing.add()
        ):
            return True
    return False


def is_done(costs: Sequence[float]) -> bool:
    """Whether the last rounds hardly lowered the cost; ``costs`` has the program's cost after each round."""
    return (
        len(costs) > _SLOW_ROUNDS
        and costs[-1 - _SLOW_ROUNDS] - costs[-1] < _SLOW * costs[-1]
    )


def _rounded(
    master: RestrictedMaster, base: Packing, complete: Callable[[Packing], Packing]
) -> Packing:
    """Dive a few times: fix uses and solve the program for the replicas left; ``complete`` packs the rest."""
    packing = base.fork()
    for _ in range(_DIVES):
        master.keep(packing)
        if not packing.active or packing.expired() or not master.program.solve():
            break
        _fix(master, packing)
    return complete(packing)


def _fix(master: RestrictedMaster, packing: Packing) -> None:
    """Use each pattern as often as the whole part of its use says, and round up those nearest to one more use."""
    used = sorted(
        [
            (-count, position)
            for position, count in enumerate(master.counts())
            if count > _WHOLE
        ]
    )
    for negative, position in used:
        packing.repeat(*master.patterns[position], floor(_WHOLE - negative))
    parts = sorted(
        [(floor(_WHOLE - negative) + negative, position) for negative, position in used]
    )
    for _, position in parts[: -(-len(parts) // _ROUNDED_UP)]:
        bin_type, pattern = master.patterns[position]
        # Where too few replicas are left for the whole pattern, a reserved unit takes part of it, as the unit costs
        # nothing more. A node that must be bought is not used for part of a pattern.
        if (
            not packing.repeat(bin_type, pattern, 1)
            and bin_type.option.reservation is not None
        ):
            packing.repeat_in_part(bin_type, pattern)


def _rebuilt(
    master: RestrictedMaster, base: Packing, complete: Callable[[Packing], Packing]
) -> Packing:
    """Return the best packing that diving finds, first for all replicas and then for parts of the best packing."""
    duals, near = master.program.duals(), base.cost() + _NEAR * master.program.objective()
    best = _rounded(master, base, complete)
    for turn in range(_TURNS):
        if base.expired() or best.cost() <= near:
            break
        best = min(
            best,
            _rounded(master, _part(master, duals, base, best, turn), complete),
            key=Packing.quality,
        )
    return best


def _part(
    master: RestrictedMaster,
    duals: Sequence[float],
    base: Packing,
    best: Packing,
    turn: int,
) -> Packing:
    """Return the base with the nodes of the best packing that are not taken apart in this turn."""
    part = base.fork()
    launched = [
        (use.bin_type, tuple(sorted(use.pattern.items())), use.count)
        for use in best.uses
        if use.bin_type
    ]
    master.add((bin_type, pattern) for bin_type, pattern, _ in launched)
    losses = [
        -count * master.reduced_cost(duals, bin_type, pattern)
        for bin_type, pattern, count in launched
    ]
    ranked = sorted(
        zip(losses, launched, strict=True),
        key=lambda item: (item[0], item[1][0].option.index, item[1][1]),
    )
    wanted, lost = _LOSS * sum(losses), 0.0
    for position, (loss, (bin_type, pattern, count)) in enumerate(ranked):
        if lost <= wanted and position % _OTHERS != turn % _OTHERS:
            part.repeat(bin_type, pattern, count)
        else:
            lost += loss
    return part
