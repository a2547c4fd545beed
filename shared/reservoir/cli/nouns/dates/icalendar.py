"""The calendar of reservations as iCalendar (RFC 5545), for the calendar programs that people look at anyway.

Each reservation with a begin or an end is an event, with alarms 14, 7 and 1 days before its end. When its nodes drain,
and when nothing is there in its place, are events beside it. An event keeps its UID, so importing again moves it.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Final

from reservoir.core.capacity.lineage import NOTICE_DAYS
from reservoir.core.model.capacity_reservation import ACTIVE, CANCELLING
from reservoir.manifests.answers.listed import CalendarRow

_LINE_OCTETS_MAX: Final = 75
_CONFIRMED: Final = (ACTIVE, CANCELLING, "scheduled", "unavailable")


def icalendar(rows: Sequence[CalendarRow], now: datetime) -> str:
    """Return the calendar; its lines end as the RFC requires."""
    lines = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//Reservoir//get calendar//EN",
        "CALSCALE:GREGORIAN",
        "METHOD:PUBLISH",
        "X-WR-CALNAME:Capacity reservations",
    ]
    for row in rows:
        lines += _reservation(row, now)
        lines += _drain(row, now)
        lines += _gap(row, now)
    lines.append("END:VCALENDAR")
    folded = chain.from_iterable(_folded(line) for line in lines)
    return "".join(f"{line}\r\n" for line in folded)


def _reservation(row: CalendarRow, now: datetime) -> Iterator[str]:
    begins_at, ends_at = row.spec.start_at, row.spec.end_at
    first = begins_at or ends_at
    if first is None:
        return
    name = row.metadata.name
    yield from _opened(name, now, first, ends_at)
    yield f"SUMMARY:{_text(f'{_units(row)} ({name})')}"
    yield f"DESCRIPTION:{_text(_description(row))}"
    yield f"STATUS:{'CONFIRMED' if row.status.state in _CONFIRMED else 'TENTATIVE'}"
    if ends_at is not None:
        for days in NOTICE_DAYS:
            yield "BEGIN:VALARM"
            yield "ACTION:DISPLAY"
            yield f"DESCRIPTION:{_text(f'{_units(row)} ends in {days} days: {name}')}"
            yield f"TRIGGER;RELATED=END:-P{days}D"
            yield "END:VALARM"
    yield "END:VEVENT"


def _drain(row: CalendarRow, now: datetime) -> Iterator[str]:
    drains_at, ends_at = row.spec.drain_at, row.spec.end_at
    if drains_at is None or ends_at is None:
        return
    name = row.metadata.name
    yield from _opened(f"{name}-drain", now, drains_at, ends_at)
    yield f"SUMMARY:{_text(f'nodes leave {name}')}"
    yield "END:VEVENT"


def _gap(row: CalendarRow, now: datetime) -> Iterator[str]:
    ends_at, gap_s = row.spec.end_at, row.status.gap_s
    if ends_at is None or not gap_s:
        return
    name = row.metadata.name
    yield from _opened(f"{name}-gap", now, ends_at, ends_at + timedelta(seconds=gap_s))
    follows = f"nothing in place of {name} before {row.status.successor}"
    yield f"SUMMARY:{_text(follows)}"
    yield "END:VEVENT"


def _opened(
    name: str, now: datetime, begins_at: datetime, ends_at: datetime | None
) -> Iterator[str]:
    """Begin an event; one that ends where it begins, or has no end, is an instant."""
    yield "BEGIN:VEVENT"
    yield f"UID:{_text(name)}@reservoir"
    yield f"DTSTAMP:{_instant(now)}"
    yield f"DTSTART:{_instant(begins_at)}"
    if ends_at is not None and ends_at > begins_at:
        yield f"DTEND:{_instant(ends_at)}"
    # the days do not mark their importer as busy for weeks
    yield "TRANSP:TRANSPARENT"


def _units(row: CalendarRow) -> str:
    return f"{row.spec.units} {row.spec.instance_type} in {row.spec.zone}"


def _description(row: CalendarRow) -> str:
    status = row.status
    told = [f"{row.spec.kind}, {status.state}", f"{status.nodes} nodes are in it"]
    if row.spec.end_at is None:
        told.append("it has no end")
    elif status.successor is None:
        told.append("nothing is known to follow")
    else:
        told.append(f"{status.successor} follows")
    return "\n".join(told)


def _instant(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def _text(text: str) -> str:
    """Escape characters that have a meaning, and leave out those that would control a terminal."""
    for sign in ("\\", ";", ","):
        text = text.replace(sign, f"\\{sign}")
    return "\\n".join(map(_printable, text.split("\n")))


def _printable(line: str) -> str:
    return "".join(each for each in line if each.isprintable())


def _folded(line: str) -> Iterator[str]:
    """Cut a line that has too many octets, between characters; what goes on begins with a blank."""
    part, octets = "", 0
    for character in line:
        size = len(character.encode())
        if octets + size > _LINE_OCTETS_MAX:
            yield part
            part, octets = " ", 1
        part += character
        octets += size
    yield part
