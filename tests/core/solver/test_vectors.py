"""Sets of small numbers as one integer: read and written alike whether they are few or many."""

import random
from collections.abc import Sequence

import pytest

from reservoir.core.solver.problem.vectors import (
    STEPS_MAX,
    Ascending,
    iter_bits,
    mask_of,
    prefix_masks,
)


def drawn(most: int, count: int, seed: int) -> Sequence[int]:
    """Draw so many different numbers below ``most``."""
    return random.Random(seed).sample(range(most), count)  # noqa: S311 # the same on every run


@pytest.mark.parametrize("size", [1, 40, 3_000])
@pytest.mark.parametrize("percent", [1, 50, 100])
def test_the_bits_of_a_mask_are_the_positions_that_it_was_made_of(
    size: int, percent: int
) -> None:
    positions = drawn(size, max(1, size * percent // 100), seed=size)
    assert mask_of(positions) == sum(1 << position for position in positions)
    assert list(iter_bits(mask_of(positions))) == sorted(positions)


def test_no_bits_are_no_positions() -> None:
    assert mask_of([]) == 0
    assert list(iter_bits(0)) == []


@pytest.mark.parametrize("count", [0, 5, 3 * STEPS_MAX + 11])
def test_amounts_up_to_a_limit_are_found_exactly(count: int) -> None:
    amounts = drawn(2 * count, count, seed=count)
    ascending = Ascending(amounts)
    for most in (-1, *range(0, 2 * count + 1, max(1, count // 50))):
        assert ascending.at_most(most) == mask_of(
            at for at, amount in enumerate(amounts) if amount <= most
        )


def test_of_many_amounts_few_masks_are_kept_and_none_lacks_who_is_small_enough() -> None:
    """A mask for each of n amounts would take memory by n squared."""
    amounts = drawn(100_000, 5 * STEPS_MAX, seed=3)
    ascending, masks = prefix_masks(amounts, STEPS_MAX)
    assert len(masks) <= STEPS_MAX + 1
    for step, least in enumerate(ascending):
        assert (
            not mask_of(at for at, amount in enumerate(amounts) if amount <= least)
            & ~masks[step + 1]
        )
        assert masks[step] == mask_of(
            at for at, amount in enumerate(amounts) if amount < least
        )
