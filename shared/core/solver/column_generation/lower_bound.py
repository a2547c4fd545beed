"""The certificate: no feasible plan that places as much costs less than this.

A relaxation that every feasible plan satisfies: replicas and nodes may be cut into any fractions (accelerated nodes, of
which few are bought, stay whole), topology, limits and pool weights are ignored, and existing nodes are pooled by who
may run on them. What is bought in bulk is described by its best resources per dollar only. The program's own dual
solution is checked and scaled until it is feasible, so that the figure does not rest on a solver's tolerance.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from math import floor, inf
from operator import or_

from shared.core.solver.column_generation.linear_program import Column, LinearProgram
from shared.core.solver.packing.item_types import Eligibility, ItemType
from shared.core.solver.problem.bits import iter_bits
from shared.core.solver.problem.catalogue import LaunchOption
from shared.core.solver.problem.components import connected
from shared.core.solver.problem.vectors import Vector, copies_that_fit
from shared.core.solver.solution.partial_plan import PartialPlan
from shared.core.solver.solution.residual_capacity import ResidualCapacity

_SAFETY = 1 - 1e-6  # floating-point rounding in the final sums
_POOLS_MAX = 20
_WHOLE_UNIT_MAX = 400  # more kinds of accelerated nodes than this are left fractional


@dataclass(frozen=True, slots=True)
class _Offer:
    """Resources at a price (USD an hour): one node, or, for what is bought in bulk, one dollar's worth."""

    size: tuple[float, ...]
    eligible: int
    price: float
    most: float
    is_whole: bool = False


def lower_bound_atto_usd(state: PartialPlan, existing: Sequence[tuple[int, Sequence[int]]]) -> int | None:
    """Return the bound for what the state has placed, or None when HiGHS found none.

    ``existing`` is (requirement sets, free resources before the plan) of the existing nodes.
    """
    item_types = _placed_item_types(state)
    if not item_types:
        return 0
    eligibility = Eligibility(item_types)
    offers = _offers(state, item_types, eligibility) + _pooled(existing, eligibility)
    total = 0.0
    for some, sold in _components(item_types, offers):
        proven = _Program(some, sold).solve(whole=False)
        if proven is None:
            return None
        if any(offer.is_whole for offer in sold) and not state.catalogue.policy.expired():
            proven = max(proven, _Program(some, sold).solve(whole=True) or 0.0)
        total += proven
    return max(0, floor(total * _SAFETY * 10**18))


def _components(item_types: Sequence[ItemType], offers: Sequence[_Offer]) -> list[tuple[list[ItemType], list[_Offer]]]:
    """Split into programs that have nothing to do with each other: accelerated work is often one of its own."""
    masks: dict[int, int] = {}
    for eligible, root in connected(offer.eligible for offer in offers).items():
        masks[root] = masks.get(root, 0) | eligible
    return [_component(item_types, offers, mask) for mask in masks.values()]


def _component(
    item_types: Sequence[ItemType], offers: Sequence[_Offer], mask: int
) -> tuple[list[ItemType], list[_Offer]]:
    members = list(iter_bits(mask))
    places = {index: place for place, index in enumerate(members)}
    some = [replace(item_types[index], index=place) for index, place in places.items()]
    sold = [
        replace(offer, eligible=sum(1 << places[index] for index in iter_bits(offer.eligible)))
        for offer in offers
        if offer.eligible & mask
    ]
    return some, sold


def _placed_item_types(state: PartialPlan) -> list[ItemType]:
    item_types: dict[object, ItemType] = {}
    for group in state.groups:
        placed = group.count - state.remaining[group.index]
        if placed:
            # The loosest level: giving up preferences can only make a plan cheaper.
            mask = reduce(or_, group.requirement_sets)
            item_type = item_types.setdefault(
                (group.request, mask), ItemType(len(item_types), group.request, mask, None, None)
            )
            item_type.count += placed
    return list(item_types.values())


def _sold(state: PartialPlan, eligibility: Eligibility) -> Iterator[tuple[LaunchOption, int, int, float]]:
    """Yield options, who may run on them (size apart, and size included), and what they cost in USD an hour."""
    overhead = state.catalogue.policy.overhead_atto_usd
    for option in state.catalogue.options:
        eligible = eligibility.accepting(option.requirement_sets, {})
        fitting = eligible & eligibility.fitting(option.allocatable)
        if fitting and option.price + overhead > 0:
            yield option, eligible, fitting, (option.price + overhead) / 1e18


# Branches: each option goes to one of three tables, by what it is.
def _offers(state: PartialPlan, item_types: Sequence[ItemType], eligibility: Eligibility) -> list[_Offer]:
    """Return few offers that are as good as all that is sold."""
    residual = ResidualCapacity.of(state.catalogue)
    special = sum(1 << item_type.index for item_type in item_types if any(item_type.request[3:]))
    plain: dict[int, list[tuple[Vector, float]]] = {}
    single: dict[tuple[Vector, int], float] = {}
    reserved: dict[str, _Offer] = {}
    for option, eligible, fitting, price in _sold(state, eligibility):
        if option.reservation is not None:
            # Several pools may offer one reservation: together they take no more than its units, by all who may.
            units = float(residual.units[option.unit_key])
            known = reserved.get(option.unit_key)
            union = fitting | (0 if known is None else known.eligible)
            is_whole = bool(fitting & special)
            size = tuple(map(float, option.allocatable))
            reserved[option.unit_key] = _Offer(size, union, price, units, is_whole)
        elif fitting & special:
            key = (option.allocatable, fitting)
            single[key] = min(price, single.get(key, inf))
        else:
            plain.setdefault(eligible & ~special, []).append((option.allocatable, price))
    bulk = chain.from_iterable(_bulk(found, eligible) for eligible, found in plain.items())
    whole = [_Offer(tuple(map(float, size)), who, cost, inf, True) for (size, who), cost in single.items()]
    free = [offer for offer in reserved.values() if offer.most > 0]
    return [*_pareto_optimal(bulk), *_pareto_optimal(whole), *free]


def _bulk(found: Sequence[tuple[Vector, float]], eligible: int) -> list[_Offer]:
    """Return the Pareto front of (CPU, memory) per dollar; everything else per dollar at its best."""
    rest = [max(size[k] / price for size, price in found) for k in range(2, len(found[0][0]))]
    points = sorted({(size[0] / price, size[1] / price) for size, price in found}, reverse=True)
    front: list[tuple[float, float]] = []
    for point in points:
        if not front or point[1] > front[-1][1]:
            front.append(point)
    return [_Offer((cpu, memory, *rest), eligible, 1.0, inf) for cpu, memory in front]


def _pareto_optimal(offers: Iterable[_Offer]) -> list[_Offer]:
    kept: list[_Offer] = []
    for offer in sorted(offers, key=lambda item: (item.price, [-amount for amount in item.size], -item.eligible)):
        if not any(
            not offer.eligible & ~other.eligible and all(a >= b for a, b in zip(other.size, offer.size, strict=True))
            for other in kept
        ):
            kept.append(offer)
    return kept


def _pooled(existing: Sequence[tuple[int, Sequence[int]]], eligibility: Eligibility) -> list[_Offer]:
    room: list[tuple[int, tuple[int, ...]]] = []
    for requirement_sets, free in existing:
        size = tuple(max(0, amount) for amount in free)
        eligible = eligibility.accepting(requirement_sets, {}) & eligibility.fitting(size)
        if eligible:
            room.append((eligible, size))
    kinds = {eligible for eligible, _ in room}
    everyone = reduce(or_, kinds, 0)
    pools: dict[int, list[float]] = {}
    for eligible, size in room:
        # Many kinds of nodes would make the program large; as one pool they only loosen the bound.
        total = pools.setdefault(eligible if len(kinds) <= _POOLS_MAX else everyone, [0.0] * len(size))
        for dimension, amount in enumerate(size):
            total[dimension] += amount
    return [_Offer(tuple(total), eligible, 0.0, 1.0) for eligible, total in pools.items()]


class _Program:
    """Rows: demand by item, then one per offer and resource. Columns: nodes by offer, then replicas by offer."""

    def __init__(self, item_types: Sequence[ItemType], offers: Sequence[_Offer]) -> None:
        self._item_types, self._offers = item_types, offers
        self._dimensions = len(item_types[0].request)
        self._served: list[tuple[int, int]] = []  # (offer, item) of each replica column

    def solve(self, *, whole: bool) -> float | None:
        """Return the bound in USD an hour."""
        program, integers = self._written(whole=whole)
        if integers:
            return program.bound_in_whole(integers)
        return self._certified(program.duals()) if program.solve() else None

    # Branches: one program is written row by row; whole nodes add a row each.
    def _written(self, *, whole: bool) -> tuple[LinearProgram, list[int]]:
        """Return the program, and which of its columns are nodes that must be whole."""
        item_types, offers, width = self._item_types, self._offers, self._dimensions
        rows = [(float(item_type.count), inf) for item_type in item_types]
        rows += [(-inf, 0.0)] * (len(offers) * width)
        columns: list[list[tuple[int, float]]] = []
        for number, offer in enumerate(offers):
            first = len(item_types) + number * width
            columns.append([(first + k, -1.0) for k in range(width) if offer.size[k] > 0])
        self._served = []
        integers: list[int] = []
        for number, offer in enumerate(offers):
            is_whole = whole and offer.is_whole and len(integers) < _WHOLE_UNIT_MAX
            if is_whole:
                integers.append(number)
            for index in iter_bits(offer.eligible):
                self._served.append((number, index))
                column = [(index, 1.0), *self._use(number, index)]
                if is_whole:
                    # A whole node holds whole replicas only.
                    copies = copies_that_fit(item_types[index].request, map(int, offer.size))
                    column.append((len(rows), 1.0))
                    columns[number].append((len(rows), -float(copies)))
                    rows.append((-inf, 0.0))
                columns.append(column)
        bounds = [(offer.price, offer.most) for offer in offers] + [(0.0, inf)] * len(self._served)
        written: list[Column] = [(*bound, column) for bound, column in zip(bounds, columns, strict=True)]
        return LinearProgram(rows, written), integers

    def _use(self, number: int, index: int) -> list[tuple[int, float]]:
        offer, request = self._offers[number], self._item_types[index].request
        first = len(self._item_types) + number * self._dimensions
        return [(first + k, asked / offer.size[k]) for k, asked in enumerate(request) if asked]

    # Branches: three passes over the same dual prices: lift, scale, sum.
    def _certified(self, duals: Sequence[float]) -> float:
        """Return what the dual solution proves, after scaling it to be feasible.

        Worths w and resource prices y of an offer must keep w_i <= sum of y_k * r_ik / A_k and sum of y_k <= price.
        """
        item_types, offers, width = self._item_types, self._offers, self._dimensions
        values = [max(0.0, dual) for dual in duals[: len(item_types)]]
        scale, lift, bounded = 1.0, [1.0] * len(offers), list[tuple[_Offer, float]]()
        for number, index in self._served:
            paid = sum(value * max(0.0, -duals[row]) for row, value in self._use(number, index))
            if values[index] > paid * lift[number]:
                if paid <= 0.0:
                    values[index] = 0.0  # nothing is proven about this item
                else:
                    lift[number] = values[index] / paid
        for number, offer in enumerate(offers):
            first = len(item_types) + number * width
            total = lift[number] * sum(max(0.0, -dual) for dual in duals[first : first + width])
            if offer.most == inf:
                scale = max(scale, total / offer.price)
            else:
                bounded.append((offer, total))
        proven = sum(value * item_type.count for value, item_type in zip(values, item_types, strict=True)) / scale
        for offer, dual_price in bounded:
            proven -= offer.most * max(0.0, dual_price / scale - offer.price)
        return max(0.0, proven)
