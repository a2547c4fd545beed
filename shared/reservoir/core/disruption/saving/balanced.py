"""The Balanced policy: a saving must be worth its share of the pool's disruption (R-191 to R-195)."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

# K = 2: a move is approved when savings share / disruption share >= 1 / K.
_K: Final = 2
INFINITE: Final = None


@dataclass(frozen=True, slots=True)
class PoolTotals:
    """A pool's total node price (any integer money unit) and total disruption cost (any integer unit)."""

    price: int
    disruption: int


def score(totals: PoolTotals, savings: int, disruption: int) -> Fraction | None:
    """Ratio of the savings share to the disruption share; None means infinite (a saving without disruption).

    0 when nothing is saved or the pool has nothing to share.
    """
    if savings <= 0 or totals.price <= 0:
        return Fraction(0)
    if disruption <= 0:
        return INFINITE
    if totals.disruption <= 0:
        return Fraction(0)
    return Fraction(savings, totals.price) / Fraction(disruption, totals.disruption)


def approves(totals: PoolTotals, savings: int, disruption: int) -> bool:
    """Whether the Balanced policy lets a move pass."""
    value = score(totals, savings, disruption)
    return value is INFINITE or value >= Fraction(1, _K)
