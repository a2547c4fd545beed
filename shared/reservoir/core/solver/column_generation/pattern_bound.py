"""A lower bound of the cost of small problems, in which replicas are whole while nodes may be used in fractions.

Give each replica any price. A plan then costs the price of all its replicas plus, for each of its nodes, the node's
cost minus the prices of the replicas on it. The best filling of a node makes this difference the least, so any prices
prove a bound (Lagrangian relaxation, Farley 1990). Column generation finds the prices that prove the highest bound.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
_OFFERS_MAX = 300
_ROUNDS_MAX = 40
_UNPLACED = 1e6  # USD an hour: the cost of a replica that no filling holds yet
# USD an hour: a filling that gains less than this may gain nothing but rounding.
_TINY = 1e-6


@dataclass(frozen=True, slots=True)
class WholeOffer:
    """Equal nodes at a price in USD an hour; a plan has at most ``most`` of them. ``eligible`` is a mask of items."""

    size: Vector
    eligible: int
    price: float
    most: float


def proven_by_patterns(
    item_types: Sequence[ItemType],
    offers: Sequence[WholeOffer],
    expired: Callable[[], bool],
) -> float:
    """Return a lower bound of the cost of placing all replicas, in USD an hour; 0 if the problem is too large."""
    counts = [item_type.count for item_type in item_types]
    is_small = len(counts) <= _ITEM_TYPES_MAX or sum(counts) <= _REPLICAS_MAX
    if not is_small or len(offers) > _OFFERS_MAX:
        return 0.0
    program = _PatternProgram(item_types, offers, expired)
    proven = 0.0
    for _ in range(_ROUNDS_MAX):
        prices = program.solved()
        if prices is None:
            break
        worth, taken = prices
        fillings: list[FilledNode] = []
        for offer in offers:
            if expired():
                return proven
            fillings.append(_filled(item_types, offer, worth))
        proven = max(proven, _bound(counts, worth, offers, fillings))
        if not program.add(fillings, taken):
            break
    return proven


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
    fillings: Sequence[FilledNode],
) -> float:
    """Return the bound that these prices prove: the worth of all replicas, less the most that nodes can gain."""
    proven = sum([value * count for value, count in zip(worth, counts, strict=True)])
    for offer, filling in zip(offers, fillings, strict=True):
        proven -= offer.most * max(0.0, filling.at_most - offer.price)
    return proven
