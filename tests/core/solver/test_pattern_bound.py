"""The bound by patterns: whole replicas on whole nodes, where the problem is small."""

import random
from collections.abc import Sequence
from functools import cache
from itertools import product

import pytest

from reservoir.core.solver.column_generation.pattern_bound import (
    WholeOffer,
    proven_by_patterns,
)
from reservoir.core.solver.packing.item_types import ItemType


def kinds(*requests_and_counts: tuple[int, int]) -> list[ItemType]:
    """Return kinds of replicas that ask for so much CPU, and how many there are of each."""
    return [
        ItemType(index, (request, 0), 1, pin=None, host=None, count=count)
        for index, (request, count) in enumerate(requests_and_counts)
    ]


def offer(size: int, price: float, most: float = 100.0, eligible: int = 0b1) -> WholeOffer:
    """Return a node with so much CPU; the first kind may be on it if nothing else is said."""
    return WholeOffer((size, 1), eligible, price, most)


def proven(items: Sequence[ItemType], *offers: WholeOffer, cost: float = 10.0) -> float:
    """Return the bound; if nothing else is said, the plan that is known costs more than any of these need."""
    return proven_by_patterns(items, offers, cost, lambda: False)


def test_a_replica_is_not_cut() -> None:
    """A node of eight holds two that ask for three; in fractions it would hold more."""
    assert proven(kinds((3, 4)), offer(8, 1.0)) == pytest.approx(2.0)


@pytest.mark.parametrize("cost", [2.0, 3.0])
def test_nodes_are_not_cut(cost: float) -> None:
    """In fractions, one and a half node would hold three replicas."""
    assert proven(kinds((3, 3)), offer(8, 1.0), cost=cost) == pytest.approx(2.0)


def test_a_unit_takes_what_it_holds_and_no_more() -> None:
    unit = offer(8, 0.0, most=1.0)
    assert proven(kinds((3, 4)), offer(8, 1.0), unit) == pytest.approx(1.0)


def test_equal_units_of_several_reservations_take_what_all_of_them_hold() -> None:
    units = [offer(8, 0.0, most=1.0), offer(8, 0.0, most=2.0)]
    assert proven(kinds((3, 8)), offer(8, 1.0), *units) == pytest.approx(1.0)


def test_types_that_a_cheaper_one_replaces_do_not_make_a_problem_large() -> None:
    """A region sells a thousand types in several markets, of which few are any use for little work."""
    dearer = [offer(size, float(size)) for size in range(8, 1_000)]
    assert proven(kinds((3, 4)), offer(8, 1.0), *dearer) == pytest.approx(2.0)


def test_what_may_not_run_on_a_unit_is_bought() -> None:
    unit = offer(8, 0.0, most=9.0, eligible=0b10)
    assert proven(
        kinds((3, 2), (3, 2)), offer(8, 1.0, eligible=0b11), unit
    ) == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(12))
def test_the_bound_of_a_tiny_problem_is_the_least_that_a_plan_costs(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - an example, no secret
    items = kinds(*[(rng.randint(2, 7), rng.randint(1, 3)) for _ in range(3)])
    offers = [
        offer(7, 1.0, eligible=0b111),
        offer(rng.randint(8, 20), rng.uniform(1.0, 3.0), eligible=rng.randint(1, 7)),
        offer(rng.randint(5, 9), 0.01, most=1.0, eligible=rng.randint(1, 7)),
    ]
    assert proven(items, *offers, cost=20.0) == pytest.approx(least_cost(items, offers))


def least_cost(items: Sequence[ItemType], offers: Sequence[WholeOffer]) -> float:
    """Try everything that a node of each offer can hold, node after node."""
    contents = []
    for number, each in enumerate(offers):
        for content in product(*[range(item.count + 1) for item in items]):
            cpu = sum(item.request[0] * n for item, n in zip(items, content, strict=True))
            is_eligible = all(
                each.eligible >> index & 1 for index, n in enumerate(content) if n
            )
            if any(content) and is_eligible and cpu <= each.size[0]:
                contents.append((number, content))

    @cache
    def least(left: tuple[int, ...], nodes_left: tuple[float, ...]) -> float:
        if not any(left):
            return 0.0
        costs = []
        for number, content in contents:
            rest = tuple(have - n for have, n in zip(left, content, strict=True))
            if min(rest) >= 0 and nodes_left[number]:
                nodes = (
                    *nodes_left[:number],
                    nodes_left[number] - 1,
                    *nodes_left[number + 1 :],
                )
                costs.append(offers[number].price + least(rest, nodes))
        return min(costs)

    return least(tuple(item.count for item in items), tuple(each.most for each in offers))


def test_too_many_kinds_are_not_looked_at() -> None:
    many = kinds(*[(1, 3) for _ in range(21)])
    assert proven(many, WholeOffer((8, 1), -1, 1.0, 9.0)) == 0.0


def test_what_is_out_of_time_proves_nothing() -> None:
    assert proven_by_patterns(kinds((3, 4)), [offer(8, 1.0)], 10.0, lambda: True) == 0.0
