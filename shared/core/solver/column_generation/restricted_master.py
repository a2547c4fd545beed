"""Combining patterns: a linear program over all patterns seen so far, a few rounds of new ones at its prices, rounding.

Greedy packing finds good patterns but repeats each one as long as demand lasts; the program finds how often each
should be used. Whole uses are then fixed and the program is asked again about what is left, until little is left, which
a greedy pass packs.
"""

from collections.abc import Iterable, Sequence
from math import floor

from shared.core.scheduling_terms.resources import NODES
from shared.core.solver.column_generation.linear_program import INFINITY, LinearProgram
from shared.core.solver.column_generation.lower_bound import RelaxationDuals, relaxation_duals
from shared.core.solver.column_generation.pricing import Knapsacks
from shared.core.solver.packing.buying import buy_rest
from shared.core.solver.packing.existing_room import top_up
from shared.core.solver.packing.item_types import BinType, BinTypes
from shared.core.solver.packing.knapsack import Pattern
from shared.core.solver.packing.packing import Packing
from shared.core.solver.packing.reserved_units import PriceBias, use_reserved
from shared.core.solver.solution.residual_capacity import ResidualCapacity

_ROUNDS = 34
_NEAR = 1.003  # times the cost in fractions: the program is as good as done
_SLOW_ROUNDS, _SLOW = 8, 1e-3  # so many rounds that gained no more than this part: the rest gains nothing either
_ITEM_TYPES_MAX = 400  # with more, the deadline leaves time for the certificate or for this, not for both
_REFILLS = 8
_SMOOTHING = 0.9
_PROMISING_MAX = 4  # bin types for the same eligible items that are filled in each round
_PROMISING = 0.85  # less than this part of its price at the prices of fractions: a bin type is left out
_REDUCED_COST_RATIO = 1.0005
_ADDED_MAX = 500  # patterns a round: more make the program slow and tell it little
_FINISHING = (PriceBias(0.3),)
_NODES_MAX = 100
_DIVES = 8
_WORSE_MAX = 2  # after so many dives without a better result there will be none
_FINISHED_FROM = 2  # with more left than after so many dives, the greedy pass is never the best
_DIVING_REFILLS = 2
_WHOLE = 1e-6
_ROUNDED_UP = 10  # one in so many patterns in use is rounded up when none is whole
_UNPLACED = 1e6  # USD an hour: a replica stays unplaced only where no pattern holds it


class _RestrictedMaster:
    """The program. Rows: demand by item, units by reservation, limits by pool and resource. Columns: patterns."""

    def __init__(self, base: Packing) -> None:
        rows = [(float(count), INFINITY) for count in base.left]
        self._row_of: dict[tuple[str, str], int] = {}
        for name, most in _limits(base.residual):
            self._row_of[name] = len(rows)
            rows.append((-INFINITY, most))
        self.bounds = rows
        self.program = LinearProgram(rows, solver="simplex")
        self.patterns: list[tuple[BinType, Pattern]] = []
        self._seen: set[tuple[int, Pattern]] = set()
        for index in range(len(base.left)):
            self.program.add(_UNPLACED, [(index, 1.0)])
        self._first = len(base.left)

    def row_entries(self, bin_type: BinType) -> list[tuple[int, float]]:
        """Return the rows, beside demand, in which a node of the bin type counts, with how much."""
        option = bin_type.option
        found = []
        if option.reservation is not None:
            found.append((self._row_of["", option.reservation.id], 1.0))
        for (pool, name), row in self._row_of.items():
            if pool == option.entry.pool.name:
                needed = 1 if name == NODES else option.instance_type.capacity[name]
                if needed:
                    found.append((row, float(needed)))
        return found

    def add(self, bin_type: BinType, pattern: Pattern) -> bool:
        """Add a pattern; False when it is known."""
        key = (bin_type.option.index, pattern)
        if key in self._seen:
            return False
        self._seen.add(key)
        entries = [(index, float(count)) for index, count in pattern]
        self.program.add(bin_type.price, [*entries, *self.row_entries(bin_type)])
        self.patterns.append((bin_type, pattern))
        return True

    def counts(self) -> list[float]:
        """Return how often each pattern is used in the last solution."""
        return self.program.values()[self._first :]

    def smoothed(self, duals: Sequence[float], relaxation: RelaxationDuals, smoothing: float) -> list[float]:
        """Return prices between the program's and those of buying in fractions."""
        other = [*relaxation.item_values, *([0.0] * (len(duals) - len(relaxation.item_values)))]
        for (pool, name), row in self._row_of.items():
            if not pool:
                other[row] = -relaxation.dual_prices.get(name, 0.0)
        return [smoothing * far + (1 - smoothing) * near for far, near in zip(other, duals, strict=True)]

    def keep(self, packing: Packing) -> None:
        """Go on with what the packing has left."""
        for index, left in enumerate(packing.left):
            self.program.rebound(index, float(left), INFINITY)
        for name, most in _limits(packing.residual):
            self.program.rebound(self._row_of[name], -INFINITY, most)


def _limits(residual: ResidualCapacity) -> Iterable[tuple[tuple[str, str], float]]:
    """Yield what bounds nodes: units (of no pool), then limits (by pool and resource)."""
    for identity, units in residual.units.items():
        yield ("", identity), float(max(0, units))
    for pool, limits in residual.limits.items():
        for name, left in limits.items():
            yield (pool, name), float(max(0, left))


class _PricingProblem:
    """Finds patterns that a program's prices make worthwhile."""

    def __init__(self, master: _RestrictedMaster, base: Packing, bin_types: Sequence[BinType]) -> None:
        self._master = master
        self._floor = base.floor
        self._bin_types = bin_types
        self._knapsacks = Knapsacks(base.item_types, self._bin_types)
        self._row_entries = [master.row_entries(bin_type) for bin_type in self._bin_types]
        self._round = 0

    def add(self, duals: Sequence[float], smoothed_duals: Sequence[float], left: Sequence[int], refills: int) -> int:
        """Add patterns good at steady prices and worthwhile at the program's; return how many were new.

        None is larger than what is left.
        """
        costs, values = self._costs(duals), duals[: len(left)]
        found = [
            (costs[row] / value, row, pattern)
            for row, pattern in self._knapsacks.fill(
                [max(0.0, dual) for dual in smoothed_duals[: len(left)]],
                self._costs(smoothed_duals),
                left,
                self._round,
                refills,
            )
            if (value := sum(values[index] * count for index, count in pattern)) > costs[row] * _REDUCED_COST_RATIO
            and self._is_allowed(row, pattern)
        ]
        self._round += 1
        found.sort()
        return sum(self._master.add(self._bin_types[row], pattern) for _, row, pattern in found[:_ADDED_MAX])

    def _costs(self, duals: Sequence[float]) -> list[float]:
        """Return what a node of each bin type costs, with the dual price of what it uses up."""
        return [
            bin_type.price + sum(amount * max(0.0, -duals[row]) for row, amount in uses)
            for bin_type, uses in zip(self._bin_types, self._row_entries, strict=True)
        ]

    def _is_allowed(self, row: int, pattern: Pattern) -> bool:
        """Whether the policy's floor lets the pattern have a reserved slot."""
        bin_type = self._bin_types[row]
        if not self._floor.percent or bin_type.option.reservation is None:
            return True
        if not any(self._floor.buyable >> index & 1 for index, _ in pattern):
            return True
        return self._knapsacks.share(row, pattern) * 100 >= self._floor.percent


def _promising(base: Packing, values: Sequence[float], paid: Sequence[BinType]) -> list[BinType]:
    """Return the few bin types for the same items that can hold the most value for their price."""
    bounds = Knapsacks(base.item_types, paid).bounds(values)[0] if paid else ()
    ratios = [(float(bound) / item.price, item) for item, bound in zip(paid, bounds, strict=True)]
    ratios.sort(key=lambda pair: (-pair[0], pair[1].option.index))
    kept: dict[tuple[int, str], list[BinType]] = {}
    for ratio, item in ratios:
        same = kept.setdefault((item.eligible, item.option.entry.pool.name), [])
        if ratio > _PROMISING and len(same) < _PROMISING_MAX:
            same.append(item)
    return [item for same in kept.values() for item in same]


def combined(base: Packing, greedy: Packing, values: Sequence[float], bin_types: BinTypes) -> Packing | None:
    """Return a packing from the greedy one's patterns and better ones; None with too many items or no solution.

    ``base`` has only existing nodes filled.
    """
    if len(base.item_types) > _ITEM_TYPES_MAX:
        return None
    master = _RestrictedMaster(base)
    for use in greedy.uses:
        if use.bin_type is not None:
            master.add(use.bin_type, tuple(sorted(use.pattern.items())))
    relaxation = relaxation_duals(base.item_types, base.left, bin_types, base.residual)
    promising = _promising(base, values if relaxation is None else relaxation.item_values, bin_types.paid)
    pricing = _PricingProblem(master, base, [*promising, *bin_types.reserved])
    costs: list[float] = []
    for number in range(_ROUNDS + 1):
        if not master.program.solve():
            return None
        costs.append(master.program.objective())
        if number == _ROUNDS or base.expired() or is_done(costs, relaxation):
            break
        duals = master.program.duals()
        # The program's prices jump from round to round; those of buying in fractions are nearly right.
        smoothing = _SMOOTHING * (1 - number / _ROUNDS)
        smoothed_duals = duals if relaxation is None else master.smoothed(duals, relaxation, smoothing)
        if not pricing.add(duals, smoothed_duals, base.left, _REFILLS) and not pricing.add(
            duals, duals, base.left, _REFILLS
        ):
            break
    return _rounded(master, pricing, base, values, bin_types)


def is_done(costs: Sequence[float], relaxation: RelaxationDuals | None) -> bool:
    """Whether more rounds would gain nothing to speak of; ``costs`` are those of the program so far."""
    if relaxation is not None and costs[-1] <= _NEAR * relaxation.cost:
        return True
    return len(costs) > _SLOW_ROUNDS and costs[-1 - _SLOW_ROUNDS] - costs[-1] < _SLOW * costs[-1]


def _rounded(
    master: _RestrictedMaster, pricing: _PricingProblem, base: Packing, values: Sequence[float], bin_types: BinTypes
) -> Packing:
    """Fix whole uses and ask again, until nothing is whole that matters; the greedy packs the rest."""
    packing = base.fork(values)
    _fix_accelerated(master, packing, master.program.duals())
    best: Packing | None = None
    worse = 0
    for dive in range(_DIVES):
        master.keep(packing)
        if not packing.active or packing.expired() or worse == _WORSE_MAX or not master.program.solve():
            break
        duals = master.program.duals()
        if pricing.add(duals, duals, packing.left, _DIVING_REFILLS) and not master.program.solve():
            break
        _fix(master, packing)
        if dive >= _FINISHED_FROM:
            finished = _finished(packing, values, bin_types)
            is_better = best is None or _quality(finished) < _quality(best)
            best, worse = (finished, 0) if is_better else (best, worse + 1)
    return best or _finished(packing, values, bin_types)


def _quality(packing: Packing) -> tuple[int, float]:
    return (sum(packing.left), packing.cost())


def _finished(packing: Packing, values: Sequence[float], bin_types: BinTypes) -> Packing:
    """Return a copy in which the rest is packed greedily."""
    packing = packing.fork(values)
    top_up(packing)
    if bin_types.reserved and packing.active:
        packing = use_reserved(packing, bin_types.reserved, values, _FINISHING)
    buy_rest(packing, bin_types)
    return packing


def _fix_accelerated(master: _RestrictedMaster, packing: Packing, duals: Sequence[float]) -> None:
    """Decide about nodes with accelerators first, in whole numbers: they are few and dear, and rounding costs most.

    A program of its own, of accelerated work only; other work on such nodes counts at its price.
    """
    special = packing.knapsack.is_special
    accelerated = [item for item in master.patterns if any(special[index] for index, _ in item[1])]
    if not accelerated or packing.expired():
        return
    rows: dict[int, int] = {}
    for bin_type, pattern in accelerated:
        for row in (
            *(index for index, _ in pattern if special[index]),
            *(row for row, _ in master.row_entries(bin_type)),
        ):
            rows.setdefault(row, len(rows))
    program = LinearProgram([master.bounds[row] for row in rows], solver="simplex")
    for bin_type, pattern in accelerated:
        price = bin_type.price - sum(duals[index] * count for index, count in pattern if not special[index])
        entries = [(rows[index], float(count)) for index, count in pattern if special[index]]
        program.add(max(0.0, price), entries + [(rows[row], amount) for row, amount in master.row_entries(bin_type)])
    for row, place in rows.items():
        if row < len(special):
            program.add(_UNPLACED, [(place, 1.0)])
    program.make_integer(range(len(accelerated)), _NODES_MAX)
    program.solve()
    for count, (bin_type, pattern) in zip(
        program.values() if program.has_solution() else (), accelerated, strict=False
    ):
        for _ in range(round(count)):
            if not packing.repeat(bin_type, pattern, 1):
                packing.repeat_in_part(bin_type, pattern)


def _fix(master: _RestrictedMaster, packing: Packing) -> None:
    """Take patterns as often as they are used wholly, and round up those nearest to one more use."""
    counts = master.counts()
    parts = []
    for position in sorted(range(len(counts)), key=lambda item: (-counts[item], item)):
        if counts[position] <= _WHOLE:
            break
        wanted = floor(counts[position] + _WHOLE)
        if wanted:
            packing.repeat(*master.patterns[position], wanted)
        parts.append((wanted - counts[position], position))
    parts.sort()
    for _, position in parts[: -(-len(parts) // _ROUNDED_UP)]:
        bin_type, pattern = master.patterns[position]
        # A reserved unit costs nothing more, so part of a pattern is worth a whole one; other nodes must be full.
        if not packing.repeat(bin_type, pattern, 1) and bin_type.option.reservation is not None:
            packing.repeat_in_part(bin_type, pattern)
