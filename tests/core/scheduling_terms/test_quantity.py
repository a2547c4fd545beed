from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reservoir.core.scheduling_terms.quantity import (
    LARGEST_QUANTITY,
    QuantityError,
    byte_count,
    cpu_millis,
    format_bytes,
    format_cpu,
    parse_quantity,
    whole_count,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", Fraction(0)),
        (7, Fraction(7)),
        ("90", Fraction(90)),
        ("1500m", Fraction(3, 2)),
        ("0.5", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("+2", Fraction(2)),
        ("-2", Fraction(-2)),
        ("100n", Fraction(1, 10**7)),
        ("100u", Fraction(1, 10**4)),
        ("2k", Fraction(2000)),
        ("2M", Fraction(2 * 10**6)),
        ("2G", Fraction(2 * 10**9)),
        ("2T", Fraction(2 * 10**12)),
        ("2P", Fraction(2 * 10**15)),
        ("2E", Fraction(2 * 10**18)),
        ("1Ki", Fraction(1024)),
        ("1Mi", Fraction(1024**2)),
        ("1000Gi", Fraction(1000 * 1024**3)),
        ("1Ti", Fraction(1024**4)),
        ("1Pi", Fraction(1024**5)),
        ("1Ei", Fraction(1024**6)),
        ("1e3", Fraction(1000)),
        ("1E3", Fraction(1000)),
        ("12e-1", Fraction(6, 5)),
    ],
)
def test_every_form_of_a_quantity_has_its_exact_value(
    text: str | int, value: Fraction
) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1\n",
        "one",
        "1gi",
        "1ki",
        "1K",
        "1mi",
        "1e",
        "--1",
        "1_000",
        "٣",
        "\uff11",
        "1.2.3",
        ".",
        "0x10",
        "inf",
        "nan",
        "1e999",
        "9" * 65,
        str(LARGEST_QUANTITY + 1),
        "8Ei",
        LARGEST_QUANTITY + 1,
    ],
)
def test_what_is_not_a_quantity_is_refused(text: str | int) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(text)


def test_requests_are_never_understated() -> None:
    assert cpu_millis("0.1m") == 1
    assert cpu_millis("1.0001") == 1001
    assert byte_count("1m") == 1
    assert byte_count("1.5Ki") == 1536


def test_a_device_cannot_be_divided() -> None:
    assert whole_count("2e1") == 20
    with pytest.raises(QuantityError, match="whole number"):
        whole_count("500m")


@given(st.integers(min_value=-(2**50), max_value=2**50))
def test_cpu_is_written_back_without_loss(millis: int) -> None:
    assert cpu_millis(format_cpu(millis)) == millis


@given(
    st.integers(min_value=0, max_value=LARGEST_QUANTITY)
    | st.integers(0, 7).map(lambda n: n * 2**60)
)
def test_bytes_are_written_back_without_loss(count: int) -> None:
    assert byte_count(format_bytes(count)) == count


def test_bytes_are_written_with_the_largest_suffix_that_fits() -> None:
    assert format_bytes(1000 * 2**30) == "1000Gi"
    assert format_bytes(1025) == "1025"


@given(
    st.text(max_size=80)
    | st.from_regex(r"[+-]?[0-9.]{1,30}[numkMGTPEKie]{0,3}[0-9+-]{0,4}", fullmatch=True)
)
def test_any_text_is_either_a_quantity_or_a_quantity_error(text: str) -> None:
    try:
        value = parse_quantity(text)
    except QuantityError:
        return
    assert abs(value) <= LARGEST_QUANTITY
