"""The certificate: a lower bound of the cost of every feasible plan that places the same replicas.

It is the optimum of a relaxation that every feasible plan satisfies. Replicas and nodes may be cut into any fractions,
except nodes with accelerators, of which few are bought. Topology, limits and pool weights are ignored. Existing nodes
with the same eligible items are one pool of resources. Other nodes are sold in bulk, by the most resources that a
dollar buys.

The program's size is bounded, whatever the demand. If there are many item types, those of nearly the same proportions
become one that requests the least of them all, which only lowers the bound.

A plan that costs more than the given one is no better, so the cost of the given plan limits what the relaxation buys.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import floor, log2
from operator import add, or_

from reservoir.core.solver.column_generation.linear_program import Column, LinearProgram
from reservoir.core.solver.column_generation.pattern_bound import (
    WholeOffer,
    proven_by_patterns,
)
from reservoir.core.solver.packing.item_types import Eligibility, ItemType
from reservoir.core.solver.problem.components import connected
from reservoir.core.solver.problem.vectors import Vector, copies_that_fit, iter_bits
from reservoir.core.solver.solution.partial_plan import PartialPlan
from reservoir.core.solver.solution.residual_capacity import ResidualCapacity

_SAFETY = 1 - 1e-6  # lowers the bound by more than the final sums may be rounded up
_POOLS_MAX = 20  # pools of existing nodes; more become one
# Offers of nodes with accelerators that must be whole, at most; others may be cut.
_WHOLE_UNIT_MAX = 400
# With whole nodes HiGHS takes 0.7 s for so many columns, 3 s for twice as many, and 100 s for 140,000.
_WHOLE_COLUMNS_MAX = 5_000
_ITEM_TYPES_MAX = 500  # more item types than this are merged
# Items are merged whose amounts fall into the same part of an octave (a factor of two). Octaves are cut into fewer
# parts until few enough item types are left.
_PARTS_OF_AN_OCTAVE = (16, 8, 4, 2)


@dataclass(frozen=True, slots=True)
class _Offer:
    """Resources at a price: one node, a pool of existing nodes, or what a dollar an hour buys in bulk.

    ``eligible`` is a mask of items, ``price`` in USD an hour, ``most`` how many a plan may use.
    """

    size: tuple[float, ...]
    eligible: int
    price: float
    most: float
    is_whole: bool = False


def lower_bound_atto_usd(
    state: PartialPlan,
    existing: Sequence[tuple[int, Sequence[int]]],
    cost_atto_usd_per_hour: int,
) -> int | None:
    """Return the lower bound for the replicas that the state has placed, or None if HiGHS finds no solution in time.

    ``existing`` has (requirement sets, free resources before the plan) of each existing node. The cost is the plan's.
    """
    item_types = _placed_item_types(state)
    if not item_types:
        return 0
    eligibility = Eligibility(item_types)
    offers = _offers(state, item_types, eligibility) + _room(existing, eligibility)
    unmerged = item_types
    if len(item_types) > _ITEM_TYPES_MAX:
        item_types, offers = _merged(item_types, offers)
    total = 0.0
    # Items that no offer connects are bounded apart: work with accelerators often shares no nodes with other work.
    masks = defaultdict[int, int](int)
    for eligible, root in connected(offer.eligible for offer in offers).items():
        masks[root] |= eligible
    for mask in masks.values():
        proven = _proven(item_types, mask, offers, state.catalogue.policy.expired)
        if proven is None:
            return None
        total += proven
    nodes = [
        *_whole_offers(state, unmerged, eligibility),
        *_standing(existing, eligibility),
    ]
    by_patterns = proven_by_patterns(
        unmerged, nodes, cost_atto_usd_per_hour / 1e18, state.catalogue.policy.expired
    )
    total = max(total, by_patterns)
    return max(0, floor(total * _SAFETY * 10**18))


def _whole_offers(
    state: PartialPlan, item_types: Sequence[ItemType], eligibility: Eligibility
) -> Iterator[WholeOffer]:
    """Yield the nodes that may be launched; options of equal size and eligible items are one offer, at the least price.

    Options of one reservation are one offer too, with all that any of them offers, as its units are shared.
    """
    units = ResidualCapacity.of(state.catalogue).units
    overhead = state.catalogue.policy.overhead_atto_usd
    replicas = float(sum([item_type.count for item_type in item_types]))
    alike: dict[object, WholeOffer] = {}
    for option in state.catalogue.options:
        accepting = eligibility.accepting(option.requirement_sets, {})
        eligible = accepting & eligibility.fitting(option.allocatable)
        key: object = (option.allocatable, eligible)
        most = replicas
        if option.reservation is not None:
            key = option.unit_key
            most = float(units[option.unit_key])
        price = (option.price + overhead) / 1e18
        offer = WholeOffer(option.allocatable, eligible, price, most)
        known = alike.get(key, offer)
        alike[key] = WholeOffer(
            tuple(map(max, known.size, offer.size)),
            known.eligible | eligible,
            min(known.price, price),
            most,
        )
    for offer in alike.values():
        if offer.eligible and offer.most > 0:
            yield offer


def _standing(
    existing: Iterable[tuple[int, Sequence[int]]], eligibility: Eligibility
) -> Iterator[WholeOffer]:
    """Yield each existing node as an offer of its free resources."""
    for requirement_sets, free in existing:
        size = tuple([max(0, amount) for amount in free])
        eligible = eligibility.accepting(requirement_sets, {}) & eligibility.fitting(size)
        if eligible:
            yield WholeOffer(size, eligible, 0.0, 1.0)


def _proven(
    item_types: Sequence[ItemType],
    mask: int,
    offers: Sequence[_Offer],
    expired: Callable[[], bool],
) -> float | None:
    """Return a lower bound of the cost of the items of a mask, in USD an hour; None without a solution in time."""
    if expired():
        return None
    columns, rows, whole = _program(
        item_types, mask, [offer for offer in offers if offer.eligible & mask]
    )
    program = LinearProgram(rows, columns, expired=expired)
    if not program.solve():
        return None
    proven = program.proven()
    if whole and len(columns) <= _WHOLE_COLUMNS_MAX and not expired():
        proven = max(proven, program.bound_in_whole(whole, nodes_max=1))
    return proven


def _placed_item_types(state: PartialPlan) -> list[ItemType]:
    placed = Counter[tuple[Vector, int]]()
    for group in state.groups:
        # Each replica accepts what its group accepts at any level: without preferences a plan can only be cheaper.
        placed[group.request, reduce(or_, group.requirement_sets)] += (
            group.count - state.remaining[group.index]
        )
    item_types: list[ItemType] = []
    for (request, requirement_sets), count in (+placed).items():
        item_types.append(
            _without_topology(len(item_types), request, requirement_sets, count)
        )
    return item_types


def _without_topology(
    index: int, request: Vector, requirement_sets: int, count: int
) -> ItemType:
    """Return an item type without topology, which the bound ignores."""
    return ItemType(index, request, requirement_sets, pin=None, host=None, count=count)


# Branches: options that are too small, sold in bulk, reserved, or with accelerators become different offers.
def _offers(
    state: PartialPlan, item_types: Sequence[ItemType], eligibility: Eligibility
) -> list[_Offer]:
    """Return a few offers that are at least as good for a plan as all options together."""
    units = ResidualCapacity.of(state.catalogue).units
    overhead = state.catalogue.policy.overhead_atto_usd
    special = 0  # the mask of items that request accelerators
    replicas = 0.0
    for item_type in item_types:
        replicas += item_type.count
        if any(item_type.request[3:]):
            special |= 1 << item_type.index
    bulk: dict[int, list[tuple[Vector, float]]] = {}
    nodes: dict[object, _Offer] = {}
    key: object
    for option in state.catalogue.options:
        eligible = eligibility.accepting(option.requirement_sets, {})
        fitting = eligible & eligibility.fitting(option.allocatable)
        price = (option.price + overhead) / 1e18
        if not fitting:
            continue
        is_whole = bool(fitting & special)
        if option.reservation is None and price and not is_whole:
            bulk.setdefault(eligible & ~special, []).append((option.allocatable, price))
            continue
        # Several pools may offer one reservation. They share its units, so they are one offer, for the items of all.
        if option.reservation is None:
            key, most = (option.allocatable, fitting), replicas
        else:
            key, most = option.unit_key, float(units[option.unit_key])
        offer = _Offer(option.allocatable, fitting, price, most, is_whole)
        known = nodes.get(key, offer)
        nodes[key] = replace(
            known,
            size=tuple(map(max, known.size, option.allocatable)),
            eligible=fitting | known.eligible,
            price=min(price, known.price),
            is_whole=is_whole or known.is_whole,
        )
    found = [offer for offer in nodes.values() if offer.most > 0]
    for eligible, sold in bulk.items():
        found += _bulk(sold, eligible, 2 * state.cost() / 1e18)
    return found


def _bulk(sold: Sequence[tuple[Vector, float]], eligible: int, most: float) -> list[_Offer]:
    """Return what a dollar buys: offers on the Pareto front of (CPU, memory), each with the most of other resources."""
    points: set[tuple[float, float]] = set()
    rest = [0.0] * (len(sold[0][0]) - 2)
    for size, price in sold:
        points.add((size[0] / price, size[1] / price))
        for position, amount in enumerate(size[2:]):
            rest[position] = max(rest[position], amount / price)
    front: list[tuple[float, float]] = []
    for point in sorted(points, reverse=True):
        if not front or point[1] > front[-1][1]:
            front.append(point)
    return [_Offer((cpu, memory, *rest), eligible, 1.0, most) for cpu, memory in front]


def _room(
    existing: Iterable[tuple[int, Sequence[int]]], eligibility: Eligibility
) -> list[_Offer]:
    """Return the free resources of existing nodes, one offer for all nodes with the same eligible items."""
    pools: dict[int, Vector] = {}
    for requirement_sets, free in existing:
        size = tuple(max(0, amount) for amount in free)
        eligible = eligibility.accepting(requirement_sets, {}) & eligibility.fitting(size)
        if eligible in pools:
            pools[eligible] = tuple(map(add, size, pools[eligible]))
        elif eligible:
            pools[eligible] = size
    if len(pools) > _POOLS_MAX:
        # Many pools would make the program large. As one pool they only lower the bound.
        pools = {reduce(or_, pools): tuple(map(sum, zip(*pools.values(), strict=True)))}
    return [_Offer(size, eligible, 0.0, 1.0) for eligible, size in pools.items()]


def _merged(
    item_types: Sequence[ItemType], offers: Sequence[_Offer]
) -> tuple[list[ItemType], list[_Offer]]:
    """Return fewer item types, and the offers for them, in which all nodes may be cut into fractions.

    Where nodes may be cut, n replicas need as much as one of n times the request. So items with the same offers and
    nearly the same proportions become one. Its replicas request, of each resource, the least that any of the items
    requests in proportion to its weight.
    """
    accepted_by = _transposed([offer.eligible for offer in offers], len(item_types))
    whole_requests = map(_whole_request, item_types)
    totals = list(map(sum, zip(*whole_requests, strict=True)))
    proportions = [_proportions(item_type, totals) for item_type in item_types]
    alike_indexes = _alike(accepted_by, proportions)
    merged: list[ItemType] = []
    for number, indexes in enumerate(alike_indexes):
        alike = [item_types[index] for index in indexes]
        merged.append(_as_one(number, alike, totals))
    takers = _transposed(
        [accepted_by[indexes[0]] for indexes in alike_indexes], len(offers)
    )
    of_merged = [
        replace(offer, eligible=eligible, is_whole=False)
        for offer, eligible in zip(offers, takers, strict=True)
    ]
    return merged, of_merged


def _transposed(masks: Sequence[int], size: int) -> list[int]:
    """Return, for each of ``size`` bits, the mask of the positions of the masks in which that bit is set."""
    found = [0] * size
    for number, mask in enumerate(masks):
        for position in iter_bits(mask):
            found[position] |= 1 << number
    return found


def _alike(
    accepted_by: Sequence[int], proportions: Sequence[Sequence[float]]
) -> list[list[int]]:
    """Group items with the same offers and nearly the same proportions, the more roughly the more groups there are."""
    alike: dict[object, list[int]] = {}
    for parts in _PARTS_OF_AN_OCTAVE:
        alike = {}
        for index, amounts in enumerate(proportions):
            steps = tuple(
                floor(parts * log2(amount)) if amount else None for amount in amounts
            )
            alike.setdefault((accepted_by[index], steps), []).append(index)
        if len(alike) <= _ITEM_TYPES_MAX:
            break
    return list(alike.values())


def _whole_request(item_type: ItemType) -> Vector:
    """Return what all replicas of an item request together."""
    return tuple(amount * item_type.count for amount in item_type.request)


def _weight(item_type: ItemType, totals: Sequence[int]) -> float:
    """Return the largest part, over resources, of the total that one replica requests."""
    return max(
        amount / total
        for amount, total in zip(item_type.request, totals, strict=True)
        if total
    )


def _proportions(item_type: ItemType, totals: Sequence[int]) -> tuple[float, ...]:
    weight = _weight(item_type, totals)
    return tuple(amount / weight for amount in item_type.request)


def _as_one(index: int, alike: Sequence[ItemType], totals: Sequence[int]) -> ItemType:
    """Return one item type of their count and total weight, which requests no more for its weight than any of them."""
    count = 0
    total_weight = 0.0
    proportions: list[tuple[float, ...]] = []
    for item_type in alike:
        count += item_type.count
        total_weight += item_type.count * _weight(item_type, totals)
        proportions.append(_proportions(item_type, totals))
    weight = total_weight / count
    least = map(min, zip(*proportions, strict=True))
    request = tuple(floor(amount * weight) for amount in least)
    return _without_topology(index, request, 0, count)


# Branches: the program is written row by row; whole nodes have a row more for each item.
def _program(
    item_types: Sequence[ItemType], mask: int, offers: Sequence[_Offer]
) -> tuple[list[Column], list[tuple[float, float]], list[int]]:
    """Return the program for the items of a mask: its columns, its rows, and the columns that must be whole numbers.

    Rows: demand by item, then, by offer and resource, what replicas use minus what nodes have. Columns: nodes by offer,
    then replicas by offer and item. Every plan that costs no more than the given one keeps the bounds of all of them.
    """
    demanded = {index: row for row, index in enumerate(iter_bits(mask))}
    rows = [(float(item_types[index].count),) * 2 for index in demanded]
    nodes: list[Column] = []
    replicas: list[Column] = []
    whole: list[int] = []
    for number, offer in enumerate(offers):
        first = len(rows)
        rows += [(-offer.most, 0.0)] * len(offer.size)
        node = [(first + k, -1.0) for k in range(len(offer.size))]
        if offer.is_whole and len(whole) < _WHOLE_UNIT_MAX:
            whole.append(number)
        for index in iter_bits(offer.eligible):
            request = item_types[index].request
            column = [
                (first + k, asked / offer.size[k])
                for k, asked in enumerate(request)
                if asked
            ]
            if number in whole[-1:]:
                # A whole node holds whole replicas only.
                copies = float(copies_that_fit(request, map(int, offer.size)))
                column.append((len(rows), 1.0))
                node.append((len(rows), -copies))
                rows.append((-copies * offer.most, 0.0))
            replicas.append(
                (0.0, float(item_types[index].count), [(demanded[index], 1.0), *column])
            )
        nodes.append((offer.price, offer.most, node))
    return [*nodes, *replicas], rows, whole
