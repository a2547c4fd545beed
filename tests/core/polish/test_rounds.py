"""When the search for patterns ends: near what fractions cost, or once it gains nothing any more."""

import pytest

from shared.core.solver.column_generation.lower_bound import FluidPrices
from shared.core.solver.column_generation.restricted_master import is_done

FLUID = FluidPrices([], {}, 100.0)


@pytest.mark.parametrize(
    ("costs", "fluid", "ends"),
    [
        ([100.2], FLUID, True),
        ([100.4], FLUID, False),
        ([100.2], None, False),
        ([110.0 - number for number in range(9)], FLUID, False),
        ([110.0] * 8, FLUID, False),
        ([110.0] * 9, FLUID, True),
        ([110.0 - number / 1000 for number in range(9)], FLUID, True),
    ],
)
def test_rounds_end_when_more_would_gain_nothing(costs: list[float], fluid: FluidPrices | None, ends: bool) -> None:
    assert is_done(costs, fluid) is ends
