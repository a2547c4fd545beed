"""Combining patterns: a linear program over all patterns seen so far, a few rounds of new ones at its prices, rounding.

The greedy passes find good patterns but repeat each one as long as demand lasts; the program finds how often each
should be used. Rounding down leaves a small rest, which a greedy pass packs again.
"""

from collections.abc import Iterable, Sequence
from math import floor

from shared.core.solver.buying import buy_rest
from shared.core.solver.filling import Contents, Filler
from shared.core.solver.packing import Packing
from shared.core.solver.polish.highs import INFINITY, LinearProgram
from shared.core.solver.reserved import use_reserved
from shared.core.solver.shapes import Candidate, Candidates

_ROUNDS = 8
_WORTH_ADDING = 1.0005
_NODES_MAX = 100
_PART = 0.05
_STRENGTHS = (0.1, 0.3, 0.8)
_SLACKS = (1e-6, 0.25, 0.5)
_UNPLACED = 1e6  # USD an hour: a replica stays unplaced only where no pattern holds it


class _Columns:
    """The program's columns: patterns with their candidates."""

    def __init__(self, demand: Sequence[int], reserved: Sequence[Candidate], packing: Packing) -> None:
        rows = [(float(count), INFINITY) for count in demand]
        self._unit_rows: dict[str, int] = {}
        for candidate in reserved:
            identity = _reservation_id(candidate)
            if identity not in self._unit_rows:
                self._unit_rows[identity] = len(rows)
                rows.append((-INFINITY, float(packing.supply.units[identity])))
        self.program = LinearProgram(rows, solver="simplex")
        self.patterns: list[tuple[Candidate, Contents]] = []
        self._seen: set[tuple[int, Contents]] = set()
        for index in range(len(demand)):
            self.program.add(_UNPLACED, [(index, 1.0)])
        self._first = len(demand)

    def add(self, candidate: Candidate, content: Contents) -> bool:
        """Add a pattern; False when it is known."""
        key = (candidate.option.index, content)
        if key in self._seen:
            return False
        self._seen.add(key)
        entries = [(index, float(count)) for index, count in content]
        if candidate.option.reservation is not None:
            entries.append((self._unit_rows[_reservation_id(candidate)], 1.0))
        self.program.add(candidate.price, entries)
        self.patterns.append((candidate, content))
        return True

    def dear(self, packing: Packing) -> list[int]:
        """Return the columns with accelerators: few and dear nodes, where rounding costs most."""
        special = packing.filler.is_special
        return [
            self._first + position
            for position, (_, content) in enumerate(self.patterns)
            if any(special[index] for index, _ in content)
        ]

    def rent(self, candidate: Candidate, duals: Sequence[float]) -> float:
        """Return what a unit of the candidate's reservation is worth to others, in USD an hour."""
        return max(0.0, -duals[self._unit_rows[_reservation_id(candidate)]])

    def counts(self) -> list[float]:
        """Return how often each pattern is used in the last solution."""
        return self.program.values()[self._first :]


def _reservation_id(candidate: Candidate) -> str:
    assert candidate.option.reservation is not None
    return candidate.option.reservation.id


def combined(
    base: Packing, passes: Iterable[Packing], worth: Sequence[float], candidates: Candidates
) -> Packing | None:
    """Return a packing from a combination of the passes' patterns, or None when HiGHS found none.

    ``base`` has only existing nodes filled.
    """
    columns = _Columns(base.left, candidates.reserved, base)
    for packing in passes:
        for pattern in packing.patterns:
            if pattern.candidate is not None:
                columns.add(pattern.candidate, tuple(sorted(pattern.content.items())))
    before: list[float] = []
    for number in range(_ROUNDS):
        if not columns.program.solve():
            return None
        # Prices jump from round to round; half of the last ones steadies them, every other time.
        duals = columns.program.duals()
        steady = duals
        if number % 2:
            steady = [(new + old) / 2 for new, old in zip(duals, before, strict=True)]
        before = duals
        if base.expired() or not _price(columns, base, candidates, steady):
            break
    if not columns.program.solve():
        return None
    return _rounded(columns, base, worth, candidates)


def _price(columns: _Columns, base: Packing, candidates: Candidates, duals: Sequence[float]) -> bool:
    """Add patterns that these prices make worthwhile; False when there are none."""
    filler = Filler(base.shapes, [max(1e-12, dual) for dual in duals[: len(base.shapes)]], list(base.left))
    added = False
    for candidate in candidates.paid:
        size = candidate.option.allocatable
        if filler.bound(size, candidate.mask) <= candidate.price * _WORTH_ADDING:
            continue
        for value, content in filler.fills_of(size, candidate.mask, thorough=True):
            if content and value > candidate.price * _WORTH_ADDING:
                added = columns.add(candidate, content) or added
    for candidate in candidates.reserved:
        least = columns.rent(candidate, duals) * _WORTH_ADDING + candidate.price
        for value, content in filler.fills_of(candidate.option.allocatable, candidate.mask, thorough=True):
            if content and value > least:
                added = columns.add(candidate, content) or added
    return added


def _rounded(columns: _Columns, base: Packing, worth: Sequence[float], candidates: Candidates) -> Packing:
    """Take whole patterns, then pack the rest greedily; several thresholds for "whole", the best result."""
    # What reserved units are worth to whom, the program knows better than prices elsewhere do.
    duals = columns.program.duals()
    marginal = [max(1e-12, dual) if dual < _UNPLACED / 2 else own for dual, own in zip(duals, worth, strict=False)]
    counts = columns.counts()
    dear = columns.dear(base)
    if dear and not base.expired():
        columns.program.make_integer(dear, _NODES_MAX)
        columns.program.solve()
        if columns.program.has_solution():
            counts = columns.counts()
    packings = []
    for slack in _SLACKS:
        packing = base.fork(worth)
        for position in sorted(range(len(counts)), key=lambda item: (-counts[item], item)):
            wanted = floor(counts[position] + slack)
            if wanted == 0:
                break
            packing.repeat(*columns.patterns[position], wanted)
        # A reserved unit costs nothing more, so a part of a pattern is worth a whole unit while there are any.
        parts = [(counts[item] - floor(counts[item] + slack), item) for item in range(len(counts))]
        for part, position in sorted(parts, key=lambda pair: (-pair[0], pair[1])):
            candidate, content = columns.patterns[position]
            if part > _PART and candidate.option.reservation is not None:
                packing.repeat_in_part(candidate, content)
        packing.top_up((1 << len(base.shapes)) - 1)
        if candidates.reserved and packing.active:
            packing = use_reserved(packing, candidates.reserved, marginal, _STRENGTHS)
            packing.filler.reprice(worth)
        buy_rest(packing, candidates)
        packings.append(packing)
    return min(packings, key=lambda item: (sum(item.left), item.cost()))
