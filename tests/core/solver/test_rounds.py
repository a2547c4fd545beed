"""When the search for patterns ends: once it gains nothing any more."""

import pytest

from shared.core.solver.column_generation.improve import is_done


@pytest.mark.parametrize(
    ("costs", "ends"),
    [
        ([110.0 - number for number in range(9)], False),
        ([110.0] * 8, False),
        ([110.0] * 9, True),
        ([110.0 - number / 1000 for number in range(9)], True),
    ],
)
def test_rounds_end_when_more_would_gain_nothing(costs: list[float], ends: bool) -> None:
    assert is_done(costs) is ends
