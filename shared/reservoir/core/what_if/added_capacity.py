"""Capacity that is not there, as people write it: ``4 p5.48xlarge in us-east-1b from 14:00 to 20:00``.

    COUNT TYPE in ZONE [from TIME] [to TIME] [for EC2NODECLASS]

A TIME is an instant with its offset (``2026-03-01T14:00Z``) or a time of day in UTC (``14:00``): of ``to`` the next one
from now on, of ``from`` the last one before ``to``, or the next one where there is no ``to``. With an end it is a
Capacity Block, which drains before it; without one it is an on-demand capacity reservation.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

FORM: Final = "COUNT TYPE in ZONE [from TIME] [to TIME] [for EC2NODECLASS]"
_EXAMPLE: Final = "4 p5.48xlarge in us-east-1b from 14:00 to 20:00"
_FORM: Final = re.compile(
    r"(?P<count>\S+)\s+(?P<type>\S+)\s+in\s+(?P<zone>\S+)"
    r"(?:\s+from\s+(?P<from>\S+))?(?:\s+to\s+(?P<to>\S+))?(?:\s+for\s+(?P<for>\S+))?"
)
_TIME_OF_DAY: Final = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")
_LARGEST_COUNT: Final = 100_000
_LONGEST: Final = 300
_DAY: Final = timedelta(days=1)


class EditError(ValueError):
    """An edit of the world cannot be understood, or is about something that is not there."""


@dataclass(frozen=True, slots=True)
class AddedCapacity:
    """Units of one type in one zone; ``start_at`` None: from now on; ``end_at`` None: an on-demand reservation.

    ``zone`` is a name or an id. ``node_class_name`` is the only class that may use it; None: each that selects
    reservations at all.
    """

    count: int
    instance_type: str
    zone: str
    start_at: datetime | None = None
    end_at: datetime | None = None
    node_class_name: str | None = None


# Branches: one refusal after the other, each with its own words.
def parse_added_capacity(text: str, now: datetime) -> AddedCapacity:
    """Read one ``--with``.

    Raises
    ------
    EditError
        It does not have the form, or is over already.
    """
    found = _FORM.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if found is None:
        raise EditError(
            f"{text[:_LONGEST]!a} is not of the form {FORM}, such as {_EXAMPLE!a}"
        )
    count = found["count"]
    if (
        not count.isascii()
        or not count.isdigit()
        or not 1 <= int(count[:7]) <= _LARGEST_COUNT
    ):
        raise EditError(f"{count!a} in {text!a} is not a count from 1 to {_LARGEST_COUNT}")
    end_at = None if found["to"] is None else _instant(found["to"], now, text)
    start_at = None if found["from"] is None else _start(found["from"], end_at, now, text)
    if end_at is not None and end_at <= now:
        raise EditError(f"{text!a} is over: it ended at {end_at:%Y-%m-%dT%H:%MZ}")
    if start_at is not None and end_at is not None and start_at >= end_at:
        raise EditError(f"{text!a} ends before it begins")
    return AddedCapacity(
        int(count), found["type"], found["zone"], start_at, end_at, found["for"]
    )


def _start(text: str, end_at: datetime | None, now: datetime, whole: str) -> datetime:
    start_at = _instant(text, now, whole)
    if end_at is None or _TIME_OF_DAY.fullmatch(text) is None:
        return start_at
    # A time of day belongs to the window that ends next, which may have begun already.
    days = (end_at - start_at) // _DAY
    start_at += days * _DAY
    return start_at if start_at < end_at else start_at - _DAY


def _instant(text: str, now: datetime, whole: str) -> datetime:
    """Return an instant; a time of day is the next one, in UTC."""
    of_day = _TIME_OF_DAY.fullmatch(text)
    if of_day is not None:
        today = now.replace(
            hour=int(of_day[1]), minute=int(of_day[2]), second=0, microsecond=0
        )
        return today if today > now else today + _DAY
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        message = f"{text!a} in {whole!a} is no time: write 14:00 (UTC), or an instant such as 2026-03-01T14:00Z"
        raise EditError(message)
    return instant.astimezone(now.tzinfo)
