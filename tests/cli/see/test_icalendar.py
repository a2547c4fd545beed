"""``reservoir get calendar -o ics``: what calendar programs read of reservations."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from lab.worlds.disrupt_world import DisruptWorld
from reservoir.cli.nouns.dates.icalendar import icalendar
from reservoir.core.model.capacity_reservation import ReservationKind
from reservoir.manifests.answers.listed import (
    CalendarRow,
    CalendarRowSpec,
    CalendarRowStatus,
    Named,
)
from tests.cli.world_stack import WorldStack, invoke

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def row(
    name: str = "cr-1",
    *,
    start_at: datetime | None = NOW,
    end_at: datetime | None = NOW + 20 * DAY,
    drain_at: datetime | None = None,
    state: str = "active",
    successor: str | None = None,
    gap_s: int | None = None,
    zone: str = "us-east-1c",
) -> CalendarRow:
    return CalendarRow(
        metadata=Named(name=name, labels={}),
        spec=CalendarRowSpec(
            kind=ReservationKind.CAPACITY_BLOCK,
            instance_type="p5.48xlarge",
            zone=zone,
            units=2,
            start_at=start_at,
            drain_at=drain_at,
            end_at=end_at,
        ),
        status=CalendarRowStatus(state=state, nodes=1, successor=successor, gap_s=gap_s),
    )


def events(*rows: CalendarRow) -> list[list[str]]:
    """Return the lines of each event, put together again as a calendar program does."""
    text = icalendar(rows, NOW)
    assert text.startswith("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:")
    assert text.endswith("END:VCALENDAR\r\n")
    assert "\n" not in text.replace("\r\n", "")
    assert all(len(line.encode()) <= 75 for line in text.split("\r\n"))
    whole = text.replace("\r\n ", "").split("\r\n")
    found: list[list[str]] = []
    for line in whole:
        if line == "BEGIN:VEVENT":
            found.append([])
        elif found:
            found[-1].append(line)
    return found


def test_a_reservation_is_an_event_with_an_alarm_before_each_notice() -> None:
    (event,) = events(row())
    assert event[:5] == [
        "UID:cr-1@reservoir",
        "DTSTAMP:20260115T120000Z",
        "DTSTART:20260115T120000Z",
        "DTEND:20260204T120000Z",
        "TRANSP:TRANSPARENT",
    ]
    assert "SUMMARY:2 p5.48xlarge in us-east-1c (cr-1)" in event
    triggers = [line for line in event if line.startswith("TRIGGER")]
    assert triggers == [f"TRIGGER;RELATED=END:-P{days}D" for days in (14, 7, 1)]


def test_when_nodes_leave_and_when_nothing_is_there_are_events_beside_it() -> None:
    drain_at = NOW + 19 * DAY
    _, drain, gap = events(row(drain_at=drain_at, successor="cr-2", gap_s=3600))
    assert drain[0] == "UID:cr-1-drain@reservoir"
    assert drain[2:4] == ["DTSTART:20260203T120000Z", "DTEND:20260204T120000Z"]
    assert gap[2:4] == ["DTSTART:20260204T120000Z", "DTEND:20260204T130000Z"]
    assert "SUMMARY:nothing in place of cr-1 before cr-2" in gap


def test_what_has_no_end_is_an_instant_without_alarms_and_what_has_no_dates_is_left_out() -> (
    None
):
    (event,) = events(row(end_at=None), row("cr-2", start_at=None, end_at=None))
    assert not any(line.startswith(("DTEND", "TRIGGER")) for line in event)


@pytest.mark.parametrize(
    ("state", "status"),
    [("active", "CONFIRMED"), ("scheduled", "CONFIRMED"), ("assessing", "TENTATIVE")],
)
def test_what_aws_has_not_promised_is_tentative(state: str, status: str) -> None:
    (event,) = events(row(state=state))
    assert f"STATUS:{status}" in event


def test_signs_with_a_meaning_are_escaped_and_none_reaches_a_terminal() -> None:
    (event,) = events(row(zone="a;b,c\\d\x1b[31m" + "ä" * 90))
    (summary,) = [line for line in event if line.startswith("SUMMARY")]
    assert summary.startswith("SUMMARY:2 p5.48xlarge in a\\;b\\,c\\\\d[31mää")
    assert summary.count("ä") == 90


def test_the_command_prints_it_and_of_nothing_else() -> None:
    stack: WorldStack[DisruptWorld] = WorldStack(DisruptWorld("reserved"))
    printed = invoke(stack, "get", "calendar", "-o", "ics")
    assert printed.exit_code == 0, printed.output
    assert re.match(r"BEGIN:VCALENDAR\r?\n", printed.stdout)
    for words in ("nodes", "calendar,nodes"):
        refused = invoke(stack, "get", words, "-o", "ics")
        assert refused.exit_code == 2
        assert "a calendar alone is printed as ics" in refused.output
