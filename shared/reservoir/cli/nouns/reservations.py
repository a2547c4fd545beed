"""Capacity reservations."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from reservoir.cli.nouns.noun import Facts, Noun, Selection, Selector, age, ahead
from reservoir.cli.nouns.offerings import offered
from reservoir.cli.output import Column, Listing
from reservoir.cli.stack.connection import Connection
from reservoir.core.model.capacity_reservation import LentUnits
from reservoir.manifests.answers.listed import ReservationRow
from reservoir.usecases.listing.list_reservations import ListReservations


def _read(stack: Connection, selection: Selection) -> Sequence[ReservationRow]:
    rows = ListReservations(stack.outside.reservations, stack.outside.node_claims).list(
        selection.names
    )
    if selection.pool is None:
        return rows
    usable = {
        offering.reservation_id
        for offering in offered(stack, Selection(pool=selection.pool))
    }
    return [row for row in rows if row.metadata.name in usable]


def _facts(row: ReservationRow) -> Facts:
    return Facts(
        frozenset({row.metadata.name}), labels=row.metadata.labels, state=row.status.state
    )


def _listing(now: datetime) -> Listing[ReservationRow]:
    return Listing(
        (
            Column("NAME", lambda row: row.metadata.name),
            Column("TYPE", lambda row: row.spec.instance_type),
            Column("ZONE", lambda row: row.spec.zone, leaves=3),
            Column("KIND", lambda row: row.spec.kind.value, leaves=2),
            Column("STATE", _state, style=_state_style),
            Column("TOTAL", lambda row: str(row.status.total), is_number=True),
            Column("OURS", lambda row: str(row.status.ours), is_number=True),
            Column("OTHERS", lambda row: str(row.status.others), is_number=True),
            Column(
                "FREE", lambda row: str(row.status.free), is_number=True, style=_free_style
            ),
            Column("LENT", _lent, is_number=True, leaves=1),
            Column("WARM", lambda row: str(row.status.warm), is_number=True, is_wide=True),
            Column("HOLDERS", _holders, gives_way=True, leaves=0),
            Column("ENDS", lambda row: ahead(row.spec.end_at, now)),
            Column("STARTS", lambda row: ahead(row.spec.start_at, now), is_wide=True),
            Column("DRAINS", lambda row: ahead(row.status.drain_at, now), is_wide=True),
            Column("IDLE", lambda row: age(row.status.idle_since, now), is_wide=True),
            Column("OWNER", lambda row: row.spec.owner_id, is_wide=True),
            Column("TAGS", _tags, is_wide=True, gives_way=True),
        ),
        lambda row: f"reservation/{row.metadata.name}",
        lambda row: row.model_dump(mode="json", exclude_none=True),
    )


def _lent(row: ReservationRow) -> str:
    lent, returning = row.status.lent, row.status.returning
    if not lent and not returning:
        return "-"
    return f"{lent} (-{returning})" if returning else str(lent)


def _details(_stack: Connection, row: ReservationRow) -> Iterable[str]:
    """Say of units that are lent what became of them: why, the events below tell."""
    status = row.status
    if status.lent_as is None or not status.lent:
        return ()
    lent = LentUnits(status.lent_as, status.lent, status.lent - status.returning)
    return (f"units: {status.total} in all, {lent}",)


def _holders(row: ReservationRow) -> str:
    return (
        ", ".join(f"{it.namespace}/{it.name} x{it.units}" for it in row.status.holders)
        or "-"
    )


def _state(row: ReservationRow) -> str:
    notes = ["stale"] if row.status.stale else []
    notes += ["refused"] if row.status.refusal is not None else []
    return f"{row.status.state} ({', '.join(notes)})" if notes else row.status.state


def _state_style(row: ReservationRow) -> str:
    return "red" if row.status.stale or row.status.refusal is not None else ""


def _free_style(row: ReservationRow) -> str:
    return "yellow" if row.status.idle_since is not None else ""


def _tags(row: ReservationRow) -> str:
    return (
        ",".join(f"{key}={value}" for key, value in sorted(row.metadata.labels.items()))
        or "-"
    )


NOUN: Final = Noun(
    "reservations",
    "reservation",
    frozenset({Selector.LABEL, Selector.POOL, Selector.STATE}),
    _read,
    _facts,
    _listing,
    details=_details,
)
