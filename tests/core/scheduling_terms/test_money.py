import pytest
from hypothesis import given
from hypothesis import strategies as st

from reservoir.core.scheduling_terms.money import (
    ATTO_USD_PER_MICRO_USD,
    reserved_price_atto_usd,
    reserved_price_divisor,
    usd,
)

DEAREST = 407_680_000  # u7in-32tb.224xlarge in the ODCR RFC's example
CHEAPEST_SPOT = 1_500  # t4g.nano


def test_divisor_is_the_rfcs_ratio_times_a_million() -> None:
    assert reserved_price_divisor(DEAREST, CHEAPEST_SPOT) == 271_787 * 1_000_000


def test_divisor_survives_an_unknown_spot_price() -> None:
    assert reserved_price_divisor(DEAREST, 0) == DEAREST * 1_000_000


@given(st.integers(1, DEAREST), st.integers(1, DEAREST))
def test_reserved_prices_keep_on_demand_order_and_stay_below_every_spot_price(
    one: int, other: int
) -> None:
    divisor = reserved_price_divisor(DEAREST, CHEAPEST_SPOT)

    one_price, other_price = (
        reserved_price_atto_usd(one, divisor),
        reserved_price_atto_usd(other, divisor),
    )

    assert (one_price > other_price) == (one > other)
    assert 0 < one_price < CHEAPEST_SPOT * ATTO_USD_PER_MICRO_USD


@pytest.mark.parametrize(
    ("micro_usd", "text"),
    [
        (0, "0.00 USD"),
        (1, "0.000001 USD"),
        (384_000, "0.384 USD"),
        (98_320_000, "98.32 USD"),
        (100_000, "0.10 USD"),
    ],
)
def test_people_read_dollars(micro_usd: int, text: str) -> None:
    assert usd(micro_usd) == text
