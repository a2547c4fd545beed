"""Column generation: from the patterns that greedy packing filled to nearly the best combination of any patterns.

The restricted master says how often to use which pattern; its dual prices say what a replica and a unit are worth; the
pricing problem finds patterns worth more than they cost at these prices; they become columns.

From fractions to whole numbers: fix whole uses, round some up, ask the program about the rest (diving; Sadykov et al.
2019 compare such heuristics). What is left after a few dives greedy packing places.

At last parts of the best packing are taken apart and the program is asked about them again (large neighbourhood search,
Shaw 1998). What a packing costs beyond the program's optimum is the sum of what its nodes lose: the reduced costs of
their patterns at the program's prices. So the nodes that lose most go, and some of the others beside them, with which
they may mix.
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

# stop when so many rounds together gained less than this part of the cost
_SLOW_ROUNDS, _SLOW = 8, 1e-3
_QUICK_ROUNDS = 25  # of a first plan (catalogue-10000, seeds 0 to 5, 3000 to 3031)
_WHOLE = 1e-6
_ROUNDED_UP = 10  # one in so many patterns in use is rounded up in each dive
_DIVES = 3  # after fewer the greedy pass has too much to place, after more it is no better
# Chosen with catalogue-10000, seeds 701 to 759.
_TURNS = 3
# a packing that costs no more than this times the program's optimum is left as it is
_NEAR = 1.005
_LOSS = 0.8  # nodes are taken apart that account for this part of the loss,
_OTHERS = 3  # and one in so many of the others, a different one in each turn


def improved(
    base: Packing, greedy: Packing, bin_types: BinTypes, *, is_quick: bool
) -> Packing | None:
    """Return a packing from the greedy one's patterns and better ones; None without a solution.

    ``base`` has only existing nodes filled. ``is_quick`` ends after so many rounds, near the program's optimum or not.
    """
    offered = [*promising(base, bin_types.paid), *bin_types.reserved]
    return _packed(
        base, greedy, offered, partial(completed, bin_types=bin_types), is_quick=is_quick
    )


def packed_by_worth(
    base: Packing, greedy: Packing, reserved: Sequence[BinType]
) -> Packing | None:
    """Return a packing of units alone, whose bin types cost what a unit is worth; None as of ``improved``."""
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
    """Add columns until none would gain anything to speak of; False when HiGHS finds no solution."""
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
    """Whether more rounds would gain nothing to speak of; ``costs`` are those of the program so far."""
    return (
        len(costs) > _SLOW_ROUNDS
        and costs[-1 - _SLOW_ROUNDS] - costs[-1] < _SLOW * costs[-1]
    )


def _rounded(
    master: RestrictedMaster, base: Packing, complete: Callable[[Packing], Packing]
) -> Packing:
    """Fix whole uses and ask again, a few times; the greedy packs the rest."""
    packing = base.fork()
    for _ in range(_DIVES):
        master.keep(packing)
        if not packing.active or packing.expired() or not master.program.solve():
            break
        _fix(master, packing)
    return complete(packing)


def _fix(master: RestrictedMaster, packing: Packing) -> None:
    """Take patterns as often as they are used wholly, and round up those nearest to one more use."""
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
        # A reserved unit costs nothing more, so part of a pattern is worth a whole one; other nodes must be full.
        if (
            not packing.repeat(bin_type, pattern, 1)
            and bin_type.option.reservation is not None
        ):
            packing.repeat_in_part(bin_type, pattern)


def _rebuilt(
    master: RestrictedMaster, base: Packing, complete: Callable[[Packing], Packing]
) -> Packing:
    """Return the best packing that diving finds, at first from the whole program and then from parts of it."""
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
    """Return the base with those nodes of the best packing that stay."""
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
