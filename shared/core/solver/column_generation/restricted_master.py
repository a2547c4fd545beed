"""Combining patterns: a linear program over all patterns seen so far, a few rounds of new ones at its prices, rounding.

Greedy packing finds good patterns but repeats each one as long as demand lasts; the program finds how often each
should be used. Whole uses are then fixed and the program is asked again about what is left, until little is left, which
a greedy pass packs.
"""

from collections.abc import Iterable, Sequence
from math import floor

from shared.core.scheduling_terms.resources import NODES
from shared.core.solver.column_generation.linear_program import INFINITY, LinearProgram
from shared.core.solver.column_generation.lower_bound import FluidPrices, fluid_prices
from shared.core.solver.column_generation.pricing import Knapsacks
from shared.core.solver.packing.buying import buy_rest
from shared.core.solver.packing.item_types import Candidate, Candidates
from shared.core.solver.packing.knapsack import Contents
from shared.core.solver.packing.packing import Packing, Trial
from shared.core.solver.packing.reserved_units import use_reserved
from shared.core.solver.solution.residual_capacity import Supply

_ROUNDS = 34
_NEAR = 1.003  # times the cost in fractions: the program is as good as done
_SLOW_ROUNDS, _SLOW = 8, 1e-3  # so many rounds that gained no more than this part: the rest gains nothing either
_SHAPES_MAX = 400  # with more, the deadline leaves time for the certificate or for this, not for both
_TRIALS = 8
_PULL = 0.9
_HOPEFUL_MAX = 4  # candidates for the same takers that are filled in each round
_HOPEFUL = 0.85  # less than this part of its price at the prices of fractions: a candidate is left out
_WORTH_ADDING = 1.0005
_ADDED_MAX = 500  # patterns a round: more make the program slow and tell it little
_FINISHING = (Trial(0.3),)
_NODES_MAX = 100
_DIVES = 8
_WORSE_MAX = 2  # after so many dives without a better result there will be none
_FINISHED_FROM = 2  # with more left than after so many dives, the greedy pass is never the best
_DIVING_TRIALS = 2
_WHOLE = 1e-6
_ROUNDED_UP = 10  # one in so many patterns in use is rounded up when none is whole
_UNPLACED = 1e6  # USD an hour: a replica stays unplaced only where no pattern holds it


class _Columns:
    """The program. Rows: demand by shape, units by reservation, limits by pool and resource. Columns: patterns."""

    def __init__(self, base: Packing) -> None:
        rows = [(float(count), INFINITY) for count in base.left]
        self._row_of: dict[tuple[str, str], int] = {}
        for name, most in _limits(base.supply):
            self._row_of[name] = len(rows)
            rows.append((-INFINITY, most))
        self.bounds = rows
        self.program = LinearProgram(rows, solver="simplex")
        self.patterns: list[tuple[Candidate, Contents]] = []
        self._seen: set[tuple[int, Contents]] = set()
        for index in range(len(base.left)):
            self.program.add(_UNPLACED, [(index, 1.0)])
        self._first = len(base.left)

    def uses(self, candidate: Candidate) -> list[tuple[int, float]]:
        """Return the rows, beside demand, in which a node of the candidate counts, with how much."""
        option = candidate.option
        found = []
        if option.reservation is not None:
            found.append((self._row_of["", option.reservation.id], 1.0))
        for (pool, name), row in self._row_of.items():
            if pool == option.entry.pool.name:
                needed = 1 if name == NODES else option.instance_type.capacity[name]
                if needed:
                    found.append((row, float(needed)))
        return found

    def add(self, candidate: Candidate, content: Contents) -> bool:
        """Add a pattern; False when it is known."""
        key = (candidate.option.index, content)
        if key in self._seen:
            return False
        self._seen.add(key)
        entries = [(index, float(count)) for index, count in content]
        self.program.add(candidate.price, [*entries, *self.uses(candidate)])
        self.patterns.append((candidate, content))
        return True

    def counts(self) -> list[float]:
        """Return how often each pattern is used in the last solution."""
        return self.program.values()[self._first :]

    def between(self, duals: Sequence[float], fluid: FluidPrices, pull: float) -> list[float]:
        """Return prices between the program's and those of buying in fractions."""
        other = [*fluid.worths, *([0.0] * (len(duals) - len(fluid.worths)))]
        for (pool, name), row in self._row_of.items():
            if not pool:
                other[row] = -fluid.rents.get(name, 0.0)
        return [pull * far + (1 - pull) * near for far, near in zip(other, duals, strict=True)]

    def keep(self, packing: Packing) -> None:
        """Go on with what the packing has left."""
        for index, left in enumerate(packing.left):
            self.program.rebound(index, float(left), INFINITY)
        for name, most in _limits(packing.supply):
            self.program.rebound(self._row_of[name], -INFINITY, most)


def _limits(supply: Supply) -> Iterable[tuple[tuple[str, str], float]]:
    """Yield what bounds nodes: units (of no pool), then limits (by pool and resource)."""
    for identity, units in supply.units.items():
        yield ("", identity), float(max(0, units))
    for pool, limits in supply.limits.items():
        for name, left in limits.items():
            yield (pool, name), float(max(0, left))


class _Pricing:
    """Finds patterns that a program's prices make worthwhile."""

    def __init__(self, columns: _Columns, base: Packing, candidates: Sequence[Candidate]) -> None:
        self._columns = columns
        self._floor_percent, self._buyable = base.floor_percent, base.buyable
        self._candidates = candidates
        self._knapsacks = Knapsacks(base.shapes, self._candidates)
        self._uses = [columns.uses(candidate) for candidate in self._candidates]
        self._round = 0

    def add(self, duals: Sequence[float], steady: Sequence[float], left: Sequence[int], trials: int) -> int:
        """Add patterns good at steady prices and worthwhile at the program's; return how many were new.

        None is larger than what is left.
        """
        costs, worth = self._costs(duals), duals[: len(left)]
        found = [
            (costs[row] / value, row, content)
            for row, content in self._knapsacks.fill(
                [max(0.0, dual) for dual in steady[: len(left)]], self._costs(steady), left, self._round, trials
            )
            if (value := sum(worth[index] * count for index, count in content)) > costs[row] * _WORTH_ADDING
            and self._is_allowed(row, content)
        ]
        self._round += 1
        found.sort()
        return sum(self._columns.add(self._candidates[row], content) for _, row, content in found[:_ADDED_MAX])

    def _costs(self, duals: Sequence[float]) -> list[float]:
        """Return what a node of each candidate costs, with the rent of what it uses up."""
        return [
            candidate.price + sum(amount * max(0.0, -duals[row]) for row, amount in uses)
            for candidate, uses in zip(self._candidates, self._uses, strict=True)
        ]

    def _is_allowed(self, row: int, content: Contents) -> bool:
        """Whether the policy's floor lets the content have a reserved slot."""
        candidate = self._candidates[row]
        if not self._floor_percent or candidate.option.reservation is None:
            return True
        if not any(self._buyable >> index & 1 for index, _ in content):
            return True
        return self._knapsacks.share(row, content) * 100 >= self._floor_percent


def _promising(base: Packing, worth: Sequence[float], paid: Sequence[Candidate]) -> list[Candidate]:
    """Return the best few candidates of each kind of takers, by what one can hold at these worths for its price."""
    bounds = Knapsacks(base.shapes, paid).bounds(worth)[0] if paid else ()
    ratios = [(float(bound) / item.price, item) for item, bound in zip(paid, bounds, strict=True)]
    ratios.sort(key=lambda pair: (-pair[0], pair[1].option.index))
    kept: dict[tuple[int, str], list[Candidate]] = {}
    for ratio, item in ratios:
        same = kept.setdefault((item.mask, item.option.entry.pool.name), [])
        if ratio > _HOPEFUL and len(same) < _HOPEFUL_MAX:
            same.append(item)
    return [item for same in kept.values() for item in same]


def combined(base: Packing, greedy: Packing, worth: Sequence[float], candidates: Candidates) -> Packing | None:
    """Return a packing from the greedy one's patterns and better ones; None with too many shapes or no solution.

    ``base`` has only existing nodes filled.
    """
    if len(base.shapes) > _SHAPES_MAX:
        return None
    columns = _Columns(base)
    for pattern in greedy.patterns:
        if pattern.candidate is not None:
            columns.add(pattern.candidate, tuple(sorted(pattern.content.items())))
    fluid = fluid_prices(base.shapes, base.left, candidates, base.supply)
    promising = _promising(base, worth if fluid is None else fluid.worths, candidates.paid)
    pricing = _Pricing(columns, base, [*promising, *candidates.reserved])
    costs: list[float] = []
    for number in range(_ROUNDS + 1):
        if not columns.program.solve():
            return None
        costs.append(columns.program.objective())
        if number == _ROUNDS or base.expired() or is_done(costs, fluid):
            break
        duals = columns.program.duals()
        # The program's prices jump from round to round; those of buying in fractions are nearly right.
        pull = _PULL * (1 - number / _ROUNDS)
        steady = duals if fluid is None else columns.between(duals, fluid, pull)
        if not pricing.add(duals, steady, base.left, _TRIALS) and not pricing.add(duals, duals, base.left, _TRIALS):
            break
    return _rounded(columns, pricing, base, worth, candidates)


def is_done(costs: Sequence[float], fluid: FluidPrices | None) -> bool:
    """Whether more rounds would gain nothing to speak of; ``costs`` are those of the program so far."""
    if fluid is not None and costs[-1] <= _NEAR * fluid.cost:
        return True
    return len(costs) > _SLOW_ROUNDS and costs[-1 - _SLOW_ROUNDS] - costs[-1] < _SLOW * costs[-1]


def _rounded(
    columns: _Columns, pricing: _Pricing, base: Packing, worth: Sequence[float], candidates: Candidates
) -> Packing:
    """Fix whole uses and ask again, until nothing is whole that matters; the greedy packs the rest."""
    packing = base.fork(worth)
    _fix_dear(columns, packing, columns.program.duals())
    best: Packing | None = None
    worse = 0
    for dive in range(_DIVES):
        columns.keep(packing)
        if not packing.active or packing.expired() or worse == _WORSE_MAX or not columns.program.solve():
            break
        duals = columns.program.duals()
        if pricing.add(duals, duals, packing.left, _DIVING_TRIALS) and not columns.program.solve():
            break
        _fix(columns, packing)
        if dive >= _FINISHED_FROM:
            finished = _finished(packing, worth, candidates)
            is_better = best is None or _quality(finished) < _quality(best)
            best, worse = (finished, 0) if is_better else (best, worse + 1)
    return best or _finished(packing, worth, candidates)


def _quality(packing: Packing) -> tuple[int, float]:
    return (sum(packing.left), packing.cost())


def _finished(packing: Packing, worth: Sequence[float], candidates: Candidates) -> Packing:
    """Return a copy in which the rest is packed greedily."""
    packing = packing.fork(worth)
    packing.top_up((1 << len(packing.shapes)) - 1)
    if candidates.reserved and packing.active:
        packing = use_reserved(packing, candidates.reserved, worth, _FINISHING)
    buy_rest(packing, candidates)
    return packing


def _fix_dear(columns: _Columns, packing: Packing, duals: Sequence[float]) -> None:
    """Decide about nodes with accelerators first, in whole numbers: they are few and dear, and rounding costs most.

    A program of its own, of accelerated work only; other work on such nodes counts at its price.
    """
    special = packing.filler.is_special
    dear = [item for item in columns.patterns if any(special[index] for index, _ in item[1])]
    if not dear or packing.expired():
        return
    rows: dict[int, int] = {}
    for candidate, content in dear:
        for row in (*(index for index, _ in content if special[index]), *(row for row, _ in columns.uses(candidate))):
            rows.setdefault(row, len(rows))
    program = LinearProgram([columns.bounds[row] for row in rows], solver="simplex")
    for candidate, content in dear:
        price = candidate.price - sum(duals[index] * count for index, count in content if not special[index])
        entries = [(rows[index], float(count)) for index, count in content if special[index]]
        program.add(max(0.0, price), entries + [(rows[row], amount) for row, amount in columns.uses(candidate)])
    for row, place in rows.items():
        if row < len(special):
            program.add(_UNPLACED, [(place, 1.0)])
    program.make_integer(range(len(dear)), _NODES_MAX)
    program.solve()
    for count, (candidate, content) in zip(program.values() if program.has_solution() else (), dear, strict=False):
        for _ in range(round(count)):
            if not packing.repeat(candidate, content, 1):
                packing.repeat_in_part(candidate, content)


def _fix(columns: _Columns, packing: Packing) -> None:
    """Take patterns as often as they are used wholly, and round up those nearest to one more use."""
    counts = columns.counts()
    parts = []
    for position in sorted(range(len(counts)), key=lambda item: (-counts[item], item)):
        if counts[position] <= _WHOLE:
            break
        wanted = floor(counts[position] + _WHOLE)
        if wanted:
            packing.repeat(*columns.patterns[position], wanted)
        parts.append((wanted - counts[position], position))
    parts.sort()
    for _, position in parts[: -(-len(parts) // _ROUNDED_UP)]:
        candidate, content = columns.patterns[position]
        # A reserved unit costs nothing more, so part of a content is worth a whole one; other nodes must be full.
        if not packing.repeat(candidate, content, 1) and candidate.option.reservation is not None:
            packing.repeat_in_part(candidate, content)
