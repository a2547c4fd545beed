"""A lower bound of the cost of small problems, in which replicas are whole and, where time allows, nodes are too.

Give each replica any price. A plan then costs the price of all its replicas plus, for each of its nodes, the node's
cost minus the prices of the replicas on it. The best filling of a node makes this difference the least, so any prices
prove a bound (Lagrangian relaxation, Farley 1990). Column generation finds the prices that prove the highest bound.

It leaves nodes in fractions. For whole nodes the fillings are listed that a plan of less than a given cost can have,
and an integer program over them proves a higher bound.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import ge

from reservoir.core.solver.column_generation.best_filling import BestFilling, FilledNode
from reservoir.core.solver.column_generation.linear_program import (
    INFINITY,
    Column,
    LinearProgram,
)
from reservoir.core.solver.packing.item_types import ItemType
from reservoir.core.solver.problem.vectors import Vector, iter_bits

# For more replicas and item types, or more offers, there is no time for exact fillings.
_REPLICAS_MAX = 50
_ITEM_TYPES_MAX = 20
_OFFERS_MAX = 500
_ROUNDS_MAX = 40
_UNPLACED = 1e6  # USD an hour: the cost of a replica that no filling holds yet
# USD an hour: a filling that gains less than this may gain nothing but rounding.
_TINY = 1e-6
# Of units of the same size the prices, in USD an hour, differ in later digits only.
_SAME_PRICE_DIGITS = 6
# A bound within this part of the known plan's cost is not improved.
_NEAR = 1e-4
# The integer program has at most so many fillings, which are listed in so many steps, and searches so many nodes.
_COLUMNS_MAX = 1_000
_STEPS_MAX = 60_000
_NODES_MAX = 20


@dataclass(frozen=True, slots=True)
class WholeOffer:
    """Equal nodes at a price in USD an hour; a plan has at most ``most`` of them. ``eligible`` is a mask of items."""

    size: Vector
    eligible: int
    price: float
    most: float


@dataclass(frozen=True, slots=True)
class _Proof:
    """What these prices of a replica of each item prove: no plan costs less than ``proven``, in USD an hour.

    ``at_most`` has an upper bound of what a filling of each offer is worth at these prices.
    """

    proven: float
    worth: Sequence[float]
    at_most: Sequence[float]


def proven_by_patterns(
    item_types: Sequence[ItemType],
    offers: Sequence[WholeOffer],
    cost: float,
    expired: Callable[[], bool],
) -> float:
    """Return a lower bound of the cost of placing all replicas, in USD an hour; 0 if the problem is too large.

    ``cost`` is that of a known plan.
    """
    replicas = sum([item_type.count for item_type in item_types])
    if len(item_types) > _ITEM_TYPES_MAX and replicas > _REPLICAS_MAX:
        return 0.0
    useful = _undominated(_merged(_cut(item_types, offers)), replicas)
    if len(useful) > _OFFERS_MAX:
        return 0.0
    in_fractions = _proof_in_fractions(item_types, useful, expired)
    if in_fractions is None:
        return 0.0
    in_whole = _proven_in_whole(item_types, useful, in_fractions, cost, expired)
    return max(in_fractions.proven, in_whole)


def _cut(
    item_types: Sequence[ItemType], offers: Sequence[WholeOffer]
) -> Iterator[WholeOffer]:
    """Yield the offers, none larger than all replicas together that may run on it: then many are alike."""
    asked_by: dict[int, Vector] = {}
    for offer in offers:
        if offer.eligible not in asked_by:
            eligible = [item_types[index] for index in iter_bits(offer.eligible)]
            whole = [[amount * it.count for amount in it.request] for it in eligible]
            asked_by[offer.eligible] = tuple(map(sum, zip(*whole, strict=True)))
        size = tuple(map(min, offer.size, asked_by[offer.eligible]))
        yield replace(offer, size=size)


def _merged(offers: Iterable[WholeOffer]) -> list[WholeOffer]:
    """Return one offer, at the least price, for all of the same size, eligible items and, nearly, price."""
    alike: dict[object, WholeOffer] = {}
    for offer in offers:
        key = (offer.size, offer.eligible, round(offer.price, _SAME_PRICE_DIGITS))
        known = alike.get(key)
        if known is not None:
            most, price = known.most + offer.most, min(known.price, offer.price)
            offer = replace(offer, most=most, price=price)
        alike[key] = offer
    return list(alike.values())


def _undominated(offers: Sequence[WholeOffer], replicas: float) -> list[WholeOffer]:
    """Leave out each offer that another, of which there is enough for all replicas, replaces at no higher price."""
    kept: list[WholeOffer] = []
    enough: list[WholeOffer] = []
    for offer in sorted(offers, key=lambda it: (it.price, [-amount for amount in it.size])):
        if any(_replaces(other, offer) for other in enough):
            continue
        kept.append(offer)
        if offer.most >= replicas:
            enough.append(offer)
    return kept


def _replaces(other: WholeOffer, offer: WholeOffer) -> bool:
    """Whether a node of the other offer can hold all that a node of the offer can."""
    return not offer.eligible & ~other.eligible and all(map(ge, other.size, offer.size))


def _proof_in_fractions(
    item_types: Sequence[ItemType],
    offers: Sequence[WholeOffer],
    expired: Callable[[], bool],
) -> _Proof | None:
    """Return the proof of the highest bound that column generation finds."""
    counts = [item_type.count for item_type in item_types]
    program = _PatternProgram(item_types, offers, expired)
    best: _Proof | None = None
    for _ in range(_ROUNDS_MAX):
        prices = program.solved()
        if prices is None:
            break
        worth, taken = prices
        fillings: list[FilledNode] = []
        for offer in offers:
            if expired():
                return best
            fillings.append(_filled(item_types, offer, worth))
        at_most = [filling.at_most for filling in fillings]
        proven = _bound(counts, worth, offers, at_most)
        if best is None or proven > best.proven:
            best = _Proof(proven, worth, at_most)
        if not program.add(fillings, taken):
            break
    return best


def _proven_in_whole(
    item_types: Sequence[ItemType],
    offers: Sequence[WholeOffer],
    in_fractions: _Proof,
    cost: float,
    expired: Callable[[], bool],
) -> float:
    """Return the lower bound that an integer program over fillings proves; 0 if none is proven.

    A plan costs at least what the proof says plus what each of its nodes loses: the price of the node less the worth of
    its filling. So a plan that costs less than that bound plus a reach has no filling that loses as much as the reach.
    """
    gap = cost - in_fractions.proven
    if gap <= _NEAR * cost:
        return 0.0
    for reach in (gap, gap / 2, gap / 4):
        columns = _columns_within(item_types, offers, in_fractions, reach, expired)
        if expired():
            return 0.0
        if columns is None:
            continue
        rows = [(float(item_type.count), INFINITY) for item_type in item_types]
        rows += [(-INFINITY, offer.most) for offer in offers]
        # A replica left over costs as much as the known plan, so that the program always has a solution.
        left_over = [(cost, INFINITY, [(row, 1.0)]) for row in range(len(item_types))]
        program = LinearProgram(rows, [*left_over, *columns], expired=expired)
        proven = program.bound_in_whole(
            range(len(left_over) + len(columns)), nodes_max=_NODES_MAX
        )
        return min(in_fractions.proven + reach, proven)
    return 0.0


def _columns_within(
    item_types: Sequence[ItemType],
    offers: Sequence[WholeOffer],
    in_fractions: _Proof,
    reach: float,
    expired: Callable[[], bool],
) -> list[Column] | None:
    """Return a column for each filling that loses less than the reach; None if there are too many."""
    columns: list[Column] = []
    counts = [item_type.count for item_type in item_types]
    steps_left = _STEPS_MAX
    for position, (offer, at_most) in enumerate(
        zip(offers, in_fractions.at_most, strict=True)
    ):
        if expired():
            return None
        values = {index: in_fractions.worth[index] for index in iter_bits(offer.eligible)}
        filling = BestFilling(item_types, values, counts, offer.size)
        # A filling loses what it falls short of the price, or of the best filling where that is worth more.
        listed = filling.above(max(offer.price, at_most) - reach, steps_left)
        steps_left -= listed.steps
        for pattern in listed.patterns:
            entries = [(index, float(copies)) for index, copies in pattern]
            entries.append((len(item_types) + position, 1.0))
            columns.append((offer.price, INFINITY, entries))
        if not listed.is_complete or len(columns) > _COLUMNS_MAX:
            return None
    return columns


class _PatternProgram:
    """The linear program that decides how often to use each filling. Rows: replicas by item, nodes by offer."""

    def __init__(
        self,
        item_types: Sequence[ItemType],
        offers: Sequence[WholeOffer],
        expired: Callable[[], bool],
    ) -> None:
        self._item_types_count = len(item_types)
        self._offers = offers
        demand = [(float(item_type.count), INFINITY) for item_type in item_types]
        available = [(-INFINITY, offer.most) for offer in offers]
        self._program = LinearProgram([*demand, *available], expired=expired)
        unplaced = [
            (_UNPLACED, INFINITY, [(row, 1.0)]) for row in range(self._item_types_count)
        ]
        self._program.add(unplaced)

    def solved(self) -> tuple[list[float], list[float]] | None:
        """Return the dual prices of a replica of each item and of a node of each offer; None without a solution."""
        if not self._program.solve():
            return None
        duals = self._program.duals()
        worth = [max(0.0, dual) for dual in duals[: self._item_types_count]]
        taken = [max(0.0, -dual) for dual in duals[self._item_types_count :]]
        return worth, taken

    def add(self, fillings: Sequence[FilledNode], taken: Sequence[float]) -> int:
        """Add the fillings that are worth more than their node's price and dual price; return how many."""
        columns: list[Column] = []
        for row, (offer, filling) in enumerate(zip(self._offers, fillings, strict=True)):
            if filling.value > offer.price + taken[row] + _TINY:
                entries = [(index, float(copies)) for index, copies in filling.pattern]
                entries.append((self._item_types_count + row, 1.0))
                columns.append((offer.price, INFINITY, entries))
        self._program.add(columns)
        return len(columns)


def _filled(
    item_types: Sequence[ItemType], offer: WholeOffer, worth: Sequence[float]
) -> FilledNode:
    """Return the best filling of a node; an empty one if a bound shows that none is worth the node's price."""
    values = {index: worth[index] for index in iter_bits(offer.eligible) if worth[index]}
    counts = [item_type.count for item_type in item_types]
    search = BestFilling(item_types, values, counts, offer.size)
    at_most = search.bound()
    return search.found() if at_most > offer.price else FilledNode(0.0, (), at_most)


def _bound(
    counts: Sequence[int],
    worth: Sequence[float],
    offers: Sequence[WholeOffer],
    at_most: Sequence[float],
) -> float:
    """Return the bound that these prices prove: the worth of all replicas, less the most that nodes can gain."""
    proven = sum([value * count for value, count in zip(worth, counts, strict=True)])
    for offer, value in zip(offers, at_most, strict=True):
        proven -= offer.most * max(0.0, value - offer.price)
    return proven
