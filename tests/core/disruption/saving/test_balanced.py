"""Section I of the scenarios: scoring of the Balanced policy. Money in cents, disruption in whole units."""

from fractions import Fraction

import pytest

from reservoir.core.disruption.saving.balanced import INFINITE, PoolTotals, approves, score


@pytest.mark.parametrize(
    ("price", "disruption", "saved", "disrupted", "expected"),
    [
        pytest.param(5808, 90, 726, 4, Fraction("2.8125"), id="S-112 oversized node"),
        pytest.param(5808, 90, 484, 5, Fraction("1.5"), id="S-113 spare capacity"),
        pytest.param(5808, 90, 0, 11, Fraction(0), id="S-115 zero savings"),
        pytest.param(4840, 90, 242, 9, Fraction("0.5"), id="S-116 uniform pool"),
        pytest.param(58080, 900, 7260, 40, Fraction("2.8125"), id="S-118 scale invariance"),
        pytest.param(100, 100, 20, 5, Fraction(4), id="S-121"),
        pytest.param(100, 100, 10, 10, Fraction(1), id="S-121"),
        pytest.param(100, 100, 5, 50, Fraction("0.1"), id="S-121"),
        pytest.param(100, 100, 10, 0, INFINITE, id="S-119 something for nothing"),
        pytest.param(100, 100, 0, 10, Fraction(0), id="S-121"),
        pytest.param(100, 100, -5, 10, Fraction(0), id="S-121"),
        pytest.param(100, 100, 0, 0, Fraction(0), id="S-119 nothing for nothing"),
        pytest.param(0, 100, 10, 10, Fraction(0), id="S-119 pool without cost"),
        pytest.param(16, 8, 2, 2, Fraction("0.5"), id="L-07 all-reserved pool"),
    ],
)
def test_score(
    price: int, disruption: int, saved: int, disrupted: int, expected: Fraction | None
) -> None:
    assert score(PoolTotals(price, disruption), saved, disrupted) == expected


def test_the_threshold_itself_is_approved() -> None:
    assert approves(PoolTotals(4840, 90), 242, 9)
    assert not approves(PoolTotals(4840, 90), 241, 9)
    assert approves(PoolTotals(100, 100), 10, 0)
