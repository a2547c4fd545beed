"""When reservations begin, drain and end, what follows them, and for how long nothing does."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from reservoir.cli.nouns.dates.icalendar import icalendar
from reservoir.cli.nouns.noun import Facts, Noun, Selection, Selector, ahead, span
from reservoir.cli.output import Column, Listing
from reservoir.cli.stack.connection import Connection
from reservoir.core.capacity.lineage import gap, successors
from reservoir.manifests.answers.listed import (
    CalendarRow,
    CalendarRowSpec,
    CalendarRowStatus,
    Named,
)
from reservoir.ports.state import ReservationRecord

_DAYS: Final = 28  # a bar shows so many, one place a day, from today on
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class _Dated:
    """A row, and the reservation that it is about."""

    record: ReservationRecord
    row: CalendarRow


def _read(stack: Connection, selection: Selection) -> Sequence[_Dated]:
    records = stack.outside.reservations.list_current()
    following = successors(record.reservation for record in records)
    nodes: dict[str | None, int] = {}
    for claim in stack.outside.node_claims.list_live():
        nodes[claim.offering.reservation_id] = (
            nodes.get(claim.offering.reservation_id, 0) + 1
        )
    found = []
    for record in records:
        reservation, next_ = record.reservation, following.get(record.reservation.id)
        if selection.names and reservation.id not in selection.names:
            continue
        between = gap(reservation, next_)
        row = CalendarRow(
            metadata=Named(name=reservation.id, labels=dict(reservation.tags)),
            spec=CalendarRowSpec(
                kind=reservation.kind,
                instance_type=reservation.instance_type,
                zone=reservation.zone,
                units=reservation.size,
                start_at=reservation.start_at,
                drain_at=reservation.drain_at(),
                end_at=reservation.end_at,
            ),
            status=CalendarRowStatus(
                state=reservation.state,
                nodes=nodes.get(reservation.id, 0),
                successor=None if next_ is None else next_.id,
                gap_s=None if between is None else int(between.total_seconds()),
            ),
        )
        found.append(_Dated(record, row))
    return sorted(found, key=_order)


def _order(dated: _Dated) -> tuple[bool, str, str]:
    end_at = dated.row.spec.end_at
    return (
        end_at is None,
        "" if end_at is None else end_at.isoformat(),
        dated.row.metadata.name,
    )


def _listing(now: datetime) -> Listing[_Dated]:
    return Listing(
        (
            Column("NAME", lambda dated: dated.row.metadata.name),
            Column(
                "UNITS",
                lambda dated: f"{dated.row.spec.units} {dated.row.spec.instance_type}",
            ),
            Column("ZONE", lambda dated: dated.row.spec.zone, leaves=3),
            Column("STARTS", lambda dated: ahead(dated.row.spec.start_at, now), leaves=2),
            Column("ENDS", lambda dated: ahead(dated.row.spec.end_at, now)),
            Column(
                "NODES", lambda dated: str(dated.row.status.nodes), is_number=True, leaves=4
            ),
            Column("THEN", _then),
            Column(f"NEXT {_DAYS} DAYS", lambda dated: _bar(dated.row, now), leaves=1),
            Column("STATE", lambda dated: dated.row.status.state, is_wide=True),
            Column(
                "DRAINS", lambda dated: ahead(dated.row.spec.drain_at, now), is_wide=True
            ),
            Column(
                "SUCCESSOR", lambda dated: dated.row.status.successor or "-", is_wide=True
            ),
        ),
        lambda dated: f"calendar/{dated.row.metadata.name}",
        lambda dated: dated.row.model_dump(mode="json", exclude_none=True),
        lambda dates: icalendar([dated.row for dated in dates], now),
    )


def _then(dated: _Dated) -> str:
    status = dated.row.status
    if dated.row.spec.end_at is None:
        return "-"
    if status.successor is None:
        return "nothing"
    return f"gap of {span(timedelta(seconds=status.gap_s))}" if status.gap_s else "goes on"


def _bar(row: CalendarRow, now: datetime) -> str:
    """Return a place for each day: held for all or part of it, or not."""
    days = [now + number * _DAY for number in range(_DAYS)]
    return "".join("#" if _is_held(row, day) else "." for day in days)


def _is_held(row: CalendarRow, day: datetime) -> bool:
    begins, ends = row.spec.start_at, row.spec.end_at
    return (begins is None or begins < day + _DAY) and (ends is None or ends > day)


NOUN: Final = Noun(
    "calendar",
    "calendar",
    frozenset({Selector.LABEL, Selector.STATE}),
    _read,
    lambda dated: Facts(
        frozenset({dated.row.metadata.name}),
        labels=dated.row.metadata.labels,
        state=dated.row.status.state,
    ),
    _listing,
)
