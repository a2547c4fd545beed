"""Money: integers only.

State, messages and documents speak micro-USD (1e-6 USD). Inside the scheduler an offering's price is counted in
atto-USD (1e-18 USD) an hour, because the near-zero price of reserved capacity must keep the on-demand order between
types in whole numbers: with a catalogue from 0.0015 USD (cheapest spot) to 407.68 USD (highest on-demand price) the
divisor is about 2.7e11, so one micro-USD of on-demand price is still 3 atto-USD of reserved price.
"""

from collections.abc import Iterable, Iterator
from decimal import ROUND_CEILING, Decimal
from typing import Final

ATTO_USD_PER_MICRO_USD: Final = 10**12
# the ODCR RFC's extra divisor, which puts reserved far below the cheapest spot
_RESERVED_DEPTH: Final = 1_000_000


def reserved_price_divisor(
    dearest_on_demand_micro_usd: int, cheapest_spot_micro_usd: int
) -> int:
    """Return what an on-demand price is divided by to price a reserved unit (ODCR RFC, "Consolidating between ...").

    (highest on-demand price / lowest spot price) x 1,000,000 over the discovered prices, rounded up, at least
    1,000,000.
    """
    ratio = -(-dearest_on_demand_micro_usd // max(1, cheapest_spot_micro_usd))
    return max(1, ratio) * _RESERVED_DEPTH


def reserved_price_atto_usd(on_demand_micro_usd: int, divisor: int) -> int:
    """Price of one reserved unit an hour: never 0, strictly ordered as the on-demand prices while divisor < 1e12."""
    return max(1, on_demand_micro_usd * ATTO_USD_PER_MICRO_USD // divisor)


def usd(micro_usd: int) -> str:
    """Return an amount for people: whole cents at least, and as many digits as it has."""
    dollars, rest = divmod(micro_usd, 1_000_000)
    return f"{dollars}.{f'{rest:06}'.rstrip('0'):0<2} USD"


def micro_usd_of(dollars: Decimal) -> int:
    """Return an amount in micro-USD, a fraction of one rounded up.

    Raises InvalidOperation for a text that is no amount.
    """
    return int((dollars * 1_000_000).to_integral_value(ROUND_CEILING))


def split(whole: int, weights: Iterable[int]) -> Iterator[int]:
    """Split a number by weights, at least one of them above 0, into whole parts that add up to it."""
    given, total = list(weights), 0
    everything, before = sum(given), 0
    for weight in given:
        total += weight
        upto = whole * total // everything
        yield upto - before
        before = upto
