"""Kubernetes quantities ("1500m", "90", "1000Gi", "1e3") as exact numbers.

The grammar is the one of the Kubernetes API (resource.Quantity): an optionally signed decimal number followed by a
binary suffix, a decimal suffix or a decimal exponent. Nothing is ever a float, so nothing is ever lost.
"""

import re
from fractions import Fraction
from typing import Final

# The API server's own bound on a quantity; anything larger is a mistake, and bounding it bounds our arithmetic.
LARGEST_QUANTITY: Final = 2**63 - 1
_LONGEST_TEXT: Final = 64
_LARGEST_EXPONENT: Final = 18

_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?0*[0-9]{1,3}))?"
)
_MULTIPLIERS: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_BINARY_SUFFIXES: Final = tuple(
    (suffix, 2**power) for suffix, power in zip("EPTGMK", range(60, 0, -10), strict=True)
)


class QuantityError(ValueError):
    """A text is not a Kubernetes quantity, or one that is out of bounds."""


def parse_quantity(text: str | int) -> Fraction:
    """Return the exact value of a quantity.

    Raises
    ------
    QuantityError
        The text does not follow the grammar, or its magnitude is 2**63 or more.
    """
    if isinstance(text, int):
        value = Fraction(text)
    else:
        match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
        if match is None:
            raise QuantityError(
                f"{_shown(text)} is not a quantity; write a number with an optional suffix: "
                "n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as 1e3"
            )
        value = Fraction(match["number"]) * _multiplier(match["suffix"], match["exponent"])
    if abs(value) > LARGEST_QUANTITY:
        raise QuantityError(
            f"{_shown(text)} is too large; the largest quantity is {LARGEST_QUANTITY}"
        )
    return value


def _multiplier(suffix: str | None, exponent: str | None) -> Fraction:
    if suffix is not None:
        return _MULTIPLIERS[suffix]
    if exponent is None:
        return Fraction(1)
    power = int(exponent)
    if abs(power) > _LARGEST_EXPONENT:
        raise QuantityError(
            f"exponent {power} is out of bounds; use -{_LARGEST_EXPONENT} to {_LARGEST_EXPONENT}"
        )
    return Fraction(10) ** power


def _shown(text: str | int) -> str:
    if isinstance(text, int):
        return "the number"
    return repr(text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "…")


def cpu_millis(quantity: str | int) -> int:
    """CPU in millicores; a fraction of a millicore counts as a whole one, so that a request is never understated."""
    return _ceil(parse_quantity(quantity) * 1000)


def byte_count(quantity: str | int) -> int:
    """Memory or storage in bytes; a fraction of a byte counts as a whole one."""
    return _ceil(parse_quantity(quantity))


def whole_count(quantity: str | int) -> int:
    """Count of devices, pods or nodes.

    Raises
    ------
    QuantityError
        The quantity is not a whole number: Kubernetes refuses fractions of extended resources too.
    """
    value = parse_quantity(quantity)
    if value.denominator != 1:
        raise QuantityError(f"{_shown(quantity)} must be a whole number")
    return value.numerator


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


def format_cpu(millis: int) -> str:
    """Write millicores back: whole cores without a suffix, else "m"."""
    cores, rest = divmod(millis, 1000)
    return f"{millis}m" if rest else str(cores)


def format_bytes(count: int) -> str:
    """Write bytes back with the largest binary suffix that loses nothing."""
    for suffix, size in _BINARY_SUFFIXES:
        if count and count % size == 0:
            return f"{count // size}{suffix}i"
    return str(count)


def format_count(count: int) -> str:
    """Write a whole count back."""
    return str(count)
