"""When the search for patterns ends: near what fractions cost, or once it gains nothing any more."""

import pytest

from shared.core.solver.column_generation.improve import is_done
from shared.core.solver.column_generation.lower_bound import RelaxationDuals

RELAXATION = RelaxationDuals([], 100.0)


@pytest.mark.parametrize(
    ("costs", "relaxation", "ends"),
    [
        ([100.2], RELAXATION, True),
        ([100.4], RELAXATION, False),
        ([100.2], None, False),
        ([110.0 - number for number in range(9)], RELAXATION, False),
        ([110.0] * 8, RELAXATION, False),
        ([110.0] * 9, RELAXATION, True),
        ([110.0 - number / 1000 for number in range(9)], RELAXATION, True),
    ],
)
def test_rounds_end_when_more_would_gain_nothing(
    costs: list[float], relaxation: RelaxationDuals | None, ends: bool
) -> None:
    assert is_done(costs, relaxation) is ends
