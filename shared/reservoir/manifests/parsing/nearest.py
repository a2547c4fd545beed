"""The nearest valid form of an invalid value; None where nothing is near."""

import re
from fractions import Fraction
from functools import cache
from typing import Final
from zoneinfo import available_timezones

from reservoir.core.scheduling_terms.labels import closest
from reservoir.core.scheduling_terms.quantity import QuantityError, parse_quantity

LONGEST: Final = 64  # longer texts are no slips of the finger

# by the first letter of the unit
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_PART: Final = re.compile(
    r"\s*([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)(?![A-Za-z])",
    re.IGNORECASE,
)
_QUANTITY: Final = re.compile(r"\s*([+-]?[0-9.]+)\s*([KMGTPE]?)(i?)b?\s*", re.IGNORECASE)


def duration(text: str) -> str | None:
    """Return a duration in hours, minutes and seconds: "30d" is "720h", "1.5 hours" is "1h30m"."""
    parts = _PART.findall(text[:LONGEST])
    if not parts or _PART.sub("", text).strip(" ,"):
        return None
    asked_s = sum(Fraction(number) * _SECONDS[unit[0].lower()] for number, unit in parts)
    minutes, seconds = divmod(int(asked_s), 60)
    hours, minutes = divmod(minutes, 60)
    written = ((hours, "h"), (minutes, "m"), (seconds, "s"))
    return "".join(f"{count}{unit}" for count, unit in written if count) or "0s"


def quantity(text: str) -> str | None:
    """Return a quantity with Kubernetes' suffixes: "80GB" is "80G", "1000 gib" is "1000Gi"."""
    found = _QUANTITY.fullmatch(text) if len(text) <= LONGEST else None
    if found is None:
        return None
    number, letter, binary = found.groups()
    suffix = (
        letter.upper() + "i" if binary else {"K": "k"}.get(letter.upper(), letter.upper())
    )
    try:
        parse_quantity(number + suffix)
    except QuantityError:
        return None
    return number + suffix


def price(text: str) -> str | None:
    """Return a price in USD: "$98,32" is "98.32"."""
    found = re.fullmatch(
        r"\s*(?:USD|\$)?\s*([0-9]{1,9})(?:[.,]([0-9]{1,6})[0-9]*)?\s*(?:USD|\$)?\s*",
        text[:LONGEST],
    )
    if found is None:
        return None
    return found[1] if found[2] is None else f"{found[1]}.{found[2]}"


def object_name(text: str) -> str | None:
    """Return a name in lower case, with hyphens for what a name cannot hold."""
    return ".".join(
        filter(
            None,
            (
                part.strip("-")
                for part in re.sub(r"[^a-z0-9.-]+", "-", text.lower()).split(".")
            ),
        )
    )


def namespace(text: str) -> str | None:
    """Return a namespace in lower case, with hyphens for characters that it cannot have."""
    return re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-")


def label_value(text: str) -> str | None:
    """Return a label's value, with hyphens for characters that it cannot have."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:63].strip("-_.")


def label_key(text: str) -> str | None:
    """Return a label's key, with hyphens for characters that it cannot have."""
    prefix, slash, name = text.rpartition("/")
    return (f"{object_name(prefix)}/" if slash else "") + (label_value(name) or "")


def iam_name(text: str) -> str | None:
    """Return the name that an ARN ends in."""
    return text.rpartition("/")[2] if text.startswith("arn:") else None


def node_count(text: str) -> str | None:
    """Return a count or percentage of nodes: "110%" is "100%", "5 %" is "5%"."""
    found = re.fullmatch(r"\s*([0-9]{1,9})(?:\.[0-9]*)?\s*(%|percent)?\s*", text[:LONGEST])
    if found is None:
        return None
    return f"{min(100, int(found[1]))}%" if found[2] else found[1][:7]


def time_zone(name: str) -> str | None:
    """Return the nearest time zone of the IANA database."""
    return closest(name, _time_zones())


@cache
def _time_zones() -> frozenset[str]:
    return frozenset(available_timezones())
