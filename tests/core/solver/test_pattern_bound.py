"""The bound by patterns: whole replicas on nodes that may be used in fractions."""

from collections.abc import Sequence

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


def proven(items: Sequence[ItemType], *offers: WholeOffer) -> float:
    return proven_by_patterns(items, offers, lambda: False)


def test_a_replica_is_not_cut() -> None:
    """A node of eight holds two that ask for three; in fractions it would hold more."""
    assert proven(kinds((3, 4)), offer(8, 1.0)) == pytest.approx(2.0)


def test_nodes_may_be_used_in_fractions() -> None:
    assert proven(kinds((3, 3)), offer(8, 1.0)) == pytest.approx(1.5)


def test_a_unit_takes_what_it_holds_and_no_more() -> None:
    unit = offer(8, 0.0, most=1.0)
    assert proven(kinds((3, 4)), offer(8, 1.0), unit) == pytest.approx(1.0)


def test_what_may_not_run_on_a_unit_is_bought() -> None:
    unit = offer(8, 0.0, most=9.0, eligible=0b10)
    assert proven(
        kinds((3, 2), (3, 2)), offer(8, 1.0, eligible=0b11), unit
    ) == pytest.approx(1.0)


def test_no_bound_is_above_the_least_that_any_plan_costs() -> None:
    """Two nodes of twelve, at 2.0 each, hold all of it."""
    bound = proven(
        kinds((5, 2), (4, 2)), offer(12, 2.0, eligible=0b11), offer(7, 1.5, eligible=0b11)
    )
    assert 0 < bound <= 4.0 + 1e-6


def test_too_many_kinds_are_not_looked_at() -> None:
    many = kinds(*[(1, 3) for _ in range(21)])
    assert proven(many, WholeOffer((8, 1), -1, 1.0, 9.0)) == 0.0


def test_what_is_out_of_time_proves_nothing() -> None:
    assert proven_by_patterns(kinds((3, 4)), [offer(8, 1.0)], lambda: True) == 0.0
