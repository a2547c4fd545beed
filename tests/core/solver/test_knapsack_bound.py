"""What one node's content can be worth at most: never less than any content is, and less than fractions would be."""

from collections.abc import Sequence
from itertools import product
from random import Random

import numpy as np
import pytest

from shared.core.solver.column_generation.knapsack_bound import most_value


def best_content(sizes: Sequence[Sequence[int]], worth: Sequence[float], room: Sequence[int]) -> float:
    """Return the worth of the best content, by trying all."""
    copies = [range(min(have // one for one, have in zip(size, room, strict=True) if one) + 1) for size in sizes]
    return max(
        sum(value * count for value, count in zip(worth, counts, strict=True))
        for counts in product(*copies)
        if all(
            sum(size[k] * count for size, count in zip(sizes, counts, strict=True)) <= have
            for k, have in enumerate(room)
        )
    )


@pytest.mark.parametrize("seed", range(60))
def test_no_content_is_worth_more(seed: int) -> None:
    rng = Random(seed)  # noqa: S311 - reproducible, not secret
    room = (rng.randint(8, 40), rng.randint(8, 40))
    sizes = [(rng.randint(1, room[0]), rng.randint(1, room[1])) for _ in range(4)]
    worth = [rng.uniform(0.1, 1.0) * (cpu + memory) for cpu, memory in sizes]
    weight = rng.choice((0.0, 0.3, 0.5, 1.0))
    shares = [[weight * cpu / room[0] + (1 - weight) * memory / room[1] for cpu, memory in sizes]]

    (most,) = most_value(np.array(shares), worth)

    assert most >= best_content(sizes, worth, room) - 1e-9


@pytest.mark.parametrize("copies", [1, 2, 3, 5, 7])
def test_replicas_that_just_miss_one_more_copy_are_counted_whole(copies: int) -> None:
    share = 1 / (copies + 1) + 0.002

    assert most_value(np.array([[share, 2.0]]), [1.0, 50.0]) == [pytest.approx(copies)]
    assert most_value(np.array([[1 / copies]]), [1.0]) == [pytest.approx(copies)]


def test_small_replicas_fill_what_large_ones_leave() -> None:
    (most,) = most_value(np.array([[0.6, 0.01]]), [6.0, 0.05])

    assert most == pytest.approx(6.0 + 0.4 / 0.01 * 0.05, rel=0.01)
