"""The certificate: no feasible plan that places as much costs less than this.

A relaxation that every feasible plan satisfies: replicas and nodes may be cut into any fractions (accelerated nodes, of
which few are bought, stay whole), topology, limits and pool weights are ignored, and existing nodes are pooled by who
may run on them. What is bought in bulk is described by its best resources per dollar only. The program's own dual
solution is checked and scaled until it is feasible, so that the figure does not rest on a solver's tolerance. At its
prices units of reservations count with no more than whole replicas in one are worth.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import floor, inf
from typing import NamedTuple

import numpy as np

from shared.core.solver.column_generation.knapsack_bound import most_worth
from shared.core.solver.column_generation.linear_program import solve_matrix
from shared.core.solver.packing.item_types import Candidates, Eligibility, Shape
from shared.core.solver.problem.bits import iter_bits
from shared.core.solver.problem.catalogue import Option
from shared.core.solver.problem.option_order import overhead_atto_usd
from shared.core.solver.problem.vectors import Vector
from shared.core.solver.solution.partial_plan import State
from shared.core.solver.solution.residual_capacity import Supply

_SAFETY = 1 - 1e-6  # floating-point rounding in the final sums
_POOLS_MAX = 20
_WHOLE_UNIT_MAX = 400  # more kinds of accelerated nodes than this are left fractional


@dataclass(frozen=True, slots=True)
class _Offer:
    """Resources at a price (USD an hour): one node, or, for what is bought in bulk, one dollar's worth."""

    size: tuple[float, ...]
    takers: int
    price: float
    most: float
    is_whole: bool = False
    reservation_id: str = ""


def lower_bound_atto_usd(state: State, existing: Sequence[tuple[int, Sequence[int]]]) -> int | None:
    """Return the bound for what the state has placed, or None when HiGHS found none.

    ``existing`` is (alternatives, free resources before the plan) of the existing nodes.
    """
    shapes = _placed_shapes(state)
    if not shapes:
        return 0
    eligibility = Eligibility(shapes)
    offers = _offers(state, shapes, eligibility, existing)
    total = 0.0
    for some, sold in _components(shapes, offers):
        proven = _Program(some, sold).solve(whole=False)
        if proven is None:
            return None
        if any(offer.is_whole for offer in sold) and not state.market.policy.expired():
            proven = max(proven, _Program(some, sold).solve(whole=True) or 0.0)
        total += proven
    return max(0, floor(total * _SAFETY * 10**18))


def _components(shapes: Sequence[Shape], offers: Sequence[_Offer]) -> list[tuple[list[Shape], list[_Offer]]]:
    """Split into programs that have nothing to do with each other: accelerated work is often one of its own."""
    masks: list[int] = []
    for takers in {offer.takers: None for offer in offers}:
        joined = takers
        for mask in [mask for mask in masks if mask & takers]:
            masks.remove(mask)
            joined |= mask
        masks.append(joined)
    return [_component(shapes, offers, mask) for mask in masks]


def _component(shapes: Sequence[Shape], offers: Sequence[_Offer], mask: int) -> tuple[list[Shape], list[_Offer]]:
    members = list(iter_bits(mask))
    places = {index: place for place, index in enumerate(members)}
    some = [replace(shapes[index], index=place) for index, place in places.items()]
    sold = [
        replace(offer, takers=sum(1 << places[index] for index in iter_bits(offer.takers)))
        for offer in offers
        if offer.takers & mask
    ]
    return some, sold


def _placed_shapes(state: State) -> list[Shape]:
    shapes: dict[object, Shape] = {}
    for group in state.groups:
        placed = group.count - state.remaining[group.index]
        if placed:
            # The loosest level: giving up preferences can only make a plan cheaper.
            mask = 0
            for alternatives in group.alternatives:
                mask |= alternatives
            shape = shapes.setdefault((group.request, mask), Shape(len(shapes), group.request, mask, None, None))
            shape.count += placed
    return list(shapes.values())


class FluidPrices(NamedTuple):
    """Prices at which everything could be bought in fractions, in USD an hour.

    ``worths`` are what one more replica of each shape costs, ``rents`` what a unit of each reservation saves.
    """

    worths: list[float]
    rents: dict[str, float]
    cost: float  # of everything


def fluid_prices(
    shapes: Sequence[Shape], left: Sequence[int], candidates: Candidates, supply: Supply
) -> FluidPrices | None:
    """Return the prices at which what is left could be bought in fractions; None when HiGHS found nothing."""
    fitting = candidates.eligibility.fitting
    sold = [
        _Sold(item.option, item.mask, item.mask & fitting(item.option.allocatable), item.price)
        for item in (*candidates.unthinned, *candidates.reserved)
    ]
    counted = [replace(shape, count=count) for shape, count in zip(shapes, left, strict=True)]
    return _Program(counted, _merged(sold, counted, supply)).prices()


class _Sold(NamedTuple):
    """An option, who may run on it (size apart, and size included), and what it costs in USD an hour."""

    option: Option
    takers: int
    fitting: int
    price: float


def _offers(
    state: State, shapes: Sequence[Shape], eligibility: Eligibility, existing: Sequence[tuple[int, Sequence[int]]]
) -> list[_Offer]:
    overhead = overhead_atto_usd(state.market.policy)
    everyone: dict[str, str] = {}
    sold = []
    for option in state.market.options:
        takers = eligibility.accepting(option.alternatives, everyone)
        fitting = takers & eligibility.fitting(option.allocatable)
        sold.append(_Sold(option, takers, fitting, (option.price + overhead) / 1e18))
    return _merged(sold, shapes, Supply.of(state.market)) + _pooled(existing, eligibility)


def _merged(sold: Iterable[_Sold], shapes: Sequence[Shape], supply: Supply) -> list[_Offer]:
    """Return few offers that are as good as all that is sold."""
    special = sum(1 << shape.index for shape in shapes if any(shape.request[3:]))
    plain: dict[int, list[tuple[Vector, float]]] = {}
    single: dict[tuple[Vector, int], float] = {}
    reserved: dict[str, _Offer] = {}
    for option, takers, fitting, price in sold:
        if not fitting or price <= 0:
            continue
        if option.reservation is not None:
            # Several pools may offer one reservation: together they take no more than its units, by all who may.
            units = float(supply.units[option.reservation.id])
            known = reserved.get(option.reservation.id)
            union = fitting | (0 if known is None else known.takers)
            is_whole = bool(fitting & special)
            size = tuple(map(float, option.allocatable))
            reserved[option.reservation.id] = _Offer(size, union, price, units, is_whole, option.reservation.id)
        elif fitting & special:
            key = (option.allocatable, fitting)
            single[key] = min(price, single.get(key, inf))
        else:
            plain.setdefault(takers & ~special, []).append((option.allocatable, price))
    offers = [offer for takers, found in plain.items() for offer in _bulk(found, takers)]
    offers = _undominated(offers)
    offers += _undominated(
        [_Offer(tuple(map(float, size)), who, cost, inf, True) for (size, who), cost in single.items()]
    )
    return offers + [offer for offer in reserved.values() if offer.most > 0]


def _bulk(found: Sequence[tuple[Vector, float]], takers: int) -> list[_Offer]:
    """Return the upper hull of (CPU, memory) per dollar; everything else per dollar at its best."""
    rest = [max(size[k] / price for size, price in found) for k in range(2, len(found[0][0]))]
    points = sorted({(size[0] / price, size[1] / price) for size, price in found}, reverse=True)
    hull: list[tuple[float, float]] = []
    for point in points:
        if hull and point[1] <= hull[-1][1]:
            continue
        while len(hull) >= 2 and _is_under(hull[-1], hull[-2], point):
            hull.pop()
        hull.append(point)
    return [_Offer((cpu, memory, *rest), takers, 1.0, inf) for cpu, memory in hull]


def _is_under(middle: tuple[float, float], left: tuple[float, float], right: tuple[float, float]) -> bool:
    """Whether ``middle`` lies strictly under the line from ``left`` to ``right`` (left has more CPU)."""
    part = (left[0] - middle[0]) / (left[0] - right[0])
    return middle[1] < left[1] + part * (right[1] - left[1])


def _undominated(offers: Sequence[_Offer]) -> list[_Offer]:
    kept: list[_Offer] = []
    for offer in sorted(offers, key=lambda item: (item.price, [-amount for amount in item.size], -item.takers)):
        if not any(
            not offer.takers & ~other.takers and all(a >= b for a, b in zip(other.size, offer.size, strict=True))
            for other in kept
        ):
            kept.append(offer)
    return kept


def _pooled(existing: Sequence[tuple[int, Sequence[int]]], eligibility: Eligibility) -> list[_Offer]:
    room: list[tuple[int, tuple[int, ...]]] = []
    for alternatives, free in existing:
        size = tuple(max(0, amount) for amount in free)
        takers = eligibility.accepting(alternatives, {}) & eligibility.fitting(size)
        if takers:
            room.append((takers, size))
    kinds = {takers for takers, _ in room}
    everyone = 0
    for takers in kinds:
        everyone |= takers
    pools: dict[int, list[float]] = {}
    for takers, size in room:
        # Many kinds of nodes would make the program large; as one pool they only loosen the bound.
        total = pools.setdefault(takers if len(kinds) <= _POOLS_MAX else everyone, [0.0] * len(size))
        for dimension, amount in enumerate(size):
            total[dimension] += amount
    return [_Offer(tuple(total), takers, 0.0, 1.0) for takers, total in pools.items()]


class _Program:
    """Rows: demand by shape, then one per offer and resource. Columns: nodes by offer, then replicas by offer."""

    def __init__(self, shapes: Sequence[Shape], offers: Sequence[_Offer]) -> None:
        self._shapes, self._offers = shapes, offers
        self._dimensions = len(shapes[0].request)
        self._served: list[tuple[int, int]] = []  # (offer, shape) of each replica column

    def solve(self, *, whole: bool) -> float | None:
        """Return the bound in USD an hour."""
        solved = self._solved(whole=whole)
        if solved is None:
            return None
        return solved[0] if whole else self._certified(solved[1])

    def prices(self) -> FluidPrices | None:
        """Return what the optimum says of more replicas and more units."""
        solved = self._solved(whole=False)
        if solved is None:
            return None
        duals, first, width = solved[1], len(self._shapes), self._dimensions
        rents = {
            offer.reservation_id: -sum(duals[first + number * width : first + (number + 1) * width]) - offer.price
            for number, offer in enumerate(self._offers)
            if offer.reservation_id
        }
        worths = [max(0.0, dual) for dual in duals[:first]]
        return FluidPrices(worths, {name: max(0.0, rent) for name, rent in rents.items()}, solved[0])

    def _solved(self, *, whole: bool) -> tuple[float, list[float]] | None:
        shapes, offers, width = self._shapes, self._offers, self._dimensions
        rows = [(float(shape.count), inf) for shape in shapes]
        rows += [(-inf, 0.0)] * (len(offers) * width)
        columns: list[list[tuple[int, float]]] = []
        for number, offer in enumerate(offers):
            first = len(shapes) + number * width
            columns.append([(first + k, -1.0) for k in range(width) if offer.size[k] > 0])
        self._served = []
        integers: list[int] = []
        for number, offer in enumerate(offers):
            is_whole = whole and offer.is_whole and len(integers) < _WHOLE_UNIT_MAX
            if is_whole:
                integers.append(number)
            for index in iter_bits(offer.takers):
                self._served.append((number, index))
                column = [(index, 1.0), *self._use(number, index)]
                if is_whole:
                    # A whole node holds whole replicas only.
                    copies = min(int(offer.size[k] // asked) for k, asked in enumerate(shapes[index].request) if asked)
                    column.append((len(rows), 1.0))
                    columns[number].append((len(rows), -float(copies)))
                    rows.append((-inf, 0.0))
                columns.append(column)
        costs = [offer.price for offer in offers] + [0.0] * len(self._served)
        uppers = [offer.most for offer in offers] + [inf] * len(self._served)
        return solve_matrix(costs, uppers, rows, columns, integers)

    def _use(self, number: int, index: int) -> list[tuple[int, float]]:
        offer, request = self._offers[number], self._shapes[index].request
        first = len(self._shapes) + number * self._dimensions
        return [(first + k, asked / offer.size[k]) for k, asked in enumerate(request) if asked]

    def _certified(self, duals: Sequence[float]) -> float:
        """Return what the dual solution proves, after scaling it to be feasible.

        Worths w and resource prices y of an offer must keep w_i <= sum of y_k * r_ik / A_k and sum of y_k <= price.
        """
        shapes, offers, width = self._shapes, self._offers, self._dimensions
        worth = [max(0.0, dual) for dual in duals[: len(shapes)]]
        scale = 1.0
        lift = [1.0] * len(offers)
        for number, index in self._served:
            paid = sum(value * max(0.0, -duals[row]) for row, value in self._use(number, index))
            if worth[index] > paid * lift[number]:
                if paid <= 0.0:
                    worth[index] = 0.0  # nothing is proven about this shape
                else:
                    lift[number] = worth[index] / paid
        rents = [0.0] * len(offers)
        for number, offer in enumerate(offers):
            first = len(shapes) + number * width
            total = lift[number] * sum(max(0.0, -dual) for dual in duals[first : first + width])
            if offer.most == inf:
                scale = max(scale, total / offer.price)
            else:
                rents[number] = total
        self._lower_to_whole_contents(rents, worth, duals)
        proven = sum(value * shape.count for value, shape in zip(worth, shapes, strict=True)) / scale
        for number, offer in enumerate(offers):
            if offer.most < inf:
                proven -= offer.most * max(0.0, rents[number] / scale - offer.price)
        return max(0.0, proven)

    def _lower_to_whole_contents(self, rents: list[float], worth: Sequence[float], duals: Sequence[float]) -> None:
        """Lower what units of reservations are worth to what whole replicas in one can be."""
        first, width = len(self._shapes), self._dimensions
        units = [number for number, offer in enumerate(self._offers) if offer.reservation_id and rents[number] > 0]
        if not units:
            return
        requests = np.array([shape.request for shape in self._shapes], dtype=float)
        shares = np.full((len(units), len(worth)), 2.0)
        for row, number in enumerate(units):
            weights = np.maximum(0.0, -np.array(duals[first + number * width : first + (number + 1) * width]))
            sizes = np.array(self._offers[number].size)
            takers = list(iter_bits(self._offers[number].takers))
            shares[row, takers] = requests[takers] @ (weights / weights.sum() / np.maximum(sizes, 1.0))
        for number, most in zip(units, most_worth(shares, worth), strict=True):
            rents[number] = min(rents[number], most)
